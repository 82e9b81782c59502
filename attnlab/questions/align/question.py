"""What `attnlab align` can be told, and what its columns mean; nothing heavy is imported."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast, get_args

from attnlab.alignment import ENGINE_ROW, FromWord, Row, Symmetrization
from attnlab.core import (
    BATCH_SIZE,
    HEAD_KEYS,
    Estimate,
    InputError,
    Note,
    Option,
    Progress,
    Table,
    check_file_exists,
    read_columns,
    write_text,
)
from attnlab.evaluation import (
    ENOUGH_FOR_INTERVALS,
    MEMORY,
    SEED,
    SENTENCE_FLAGS,
    DeviceSettings,
    FewerThanAsked,
    FewForIntervals,
)
from attnlab.labels import AER
from attnlab.questions.align import LISTED
from attnlab.reading import ATTENTION, WEIGHTS_OPTION
from attnlab.results import Extra, Question, QuestionFiles

if TYPE_CHECKING:
    from attnlab.alignment import LinkForm
    from attnlab.reading import Weighing

COLUMNS = read_columns(__file__)

Choice = Literal["set", "single", "one-layer", "first-head", "unsupervised"]
CHOICES: tuple[Choice, ...] = get_args(Choice)
# What engines can be told of, on the one row that they read.
OF_ENGINES: tuple[Choice, ...] = ("one-layer", "first-head")
ROWS: tuple[Row, ...] = get_args(Row)
BEST_ROW = "best"
SYMMETRIZATIONS: tuple[Symmetrization, ...] = get_args(Symmetrization)
SYMMETRIZED: Symmetrization = "grow-diag-final-and"
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
HEADS_FILE, REVERSE_HEADS_FILE = "heads.json", "reverse_heads.json"
LINKS_FILE = "links.pharaoh"
_EXTRA = (HEADS_FILE, REVERSE_HEADS_FILE, LINKS_FILE)

SCORES = (AER, *(Estimate(COLUMNS[name]) for name in ("precision", "recall", "f1")))
AER_CHANGE = Estimate(COLUMNS["aer_change"], tested=True)
GENERATED_AER = Estimate(COLUMNS["generated_aer"])
GENERATED_CHANGE = Estimate(COLUMNS["generated_change"], tested=True)
START_ERROR = Estimate(COLUMNS["start_error"], interval="over audio")
START_CHANGE = Estimate(COLUMNS["start_error_change"], interval="over audio", tested=True)

_SCORES = [column for estimate in SCORES for column in estimate]
SYSTEMS = Table(
    "systems.csv",
    "way to align",
    (
        *COLUMNS.of("system system_kind row heads pairs links_given"),
        *_SCORES,
        *AER_CHANGE,
        COLUMNS["words"],
        *START_ERROR,
        *START_CHANGE,
    ),
    keys=("system",),
    heading="Ways to align",
)
HEADS = Table(
    "heads.csv",
    "head and row",
    (
        *COLUMNS.of("site layer head row"),
        *_SCORES,
        *START_ERROR,
        *COLUMNS.of(
            "concentration coverage monotonicity agreement score_without_gold alike chosen_head"
        ),
    ),
    keys=(*HEAD_KEYS, "row"),
    heading="Every head alone",
)
STEPS = Table(
    "steps.csv",
    "head that is added",
    (*COLUMNS.of("row heads_averaged site layer head calibration_aer"), AER.column),
    keys=("row", "heads_averaged"),
    heading="Heads that are added one after another",
)
CALIBRATION = Table(
    "calibration.csv",
    "number of calibration pairs",
    COLUMNS.of("calibration_pairs draws mean_aer mean_aer_low mean_aer_high mean_heads"),
    keys=("calibration_pairs",),
)
GENERATION = Table(
    "generation.csv",
    "choice of heads",
    (*COLUMNS.of("pairs words word_share"), *AER, *GENERATED_AER, *GENERATED_CHANGE),
    keys=("pairs",),
    heading="While the model writes, and under teacher forcing",
)
WORDS = Table(
    "words.csv",
    "spoken word",
    COLUMNS.of("pair audio word_number word start start_by_heads"),
    keys=("pair", "word_number"),
    heading="Words of the audio that is scored",
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

    words = "{count} of {total} pairs cannot be aligned and have no links; the first is {first}: {reason}."

    count: int
    total: int
    first: int
    reason: str


class TranslationsNotAligned(PairsNotAligned):
    """Translations that a model wrote and that cannot be aligned: they are not scored."""

    words = (
        "Of {total} translations that the model wrote {count} cannot be aligned and are left out; the first "
        "is of pair {first}: {reason}."
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

    words = (
        "{count} of {total} scored pairs are among those that heads are chosen on, so the AER of the chosen "
        "heads may be too low; choose them on other pairs."
    )

    count: int
    total: int


@dataclass(frozen=True)
class NotGenerated(Note):
    """Links while the model writes are not measured, since nothing says how a translation begins."""

    words = (
        "How links differ where the model writes the translation itself was not measured: its configuration"
        " names no token that translations begin with, and references begin with none of a language."
    )


# What is without effect, or without sense, unless another option is given.
_NEEDED = {
    "gold_format": "gold", "first_index": "gold", "reverse_heads": "reverse", "symmetrize": "reverse",
}  # fmt: skip
# What is without effect where heads are given.
_FOR_CHOICE = {"choose", "calibration", "baseline_links"}
_FILES = {
    "pairs": "name a file with source, tab, target on each line",
    "gold": "name a file of gold links",
    "calibration": "name a file of other pairs with gold links",
    "baseline_links": "name a file of links of the same pairs",
    "heads": "name a heads.json that attnlab align wrote",
    "reverse_heads": "name a heads.json that attnlab align wrote",
}


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
            "Index of the first word of a sentence in gold links, 0 or 1, also in a file of calibration or "
            "baseline links of the same form.",
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
    baseline_links: Annotated[
        str | Path | None,
        Option(
            "File of links of another aligner in Pharaoh's form, a line a pair: scored beside those of heads."
        ),
    ] = None
    sentences: Annotated[
        int | None,
        Option("Maximum number of pairs.", SENTENCE_FLAGS, least=2, shown="all"),
    ] = None
    choose: Annotated[
        str | None,
        Option(
            "What is chosen: a set of heads that is averaged, a single head, one-layer (a set of one layer, "
            "all that CTranslate2 can be told), first-head (of a layer, for Marian), or unsupervised "
            "(without gold links).",
            choices=CHOICES,
            shown="set with gold links, unsupervised without",
        ),
    ] = None
    row: Annotated[
        str,
        Option(
            "Which row of the weights belongs to a token: output, the step that predicts it, input, the "
            "step that reads it, or the best of the two (of audio input).",
            choices=(*ROWS, BEST_ROW),
        ),
    ] = BEST_ROW
    from_word: Annotated[
        str,
        Option(
            "Weights of a target word: mean over its tokens, or first.", choices=get_args(FromWord)
        ),
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
            f"How links of both directions are made one: {', '.join(SYMMETRIZATIONS)}.",
            choices=SYMMETRIZATIONS,
            shown=SYMMETRIZED,
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
    weights: Annotated[str, WEIGHTS_OPTION] = ATTENTION
    batch_size: Annotated[
        int, Option("Maximum number of sentences in one forward pass.", least=1, most=100_000)
    ] = BATCH_SIZE
    memory: Annotated[float | None, MEMORY] = None
    seed: Annotated[int, SEED] = 0
    overwrite: bool = False
    progress: Progress | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        given = {name for name, value in self.keywords().items() if value is not None}
        if "heads" in given and self.weights != ATTENTION:
            msg = "heads are given, and their file says which weights they are read by; leave weights out."
            raise InputError(msg, options=["heads", "weights"])
        for name in sorted(given & _FOR_CHOICE if "heads" in given else ()):
            msg = f"heads are given, so none are chosen or compared; leave heads or {name} out."
            raise InputError(msg, options=["heads", name])
        for name, needed in _NEEDED.items():
            if name in given and needed not in given:
                msg = f"{name} is given without {needed}; give both, or leave {name} out."
                raise InputError(msg, options=[name, needed])
        if self.choose in OF_ENGINES and ENGINE_ROW not in self.rows:
            msg = f"choose is {self.choose}, for engines that read the {ENGINE_ROW} row; leave row out."
            raise InputError(msg)
        alone = given & {"heads", "reverse_heads"}
        if "reverse" in given and len(alone) == 1:
            (missing,) = {"heads", "reverse_heads"} - alone
            msg = f"heads are given for one of the two directions alone; give {missing} too."
            raise InputError(msg, options=[missing])

    def check_source(self, source: object) -> None:  # noqa: ARG002 - whatever it is
        """Raises InputError for a file that is not there or of no form, before a model is loaded."""
        _ = self.gold_form
        for name, advice in _FILES.items():
            path = getattr(self, name)
            if isinstance(path, str | Path):
                check_file_exists(path, advice)

    @property
    def gold_form(self) -> "LinkForm | None":
        """The form of the file of gold links; None: its name or its first line tells.

        Raises:
            InputError: there is no such form.
        """
        from attnlab.alignment import LinkForm

        Option("", choices=get_args(LinkForm)).refuse("gold format", self.gold_format)
        return cast("LinkForm | None", self.gold_format)

    @property
    def rows(self) -> tuple[Row, ...]:
        """The rows that are tried."""
        return tuple(row for row in ROWS if self.row in {row, BEST_ROW})

    @property
    def how_symmetrized(self) -> Symmetrization:
        """How links of both directions are made one."""
        return cast("Symmetrization", self.symmetrize or SYMMETRIZED)

    @property
    def read_weights(self) -> "Weighing":
        """The kind of weights that are read of the model."""
        return cast("Weighing", self.weights)

    @property
    def from_tokens(self) -> FromWord:
        """The tokens of a target word over which weights are taken."""
        return cast("FromWord", self.from_word)


class AlignmentFiles(QuestionFiles):
    """The files of a result of `align`, its heads and links among them."""

    @property
    def all(self) -> tuple[str, ...]:
        """Every file that it writes, or may."""
        return (*_EXTRA, *super().all)

    def named(self, settings: Any) -> Iterable[str]:
        """The files that it may write beside its tables."""
        del settings
        return _EXTRA

    def load(self, folder: str | Path) -> Extra:
        """The heads and links in a folder, as they are."""
        return {
            path.name: partial(write_text, text=path.read_text(encoding="utf-8"))
            for name in _EXTRA
            if (path := Path(folder) / name).is_file()
        }


def both_named(how: Symmetrization) -> str:
    """The name of the links of both directions in the table."""
    return f"{CHOSEN} of both directions ({how})"


def notes_on_pairs(
    settings: AlignmentSettings,
    origin: str,
    total: int,
    aligned: int,
    first: tuple[int, str] | None,
) -> list[Note]:
    """Whether there are fewer pairs than were asked for, some have no links, or a file looks of another form.

    Args:
        settings: how many were asked for.
        origin: where the pairs come from, in words.
        total: number of pairs that there are.
        aligned: number of those that have links.
        first: the number of the first that has none, from 0, and why.
    """
    from attnlab.corpora import notes_on_tables

    notes = notes_on_tables(settings.pairs, settings.gold, settings.calibration)
    if settings.sentences is not None and total < settings.sentences:
        notes.append(FewerThanAsked(settings.sentences, origin, total))
    if first is not None:
        notes.append(PairsNotAligned(total - aligned, total, first[0] + 1, first[1]))
    return notes


def notes_on_overlap(
    chosen_on: Iterable[tuple[Sequence[str], ...]], scored: Sequence[tuple[Sequence[str], ...]]
) -> list[Note]:
    """Whether some scored pairs have the words of a pair that heads are chosen on."""
    calibration = set(chosen_on)
    count = sum(words in calibration for words in scored)
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
    layout="attnlab.questions.align.question:AlignmentFiles",
    announced=True,
    figures=("heads", "pair_*", "calibration"),
    shows=(
        "system",
        "system_kind",
        AER.name,
        AER_CHANGE.name,
        START_ERROR.name,
        START_CHANGE.name,
        "links_given",
    ),
    leading=AER.name,
    writes=("links",),
)
