"""What is to be known of an analysis: of its matrices, and of its labels."""

from dataclasses import dataclass

from attnlab.core.errors import Note
from attnlab.reading.weights import View


@dataclass(frozen=True)
class LayersHeldAtOnce(Note):
    """The model's layers could not be read one at a time."""


@dataclass(frozen=True)
class RowsWithoutKeys(Note):
    """Rows of attention without a single visible key, over all heads that have others."""

    rows: int


@dataclass(frozen=True)
class HeadsWithoutWeight(Note):
    """Heads whose matrices hold no weight at all, as where a plan leaves them out."""

    heads: tuple[str, ...]


@dataclass(frozen=True)
class ClosedHeads(Note):
    """Heads closed for good: the output projection reads nothing of them."""

    heads: tuple[str, ...]


@dataclass(frozen=True)
class LearnedSink(Note):
    """Rows sum to less than 1, since a learned sink takes this share of one on average."""

    mass_fraction: float


@dataclass(frozen=True)
class TooLargeToKeep(Note):
    """Out of `wanted` sentences whose matrices were to be kept, those for which there was no room."""

    count: int
    wanted: int
    most_mebibytes: float


@dataclass(frozen=True)
class Unaligned(Note):
    """How many sentences' tokens do not match their words; the first by its identifier, and why."""

    count: int
    first: str
    reason: str


@dataclass(frozen=True)
class TrainingSentences(Note):
    """How many of the `total` different sentences that were handed in the run was trained on."""

    count: int
    total: int


@dataclass(frozen=True)
class TrainingCorpusUnknown(Note):
    """Token frequencies are counted in the sentences analyzed."""


@dataclass(frozen=True)
class NoTrees(Note):
    """The sentences have no gold trees."""


@dataclass(frozen=True)
class UndecidedLabel:
    """A label that fewer than `needed` observations leave undecided for some head of the sites."""

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
        treebank: whether a treebank, which has no translations, can have the links that are lacking.
        never_met: whether some label met nothing at all that it could count.
        generated: whether the sentences are of a generated corpus, which has no others to offer.
    """

    labels: tuple[UndecidedLabel, ...]
    wanted: int
    there: int | None
    treebank: bool
    never_met: bool
    generated: bool = False


@dataclass(frozen=True)
class VocabularyTooSmall(Note):
    """Sites whose keys have no types beyond the `frequent` most frequent, so none is rare there.

    Attributes:
        sites: which.
        types: how many types there are, at the site of most.
        frequent: how many are called frequent.
    """

    sites: tuple[str, ...]
    types: int
    frequent: int


@dataclass(frozen=True)
class SinksByThreshold(Note):
    """How many heads have more than each share of their weight on one kind of key.

    Attributes:
        keys: the view in which weights were counted.
        heads: how many there are.
        above: threshold and number of heads, the smallest threshold first.
    """

    keys: View
    heads: int
    above: tuple[tuple[float, int], ...]


@dataclass(frozen=True)
class NoControls(Note):
    """Labels were not compared with an untrained model and shuffled words."""


@dataclass(frozen=True)
class TooManyToAblate(Note):
    """The loss without each of so many heads takes long and is measured only where asked for."""

    heads: int
    most: int


@dataclass(frozen=True)
class NoLoss(Note):
    """The loss without each head could not be measured, for a reason that is a sentence."""

    reason: str
