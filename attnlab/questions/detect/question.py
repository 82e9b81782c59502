"""What `attnlab detect` can be told, and what its columns mean; nothing heavy is imported."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any

from attnlab.core import (
    HEAD,
    HEAD_COUNT,
    HEAD_KEYS,
    SENTENCE_COUNT,
    Column,
    Estimate,
    InputError,
    Note,
    Option,
    Table,
    briefly,
    option_fields,
    read_columns,
)
from attnlab.evaluation import SENTENCE_FLAGS, PatternTextSettings, TextsAsked, nothing_left
from attnlab.labels import (
    BAR,
    CONTROLS_OF_HIT,
    HIT,
    MASS,
    PATTERN,
    ROWS_COUNTED,
    TRANSFORMER_LENS,
    Pattern,
    check_distinct,
    pattern_of,
)
from attnlab.questions.detect import LISTED
from attnlab.results import Question

COLUMNS = read_columns(__file__)

# Xiao et al. 2024 (DuoAttention) train gates with so many keys beside full attention.
FIRST, RECENT = 128, 256
# Together they may be this share of a text.
MOST_OF_TEXT = 0.25
FEWEST_TYPES, FEWEST_CONTEXT, FEWEST_COUNTED = 8, 16, 20


@dataclass(frozen=True)
class Detector:
    """A score of heads from 0 to 1.

    Attributes:
        estimate: its figure with its interval.
        shuffled: what the control of another order or pairing is; empty where there is none.
    """

    estimate: Estimate
    shuffled: str = ""

    @property
    def name(self) -> str:
        """The name of its column."""
        return self.estimate.name

    @property
    def control(self) -> str:
        """The column of the shuffled control."""
        return f"{self.name}_shuffled"

    @property
    def untrained(self) -> str:
        """The column of the untrained model."""
        return f"{self.name}_untrained"

    @property
    def above(self) -> str:
        """The column that says whether a head is above its controls."""
        return f"{self.name}_above_controls"

    def __iter__(self) -> Iterator[Column]:
        """The columns, in their order."""
        heading = self.estimate.column.heading
        yield from self.estimate
        if self.shuffled:
            yield Column(self.control, f"{heading}, shuffled", self.shuffled, 2)
        yield Column(
            self.untrained,
            f"{heading}, untrained",
            "The same of this head in a model with weights drawn anew, whatever that emits.",
            2,
        )
        yield Column(
            self.above,
            f"{heading}, above controls",
            "Whether the whole interval is above that of the shuffled control and above every head of the "
            f"untrained model at this site, and {FEWEST_COUNTED} rows or more were counted; not corrected "
            "for the number of heads.",
        )


def _detector(column: Column, shuffled: str = "", interval: str = "over sequences") -> Detector:
    return Detector(Estimate(column, interval), shuffled)


_ON_RANDOM = "in the second copy of random tokens that are read twice"
_OTHER_ORDER = "The same where the second copy has the tokens in another order."
PREVIOUS = _detector(
    Column(
        "previous_token",
        "previous token",
        f"Mean weight on the token before: {_ON_RANDOM}.",
        2,
        "previous\ntoken",
    )
)
DUPLICATE = _detector(
    Column(
        "duplicate_token",
        "duplicate token",
        f"Mean weight on the same token before: on that in the first copy, {_ON_RANDOM}.",
        2,
        "duplicate\ntoken",
    ),
    _OTHER_ORDER,
)
INDUCTION = _detector(
    Column(
        "induction",
        "induction",
        f"Mean weight on what stood behind the same token before: in the first copy, {_ON_RANDOM}.",
        2,
    ),
    _OTHER_ORDER,
)
OUTSIDE = _detector(COLUMNS["outside_window"])
NEEDLE = _detector(COLUMNS["needle"])
COPY = _detector(
    COLUMNS["copy"],
    "The same rows and positions with the source of another pair.",
    "over sentences",
)
GATE = COLUMNS["learned_gate"]
GATE_UNTRAINED = Column(
    f"{GATE.name}_untrained",
    "learned gate, untrained",
    "The gate of this head in a model with weights drawn anew, learned in the same way to keep that model's "
    "states.",
    2,
)
DETECTORS = (PREVIOUS, DUPLICATE, INDUCTION, OUTSIDE, NEEDLE, COPY)
TABLE = Table(
    "detectors.csv",
    "head",
    (*HEAD, *(column for one in DETECTORS for column in one), GATE, GATE_UNTRAINED),
    keys=HEAD_KEYS,
    heading="Every head",
)
_SPEARMAN = COLUMNS["spearman"]
AGREEMENT_OF = Estimate(
    _SPEARMAN,
    "a bootstrap over heads (none of few), as if these were independent, which those of one model are not",
)
ABOVE_BAR = COLUMNS["hit_above_bar"]
PATTERNS = Table(
    "patterns.csv",
    "head and pattern",
    (
        *HEAD,
        PATTERN,
        *HIT,
        MASS,
        TRANSFORMER_LENS,
        *ROWS_COUNTED,
        SENTENCE_COUNT,
        BAR,
        ABOVE_BAR,
        *CONTROLS_OF_HIT,
    ),
    keys=(*HEAD_KEYS, PATTERN.name),
    heading="Every head and pattern",
)
AGREEMENT = Table(
    "agreement.csv",
    "site and pair of detectors",
    (*COLUMNS.of("site measure other"), *AGREEMENT_OF, HEAD_COUNT),
    keys=("site", "measure", "other"),
    heading="Do detectors agree?",
)


@dataclass(frozen=True)
class Shortened(Note):
    """A smaller number than a setting asks for.

    Attributes:
        what: the name of the setting.
        asked: what it says.
        used: what was done.
        context: tokens of the texts that it is in proportion to; None: there was no more room.
    """

    what: str
    asked: int
    used: int
    context: int | None = None

    @property
    def reason(self) -> str:
        """The reason in words."""
        if self.context is None:
            return "the model has no more positions or ordinary tokens"
        return f"in proportion to texts of {self.context} tokens"

    def __str__(self) -> str:
        return f"{_SHORTENED[self.what]} are {self.used} and not {self.asked} ({self.what}): {self.reason}."


@dataclass(frozen=True)
class FewEmitted(Note):
    """So little of the needles is emitted that scores say little."""

    words = (
        "The model emits {emitted} of {total} tokens of the needles, and retrieval is scored on these "
        "alone; it says little of a model that does not retrieve."
    )

    emitted: int
    total: int


@dataclass(frozen=True)
class FewCopied(Note):
    """So few tokens are copied by the translations that no head can be told from its controls."""

    words = (
        "Only {tokens} tokens of names and numbers are taken over unchanged; no copy head is told from its "
        "controls."
    )

    tokens: int


@dataclass(frozen=True)
class NoPairs(Note):
    """An encoder-decoder without sentence pairs: copy heads are left out."""

    words = "Copy heads are left out, since they need sentence pairs (text or corpus)."


@dataclass(frozen=True, kw_only=True)
class DetectSettings(PatternTextSettings):
    """What `attnlab detect` can be told.

    Raises:
        InputError: no pattern can be read, or an option has no use with patterns or without.
    """

    patterns: Annotated[
        Sequence[str | Callable[..., Any]],
        Option(
            "Pattern of keys, as of attnlab claim, that heads are scored against on sentences, in place of "
            "detectors. Repeat for several; in Python also functions.",
            ("--pattern",),
        ),
    ] = ()
    sentences: Annotated[
        TextsAsked,
        Option(
            "Maximum number of held-out sentences: those that patterns are counted in, and pairs in which "
            "copied words are looked for.",
            SENTENCE_FLAGS,
            least=1,
        ),
    ] = 500
    sequences: Annotated[
        int, Option("Number of random sequences, and of texts with a needle.", least=2)
    ] = 50
    tokens: Annotated[
        int, Option("Number of random tokens that are read twice.", least=FEWEST_TYPES)
    ] = 50
    context: Annotated[
        int, Option("Number of tokens of a text with a needle.", least=FEWEST_CONTEXT)
    ] = 256
    first: Annotated[int, Option("Number of first keys that a streaming head keeps.", least=1)] = (
        FIRST
    )
    recent: Annotated[
        int,
        Option(
            "Number of recent keys that a streaming head keeps. Of short texts, first and recent keys are "
            "shrunk together to a quarter.",
            least=1,
        ),
    ] = RECENT
    gate_steps: Annotated[
        int,
        Option(
            "Number of steps of learning a gate for each head of a decoder, which takes gradients; 0 learns "
            "none.",
            least=0,
        ),
    ] = 0
    gate_penalty: Annotated[
        float, Option("Price of an open gate; the larger, the more of them close.", least=0)
    ] = 0.05
    controls: Annotated[
        bool,
        Option(
            "Compare with an untrained model of the same size and with shuffled sequences.",
            ("--controls/--no-controls",),
        ),
    ] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        patterns, refused = self.read
        check_distinct(patterns)
        if refused and not patterns:
            raise nothing_left(refused)
        if self.treebank is not None and not patterns:
            msg = "treebank is for patterns of keys; give a pattern (patterns), or leave treebank out."
            raise InputError(msg, options=["treebank", "patterns"])
        for field in option_fields(type(self)):
            if (
                patterns
                and field.name in _OF_DETECTORS
                and field.is_given(getattr(self, field.name))
            ):
                msg = f"{field.name} is for detectors, and patterns take their place; leave it out."
                raise InputError(msg, options=[field.name])

    @cached_property
    def read(self) -> tuple[tuple[Pattern, ...], tuple[tuple[str, InputError], ...]]:
        """The patterns, each once; and those that cannot be read, with the reason."""
        patterns, refused = dict[Pattern, None](), list[tuple[str, InputError]]()
        for given in self.patterns:
            try:
                patterns.setdefault(pattern_of(given))
            except InputError as error:
                refused.append((briefly(given), error))
        return tuple(patterns), tuple(refused)


# Options that texts are generated by.
_OF_DETECTORS = {
    "sequences", "tokens", "context", "first", "recent", "gate_steps", "gate_penalty",
}  # fmt: skip


# What a setting counts, as a note says it.
_SHORTENED = {
    "tokens": "Random tokens that are read twice",
    "context": "Tokens of a text with a needle",
    "first": "First keys that a streaming head keeps",
    "recent": "Recent keys that a streaming head keeps",
}


QUESTION = Question(
    **vars(LISTED),
    what="detection",
    settings=DetectSettings,
    tables=(TABLE, AGREEMENT, PATTERNS),
    run="attnlab.questions.detect.detecting:detect",
    figures=("detectors", "patterns"),
    printed=3,
    shows=("head", *(one.name for one in DETECTORS), GATE.name, PATTERN.name, HIT.name, MASS.name,
           TRANSFORMER_LENS.name, "chance_hit", "offset_hit", "untrained_most"),
    leading=INDUCTION.name,
)  # fmt: skip
