"""What `attnlab neighbours` can be told, and what its columns mean; nothing heavy is imported."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated

from attnlab.core import SIDES, Column, Option, Settings, Table
from attnlab.results import Question

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


@dataclass(frozen=True, kw_only=True)
class NeighbourSettings(Settings):
    """What `attnlab neighbours` can be told."""

    words: Annotated[Sequence[str], Option("Words whose neighbours to show.", argument=True)] = (
        field(kw_only=False)
    )
    count: Annotated[int, Option("Number of neighbours per word.", least=1)] = 10
    side: Annotated[
        str, Option("Embedding of a run with two vocabularies.", choices=tuple(SIDES))
    ] = "source"


QUESTION = Question(
    name="neighbours",
    what="neighbours",
    panel="Words",
    help="Show the words nearest to others in the embeddings of a run, a file or a model, by cosine.\n\n"
    "The map shows the first two principal components of all words that are shown.",
    settings=NeighbourSettings,
    tables=(NEIGHBOURS, MAP),
    run="attnlab.questions.neighbours.neighbours:neighbours",
    figures=("map",),
    source="Run, folder of attnlab embed, file of embeddings (.safetensors, or word2vec .txt or .vec), "
    "transformers folder, or name on the hub.",
    sources=("model", "embeddings"),
    printed=2,
)
