"""Skip-gram embeddings of a corpus, and the neighbours of words in the embeddings of any model."""
