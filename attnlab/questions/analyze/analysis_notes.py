"""What there is to know of an analysis, as values, and their sentences; nothing heavy is imported."""

from dataclasses import dataclass
from typing import Literal

from attnlab.core import Note
from attnlab.labels import LINKS


@dataclass(frozen=True)
class LayersHeldAtOnce(Note):
    """The model's layers could not be read one at a time."""

    words = (
        "This model's layers could not be read one at a time, so all layers of a batch were held in memory "
        "at once."
    )


@dataclass(frozen=True)
class RowsWithoutKeys(Note):
    """Rows of attention without a single visible key, over all heads that have others."""

    rows: int

    def __str__(self) -> str:
        rows = "1 row of attention saw" if self.rows == 1 else f"{self.rows} rows of attention saw"
        return f"{rows} no key at all; entropy 0 is counted there."


@dataclass(frozen=True)
class HeadsWithoutWeight(Note):
    """Heads whose matrices hold no weight at all, as where a plan leaves them out."""

    heads: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"{_heads(self.heads)} without any weight, as where a plan says none: no output, and no pattern "
            "to describe."
        )


@dataclass(frozen=True)
class ClosedHeads(Note):
    """Heads closed for good: the output projection reads nothing of them."""

    heads: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"{_heads(self.heads)} pruned: their output is 0, so that the model does not use their "
            "attention, whatever their labels say."
        )


@dataclass(frozen=True)
class LearnedSink(Note):
    """Rows sum to less than 1, since a learned sink takes this share of one on average."""

    words = (
        "A learned sink beside the keys takes {mass_fraction:.0%} of a row on average, so rows sum to less "
        "than 1; distances between heads are lower bounds."
    )

    mass_fraction: float


@dataclass(frozen=True)
class IdleSinks(Note):
    """Heads whose weight on a sink contributes little or nothing: their share is less than a quarter of it.

    Attributes:
        heads: how many of those that have more than the threshold of the label *sink* on some keys.
        sinks: how many these are.
        head: the one with the most such weight.
        keys: what the sink is, in words.
        weight: on it.
        share: in the contribution.
    """

    words = (
        "{heads} of {sinks} heads with much weight on a sink get little or nothing from it: {head} has "
        "{weight:.2f} of its weight on {keys}, and {share:.2f} of its contribution."
    )

    heads: int
    sinks: int
    head: str
    keys: str
    weight: float
    share: float


@dataclass(frozen=True)
class TooLargeToKeep(Note):
    """Sentences too large to keep their matrices, out of those that were to be kept."""

    words = (
        "{count} of the {sentences} sentences to keep were too large for {most_mebibytes:g} MiB."
    )

    count: int
    sentences: int
    most_mebibytes: float


@dataclass(frozen=True)
class RowsDrawn(Note):
    """A text too long for whole matrices, so that fits and structure are of rows drawn of each text.

    Attributes:
        text: its number, from 1.
        tokens: how many it has.
        rows: how many are drawn of each text, all of shorter ones.
        seed: of the draws.
    """

    words = (
        "The matrices of text {text}, of {tokens:,} tokens, need more memory than is free or allowed, so "
        "fits and structure are of {rows} rows drawn of each text (seed {seed}; all of a shorter one), by "
        "which a text counts. What is chosen over all rows at once was left out: rare columns, the sparse "
        "error E, additive, the largest entries; so was the mean by offset."
    )

    text: int
    tokens: int
    rows: int
    seed: int


@dataclass(frozen=True)
class TooLongToLabel(Note):
    """A text too long for whole matrices, so that no head is labelled.

    Attributes:
        text: its number, from 1.
        tokens: how many it has.
    """

    words = (
        "Heads were not labelled, since the matrices of text {text}, of {tokens:,} tokens, need more memory"
        " than is free or allowed; leave that text out to label them in the others."
    )

    text: int
    tokens: int


@dataclass(frozen=True)
class Unaligned(Note):
    """How many sentences' tokens do not match their words; the first by its identifier, and why."""

    count: int
    first: str
    reason: str

    def __str__(self) -> str:
        what = "1 sentence is" if self.count == 1 else f"{self.count} sentences are"
        return (
            f"{what} not aligned with words, so trees and alignments of that many are not counted (the "
            f"first: {self.first}, {self.reason})."
        )


@dataclass(frozen=True)
class TrainingSentences(Note):
    """How many of the `total` different sentences that were handed in the run was trained on."""

    words = (
        "{count} of {total} different sentences are training sentences of the run: this is not what its "
        "heads do on unseen text; analyze without a text takes the test part."
    )

    count: int
    total: int


@dataclass(frozen=True)
class TrainingCorpusUnknown(Note):
    """Token frequencies are counted in the sentences analyzed."""

    words = (
        "The training corpus is not known, so rare tokens are those that are rare in the sentences "
        "analyzed."
    )


