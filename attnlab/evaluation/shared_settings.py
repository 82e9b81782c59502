"""Options that the studies share, each declared once; every study extends one of these.

Nothing heavy is imported here, so that the command line can show them at once.
"""

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from numbers import Real
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar

from attnlab.core import (
    BATCH_SIZE,
    FEWEST_FOR_INTERVAL,
    LARGEST_SEED,
    InputError,
    Note,
    Option,
    OptionField,
    Progress,
    Settings,
    check_progress,
    check_site_names,
    counted,
    read_lines,
    sites_named,
    texts_of,
)
from attnlab.evaluation.named_inputs import check_named
from attnlab.reading import ATTENTION, WEIGHTS_OPTION

# How many sentences, or the sentences themselves: texts, or pairs of source and target.
TextsAsked = int | Sequence[str | tuple[str, str]]
SENTENCE_FLAGS = ("--sentences", "-n")
HELD_OUT = Option(
    "Maximum number of held-out sentences, the first of their file.", SENTENCE_FLAGS, least=1
)
CALIBRATION_TEXT = Option(
    "File of training sentences, written like text, every other one for validation; a run brings its own. "
    "Without it other models take the sentences of text in turn: held out, for training, for validation.",
    listed="calibration",
    names="texts",
)
# On so many of the first sentences each head is ablated, beside its label and by itself.
ABLATION_SENTENCES = 500
SEED = Option(
    "Seed of all that is drawn at random: controls, batches, gates, dropout.",
    least=0,
    most=LARGEST_SEED,
)

MEMORY = Option(
    "Largest memory in GB that the attention weights of one text may take; longer texts are refused.",
    above=0,
    shown="what is free",
)
LOSS_OPTION = Option(
    "What the model is evaluated by: how far its final states move from those of the untouched model, as "
    "cosine or squared distance.",
    choices=("cosine", "squared"),
    shown="the loss of the tokens that it scores; cosine where it scores none",
)


def words_in(text: str) -> tuple[str, ...]:
    """The words of a list with commas.

    >>> words_in("site, model")
    ('site', 'model')
    """
    return tuple(word.strip() for word in text.split(",") if word.strip())


@dataclass(frozen=True, kw_only=True)
class DeviceSettings(Settings):
    """Options of the device of a model."""

    device: Annotated[
        str | None,
        Option(
            "Device that the model runs on, such as cpu or cuda.", shown="a GPU if there is one"
        ),
    ] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        kind, colon, number = (self.device or "").partition(":")
        if kind.lower() == "gpu":
            msg = f"device must be a name of torch, and '{self.device}' is none; write cuda{colon}{number}."
            raise InputError(msg)


@dataclass(frozen=True, kw_only=True)
class ShowSettings(DeviceSettings):
    """Options of `attnlab show`, which is no question."""

    weights: Annotated[str, WEIGHTS_OPTION] = ATTENTION


@dataclass(frozen=True, kw_only=True)
class StudySettings(DeviceSettings):
    """Options of every study of a model.

    Attributes:
        default_sentences: how many sentences are wanted where `sentences` is None.
        progress: called with (what is being done, done, in all).
    """

    default_sentences: ClassVar[int]
    sentences: Annotated[TextsAsked | None, HELD_OUT] = None
    sites: Annotated[
        Sequence[str] | None,
        Option(
            "Sites to analyze: any of encoder, decoder, cross; commas between.",
            shown="all there are",
            read=sites_named,
        ),
    ] = None
    progress: Progress | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_site_names(self.sites or ())
        check_progress(self.progress)

    @classmethod
    def value_of(cls, field: OptionField, given: Any) -> Any:
        """The value that a field gets; sentences can be a file of them, with a tab before a translation.

        Raises:
            InputError: what should be sentences is something else.
        """
        if not field.takes_texts or isinstance(given, Real | None):
            return super().value_of(field, given)
        if _names_file(given):
            rows = [tuple(line.split("\t")) for line in read_lines(given) if line.strip()]
            given = [row[0] if len(row) == 1 else row for row in rows]
        return texts_of(given, field.name)

    def check_source(self, source: object) -> None:  # noqa: ARG002 - subclasses ask
        """Raises InputError where an option names a file or a model that is not there."""
        check_named(self)

    def telling(self, what: str) -> Callable[[int, int], None] | None:
        """A function that is told how much of something is done, of how much; None without `progress`."""
        return None if self.progress is None else partial(self.progress, what)

    @property
    def sentences_to_read(self) -> TextsAsked:
        """The sentences, or how many there are to be."""
        return self.default_sentences if self.sentences is None else self.sentences

    @property
    def most_sentences(self) -> int:
        """How many sentences there are to be at most."""
        sentences = self.sentences_to_read
        return sentences if isinstance(sentences, int) else len(sentences)


