"""The columns of an inspection; those of the heads are in `attnlab.extraction.columns`."""

from attnlab.columns import Column, Table

_TEXT = Column("text", "text", "Which text, counted from 0.")
_LAYER = Column(
    "layer",
    "layer",
    "0 is the input of the first layer (the embedding), l the output of layer l - 1.",
)
TOKENS = Table(
    "tokens.csv",
    "token",
    (
        _TEXT,
        Column("position", "position", "Position of the token, counted from 0."),
        Column("token", "token", "The token, as the vocabulary writes it."),
        Column("id", "id", "Its number in the vocabulary."),
        Column(
            "special",
            "special",
            "Whether it is special, such as [CLS], or padding; an unknown word is neither.",
        ),
        Column("mask", "mask", "1 for a real token, 0 for padding, which no query sees."),
        Column(
            "token_type",
            "type",
            "Segment that the token belongs to; empty where the model has none.",
        ),
        Column("word", "word", "Word of the text that it is part of, counted from 0."),
    ),
)
SHAPES = Table(
    "shapes.csv",
    "tensor",
    (
        Column("tensor", "tensor", "What goes into the model or comes out of it."),
        Column("shape", "shape", "Its dimensions."),
        Column("axes", "axes", "What each dimension counts."),
    ),
)
MOVES = Table(
    "moves.csv",
    "word in two contexts and layer",
    (
        Column("word", "word", "A word that stands in both contexts."),
        Column("first", "first", "Position of its first token in the first context."),
        Column("second", "second", "The same in the second context."),
        _LAYER,
        Column("cosine", "cosine", "Cosine between its vectors in both contexts.", 3),
        Column(
            "anisotropy",
            "anisotropy",
            "Mean cosine between vectors of different words in this layer: what words have in common "
            "without being the same.",
            3,
        ),
        Column("adjusted", "adjusted", "Cosine minus anisotropy; near 0 the contexts decide.", 3),
    ),
)
TABLES = (TOKENS, SHAPES, MOVES)
