"""What `attnlab compare` can be told, and what the columns of its tables mean; nothing heavy is imported."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from attnlab.budget import (
    BUDGET,
    COMPARED,
    ERROR,
    FIRST_COLUMNS,
    KEYS_OVER_BUDGET,
    L1_ERROR,
    LEVEL,
    MASS,
    MECHANISM,
    SETTING,
    VISIBLE_KEYS,
    WORK,
    BudgetedPlan,
)
from attnlab.core import HEAD, HEAD_KEYS, LOSS, LOSS_CHANGE, InputError, Note, Option, Table
from attnlab.evaluation import BudgetSettings, words_in
from attnlab.questions.compare import LISTED
from attnlab.results import Question

MECHANISMS_BY_HEAD = Table(
    "mechanisms_by_head.csv",
    "head, mechanism and budget, means over rows",
    (
        *HEAD,
        BUDGET,
        MECHANISM,
        LEVEL,
        SETTING,
        VISIBLE_KEYS,
        KEYS_OVER_BUDGET,
        MASS.column,
        ERROR.column,
        L1_ERROR.column,
        WORK,
        LOSS,
        *LOSS_CHANGE,
    ),
    keys=(*HEAD_KEYS, "budget", "mechanism"),
    heading="Mechanisms by head",
)


@dataclass(frozen=True)
class MechanismLeftOut(Note):
    """A mechanism that a site does not allow, and why in words."""

    words = "{site}: {mechanism} is left out, since {reason}."

    site: str
    mechanism: str
    reason: str


@dataclass(frozen=True)
class BudgetBeyondFull(Note):
    """A budget of as many keys as rows of full attention see at a site, or more, so that nothing is saved."""

    words = (
        "{site}: full attention sees {keys:.1f} keys per row of the held-out sentences, so a budget of "
        "{budget} saves nothing."
    )

    site: str
    budget: int
    keys: float


@dataclass(frozen=True)
class NoSettingAtSite(Note):
    """A mechanism that is lacking at a site, since all its settings see more keys than the budget."""

    words = "{site}: {mechanism} is left out at {budget} keys per row, since no setting of it fits."

    site: str
    mechanism: str
    budget: int


@dataclass(frozen=True)
class SameAttention(Note):
    """Mechanisms whose settings attend to the same keys at a site."""

    words = (
        "{site}: {mechanisms} attend to the same keys at {budget} keys per row: with the heads of this site "
        "alone replaced, they differ by time alone."
    )

    site: str
    budget: int
    mechanisms: tuple[str, ...]


@dataclass(frozen=True)
class NoGains(Note):
    """A mechanism that others were to be held against, and that has no row beside one of them."""

    words = (
        "No gain of {against} is given, since it has no row, or none beside it of the same sites and "
        "budget."
    )

    against: str


@dataclass(frozen=True, kw_only=True)
class ComparisonSettings(BudgetSettings):
    """What `attnlab compare` can be told.

    Raises:
        InputError: a value out of range, or two plans of one name.
    """

    mechanisms: Annotated[
        Sequence[str] | None,
        Option(
            "Mechanisms by their names in the table, commas between.",
            shown="all that the model can have",
            read=words_in,
        ),
    ] = None
    plans: Annotated[
        Sequence[str | Path | BudgetedPlan],
        Option(
            "Attention plan (JSON) that has a row of its own; may be given again.",
            ("--plan",),
            names="plan",
        ),
    ] = ()
    against: Annotated[
        str | None,
        Option(
            "Name of a row, such as band or the file of a plan, whose gain in loss and BLEU over every other "
            "row of the same sites and budget is given too."
        ),
    ] = None
    per_head: Annotated[
        bool, Option("Measure the loss with every head replaced alone too.", ("--per-head",))
    ] = False
    fine_tune: Annotated[
        int,
        Option(
            "Number of training batches of a short fine-tuning with every mechanism in place; 0 for none.",
            least=0,
        ),
    ] = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.mechanisms is not None and not self.mechanisms and not self.plans:
            msg = "There is nothing to compare: name at least one mechanism, or give a plan."
            raise InputError(msg, options=["mechanisms"])
        names = [
            (plan.name, plan.budget) if isinstance(plan, BudgetedPlan) else (Path(plan).name, None)
            for plan in self.plans
        ]
        for name, budget in names:
            if names.count((name, budget)) > 1:
                msg = (
                    f"Two plans are called {name}, as tables call them; give their files two names."
                )
                raise InputError(msg)


QUESTION = Question(
    **vars(LISTED),
    what="comparison",
    settings=ComparisonSettings,
    tables=(COMPARED, MECHANISMS_BY_HEAD),
    run="attnlab.questions.compare.comparison:compare",
    folder="comparison",
    announced=True,
    figures=("mechanisms_*", "pareto_*"),
    shows=FIRST_COLUMNS,
    leading=LOSS_CHANGE.name,
)