def _names_file(value: Any) -> bool:
    """Whether a value is a path, or a text that names a file."""
    with suppress(OSError, ValueError):  # no name of a file
        return isinstance(value, Path) or (isinstance(value, str) and Path(value).is_file())
    return False


@dataclass(frozen=True, kw_only=True)
class TextSettings(StudySettings):
    """Options of a study that reads sentences which can be handed in."""

    text: Annotated[
        str | Path | None,
        Option(
            "File with one sentence per line, used instead of the run's own corpus (for an "
            "encoder-decoder: source, tab, translation; for other models a tab stands between the "
            "sentences of a pair).",
            listed="sentences",
            names="texts",
        ),
    ] = None
    batch_size: Annotated[
        int, Option("Maximum number of sentences in one forward pass.", least=1, most=100_000)
    ] = BATCH_SIZE


@dataclass(frozen=True, kw_only=True)
class CorpusTextSettings(TextSettings):
    """Options of a study whose sentences can come from another corpus than the run's own."""

    corpus: Annotated[
        str | None,
        Option(
            "Corpus, by name or path, whose test part is used instead of the run's own.",
            names="corpus",
        ),
    ] = None
    pair: Annotated[
        str | None,
        Option("Source and target language of the corpus.", shown="those of the run, or en-it"),
    ] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.text is not None and self.corpus is not None:
            msg = "text and corpus both bring sentences; leave one of them out."
            raise InputError(msg)


@dataclass(frozen=True, kw_only=True)
class PatternTextSettings(CorpusTextSettings):
    """Options of a study that counts how often heads hit patterns."""

    treebank: Annotated[
        str | Path | None,
        Option(
            "File of sentences with gold trees (.conllu or .conllu.gz), for the patterns pos, dep and coref.",
            names="treebank",
        ),
    ] = None
    memory: Annotated[float | None, MEMORY] = None
    seed: Annotated[int, SEED] = 0


@dataclass(frozen=True)
class RareInTheseTexts(Note):
    """Which tokens are rare is counted in the texts themselves."""

    words = (
        "Which tokens are the rarest is counted in these texts, since the training text is unknown."
    )


@dataclass(frozen=True)
class WordsUnaligned(Note):
    """Texts whose tokens do not match their words, so that patterns of words count nothing in them.

    Attributes:
        texts: how many.
        first: the first of them by its identifier.
        reason: why.
    """

    words = (
        "{texts} of the texts are not aligned with their words, and patterns of words leave them out (the "
        "first: {first}, {reason})."
    )

    texts: int
    first: str
    reason: str


@dataclass(frozen=True)
class LeftOut(Note):
    """A claim or a pattern, of several, that nothing could be counted for.

    Attributes:
        what: as it was given.
        reason: why, as a sentence.
    """

    words = "Left out is {what}: {reason}"

    what: str
    reason: str


def nothing_left(refused: Sequence[tuple[str, InputError]]) -> InputError:
    """The error of a call where nothing can be counted: the reason of one thing, or of each of several."""
    if len(refused) == 1:
        return refused[0][1]
    reasons = " ".join(f"{what}: {error}" for what, error in refused)
    options = [option for _, error in refused for option in error.options]
    return InputError(f"None of the {len(refused)} can be counted. {reasons}", options=options)


