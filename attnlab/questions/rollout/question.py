"""What `attnlab rollout` can be told, and what its columns mean; nothing heavy is imported."""

from dataclasses import dataclass, field
from typing import Annotated

from attnlab.core import InputError, Note, Option, Table, read_columns
from attnlab.evaluation import DeviceSettings
from attnlab.questions.rollout import LISTED
from attnlab.results import Question

COLUMNS = read_columns(__file__)

ROLLOUT = Table(
    "rollout.csv",
    "position and token of the input",
    COLUMNS.of("query query_token key_side key key_token share"),
    keys=("query", "key_side", "key"),
    heading="Shares after the last layer",
)


@dataclass(frozen=True)
class OtherLayers(Note):
    """Layers without attention, which count as if they moved nothing between tokens.

    Attributes:
        attention: how many layers have attention.
        layers: how many there are.
    """

    attention: int
    layers: int

    def __str__(self) -> str:
        return (
            f"{self.attention} of {self.layers} layers have attention; the others count "
            "as if they moved nothing between tokens."
        )


@dataclass(frozen=True, kw_only=True)
class RolloutSettings(DeviceSettings):
    """What `attnlab rollout` can be told.

    Raises:
        InputError: a text is empty.
    """

    sentence: Annotated[str, Option("A sentence.", argument=True)] = field(kw_only=False)
    translation: Annotated[
        str | None,
        Option(
            "What an encoder-decoder writes for it; without it the encoder is read.", argument=True
        ),
    ] = field(kw_only=False, default=None)
    top: Annotated[
        int, Option("Number of tokens per position in the table, those of largest share.", least=1)
    ] = 10

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("sentence", "translation"):
            text = getattr(self, name)
            if text is not None and not text.strip():
                msg = f"The {name} is empty; give a text."
                raise InputError(msg)


QUESTION = Question(
    **vars(LISTED),
    what="rollout",
    settings=RolloutSettings,
    tables=(ROLLOUT,),
    arrays={
        "shares": "[layer, query, key], float64, after each layer, rows sum to 1; the keys of a decoder with "
        "cross-attention are the tokens of the source, then those of the target."
    },
    run="attnlab.questions.rollout.rolling:rollout",
    figures=("rollout",),
)
