"""Our translation and language models: tokenizers, training, the run folder, translating, scoring."""