@dataclass(frozen=True)
class NoTrees(Note):
    """The sentences have no gold trees."""

    words = (
        "These sentences have no gold trees, so no head can be called syntactic; give some with --treebank "
        "FILE.conllu."
    )


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
        advised: about how many sentences decide them.
        available: how many there are where these come from; None where that is not known.
        treebank: whether a treebank, which has no translations, can have the links that are lacking.
        never_met: whether some label met nothing at all that it could count.
        generated: whether the sentences are of a generated corpus, which has no others to offer.
    """

    labels: tuple[UndecidedLabel, ...]
    advised: int
    available: int | None
    treebank: bool
    never_met: bool
    generated: bool = False

    def __str__(self) -> str:
        what = "; ".join(
            f"'{label.label}' in {', '.join(label.sites)} (fewer than {label.needed:,} {label.unit})"
            for label in self.labels
        )
        advice = f"use about {self.advised:,} sentences (--sentences {self.advised})"
        if self.available is None:
            advice += " if there are that many"
        elif self.available < self.advised:
            limit = f"more than the {self.available:,} there are here"
            advice = f"about {self.advised:,} sentences are needed, {limit}"
            advice += "" if self.generated else f": name others ({_others(self)})"
        else:
            advice += f", of the {self.available:,} there are"
        enough = self.available is None or self.available >= self.advised
        if self.never_met and enough and not self.generated:
            advice += f"; what was never met needs other sentences ({_others(self)})"
        return (
            f"Too little was counted to confirm some labels, in one half of the sentences: {what}. To decide "
            f"them, {advice}."
        )


@dataclass(frozen=True)
class VocabularyTooSmall(Note):
    """Sites whose keys have no types beyond the `frequent` most frequent, so none is rare there.

    Attributes:
        sites: which.
        types: how many types there are, at the site of most.
        frequent: how many are called frequent.
    """

    words = (
        "No head of {sites} can be called 'rare tokens', whatever the sentences: the vocabulary has "
        "{types:,} types, and rare are those outside the {frequent:,} most frequent."
    )

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
        contributions: whether what was counted are contributions of keys, and no weights.
    """

    keys: Literal["all", "content"]
    heads: int
    above: tuple[tuple[float, int], ...]
    contributions: bool = False

    def __str__(self) -> str:
        """Such as `3 of 8 heads have more than 0.3 of the weight on one special token ... (0.4: 2)`."""
        (threshold, number), *higher = self.above
        others = ", ".join(f"{share:g}: {count}" for share, count in higher)
        have = "has" if number == 1 else "have"
        what = "contribution" if self.contributions else "weight"
        return (
            f"{number} of {self.heads} heads {have} more than {threshold:g} of the {what} "
            f"{_SINK_KEYS[self.keys]} (more than {others}); a count of sinks depends on the threshold and "
            "on the sentences."
        )


@dataclass(frozen=True)
class NoControls(Note):
    """Labels were not compared with an untrained model and shuffled words."""

    words = (
        "Labels were compared neither with an untrained model nor with shuffled words, so that roles and "
        "strengths differ from those of an analysis with these controls; leave out --quick to have them."
    )


@dataclass(frozen=True)
class TooManyToAblate(Note):
    """The loss without each of so many heads takes long and is measured only where asked for."""

    words = (
        "The loss without each head was not measured, since there are {heads} heads and more than {most} "
        "take long; --ablation measures it."
    )

    heads: int
    most: int


@dataclass(frozen=True)
class NotAblated(Note):
    """The loss without each head could not be measured, for a reason that is a sentence."""

    words = "The change of loss without each head was not measured: {reason}"

    reason: str


# A longer list is in summary.csv.
_MOST_NAMED = 16


def _heads(names: tuple[str, ...]) -> str:
    """The beginning of a sentence, such as `The heads encoder.0.1 and 3 more are`."""
    first = ", ".join(names[:_MOST_NAMED])
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return f"Head {first} is" if len(names) == 1 else f"Heads {first}{more} are"


_SINK_KEYS = {
    "all": "on one special token, the first token or punctuation",
    "content": "among ordinary tokens on the first token, where that is one of them, or on punctuation",
}


def _others(note: TooLittleCounted) -> str:
    """Where other sentences come from: with gold trees or alignments for the labels that rest on them."""
    gold = ", ".join(f"'{label.label}'" for label in note.labels if label.unit == LINKS.unit)
    if not gold:
        return "--text or --corpus"
    source = "--treebank" if note.treebank else "a --corpus with gold trees and alignments"
    plain = any(label.unit != LINKS.unit for label in note.labels)
    return f"--text or --corpus; for {gold} {source}" if plain else source
