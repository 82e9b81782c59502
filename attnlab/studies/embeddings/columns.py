"""The columns of neighbours and of a map of embeddings."""

from attnlab.core.columns import Column, Table

_WORD = Column("word", "word", "A word, as the vocabulary writes it.")
NEIGHBOURS = Table(
    "neighbours.csv",
    "word and neighbour",
    (
        _WORD,
        Column("rank", "rank", "1 is the nearest."),
        Column("neighbour", "neighbour", "Another word of the vocabulary."),
        Column("cosine", "cosine", "Cosine between the vectors of both words.", 3),
    ),
)
MAP = Table(
    "map.csv",
    "word",
    (
        _WORD,
        Column("group", "group", "The word that this one is a neighbour of, or itself."),
        Column("first_component", "first component", "Coordinate on the first component.", 3),
        Column("second_component", "second component", "Coordinate on the second component.", 3),
        Column(
            "first_share",
            "share of the first",
            "Share of the variance of the words shown that the first component holds.",
            3,
        ),
        Column("second_share", "share of the second", "The same of the second component.", 3),
    ),
)
TABLES = (NEIGHBOURS, MAP)