@dataclass(frozen=True, kw_only=True)
class CalibratedSettings(TextSettings):
    """Options of a study that chooses on validation sentences what it learned on training sentences."""

    calibration: TextsAsked
    validation: TextsAsked
    calibration_text: Annotated[str | Path | None, CALIBRATION_TEXT] = None
    loss: Annotated[str | None, LOSS_OPTION] = None

    @property
    def learns_apart(self) -> bool:
        """Whether sentences to learn on are given beside those that are held out."""
        return self.calibration_text is not None or not isinstance(self.calibration, int)

    @property
    def purposes(self) -> tuple[str, ...]:
        """Purposes that sentences are split for in turn, where none are given or brought to learn on."""
        chooses = ("for validation",) if isinstance(self.validation, int) else ()
        return ("held out", "for training", *chooses)

    def check_source(self, source: object) -> None:
        """Raises InputError also for too few sentences, where a model brings none to learn on."""
        super().check_source(source)
        from attnlab.models import is_run

        named = isinstance(source, str | Path) and not is_run(source)
        if self.text is not None and named and not self.learns_apart:
            lines = read_lines(self.text)
            self.check_can_be_split({line.split("\t")[0].strip(" ") for line in lines} - {""})

    def check_can_be_split(self, sources: Collection[str]) -> None:
        """Raises InputError for fewer different sentences than purposes."""
        least = len(self.purposes)
        if len(sources) < least:
            msg = (
                f"Sentences are split into {least} parts ({', '.join(self.purposes)}), so at least {least} "
                f"different ones are needed, not {len(sources)}; give more, or a file of training sentences "
                "(calibration_text), or in Python a list (calibration)."
            )
            raise InputError(msg, options=["calibration_text"])


ENOUGH_FOR_MEANS = 30
ENOUGH_FOR_INTERVALS = 100
# Share of sentences that repeat others, from which on intervals are visibly too narrow.
MANY_REPEATED = 0.1
# Share of unknown tokens, from which on a model reads visibly less than the texts.
MANY_UNKNOWN = 0.2


def _only(sentences: int, part: str = "") -> str:
    return f"Only {counted(sentences, f'{part} sentence'.strip())}"


@dataclass(frozen=True)
class FewForMeans(Note):
    """So few sentences that means say little of other sentences."""

    sentences: int

    def __str__(self) -> str:
        return f"{_only(self.sentences)}: means may be far from those of a corpus."


@dataclass(frozen=True)
class FewForIntervals(Note):
    """So few sentences that intervals are wide.

    Attributes:
        sentences: how many.
        part: of which part, where there are several.
    """

    sentences: int
    part: str = ""

    def __str__(self) -> str:
        only = _only(self.sentences, self.part)
        if self.sentences >= FEWEST_FOR_INTERVAL:
            return f"{only}: intervals are wide, and little can be told from chance."
        least = f"there is no 95 % interval of fewer than {FEWEST_FOR_INTERVAL}"
        return f"{only}: {least}, and nothing{' of them' if self.part else ''} can be told from chance."


@dataclass(frozen=True)
class UnreadableTranslations(Note):
    """The run has not been trained to a BLEU at which a translation of it can be read.

    Attributes:
        run: its folder.
        bleu: on validation, of the weights that it has.
        least: from which on translations can be read.
    """

    words = (
        "The validation BLEU of {run} is {bleu:.1f}, and below {least:g} no translation can be read: its "
        "attention will change with more training (attnlab train {run} --resume --epochs N)."
    )

    run: str
    bleu: float
    least: float


@dataclass(frozen=True)
class FewerThanAsked(Note):
    """Fewer sentences than were asked for, where these come from."""

    words = "{asked} sentences were asked for; {origin} has {there}."

    asked: int
    origin: str
    there: int


@dataclass(frozen=True)
class SplitTexts(Note):
    """The sentences that were handed in serve in turn for several purposes.

    Attributes:
        held_out: on how many all figures are.
        training: on how many something is learned.
        validation: on how many something is chosen; None where others were handed in for that.
    """

    held_out: int
    training: int
    validation: int | None

    def __str__(self) -> str:
        counts = {"to learn on": self.training, "to choose on": self.validation}
        parts = [f"{count} {purpose}" for purpose, count in counts.items() if count is not None]
        return (
            f"The sentences are split in turn: {', '.join([f'{self.held_out} held out', *parts])}. Figures "
            "are of those held out; to have more of them, give training sentences apart (--calibration-text)."
        )


