"""What `attnlab size` can be told, and what its columns mean; nothing heavy is imported."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from attnlab.budget import MECHANISM
from attnlab.core import Option, Settings, Table, read_columns
from attnlab.questions.size import LISTED
from attnlab.results import Question

COLUMNS = read_columns(__file__)

SIZES = Table(
    "size.csv",
    "part of the model",
    COLUMNS.of("part parameters parameter_share work work_share"),
    keys=("part",),
    heading="Parts",
)
GROWTH = Table(
    "growth.csv",
    "mechanism and number of tokens",
    (MECHANISM, *COLUMNS.of("text_length between_tokens elsewhere work_share memory")),
    keys=("mechanism", "text_length"),
    heading="Longer texts",
)


@dataclass(frozen=True, kw_only=True)
class SizeSettings(Settings):
    """What `attnlab size` can be told."""

    tokens: Annotated[int, Option("Number of tokens of a text.", least=1, most=2**24)] = 512
    mechanisms: Annotated[
        Sequence[str],
        Option(
            'Mechanism to count beside full attention, such as "band(window=32)"; may be given again.',
            ("--mechanism",),
        ),
    ] = ()


QUESTION = Question(
    **vars(LISTED),
    what="sizes",
    settings=SizeSettings,
    tables=(SIZES, GROWTH),
    run="attnlab.questions.size.sizing:size",
    figures=("growth",),
    source="A run, a folder of a transformers model (its config.json is enough), or a name on the hub.",
    printed=2,
)
