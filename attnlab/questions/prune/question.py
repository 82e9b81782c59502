"""What `attnlab prune` can be told, and what its columns mean; nothing heavy is imported."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar

from attnlab.budget import STEPS as STEPS_OF_TRAINING
from attnlab.core import (
    BLEU_CHANGE,
    HEAD_KEYS,
    LOSS_CHANGE,
    SITES,
    Column,
    InputError,
    Note,
    Option,
    Table,
    read_columns,
)
from attnlab.evaluation import (
    SEED,
    SENTENCE_FLAGS,
    CalibratedSettings,
    TextsAsked,
)
from attnlab.questions.prune import LISTED
from attnlab.results import Question

COLUMNS = read_columns(__file__)

# Nats per token for an open head: from nearly all heads left to nearly none.
PENALTIES = (0.01, 0.03, 0.1, 0.3, 1.0)
STEPS = 300
BLEU_TESTED = replace(BLEU_CHANGE, tested=True)
CURVE = Table(
    "curve.csv",
    "model and part of the corpus",
    (
        *COLUMNS.of("kind penalty split head_count heads_left"),
        *(
            Column(
                f"{site}_left",
                f"{site} left",
                f"Open heads of the site {site}.",
                short=f"{site}\nleft",
            )
            for site in SITES
        ),
        COLUMNS["loss"],
        *LOSS_CHANGE,
        COLUMNS["bleu"],
        *BLEU_TESTED,
        *COLUMNS.of("sentences unsettled"),
        STEPS_OF_TRAINING,
        COLUMNS["seed"],
    ),
    heading="Heads left and scores",
)
GATES = Table(
    "gates.csv",
    "penalty and head",
    COLUMNS.of("penalty site layer head p_zero p_one open"),
    keys=("penalty", *HEAD_KEYS),
    heading="The gate of every head",
)
TRAINING = Table(
    "training.csv",
    "penalty and step",
    COLUMNS.of("penalty step batch_loss expected_open"),
    keys=("penalty", "step"),
    heading="Training of the gates",
)


@dataclass(frozen=True)
class GatesNotSettled(Note):
    """Gates, out of all heads', that end neither 0 nor 1 with at least this probability."""

    words = (
        "At penalty {penalty:g}, {count} of {heads} gates have not settled (neither 0 nor 1 with "
        "probability {probability}); train longer with --steps."
    )

    penalty: float
    count: int
    heads: int
    probability: float


@dataclass(frozen=True)
class AllHeadsClosed(Note):
    """A penalty that left none of the heads."""

    penalty: float
    heads: int

    def __str__(self) -> str:
        heads = "the only head is" if self.heads == 1 else f"all {self.heads} heads are"
        return f"At penalty {self.penalty:g} {heads} closed; try a smaller one."


@dataclass(frozen=True)
class NoHeadClosed(Note):
    """A penalty that closed no head."""

    words = "At penalty {penalty:g} no head is closed; try a larger one."

    penalty: float


@dataclass(frozen=True)
class NoRandomHeads(Note):
    """A penalty beside which no random heads stand, since they are the ones that it closed."""

    words = (
        "At penalty {penalty:g} no random heads stand beside the gates: as many of each site, drawn at "
        "random, are the same heads, as where a site loses all of its heads or none."
    )

    penalty: float


@dataclass(frozen=True, kw_only=True)
class PruningSettings(CalibratedSettings):
    """What `attnlab prune` can be told.

    Raises:
        InputError: a value out of range, penalties that files cannot tell apart, or two lengths.
    """

    penalties: Annotated[
        Sequence[float],
        Option(
            "Price of an open head, in nats per token; may be given again.",
            ("--penalty",),
            least=0,
        ),
    ] = field(default=PENALTIES, kw_only=False)
    default_sentences: ClassVar[int] = 1000
    sentences: Annotated[
        TextsAsked | None,
        Option(
            "Maximum number of sentences to measure on; of a run of validation and of test each.",
            SENTENCE_FLAGS,
            least=1,
            shown=str(default_sentences),
        ),
    ] = None
    validation: Annotated[
        TextsAsked,
        Option("Maximum number of validation sentences of a model that is no run.", least=1),
    ] = 1000
    calibration: Annotated[
        TextsAsked,
        Option("Maximum number of training sentences of a model that is no run.", least=1),
    ] = 10_000
    steps: Annotated[
        int | None,
        Option("Number of training batches at each penalty.", above=0, shown=str(STEPS)),
    ] = None
    epochs: Annotated[
        float | None, Option("Number of passes over the training pairs, instead of steps.", above=0)
    ] = None
    train_model: Annotated[
        bool,
        Option(
            "Train the model along with the gates, or (--frozen) the gates alone.",
            ("--train-model/--frozen",),
        ),
    ] = True
    random: Annotated[
        bool,
        Option(
            "Close as many random heads too, for comparison; doubles the time.",
            ("--random/--no-random",),
        ),
    ] = True
    quick: Annotated[bool, Option("Do not translate.", ("--quick",))] = False
    batch_tokens: Annotated[
        int | None,
        Option(
            "Number of tokens per batch and side; for runs of attnlab train alone.",
            above=0,
            shown="as the run was trained",
        ),
    ] = None
    seed: Annotated[int, SEED] = 0
    keep_models: Annotated[
        bool,
        Option(
            "Write every pruned model as a run, to OUT/models/penalty_X; for runs of attnlab train alone.",
            ("--save",),
        ),
    ] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.penalties:
            msg = "There is no penalty; give at least one, such as 0.03."
            raise InputError(msg)
        if len({f"{penalty:g}" for penalty in self.penalties}) < len(set(self.penalties)):
            msg = (
                f"Of the penalties {', '.join(map(str, self.penalties))} two are the same in six "
                "digits, and files name them so; leave one out."
            )
            raise InputError(msg)
        if self.steps is not None and self.epochs is not None:
            msg = "Give either steps or epochs, not both."
            raise InputError(msg)

    def steps_of(self, steps_in_epoch: int) -> int:
        """How many batches of training each penalty has."""
        if self.epochs is not None:
            return max(1, round(self.epochs * steps_in_epoch))
        return self.steps or STEPS


QUESTION = Question(
    **vars(LISTED),
    what="pruning",
    settings=PruningSettings,
    tables=(CURVE, GATES, TRAINING),
    run="attnlab.questions.prune.pruning:prune",
    layout="attnlab.questions.prune.pruned_runs:PruningFiles",
    figures=("curve",),
    shows=(
        "kind",
        "penalty",
        "heads_left",
        *(f"{site}_left" for site in SITES),
        LOSS_CHANGE.name,
        BLEU_CHANGE.name,
    ),
    leading=BLEU_CHANGE.name,
    folder="pruning",
    announced=True,
)
