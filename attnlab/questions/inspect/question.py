"""What `attnlab inspect` can be told, and what its columns mean; nothing heavy is imported."""

from dataclasses import dataclass, field
from typing import Annotated

from attnlab.core import Column, InputError, Note, Option, Table
from attnlab.evaluation import DeviceSettings
from attnlab.reading import HEADS
from attnlab.results import Question

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
        Column("mask", "mask", "1 for a real token, 0 for padding, which no query attends to."),
        Column(
            "token_type",
            "type",
            "Segment that the token belongs to; empty where the model has none.",
        ),
        Column("word", "word", "Word of the text that it is part of, counted from 0."),
    ),
    keys=("text", "position"),
)
SHAPES = Table(
    "shapes.csv",
    "tensor",
    (
        Column("tensor", "tensor", "What goes into the model or comes out of it."),
        Column("shape", "shape", "Its dimensions."),
        Column("axes", "axes", "What each dimension counts."),
    ),
    keys=("tensor",),
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
    keys=("first", "second", "layer"),
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
        said = f"Not in the model's vocabulary, read as unknown: {', '.join(self.unknown)}"
        alike = "; to the model all such words are one token, so their cosines say nothing of them"
        return f"{said}{alike if self.moved else ''}."


@dataclass(frozen=True)
class NoCommonWord(Note):
    """Of two texts, none of whose words is in both."""

    words = "No word is in both texts."


@dataclass(frozen=True, kw_only=True)
class InspectionSettings(DeviceSettings):
    """What `attnlab inspect` can be told.

    Raises:
        InputError: a text is empty.
    """

    sentence: Annotated[str, Option("A sentence.", argument=True)] = field(kw_only=False)
    other: Annotated[
        str | None, Option("Another one that shares some of its words.", argument=True)
    ] = field(kw_only=False, default=None)

    def __post_init__(self) -> None:
        super().__post_init__()
        for number, text in enumerate(self.texts, start=1):
            if not text.strip():
                msg = f"Text {number} is empty; give a sentence."
                raise InputError(msg)

    @property
    def texts(self) -> tuple[str, ...]:
        """The one text, or both."""
        return (self.sentence,) if self.other is None else (self.sentence, self.other)


QUESTION = Question(
    name="inspect",
    what="inspection",
    panel="Words",
    help="Show what an encoder makes of a text: tokens, ids, mask, shapes, and each head, layer by layer.\n\n"
    "With two texts also how far each word that stands in both moves between them: the cosine between its "
    "contextual vectors in every layer, beside the mean cosine between different words (anisotropy).",
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
