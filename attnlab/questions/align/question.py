"""What `attnlab align` can be told, and what its columns mean; nothing heavy is imported."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

from attnlab.alignment import ENGINE_ROW, FromWord, Row, Symmetrization
from attnlab.core import (
    BATCH_SIZE,
    HEAD,
    SHARED_COLUMNS,
    Column,
    Estimate,
    InputError,
    Note,
    Option,
    Table,
    briefly,
    check_file_exists,
    read_columns,
)
from attnlab.evaluation import (
    ENOUGH_FOR_INTERVALS,
    MEMORY,
    SEED,
    DeviceSettings,
    FewerThanAsked,
    FewForIntervals,
    Progress,
)
from attnlab.labels import AER
from attnlab.questions.align import LISTED
from attnlab.results import Question

COLUMNS = read_columns(__file__)

if TYPE_CHECKING:
    from attnlab.alignment import LinkForm

Choice = Literal["set", "single", "one-layer", "first-head", "unsupervised"]
CHOICES: tuple[Choice, ...] = get_args(Choice)
# What engines can be told of, on the one row that they read.
OF_ENGINES: tuple[Choice, ...] = ("one-layer", "first-head")
ROWS: tuple[Row, ...] = get_args(Row)
BEST_ROW = "best"
FROM_WORD: tuple[FromWord, ...] = get_args(FromWord)
SYMMETRIZATIONS: tuple[Symmetrization, ...] = get_args(Symmetrization)
SYMMETRIZED: Symmetrization = "grow-diag-final-and"
HEADS_WANTED = "name a heads.json that attnlab align wrote"
# Numbers of pairs with gold links that heads are chosen on, to see how many are needed.
CALIBRATION_SIZES = (10, 25, 50, 100, 200)
# Whose links stand on the page.
CHOSEN = "chosen heads"
DIAGONAL = "diagonal"
CHOICE_NAMES = {
    "set": "best set",
    "single": "best single head",
    "one-layer": "best heads of one layer",
    "first-head": "best first head of a layer",
    "unsupervised": "heads chosen without gold links",
}
ORACLE = "greedy set on the reported pairs"
REVERSE = "heads of the other direction"

PRECISION = Estimate(COLUMNS["precision"])
RECALL = Estimate(COLUMNS["recall"])
F1 = Estimate(COLUMNS["f1"])
AER_CHANGE = Estimate(COLUMNS["aer_change"], tested=True)
GENERATED_AER = Estimate(COLUMNS["generated_aer"])
GENERATED_CHANGE = Estimate(COLUMNS["generated_change"], tested=True)
SCORES = (AER, PRECISION, RECALL, F1)
START_ERROR = Estimate(COLUMNS["start_error"], interval="over audio")
START_CHANGE = Estimate(COLUMNS["start_error_change"], interval="over audio", tested=True)

_, _LAYER, _HEAD = HEAD
_ROW = COLUMNS["row"]
SYSTEMS = Table(
    "systems.csv",
    "way to align",
    (
        *COLUMNS.of("system kind"),
        _ROW,
        *COLUMNS.of("heads pairs links"),
        *(column for estimate in SCORES for column in estimate),
        *AER_CHANGE,
        COLUMNS["words"],
        *START_ERROR,
        *START_CHANGE,
    ),
    keys=("system",),
)
HEADS = Table(
    "heads.csv",
    "head and row",
    (
        _LAYER,
        _HEAD,
        _ROW,
        *(column for estimate in SCORES for column in estimate),
        *START_ERROR,
        *COLUMNS.of("confidence coverage monotonicity agreement score_without_gold alike chosen"),
    ),
    keys=("layer", "head", "row"),
)
STEPS = Table(
    "steps.csv",
    "head that is added",
    (
        _ROW,
        COLUMNS["step"],
        _LAYER,
        _HEAD,
        COLUMNS["calibration_aer"],
        AER.column,
    ),
    keys=("row", "step"),
)
CALIBRATION = Table(
    "calibration.csv",
    "number of calibration pairs",
    (
        Column("pairs", "calibration pairs", "How many pairs with gold links heads are chosen on."),
        COLUMNS["draws"],
        Column(
            "aer",
            "AER",
            "AER of the heads that were chosen, their row among it, on the other pairs; mean over draws.",
            3,
        ),
        *COLUMNS.of("aer_low aer_high"),
        Column("heads", "heads on average", "How many heads were chosen, mean over draws.", 1),
    ),
    keys=("pairs",),
)


GENERATION = Table(
    "generation.csv",
    "choice of heads",
    (
        Column(
            "pairs",
            "pairs",
            "Sentence pairs that the model translated into words that it can be aligned with.",
        ),
        Column(
            "words",
            "words",
            "Target words that translation and reference have in common, in order.",
        ),
        COLUMNS["word_share"],
        *AER,
        *GENERATED_AER,
        *GENERATED_CHANGE,
    ),
    keys=("pairs",),
)


WORDS = Table(
    "words.csv",
    "spoken word",
    (
        *COLUMNS.of("pair audio position"),
        SHARED_COLUMNS["word"],
        *COLUMNS.of("start found_start"),
    ),
    keys=("pair", "position"),
)


@dataclass(frozen=True)
class PairsNotAligned(Note):
    """Pairs that cannot be aligned: they have no links.

    Attributes:
        count: how many.
        total: out of how many.
        first: the first of them, counted from 1.
        reason: what is wrong with it.
    """

    count: int
    total: int
    first: int
    reason: str

    def __str__(self) -> str:
        return (
            f"{self.count} of {self.total} pairs cannot be aligned and have no links; the first is pair "
            f"{self.first}: {self.reason}."
        )


@dataclass(frozen=True)
class TranslationsNotAligned(Note):
    """Translations that a model wrote and that cannot be aligned: they are not scored.

    Attributes:
        count: how many.
        total: out of how many.
        first: the pair of the first of them, counted from 1.
        reason: what is wrong with it.
    """

    count: int
    total: int
    first: int
    reason: str

    def __str__(self) -> str:
        return (
            f"Of {self.total} translations that the model wrote {self.count} cannot be aligned and are left "
            f"out; the first is of pair {self.first}: {self.reason}."
        )


@dataclass(frozen=True)
class NoGold(Note):
    """There are no gold links: heads are chosen by what can be said of them without any."""

    words = (
        "There are no gold links, so heads are chosen by those of a statistical aligner (or, with few pairs"
        " or --quick, by words that are written alike on both sides), and nothing says how good their links"
        " are."
    )


@dataclass(frozen=True)
class HeadsAlike(Note):
    """Without gold links no head aligns better than the others beyond chance: engines are told of none.

    Attributes:
        by: what heads are chosen by.
    """

    words = (
        "The head that agrees best with {by} on one half of the pairs agrees no better than the heads do on"
        " average on the other half beyond chance, so no configuration for engines is given; give more "
        "pairs, or gold links."
    )

    by: str


@dataclass(frozen=True)
class PairsInBoth(Note):
    """Scored pairs whose words are those of a pair that heads are chosen on.

    Attributes:
        count: how many.
        total: out of how many.
    """

    count: int
    total: int

    def __str__(self) -> str:
        return (
            f"{self.count} of {self.total} scored pairs are among those that heads are chosen on, so the AER "
            "of the chosen heads may be too low; choose them on other pairs."
        )


@dataclass(frozen=True)
class NotGenerated(Note):
    """Links while the model writes are not measured, since nothing says how a translation begins."""

    words = (
        "How links differ where the model writes the translation itself was not measured: its configuration"
        " names no token that translations begin with, and references begin with none of a language."
    )


@dataclass(frozen=True, kw_only=True)
class AlignmentSettings(DeviceSettings):
    """What `attnlab align` can be told.

    Attributes:
        overwrite: whether the file that `links` names may be replaced.
        progress: called with (what is being done, done, in all).
    """

    pairs: Annotated[
        str | Path | Sequence[tuple[Any, Any]] | None,
        Option(
            "File of sentence pairs (source, tab, translation on each line, or .jsonl as for attnlab train); "
            "words are what stands between spaces. A run brings its test part. For Whisper audio file (.wav, "
            "or .npy of log-mel features), start and end in seconds, and word on each line."
        ),
    ] = field(kw_only=False, default=None)
    pair: Annotated[
        str | None,
        Option(
            "Source and target language of pairs in a .jsonl file.",
            shown="those of the run, or en-it",
        ),
    ] = None
    gold: Annotated[
        str | Path | None,
        Option(
            "File of gold links of the pairs: Pharaoh (.pharaoh), NAACL (.naacl), GIZA (.A3), or XL-WA "
            "(.tsv), which brings its pairs; the embedded corpus brings its links."
        ),
    ] = None
    gold_format: Annotated[
        str | None,
        Option(
            "Form of the file of gold links: pharaoh, naacl, xlwa or giza.",
            shown="by the name of the file or its first line",
        ),
    ] = None
    first_index: Annotated[
        int | None,
        Option(
            "Index of the first word of a sentence in gold links, 0 or 1, also in a calibration file of the "
            "same form.",
            least=0,
            most=1,
            shown="1 in NAACL and GIZA, else 0",
        ),
    ] = None
    calibration: Annotated[
        str | Path | None,
        Option(
            "XL-WA file (.tsv) of other pairs with gold links, or other audio, which heads are chosen on.",
            shown="every other pair",
        ),
    ] = None
    sentences: Annotated[
        int | None,
        Option("Maximum number of pairs.", ("--sentences", "-n"), least=2, shown="all"),
    ] = None
    choose: Annotated[
        str | None,
        Option(
            "What is chosen: a set of heads that is averaged, a single head, heads of one layer (all that "
            "CTranslate2 can be told), the first head of a layer (Marian), or heads without gold links "
            "(unsupervised).",
            choices=CHOICES,
            shown="set with gold links, unsupervised without",
        ),
    ] = None
    row: Annotated[
        str,
        Option(
            "Which row of the weights belongs to a token: output, the step that predicts it, input, the "
            "step that reads it, or the better one of the two (of audio input).",
            choices=(*ROWS, BEST_ROW),
        ),
    ] = BEST_ROW
    from_word: Annotated[
        str,
        Option("Over which tokens of a target word weights are taken.", choices=FROM_WORD),
    ] = "mean"
    heads: Annotated[
        str | Path | None,
        Option("A heads.json that attnlab align wrote: align with these heads and choose none."),
    ] = None
    links: Annotated[
        str | Path | None,
        Option(
            "File that the links are written to, in Pharaoh's form, or with words and weights (.jsonl); of "
            "audio the times of words."
        ),
    ] = None
    reverse: Annotated[
        str | Path | None,
        Option("Model of the other direction, to make the links of both one."),
    ] = None
    reverse_heads: Annotated[
        str | Path | None,
        Option("The reverse_heads.json that was written with heads, for the other direction."),
    ] = None
    symmetrize: Annotated[
        str | None,
        Option(
            "How links of both directions are made one.", choices=SYMMETRIZATIONS, shown=SYMMETRIZED
        ),
    ] = None
    quick: Annotated[
        bool, Option("Leave out the controls and the statistical aligner.", ("--quick",))
    ] = False
    source_language: Annotated[
        str | None,
        Option("Code of the source language, for tokenizers of several (eng_Latn, en_XX)."),
    ] = None
    target_language: Annotated[str | None, Option("Code of the target language.")] = None
    batch_size: Annotated[
        int, Option("Maximum number of sentences in one forward pass.", least=1, most=100_000)
    ] = BATCH_SIZE
    memory: Annotated[float | None, MEMORY] = None
    seed: Annotated[int, SEED] = 0
    overwrite: bool = False
    progress: Progress | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        options = {"choose": self.choose, "calibration": self.calibration}
        if self.heads is not None and any(one is not None for one in options.values()):
            names = ", ".join(name for name, one in options.items() if one is not None)
            msg = f"heads are given, so none are chosen; leave heads or {names} out."
            raise InputError(msg)
        for name in ("gold_format", "first_index"):
            if getattr(self, name) is not None and self.gold is None:
                msg = f"{name} is given without gold; give both, or leave {name} out."
                raise InputError(msg, options=["gold", name])
        if self.choose in OF_ENGINES and ENGINE_ROW not in self.rows:
            msg = f"choose is {self.choose}, for engines that read the {ENGINE_ROW} row; leave row out."
            raise InputError(msg)
        self._check_reverse()

    def check_source(self, source: object) -> None:  # noqa: ARG002 - whatever it is
        """Raises InputError for a file that is not there or of no form, before a model is loaded."""
        _ = self.gold_form
        files = {
            "pairs": "name a file with source, tab, target on each line",
            "gold": "name a file of gold links",
            "calibration": "name a file of other pairs with gold links",
            "heads": HEADS_WANTED,
            "reverse_heads": HEADS_WANTED,
        }
        for name, wanted in files.items():
            path = getattr(self, name)
            if isinstance(path, str | Path):
                check_file_exists(path, wanted)

    def _check_reverse(self) -> None:
        """Raises InputError for what is told of the other direction, where something else is missing."""
        for name in ("reverse_heads", "symmetrize"):
            if getattr(self, name) is not None and self.reverse is None:
                msg = f"{name} is of links of both directions; give reverse, or leave {name} out."
                raise InputError(msg)
        if self.reverse is not None and (self.heads is None) != (self.reverse_heads is None):
            given, missing = (
                ("heads", "reverse_heads")
                if self.reverse_heads is None
                else ("reverse_heads", "heads")
            )
            msg = f"{given} are given for one of the two directions alone; give {missing} too."
            raise InputError(msg)

    @property
    def gold_form(self) -> "LinkForm | None":
        """The form of the file of gold links; None: its name or its first line tells.

        Raises:
            InputError: there is no such form.
        """
        if self.gold_format is None:
            return None
        from attnlab.alignment import LinkForm

        forms: tuple[LinkForm, ...] = get_args(LinkForm)
        form = next((one for one in forms if one == self.gold_format), None)
        if form is None:
            msg = f"gold_format must be one of {', '.join(forms)}, not {briefly(self.gold_format)}."
            raise InputError(msg, options=["gold_format"])
        return form

    @property
    def rows(self) -> tuple[Row, ...]:
        """The rows that are tried."""
        return tuple(row for row in ROWS if self.row in {row, BEST_ROW})

    @property
    def wanted(self) -> Choice | None:
        """What is to be chosen; None: it depends on whether there are gold links."""
        return next((one for one in CHOICES if one == self.choose), None)

    @property
    def how_symmetrized(self) -> Symmetrization:
        """How links of both directions are made one."""
        return next((one for one in SYMMETRIZATIONS if one == self.symmetrize), SYMMETRIZED)

    @property
    def from_tokens(self) -> FromWord:
        """Over which tokens of a target word weights are taken."""
        return "first" if self.from_word == "first" else "mean"


def both_named(how: Symmetrization) -> str:
    """What links of both directions are called in the table."""
    return f"{CHOSEN} of both directions ({how})"


def notes_on_pairs(
    settings: AlignmentSettings,
    origin: str,
    there: int,
    aligned: int,
    first: tuple[int, str] | None,
) -> list[Note]:
    """Whether there are fewer pairs than were asked for, some have no links, or a file looks of another form.

    Args:
        settings: how many were asked for.
        origin: where the pairs come from, in words.
        there: how many there are.
        aligned: how many of them have links.
        first: the number of the first that has none, from 0, and why.
    """
    from attnlab.corpora import notes_on_tables

    notes = notes_on_tables(settings.pairs, settings.gold, settings.calibration)
    if settings.sentences is not None and there < settings.sentences:
        notes.append(FewerThanAsked(settings.sentences, origin, there))
    if first is not None:
        notes.append(PairsNotAligned(there - aligned, there, first[0] + 1, first[1]))
    return notes


def notes_on_overlap(
    chosen_on: Iterable[tuple[Sequence[str], ...]], scored: Sequence[tuple[Sequence[str], ...]]
) -> list[Note]:
    """Whether some scored pairs have the words of a pair that heads are chosen on."""
    known = set(chosen_on)
    count = sum(words in known for words in scored)
    return [PairsInBoth(count, len(scored))] if count else []


def notes_on_intervals(scored: int) -> list[Note]:
    """Whether so few pairs are scored that intervals are wide."""
    return [FewForIntervals(scored)] if scored < ENOUGH_FOR_INTERVALS else []


QUESTION = Question(
    **vars(LISTED),
    what="alignment",
    settings=AlignmentSettings,
    tables=(SYSTEMS, HEADS, STEPS, CALIBRATION, GENERATION, WORDS),
    run="attnlab.questions.align.aligning:align",
    folder="alignment",
    layout="attnlab.questions.align.alignment_files:AlignmentFiles",
    announced=True,
    figures=("pair_*", "heads", "calibration"),
    writes=("links",),
)
