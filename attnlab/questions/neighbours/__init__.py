"""Which words are near in the embeddings of a run, a file or any model."""

from attnlab.results import Listed

LISTED = Listed(
    name="neighbours",
    panel="Words",
    help="Show the words nearest to others in the embeddings of a run, a file or a model, by cosine.\n\n"
    "The map shows the first two principal components of all words that are shown.",
)
