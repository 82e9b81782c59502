"""What `attnlab inspect` can be told, and what its columns mean; nothing heavy is imported."""

from dataclasses import dataclass, field
from typing import Annotated

from attnlab.core import InputError, Note, Option, Table, read_columns
from attnlab.evaluation import DeviceSettings
from attnlab.questions.inspect import LISTED
from attnlab.reading import HEADS
from attnlab.results import Question

COLUMNS = read_columns(__file__)

TOKENS = Table(
    "tokens.csv",
    "token",
    COLUMNS.of("text position token id special mask token_type word_index"),
    keys=("text", "position"),
    heading="Tokens",
)
SHAPES = Table(
    "shapes.csv",
    "tensor",
    COLUMNS.of("tensor shape axes"),
    keys=("tensor",),
    heading="Shapes",
)
MOVES = Table(
    "moves.csv",
    "word in two contexts and layer",
    COLUMNS.of("word first second hidden_state cosine anisotropy adjusted"),
    keys=("first", "second", "hidden_state"),
    heading="Words in two contexts",
)


@dataclass(frozen=True)
class UnknownWords(Note):
    """Words that the vocabulary lacks: to the model each is the same unknown token.

    Attributes:
        unknown: which.
        moved: whether some of them are compared between contexts.
    """

    unknown: tuple[str, ...]
    moved: bool

    def __str__(self) -> str:
        unknown = f"Not in the model's vocabulary, read as unknown: {', '.join(self.unknown)}"
        alike = "; to the model all such words are one token, so their cosines say nothing of them"
        return f"{unknown}{alike if self.moved else ''}."


@dataclass(frozen=True)
class NoCommonWord(Note):
    """Two texts that have no word in common."""

    words = "No word is in both texts."


def _sentence_or_pair(typed: str) -> str | tuple[str, str]:
    first, tab, second = typed.partition("\t")
    return (first, second) if tab else typed


@dataclass(frozen=True, kw_only=True)
class InspectionSettings(DeviceSettings):
    """What `attnlab inspect` can be told.

    Raises:
        InputError: a text is empty.
    """

    sentence: Annotated[
        str | tuple[str, str],
        Option(
            "A sentence, or two that are read as one text, with a tab between them.",
            argument=True,
            read=_sentence_or_pair,
        ),
    ] = field(kw_only=False)
    other: Annotated[
        str | tuple[str, str] | None,
        Option("Another one that shares some of its words.", argument=True, read=_sentence_or_pair),
    ] = field(kw_only=False, default=None)

    def __post_init__(self) -> None:
        super().__post_init__()
        for number, text in enumerate(self.texts, start=1):
            if not all(map(str.strip, (text,) if isinstance(text, str) else text)):
                msg = f"Text {number} is empty; give a sentence."
                raise InputError(msg)

    @property
    def texts(self) -> tuple[str | tuple[str, str], ...]:
        """The one text, or both."""
        return (self.sentence,) if self.other is None else (self.sentence, self.other)


QUESTION = Question(
    **vars(LISTED),
    what="inspection",
    settings=InspectionSettings,
    tables=(TOKENS, SHAPES, MOVES, HEADS),
    arrays={
        "vectors": "[text, layer, token, dim], the contextual vectors of the tokens; layer 0 is the "
        "embedding, NaN stands for padding."
    },
    run="attnlab.questions.inspect.inspection:inspect",
    figures=("moves",),
    source="Run, transformers folder, or name of a model on the hub; of an encoder-decoder the encoder is "
    "read.",
    printed=4,
)
