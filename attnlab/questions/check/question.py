"""What `attnlab check` can be told, and what its columns mean; nothing heavy is imported."""

from dataclasses import dataclass
from typing import Annotated

from attnlab.core import Column, Note, Option, Table, read_columns
from attnlab.evaluation import SEED, DeviceSettings
from attnlab.questions.check import LISTED
from attnlab.results import Question

COLUMNS = read_columns(__file__)

OK, MISMATCH, NOT_APPLICABLE = "ok", "mismatch", "not applicable"
KEYS = "keys read"
FEWEST_TOKENS = 8

PROPERTIES = Table(
    "properties.csv",
    "property, of a layer or of the whole model",
    (
        *COLUMNS.of("property site layer expected found"),
        Column("outcome", "outcome", f"{OK}, {MISMATCH} or {NOT_APPLICABLE}."),
        *COLUMNS.of("distance change"),
    ),
    keys=("property", "site", "layer"),
    heading="What it attends to",
)
ABILITIES = Table(
    "abilities.csv",
    "attention layer",
    COLUMNS.of("site layer captured ablated replaced exported reason"),
    keys=("site", "layer"),
    heading="What can be done with its layers",
)


@dataclass(frozen=True)
class WiderThanTokens(Note):
    """A window of a layer that no text of so many tokens shows.

    Attributes:
        tokens: how many were read.
        keys: on each side that it looks at.
    """

    words = (
        "A layer attends to {keys:,} keys, and only {tokens:,} tokens were read; give more tokens."
    )

    tokens: int
    keys: int


@dataclass(frozen=True)
class SinglePrecision(Note):
    """A model that stops or gives no numbers in float64, so that small changes are not seen."""

    words = (
        "Computed in float32, since in float64 the model stops or some states are no numbers; changes below"
        " 1 in 1,000,000 go unnoticed."
    )


@dataclass(frozen=True, kw_only=True)
class CheckSettings(DeviceSettings):
    """What `attnlab check` can be told."""

    tokens: Annotated[
        int | None,
        Option(
            "Number of tokens that are read.",
            least=FEWEST_TOKENS,
            shown="24, or what the widest window needs up to 1,040",
        ),
    ] = None
    seed: Annotated[int, SEED] = 0


QUESTION = Question(
    **vars(LISTED),
    what="check",
    settings=CheckSettings,
    tables=(PROPERTIES, ABILITIES),
    run="attnlab.questions.check.checking:check",
    printed=2,
)
