"""What `attnlab analyze` can be told, and what its columns mean; nothing heavy is imported."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from attnlab.core import (
    HEAD,
    HEAD_KEYS,
    Column,
    Estimate,
    InputError,
    Note,
    Option,
    Table,
    is_matrix_file,
)
from attnlab.evaluation import MEMORY, SEED, SENTENCE_FLAGS, CorpusTextSettings, TextsAsked
from attnlab.labels import (
    AGREEMENT,
    BASELINE,
    CONTROLS,
    DETAIL,
    LABELS,
    LINKS,
    LOSS_CHANGE,
    RELATIONS,
    STRUCTURE,
    STRUCTURE_SAID,
    TIE_BITS_PER_ROW,
)
from attnlab.reading import DISTANCES, HEADS
from attnlab.results import Question

FITS = Table(
    "fits.csv",
    "head, sentence and approximation",
    (
        *HEAD,
        Column("sentence", "sentence", "Number of the sentence, from 0."),
        Column("queries", "queries", "Rows of the matrix."),
        Column("keys", "keys", "Columns of the matrix."),
        Column(
            "rows", "rows measured", "How many: all, or those drawn of a text too long to hold."
        ),
        Column(
            "approximation", "approximation", "The family, the largest entries, or a reference."
        ),
        Column("window", "window", "Tokens on either side, of a whole band."),
        Column(
            "level",
            "level",
            "oracle: fitted to the matrix itself; static: taken from other sentences; none.",
        ),
        Column("budget", "budget", "How many entries the approximation may use."),
        Column("l1", "l1 distance", "Sum of all absolute differences in the rows measured.", 2),
        Column("mean_error", "mean error", "The l1 distance by rows measured times keys.", 3),
        Column("relative", "relative", "The l1 distance divided by the sum of these rows.", 2),
    ),
    keys=(*HEAD_KEYS, "sentence", "approximation", "window"),
)
STATISTIC = Column("statistic", "statistic", "What the value is.", short="statistic")
GENERATION_CHANGE = Estimate(
    Column(
        "generation_change",
        "change in own output",
        "The figure in the model's own output minus that under teacher forcing, of the same sentences.",
        3,
    )
)
GENERATED = Table(
    "generated.csv",
    "head and statistic",
    (
        *HEAD,
        STATISTIC,
        Column(
            "teacher_forced",
            "teacher forcing",
            "The figure while the model reads the reference, or the second half of the text itself.",
            3,
        ),
        Column(
            "generated",
            "own output",
            "The figure while it writes, greedily: a translation, or what follows the first half of a text.",
            3,
        ),
        *GENERATION_CHANGE,
        Column("sentences", "sentences", "How many have such rows in both."),
    ),
    keys=(*HEAD_KEYS, "statistic"),
)
SUMMARY = Table(
    "summary.csv",
    "head",
    (
        *HEAD,
        Column(
            "role",
            "closest role",
            "The label that is closest to its threshold; none where no figure is beyond its control.",
        ),
        DETAIL,
        STATISTIC,
        Column("value", "value", "The figure that the role rests on.", 2),
        Column(
            "control",
            BASELINE,
            "What that figure would be without the role: by the best offset or by chance; of rare tokens, by "
            "chance on the rows that see more uncommon tokens than the two rarest.",
            2,
        ),
        Column(
            "second_statistic",
            "deciding statistic",
            "What else the rule asks for, where that figure decides the strength.",
        ),
        Column("second_value", "deciding figure", "That other figure.", 2),
        Column(
            "second_control",
            f"deciding figure, {BASELINE}",
            "What that other figure would be without the role.",
            2,
        ),
        Column(
            "strength",
            "strength",
            "How near the figure is to its threshold: 0 at its control, 1 at the threshold or beyond; "
            "the least where the rule asks for several figures.",
            2,
        ),
        Column(
            "confirmed",
            "confirmed",
            "Whether the whole 95 % interval lies above the threshold, of every figure of the rule.",
        ),
        Column(
            "significant",
            "significant",
            "Whether it is confirmed and significant against controls: the same head of an untrained "
            "model and, for relations, shuffled words.",
        ),
        Column(
            "structure",
            "structure",
            "The family of matrices that describes the head's matrices in the fewest bits: what they "
            f"look like, not what for; {STRUCTURE_SAID}.",
        ),
        Column(
            "structure_tie",
            "tie",
            f"Whether the next family needs less than {TIE_BITS_PER_ROW:g} bits per row more.",
        ),
        *LOSS_CHANGE,
        Column(
            "output",
            "output",
            "What is left of the head's output: pruned where it was pruned away, none where its matrices "
            "hold no weight; empty where it is whole.",
        ),
    ),
    keys=HEAD_KEYS,
)
# Of the column `output`: what a pruned head leaves.
PRUNED = "pruned"


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
class RowsDrawn(Note):
    """A text too long for whole matrices, so that fits and structure are of rows drawn of each text.

    Attributes:
        text: its number, from 1.
        tokens: how many it has.
        rows: how many are drawn of each text, all of shorter ones.
        seed: of the draws.
        unlabelled: whether labels were to be given, which need whole matrices.
        measured: whether fits or structure were asked for.
    """

    text: int
    tokens: int
    rows: int
    seed: int
    unlabelled: bool
    measured: bool


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

    keys: Literal["all", "content"]
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


SENTENCES = 200
LABELLED_SENTENCES = 1000
# Drawn of each text where one is too long for whole matrices.
ROWS = 256
# A pass over the sentences per head: minutes for a small model, an hour for a large one.
MOST_HEADS_ABLATED = 96
NOT_NORMALIZED = "none"
QUICK = Option(
    "Label heads without the controls, and leave out the loss without each head.", ("--quick",)
)


@dataclass(frozen=True, kw_only=True)
class AnalysisSettings(CorpusTextSettings):
    """What `attnlab analyze` can be told.

    Attributes:
        processes: `attnlab.core.processes.Processes` that share the sentences, which all call this alike
            inside `Processes.together`, and have the whole result each; None: this one alone.

    Raises:
        InputError: a value out of range, or an ablation without labels.
    """

    sentences: Annotated[
        TextsAsked | None,
        Option(
            "Maximum number of held-out sentences. A file of matrices is read whole.",
            SENTENCE_FLAGS,
            least=1,
            shown=f"{LABELLED_SENTENCES}, without labels {SENTENCES}",
        ),
    ] = None
    treebank: Annotated[
        str | Path | None,
        Option(
            "File of sentences with gold trees (.conllu or .conllu.gz). Labels the heads.",
        ),
    ] = None
    labels: Annotated[
        bool | None,
        Option(
            "Say what each head does, with an untrained model and shuffled words as controls.",
            ("--labels/--no-labels",),
            shown="where there are tokens",
        ),
    ] = None
    quick: Annotated[bool, QUICK] = False
    structure_sentences: Annotated[
        int,
        Option("Number of sentences that decide the structure of each head; 0 for none.", least=0),
    ] = 100
    ignore_special: Annotated[
        bool,
        Option(
            "Show first what heads do with special tokens ([CLS], [SEP], start, end) left out as "
            "keys. The tables hold both views either way.",
            ("--ignore-special",),
        ),
    ] = False
    ablation: Annotated[
        bool | None,
        Option(
            "Set each head to zero too and measure the loss, beside labels.",
            ("--ablation/--no-ablation",),
            shown=f"where the model has a loss, and at most {MOST_HEADS_ABLATED} heads",
        ),
    ] = None
    seed: Annotated[int | None, replace(SEED, shown="that of the run, or 0")] = None
    array: Annotated[str | None, Option("Name of the array, in a file of several.")] = None
    normalize: Annotated[
        str,
        Option("Divide every row of a file's matrices by its sum (rows), or not (none)."),
    ] = NOT_NORMALIZED
    memory: Annotated[float | None, MEMORY] = None
    generation: Annotated[
        bool,
        Option(
            "Read decoders also while they write themselves, beside teacher forcing.",
            ("--generation",),
        ),
    ] = False
    keep_matrices: Annotated[
        int, Option("Number of sentences whose matrices are kept and drawn.", least=0)
    ] = 3
    show: Annotated[
        Sequence[str] | None,
        Option(
            "Sentence, among those that are read, to keep and show before others. Repeat for several."
        ),
    ] = None
    fit_sentences: Annotated[
        int, Option("Number of sentences to fit structured matrices to; 0 for none.", least=0)
    ] = 100
    processes: Any = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.ablation and not self.labelled:
            msg = "Ablation needs labels; ask for labels too, or leave it out."
            raise InputError(msg)

    def check_source(self, source: object) -> None:
        """Raises InputError for options of a model beside a file of matrices, and the other way round.

        A file of matrices is read whole, and has neither tokens nor a model.
        """
        if not is_matrix_file(source):
            given = {"array": self.array is not None, "normalize": self.normalize != NOT_NORMALIZED}
            for name in (name for name, is_given in given.items() if is_given):
                msg = f"{name} is for files of matrices; leave it out for a model."
                raise InputError(msg)
            return
        for name in ("text", "corpus", "pair", "sentences", "show", "generation"):
            if getattr(self, name) not in (None, False):
                msg = f"{source} holds matrices and no sentences; leave {name} out, or analyze a model."
                raise InputError(msg)
        for name in ("device", "seed"):
            if getattr(self, name) is not None:
                msg = f"{source} holds matrices and no model; leave {name} out."
                raise InputError(msg)
        if self.labels or self.ablation or self.treebank is not None:
            msg = f"{source} has no tokens, so its heads cannot be labelled; analyze a model."
            raise InputError(msg)

    @property
    def labelled(self) -> bool:
        """Whether heads are labelled where there are tokens; a treebank asks for it too."""
        return self.labels is not False or self.treebank is not None

    @property
    def ablated(self) -> bool | None:
        """Whether each head is set to zero; None: where that can be done in a reasonable time."""
        wanted = False if self.quick and self.ablation is None else self.ablation
        return wanted if self.labelled else False

    @property
    def wanted(self) -> TextsAsked:
        """The sentences, or how many there are to be."""
        if self.sentences is not None:
            return self.sentences
        return LABELLED_SENTENCES if self.labelled else SENTENCES


# A longer list is in summary.csv.
_MOST_NAMED = 16


def _without_keys(note: RowsWithoutKeys) -> str:
    rows = "1 row of attention saw" if note.rows == 1 else f"{note.rows} rows of attention saw"
    return f"{rows} no key at all; entropy 0 is counted there."


def _rows_drawn(note: RowsDrawn) -> str:
    if not note.measured:
        return (
            f"The matrices of text {note.text}, of {note.tokens:,} tokens, need more memory than is free or "
            "allowed, so heads were not labelled; leave that text out to label them in the others."
        )
    labels = (
        ", and heads were not labelled (leave that text out to have them)"
        if note.unlabelled
        else ""
    )
    return (
        f"The matrices of text {note.text}, of {note.tokens:,} tokens, need more memory than is free or "
        f"allowed, so fits and structure are of {note.rows} rows drawn of each text (seed {note.seed}; all "
        "of a shorter one), by which a text counts. What is chosen over all rows at once was left out: rare "
        f"columns, the sparse error E, additive, the largest entries; so was the mean by offset{labels}."
    )


def _heads(names: tuple[str, ...]) -> str:
    """Such as `The heads encoder.0.1 and 3 more are`."""
    first = ", ".join(names[:_MOST_NAMED])
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return f"Head {first} is" if len(names) == 1 else f"Heads {first}{more} are"


def _unaligned(note: Unaligned) -> str:
    what = "1 sentence is" if note.count == 1 else f"{note.count} sentences are"
    return (
        f"{what} not aligned with words, so trees and alignments of that many are not counted (the "
        f"first: {note.first}, {note.reason})."
    )


def _too_little(note: TooLittleCounted) -> str:
    what = "; ".join(
        f"'{one.label}' in {', '.join(one.sites)} (fewer than {one.needed:,} {one.unit})"
        for one in note.labels
    )
    advice = f"use about {note.wanted:,} sentences (--sentences {note.wanted})"
    if note.there is None:
        advice += " if there are that many"
    elif note.there < note.wanted:
        advice += f", more than the {note.there:,} there are here: name others ({_others(note)})"
    else:
        advice += f", of the {note.there:,} there are"
    if note.never_met and (note.there is None or note.there >= note.wanted):
        advice += f"; what was never met needs other sentences ({_others(note)})"
    told = f"Too little was counted to confirm some labels, in one half of the sentences: {what}."
    return told if note.generated else f"{told} To decide them, {advice}."


def _sinks(note: SinksByThreshold) -> str:
    """Such as `3 of 8 heads have more than 0.3 of the weight on one special token ... (0.4: 2, 0.5: 0)`."""
    (threshold, number), *higher = note.above
    others = ", ".join(f"{share:g}: {count}" for share, count in higher)
    have = "has" if number == 1 else "have"
    return (
        f"{number} of {note.heads} heads {have} more than {threshold:g} of {_SINK_KEYS[note.keys]} "
        f"(more than {others}); a count of sinks depends on the threshold."
    )


_SINK_KEYS = {
    "all": "the weight on one special token, the first token or punctuation",
    "content": "the weight among ordinary tokens on the first token, where that is one of them, or on "
    "punctuation",
}


def _others(note: TooLittleCounted) -> str:
    """Where other sentences come from: with gold trees or alignments for the labels that rest on them."""
    gold = ", ".join(f"'{one.label}'" for one in note.labels if one.unit == LINKS.unit)
    if not gold:
        return "--text or --corpus"
    source = "--treebank" if note.treebank else "a --corpus with gold trees and alignments"
    plain = any(one.unit != LINKS.unit for one in note.labels)
    return f"--text or --corpus; for {gold} {source}" if plain else source


QUESTION = Question(
    name="analyze",
    what="analysis",
    panel="Heads",
    help="Say what every attention head does, what it looks like and what is lost without it.\n\n"
    "--quick leaves out the controls of labels and the loss without each head.",
    settings=AnalysisSettings,
    tables=(
        SUMMARY,
        HEADS,
        DISTANCES,
        FITS,
        LABELS,
        RELATIONS,
        CONTROLS,
        STRUCTURE,
        AGREEMENT,
        GENERATED,
    ),
    run="attnlab.questions.analyze.analysis:analyze",
    figures=("mass_by_offset", "distance_by_window", "heads_sentence*"),
    notes={
        LayersHeldAtOnce: "This model's layers could not be read one at a time, so all layers of "
        "a batch were held in memory at once.",
        RowsWithoutKeys: _without_keys,
        HeadsWithoutWeight: lambda note: (
            f"{_heads(note.heads)} without any weight, as where a plan says none: no output, and no pattern "
            "to describe."
        ),
        ClosedHeads: lambda note: (
            f"{_heads(note.heads)} pruned: their output is 0, so that the model does not use their "
            "attention, whatever their labels say."
        ),
        LearnedSink: "A learned sink beside the keys takes {mass_fraction:.0%} of a row on "
        "average, so rows sum to less than 1; distances between heads are lower bounds.",
        TooLargeToKeep: "{count} of the {wanted} sentences to keep were too large for "
        "{most_mebibytes:g} MiB.",
        RowsDrawn: _rows_drawn,
        Unaligned: _unaligned,
        TrainingSentences: "{count} of {total} different sentences are training sentences of the run: "
        "this is not what its heads do on unseen text; analyze without a text takes the test part.",
        TrainingCorpusUnknown: "The training corpus is not known, so rare tokens are those that "
        "are rare in the sentences analyzed.",
        NoTrees: "These sentences have no gold trees, so no head can be called syntactic; give "
        "some with --treebank FILE.conllu.",
        TooLittleCounted: _too_little,
        VocabularyTooSmall: lambda note: (
            f"No head of {', '.join(note.sites)} can be called 'rare tokens', whatever the sentences: the "
            f"vocabulary has {note.types:,} types, and rare are those outside the {note.frequent:,} most "
            "frequent."
        ),
        SinksByThreshold: _sinks,
        NoControls: "Labels were compared neither with an untrained model nor with shuffled words, "
        "and the loss without each head was not measured; leave out --quick to have both.",
        TooManyToAblate: "The loss without each head was not measured, since there are {heads} "
        "heads and more than {most} take long; --ablation measures it.",
        NoLoss: "The change of loss without each head was not measured, since there is no loss here: "
        "{reason}",
    },
    source="A run of `attnlab train`, a folder of a transformers model, its name on the hub, or a file of "
    "matrices (.npz, .npy, .safetensors; --sites says what they are).",
    sources=("model", "matrices"),
    keeps_matrices=True,
    folder="analysis",
)
