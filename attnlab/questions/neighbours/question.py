"""What `attnlab neighbours` can be told, and what its columns mean; nothing heavy is imported."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated

from attnlab.core import SIDES, Option, Settings, Table, read_columns
from attnlab.questions.neighbours import LISTED
from attnlab.results import Question

COLUMNS = read_columns(__file__)

NEIGHBOURS = Table(
    "neighbours.csv",
    "word and neighbour",
    COLUMNS.of("word rank neighbour cosine"),
    heading="Neighbours",
)
MAP = Table(
    "map.csv",
    "word",
    COLUMNS.of("word group first_component second_component first_share second_share"),
)


@dataclass(frozen=True, kw_only=True)
class NeighbourSettings(Settings):
    """What `attnlab neighbours` can be told."""

    words: Annotated[Sequence[str], Option("Words whose neighbours to show.", argument=True)] = (
        field(kw_only=False)
    )
    count: Annotated[int, Option("Number of neighbours per word.", least=1)] = 10
    side: Annotated[
        str,
        Option("Embedding of a run with two vocabularies: source or target.", choices=tuple(SIDES)),
    ] = "source"


QUESTION = Question(
    **vars(LISTED),
    what="neighbours",
    settings=NeighbourSettings,
    tables=(NEIGHBOURS, MAP),
    run="attnlab.questions.neighbours.neighbours:neighbours",
    figures=("map",),
    source="Run, folder of attnlab embed, file of embeddings (.safetensors, or word2vec .txt or .vec), "
    "transformers folder, or name on the hub.",
    sources=("model", "embeddings"),
    printed=2,
)