@dataclass(frozen=True)
class RepeatedTexts(Note):
    """Sentences that stand among the others once more, which intervals take as independent.

    Attributes:
        repeated: how many have an equal one before them.
        texts: how many there are.
    """

    repeated: int
    texts: int

    def __str__(self) -> str:
        return (
            f"{self.repeated} of {self.texts} sentences "
            f"{'repeats an earlier one' if self.repeated == 1 else 'repeat earlier ones'} (of pairs their "
            "sources): intervals and p-values treat them as independent, and so are too narrow."
        )


@dataclass(frozen=True)
class UnknownTokens(Note):
    """Many tokens of texts stand for what the vocabulary lacks, so that the model cannot tell them apart.

    Attributes:
        shares: of the tokens that are no special ones, by the name of a part, which is empty where there is
            one part alone.
    """

    shares: tuple[tuple[str, float], ...]

    def __str__(self) -> str:
        """Such as `Of the word tokens 85% (held-out), 84% (training) are unknown to the tokenizer: ...`."""
        shares = ", ".join(
            f"{share:.0%} ({part})" if part else f"{share:.0%}" for part, share in self.shares
        )
        return (
            f"Of the word tokens {shares} are unknown to the tokenizer: the model reads all of them as the "
            "same token, so results say little of other texts; give texts in the language and script that it "
            "was trained on."
        )


@dataclass(frozen=True)
class OlderWeights(Note):
    """The run in which a result lies has been trained on since."""

    words = (
        "These results are of an older state of the model in {run}, whose weights have changed since; make "
        "them again with --overwrite."
    )

    run: str


@dataclass(frozen=True)
class OtherLanguages(Note):
    """Sentences of a corpus in other languages than those that the run was trained on."""

    words = "The sentences are of the languages {read}, and the run was trained on {trained}."

    trained: str
    read: str


@dataclass(frozen=True)
class TranslationsUnread(Note):
    """The translations of a corpus are left out: the model has one stack, which reads the sentences."""

    words = (
        "The model reads the source of each pair of the corpus; it has no decoder for translations."
    )


@dataclass(frozen=True)
class TableWiderThanPage(Note):
    """A LaTeX table that runs over the margin.

    Attributes:
        points: its estimated width.
        page_points: the width of the text of an article.
        fitting: names of the first columns that are no wider together.
    """

    points: int
    page_points: int
    fitting: tuple[str, ...]

    def __str__(self) -> str:
        columns = ",".join(self.fitting)
        choice = f", as with --columns {columns}" if columns else " with --columns"
        return (
            f"The table is about {self.points:,} pt wide, and the text of a LaTeX article "
            f"{self.page_points}: choose columns{choice}."
        )


@dataclass(frozen=True)
class EveryRowHits(Note):
    """Shares of exactly 1 whose intervals are wide for want of texts.

    Attributes:
        heads: with what all of their rows do, such as `encoder.0.2: offset -1`.
    """

    heads: tuple[str, ...]

    def __str__(self) -> str:
        first, more = self.heads[0], len(self.heads) - 1
        also = f" (and of {counted(more, 'other')})" if more else ""
        return (
            f"Every row of '{first}'{also} hits. A share of 1 does not show how alike the rows of a text "
            "are, so its interval counts texts in place of rows and is wider than that of a share just "
            "below 1; more texts narrow it."
        )


Result = TypeVar("Result")


class Steps:
    """Counts calls and tells of each, and of their number when the first begins.

    The calls should take about as long as one another: the time that is left is told from the first on.

    Args:
        what: what is being done.
        total: how many calls there will be.
        progress: called with (what, done, total); None to tell nobody.
    """

    def __init__(self, what: str, total: int, progress: Progress | None) -> None:
        self.what = what
        self.total = total
        self.done = 0
        self._progress = progress

    def of(self, work: Callable[[], Result]) -> Callable[[], Result]:
        """`work`, and a step told after each of its calls."""

        def step() -> Result:
            if not self.done:
                self._tell()
            result = work()
            self.done += 1
            self._tell()
            return result

        return step

    def _tell(self) -> None:
        if self._progress is not None:
            self._progress(self.what, self.done, self.total)
