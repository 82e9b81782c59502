"""What is to be known of an analysis: of its matrices, and of its labels."""

from dataclasses import dataclass

from attnlab.notes import Note


@dataclass(frozen=True)
class LayersHeldAtOnce(Note):
    """The model's layers could not be read one at a time."""


@dataclass(frozen=True)
class RowsWithoutKeys(Note):
    """Rows of attention without a single visible key.

    Attributes:
        rows: how many, over all heads.
    """

    rows: int


@dataclass(frozen=True)
class LearnedSink(Note):
    """Rows sum to less than 1, since a learned sink takes the rest.

    Attributes:
        mass_fraction: share of a row that it takes, on average.
    """

    mass_fraction: float


@dataclass(frozen=True)
class TooLargeToKeep(Note):
    """Sentences whose matrices were to be kept and are not.

    Attributes:
        count: how many.
        wanted: how many were to be kept.
        most_bytes: how much may be kept.
    """

    count: int
    wanted: int
    most_bytes: int


@dataclass(frozen=True)
class Unaligned(Note):
    """Sentences whose tokens do not match their words.

    Attributes:
        count: how many.
        first: identifier of the first of them.
        reason: why that is not aligned, in words.
    """

    count: int
    first: str
    reason: str


@dataclass(frozen=True)
class TrainingCorpusUnknown(Note):
    """Token frequencies are counted in the sentences analyzed."""


@dataclass(frozen=True)
class NoTrees(Note):
    """The sentences have no gold trees."""


@dataclass(frozen=True)
class UndecidedLabel:
    """A label for which too little was counted of every head of some sites.

    Attributes:
        label: its name.
        sites: where.
        needed: how many observations its rule asks for.
        unit: what an observation is, such as `rows`.
    """

    label: str
    sites: tuple[str, ...]
    needed: int
    unit: str


@dataclass(frozen=True)
class TooLittleCounted(Note):
    """Labels that more sentences would decide.

    Attributes:
        labels: which.
        wanted: about how many sentences decide them.
        there: how many there are where these come from; None where that is not known.
        treebank: whether a treebank can have what is lacking.
        never_met: whether some label met nothing at all that it could count.
    """

    labels: tuple[UndecidedLabel, ...]
    wanted: int
    there: int | None
    treebank: bool
    never_met: bool


@dataclass(frozen=True)
class NoLoss(Note):
    """The model's loss without each head could not be measured.

    Attributes:
        reason: why, as a sentence.
    """

    reason: str
