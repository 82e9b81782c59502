"""What `attnlab plan` can be told, and what its columns mean; nothing heavy is imported."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

from attnlab.budget import (
    BUDGET,
    COMPARED,
    FIRST_COLUMNS,
    L1_ERROR,
    LEVEL,
    MECHANISM,
    VISIBLE_KEYS,
)
from attnlab.core import HEAD_KEYS, LOSS_CHANGE, InputError, Note, Option, Table, read_columns
from attnlab.evaluation import HELD_OUT, BudgetSettings, TextsAsked, words_in
from attnlab.questions.plan import LISTED
from attnlab.results import Question

COLUMNS = read_columns(__file__)

SEARCHED = "searched"
# One setting for all heads of a site, beside the searched plan.
BASELINES = ("band", "longformer", "bigbird")
# The family of heads that see no key.
NOTHING = "none"
# What a head may get; `full` alone grows with the sentence, so it has to be asked for.
FAMILIES = (NOTHING, "band", "offsets", "ends", "tokens", "blocks", "static", "full")
DEFAULT_FAMILIES = FAMILIES[:-1]
# What a mechanism at a head is chosen by, least first.
CRITERIA = {
    "loss": "change of the loss with the candidate alone in its heads",
    "divergence": "Kullback-Leibler divergence of the scores of tokens from those of the untouched model, "
    "with the candidate alone in its heads",
    "gradient": "|gradient of the loss times change of the heads' outputs|, summed over a sentence",
    "output": "relative error of the heads' outputs",
    "norm": "l1 error with every weight times the norm of its value",
    "mass": "share of full attention on pairs that the candidate does not count",
    "l1": "l1 error of the matrix",
}
# What is measured at the output of the model, not at the head.
OF_OUTPUT = ("loss", "divergence")
HEAD_ALONE, KEY_VALUE_HEAD, LAYER, LAYER_TYPES = GRANULARITIES = (
    "head", "key-value-head", "layer", "layer-types",
)  # fmt: skip
# What a layer may get where its type is searched.
OF_LAYER_TYPES = ("band", "full")

EMPTY = COLUMNS["empty_fraction"]
MECHANISMS = Table(
    "mechanisms.csv",
    "budget and head of the searched plan",
    (
        BUDGET,
        *COLUMNS.of("site layer head mechanism_family"),
        MECHANISM,
        LEVEL,
        *COLUMNS.of("validation_error validation_keys criterion"),
        L1_ERROR.column,
        VISIBLE_KEYS,
        EMPTY,
        *COLUMNS.of("oracle_error lower_bound"),
    ),
    keys=("budget", *HEAD_KEYS),
    heading="What each head gets",
)


@dataclass(frozen=True)
class BudgetNearLength(Note):
    """A budget that saves little, since rows of full attention see few keys more."""

    budget: int
    keys: float
    share: float

    def __str__(self) -> str:
        return (
            f"A budget of {self.budget} keys is {self.share:.0%} of the {self.keys:.1f} that a row of full "
            "attention has on the validation sentences: it saves "
            f"{'little' if self.share < 1 else 'nothing'}."
        )


@dataclass(frozen=True)
class NoSettingFits(Note):
    """A baseline that is lacking, since all its settings see more keys than the budget."""

    words = "No setting of the baseline {mechanism} fits a budget of {budget} keys."

    mechanism: str
    budget: int


@dataclass(frozen=True)
class NotApplicable(Note):
    """A baseline that is lacking, since its mechanism has no form at any site."""

    words = "The baseline {mechanism} is left out, since it is not applicable at any site."

    mechanism: str


@dataclass(frozen=True)
class BandInstead(Note):
    """A site where a baseline has a band, since its mechanism has no form there but at other sites."""

    words = "The baseline {mechanism} is not applicable at the site {at}; a band replaces it there."

    mechanism: str
    at: str


@dataclass(frozen=True, kw_only=True)
class PlanSettings(BudgetSettings):
    """What `attnlab plan` can be told.

    Raises:
        InputError: a value out of range, or no budget or family.
    """

    criterion: Annotated[
        str,
        Option(
            f"What mechanisms are chosen by on validation sentences: any of {', '.join(CRITERIA)}.",
            choices=tuple(CRITERIA),
        ),
    ] = "loss"
    rounds: Annotated[
        int,
        Option(
            "How often the candidates are tried again with the other heads as the plan has them; the plan "
            "that costs least is kept. For the criteria loss and divergence; each takes longer.",
            least=0,
            most=100,
        ),
    ] = 0
    granularity: Annotated[
        str,
        Option(
            "Which heads share a mechanism: head (each has its own), key-value-head (those of one share), "
            "layer (those of one share), or layer-types (each layer is full or has the one sliding window of "
            "all, as `attnlab export` writes it into a configuration that knows windows).",
            choices=GRANULARITIES,
        ),
    ] = HEAD_ALONE
    families: Annotated[
        Sequence[str],
        Option(
            f"What a head may get: any of {', '.join(FAMILIES)}, or a mechanism that says its setting for a "
            "budget (Mechanism.at_budget); commas between.",
            shown="all but full",
            read=words_in,
        ),
    ] = DEFAULT_FAMILIES
    default_sentences: ClassVar[int] = 500
    sentences: Annotated[TextsAsked | None, replace(HELD_OUT, shown=str(default_sentences))] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rounds and self.criterion not in OF_OUTPUT:
            msg = (
                f"rounds are for the criteria {' and '.join(OF_OUTPUT)}, not for {self.criterion}, which "
                "does not depend on other heads."
            )
            raise InputError(msg)
        if not self.families:
            msg = f"There is no family of mechanisms; choose from: {', '.join(FAMILIES)}."
            raise InputError(msg)
        families = set(self.families)
        if self.granularity == LAYER_TYPES and families not in (
            set(DEFAULT_FAMILIES),
            set(OF_LAYER_TYPES),
        ):
            msg = (
                f"The granularity {LAYER_TYPES} chooses between full attention and one window for all "
                "layers, so it takes no families; leave them out."
            )
            raise InputError(msg)


QUESTION = Question(
    **vars(LISTED),
    what="plan search",
    settings=PlanSettings,
    tables=(COMPARED, MECHANISMS),
    run="attnlab.questions.plan.planning:plan",
    layout="attnlab.questions.plan.plan_files:PlanFiles",
    figures=("plan",),
    shows=FIRST_COLUMNS,
    leading=LOSS_CHANGE.name,
    announced=True,
    printed=2,
)
