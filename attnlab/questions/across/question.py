"""What `attnlab across` can be told, and what its columns mean; nothing heavy is imported."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

from attnlab.core import (
    HEAD,
    HEAD_KEYS,
    LOSS_CHANGE,
    SHARED_COLUMNS,
    InputError,
    Note,
    Option,
    Table,
    read_columns,
)
from attnlab.evaluation import HELD_OUT, PatternTextSettings, TextsAsked
from attnlab.labels import DETAIL, MASS, SIGNIFICANT, STRENGTH, VALUE, Pattern, pattern_of
from attnlab.questions.across import LISTED
from attnlab.results import Question

COLUMNS = read_columns(__file__)

NUMBER, ATTENTION = MATCHES = ("number", "attention")
_HEAD_OF_MODEL = (*COLUMNS.of("model training_step"), *HEAD)
_ROLE = (SHARED_COLUMNS["role"], DETAIL, VALUE.column, STRENGTH, SIGNIFICANT)
_DEGREES = (COLUMNS["what"], DETAIL, *COLUMNS.of("degree shuffled_degree"), VALUE.column, MASS)
_CHANGES = COLUMNS.of("counterpart what degree other_degree degree_change seed_change beyond_seeds")
_STEPS = COLUMNS.of("what first_degree last_degree untrained_low untrained_high half_step")
ACROSS = Table(
    "across.csv",
    "model and head",
    (*_HEAD_OF_MODEL, *_ROLE, *LOSS_CHANGE),
    keys=("model", *HEAD_KEYS),
    heading="Heads of each model",
)
DEGREES = Table(
    "degrees.csv",
    "model, head, and label or pattern",
    (*_HEAD_OF_MODEL, *_DEGREES),
    keys=("model", *HEAD_KEYS, "what"),
)
MATCHING = Table(
    "matching.csv",
    "head of a model that is not the first",
    (*_HEAD_OF_MODEL, *COLUMNS.of("matched matched_distance number_distance moved")),
    keys=("model", *HEAD_KEYS),
    heading="Which head is which",
)
DIFFERENCES = Table(
    "differences.csv",
    "model, head of the first model, and label or pattern",
    (COLUMNS["model"], *HEAD, *_CHANGES),
    keys=("model", *HEAD_KEYS, "what"),
    heading="Differences from the first model",
)
FORMATION = Table(
    "formation.csv",
    "site, and label or pattern",
    (SHARED_COLUMNS["site"], *_STEPS),
    keys=("site", "what"),
    heading="When labels form",
)


@dataclass(frozen=True)
class NoSeeds(Note):
    """There are no models of other seeds."""

    words = (
        "Nothing says how large differences are by chance: give models of the first one's training with "
        "other seeds (--seeds)."
    )


@dataclass(frozen=True)
class DamagedCheckpoint(Note):
    """A checkpoint that cannot be read, and is left out.

    Attributes:
        step: its step.
        reason: why.
    """

    words = "The checkpoint of step {step} is damaged ({reason}) and left out."

    step: int
    reason: str


@dataclass(frozen=True)
class ComparedByWords(Note):
    """A model whose tokens are others than those of the first, so that words are compared.

    Attributes:
        model: its name.
    """

    words = (
        "The tokens of {model} are others than those of the first model: heads are matched by attention "
        "between words, without special tokens."
    )

    model: str


@dataclass(frozen=True)
class OtherShape(Note):
    """A model with other layers or heads than the first at a site, or without the site.

    Attributes:
        model: its name.
        site: the site.
        shared: whether both have it.
    """

    model: str
    site: str
    shared: bool

    def __str__(self) -> str:
        difference = (
            "other layers or heads than that of the first model, so heads are matched over all layers"
            if self.shared
            else "no counterpart, so its heads are not matched"
        )
        return f"The site {self.site} of {self.model} has {difference}."


@dataclass(frozen=True, kw_only=True)
class AcrossSettings(PatternTextSettings):
    """What `attnlab across` can be told.

    Raises:
        InputError: there is one model and no checkpoints are asked for, or a pattern cannot be read.
    """

    others: Annotated[
        Sequence[str | Path | Any],
        Option(
            "Further models, such as another run or name@revision; each is compared with the first.",
            argument=True,
            names="model",
        ),
    ] = field(kw_only=False, default=())
    checkpoints: Annotated[
        bool,
        Option(
            "Read the checkpoints that the run keeps (attnlab train --keep-checkpoints), each compared with "
            "the last.",
            ("--checkpoints",),
        ),
    ] = False
    seeds: Annotated[
        Sequence[str | Path | Any],
        Option(
            "Model of the first one's training with another seed, to tell differences from chance. Repeat "
            "for several.",
            names="model",
        ),
    ] = ()
    patterns: Annotated[
        Sequence[str | Callable[..., Any]],
        Option(
            "Pattern to score heads by, as of attnlab claim, such as 'offset -1'. Repeat for several.",
            ("--pattern",),
        ),
    ] = ()
    match: Annotated[
        str,
        Option(
            "How heads are matched: by their number, or by attention, the mean distance of their rows.",
            choices=MATCHES,
        ),
    ] = ATTENTION
    ablation: Annotated[
        bool,
        Option(
            "Measure the loss without each head too, which takes a pass over the sentences per head.",
            ("--ablation",),
        ),
    ] = False
    sentences: Annotated[TextsAsked, HELD_OUT] = 200
    treebank: Annotated[
        str | Path | None,
        Option(
            "File of sentences with gold trees (.conllu or .conllu.gz), for syntactic labels, and for the "
            "patterns pos, dep and coref.",
            names="treebank",
        ),
    ] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.checkpoints and (self.others or self.seeds):
            msg = "checkpoints are those of one run; leave the other models and seeds out."
            raise InputError(msg)
        _ = self.parsed

    @cached_property
    def parsed(self) -> tuple[Pattern, ...]:
        """The patterns, each once."""
        return tuple(dict.fromkeys(map(pattern_of, self.patterns)))

    def check_source(self, source: object) -> None:
        """Raises InputError where no other model is named, or one that is not there."""
        super().check_source(source)
        if not (self.others or self.seeds or self.checkpoints):
            first = source if isinstance(source, str | Path) else "the first one"
            msg = (
                f"There is no model to compare {first} with; name others behind it, or ask for those that a "
                "run keeps of its training (checkpoints)."
            )
            raise InputError(msg, options=["checkpoints"])


QUESTION = Question(
    **vars(LISTED),
    what="heads across models",
    settings=AcrossSettings,
    tables=(ACROSS, DEGREES, MATCHING, DIFFERENCES, FORMATION),
    run="attnlab.questions.across.comparing:across",
    figures=("degrees",),
    shows=("model", "head", "role", DETAIL.name, STRENGTH.name, LOSS_CHANGE.name),
    leading=STRENGTH.name,
    printed=3,
)
