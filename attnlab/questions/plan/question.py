"""What `attnlab plan` can be told, and what its columns mean; nothing heavy is imported."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated

from attnlab.core import (
    BATCH_SIZE,
    HEAD,
    HEAD_KEYS,
    Column,
    Estimate,
    InputError,
    Note,
    Option,
    Table,
)
from attnlab.evaluation import SEED, SENTENCE_FLAGS, StudySettings, words_in
from attnlab.results import Question

SEARCHED, FULL = "searched", "full"
# One setting for all heads of a site, beside the searched plan.
BASELINES = ("band", "longformer", "bigbird")
# The family of heads that see no key.
NOTHING = "none"
# What a head may get; `full` alone grows with the sentence, so it has to be asked for.
FAMILIES = (NOTHING, "band", "offsets", "ends", "tokens", "blocks", "static", "full")
DEFAULT_FAMILIES = FAMILIES[:-1]

BUDGET = Column("budget", "budget", "Keys per row that a plan may use, on average over all heads.")
KEYS = Column(
    "keys_per_row",
    "keys per row",
    "Attended keys per query on the test sentences, counted: fewer at the ends of a sentence, all in rows "
    "of global tokens.",
    2,
    short="keys",
)
ERROR = Estimate(
    Column(
        "error",
        "error",
        "|X - H| / |H| in l1 on the test sentences, H full attention and X the mechanism's matrix: 0 is "
        "exact, 2 the most. A row without visible keys gets the largest error, 2, as keys without "
        "attention do, so that leaving a head out is no better than keys of little weight.",
        3,
    )
)
_CHANGED = "Change against the run as it is."
LOSS_CHANGE = Estimate(Column("loss_change", "change of loss", _CHANGED, 3))
BLEU_CHANGE = Estimate(Column("bleu_change", "change of BLEU", _CHANGED, 1))


def _gain(name: str, measure: str, meaning: str, digits: int) -> Estimate:
    heading, short = (f"{measure} gain of{space}searched over this" for space in " \n")
    said = f"{meaning}; above 0 the searched is better."
    return Estimate(Column(name, heading, said, digits, short))


LOSS_GAIN = _gain("loss_gain", "loss", "Loss of this plan less that of the searched one", 3)
BLEU_GAIN = _gain("bleu_gain", "BLEU", "BLEU of the searched plan less that of this one", 1)

SCORES = Table(
    "scores.csv",
    "budget and plan, on the test sentences",
    (
        BUDGET,
        Column(
            "plan",
            "plan",
            "`searched`, one mechanism for each head; `band`, `longformer`, `bigbird`, one setting for "
            "all heads of a site, the best on validation under the same total budget; `full`, the run.",
        ),
        Column(
            "level",
            "level",
            "`calibrated`: settings chosen on validation sentences, and for `searched` keys and fixed "
            "weights learned on training sentences.",
        ),
        Column("written", "written", "Mechanisms by site; of `searched` the heads of each family."),
        KEYS,
        *ERROR,
        Column(
            "error_bound",
            "error bound (validation)",
            "On validation sentences no choice of the same candidates within the budget has a smaller error.",
            3,
        ),
        Column("loss", "loss (nats)", "Per target token, without label smoothing.", 3, "loss"),
        *LOSS_CHANGE,
        *LOSS_GAIN,
        Column("bleu", "BLEU", "Greedy.", 1),
        *BLEU_CHANGE,
        Column(
            "length_ratio",
            "length ratio",
            "Length of the translations divided by that of the references, in words: above 1 where a "
            "model repeats itself, which costs BLEU.",
            3,
        ),
        *BLEU_GAIN,
        Column("sentences", "sentences", "Number of test sentences."),
        Column("validation_sentences", "validation sentences", "How many the choice is made on."),
        Column("calibration_sentences", "calibration sentences", "How many candidates learn on."),
        Column("seed", "seed", "Seed of the bootstrap."),
    ),
    keys=("budget", "plan"),
)
MECHANISMS = Table(
    "mechanisms.csv",
    "budget and head of the searched plan",
    (
        BUDGET,
        *HEAD,
        Column(
            "family",
            "family",
            "`none`, `band`, `offsets`, `ends` (offsets with the first or last keys), `tokens` (columns of "
            "token ids), `blocks` (such columns within reach: Sigma3), `static` (weights by offset) or "
            "`full`.",
        ),
        Column("mechanism", "mechanism", "As `--attention` takes it."),
        Column(
            "level", "level", "`calibrated`: keys of training sentences; `static`: weights too."
        ),
        Column(
            "validation_error",
            "validation error",
            "The same as `error` on the validation sentences, on which the mechanism was chosen.",
            3,
        ),
        Column("validation_keys", "validation keys", "Keys per row there, which are limited.", 2),
        ERROR.column,
        KEYS,
        Column(
            "oracle_error",
            "oracle error",
            "Error of the best rows of probabilities with as many keys each, chosen from the test "
            "matrices themselves: a bound and no method.",
            3,
        ),
        Column("lower_bound", "lower bound", "No matrix with as many entries is nearer.", 3),
    ),
    keys=("budget", *HEAD_KEYS),
)


@dataclass(frozen=True)
class BudgetNearLength(Note):
    """A budget that saves little, since rows of full attention see few keys more."""

    budget: int
    keys: float
    share: float


@dataclass(frozen=True)
class NoSettingFits(Note):
    """A baseline that is lacking, since all its settings see more keys than the budget."""

    mechanism: str
    budget: int


@dataclass(frozen=True)
class BandInstead(Note):
    """A site where a baseline has a band, since its mechanism has no form there."""

    mechanism: str
    at: str


@dataclass(frozen=True, kw_only=True)
class PlanSettings(StudySettings):
    """What `attnlab plan` can be told.

    Raises:
        InputError: a value out of range, or no budget or family.
    """

    budgets: Annotated[
        Sequence[int],
        Option(
            "Number of keys per row, on average over all heads; may be given again.",
            ("--budget",),
            least=1,
        ),
    ] = field(kw_only=False)
    sentences: Annotated[
        int, Option("Maximum number of test sentences.", SENTENCE_FLAGS, least=1)
    ] = 500
    validation: Annotated[
        int,
        Option("Maximum number of validation sentences, which choose the mechanisms.", least=1),
    ] = 300
    calibration: Annotated[
        int,
        Option("Maximum number of training sentences, which candidates are learned on.", least=1),
    ] = 500
    families: Annotated[
        Sequence[str],
        Option(
            f"What a head may get: any of {', '.join(FAMILIES)}; commas between.",
            choices=FAMILIES,
            shown="all but full",
            read=words_in,
        ),
    ] = DEFAULT_FAMILIES
    bleu: Annotated[
        bool,
        Option(
            "Translate the test sentences with every plan, which takes most of the time.",
            ("--bleu/--no-bleu",),
        ),
    ] = True
    batch_size: Annotated[
        int, Option("Maximum number of sentences in one forward pass.", least=1, most=100_000)
    ] = BATCH_SIZE
    seed: Annotated[int, SEED] = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.budgets:
            msg = "There is no budget; give at least one, such as 9."
            raise InputError(msg)
        if not self.families:
            msg = f"There is no family of mechanisms; choose from: {', '.join(FAMILIES)}."
            raise InputError(msg)


QUESTION = Question(
    name="plan",
    what="plan search",
    panel="What could replace them",
    help="Search which mechanism each head should have under one budget of keys for all heads.\n\n"
    "Candidates are learned on training sentences, chosen on validation sentences, and reported on test "
    "sentences beside one band, Longformer and BigBird for all heads. With --out each budget's plan is "
    "written too, as OUT/plan_BUDGET.json, ready for `train --attention`.",
    settings=PlanSettings,
    tables=(SCORES, MECHANISMS),
    run="attnlab.questions.plan.planning:plan",
    layout="attnlab.questions.plan.plan_files:PlanFiles",
    figures=("plan",),
    notes={
        BudgetNearLength: "A budget of {budget} keys is {share:.0%} of the {keys:.1f} that a row of "
        "full attention has on the validation sentences: it saves little.",
        NoSettingFits: "No setting of the baseline {mechanism} fits a budget of {budget} keys.",
        BandInstead: "The baseline {mechanism} is not applicable at the site {at}; a band "
        "replaces it there.",
    },
    source="A run of `attnlab train`; it is not changed.",
    only_runs=True,
    announced=True,
    printed=2,
)
