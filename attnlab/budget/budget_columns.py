"""Columns of the measures of mechanisms in place of full attention; nothing heavy is imported."""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from attnlab.core import (
    BLEU,
    BLEU_CHANGE,
    LOSS,
    LOSS_CHANGE,
    Column,
    Estimate,
    InputError,
    Table,
    counted,
    read_columns,
)

COLUMNS = read_columns(__file__)

if TYPE_CHECKING:
    from attnlab.attention import AttentionPlan

# The level of what cannot be used, since it looks at what it replaces.
ORACLE = "oracle"
# All sites that are compared, in the column of sites.
ALL = "all"
# The model as it is, in the column of mechanisms.
FULL = "full"
BUDGET = COLUMNS["budget"]
MECHANISM = COLUMNS["mechanism"]
LEVEL = COLUMNS["level"]
SETTING = COLUMNS["setting"]
MASS = Estimate(COLUMNS["mass_fraction"])
ERROR = Estimate(COLUMNS["output_error"])
L1_ERROR = Estimate(COLUMNS["error"])
VISIBLE_KEYS = COLUMNS["visible_keys"]
KEYS_OVER_BUDGET = COLUMNS["keys_over_budget"]
WORK = COLUMNS["multiply_adds"]
LENGTH_RATIO = COLUMNS["length_ratio"]


def _gain(name: str, heading: str, meaning: str, digits: int) -> Estimate:
    meaning = (
        f"How much better the reference is than this row, a mechanism that the result names (`searched` in a "
        f"plan search): {meaning}, at the same heads and budget. Above 0 the reference is better."
    )
    short = heading.replace(" reference", "\nreference")
    return Estimate(Column(name, heading, meaning, digits, short, signed=True))


LOSS_GAIN = _gain("loss_gain", "loss above reference", "loss of this row less that of it", 4)
BLEU_GAIN = _gain("bleu_gain", "BLEU below reference", "its BLEU less that of this row", 2)
TIME = COLUMNS["time_ratio"]
STEPS = COLUMNS["steps"]
# What is known of heads that a mechanism replaces together.
REPLACED = (
    BUDGET,
    MECHANISM,
    LEVEL,
    SETTING,
    *COLUMNS.of("settings_tried replaced_heads"),
    STEPS,
    VISIBLE_KEYS,
    KEYS_OVER_BUDGET,
    *MASS,
    *ERROR,
    *L1_ERROR,
    WORK,
    LOSS,
    *LOSS_CHANGE,
    BLEU,
    *BLEU_CHANGE,
    LENGTH_RATIO,
    TIME,
)
SITES = COLUMNS["sites"]
COMPARED = Table(
    "summary.csv",
    "sites, mechanism, budget and steps, means over heads and rows",
    (SITES, *REPLACED, *LOSS_GAIN, *BLEU_GAIN),
    heading="Mechanisms by sites and budget",
)

# Those of a first screen.
FIRST_COLUMNS = (
    MECHANISM.name,
    BUDGET.name,
    STEPS.name,
    VISIBLE_KEYS.name,
    LOSS_CHANGE.name,
    LOSS_GAIN.name,
    BLEU_CHANGE.name,
    ERROR.name,
    TIME.name,
)


class BudgetedPlan(NamedTuple):
    """A plan that is compared, with what its row says of it.

    Attributes:
        plan: the mechanism of each head.
        name: its name in tables.
        budget: keys per row that it was made for; None where that is not known.
        level: see `LEVEL`; empty where that is not known.
        setting: what it holds, in words.
    """

    plan: "AttentionPlan"
    name: str
    budget: int | None = None
    level: str = ""
    setting: str = ""


# BigBird's blocks need as many.
LEAST_BUDGET = 5
# Where nothing else is asked for.
DEFAULT_BUDGET = LEAST_BUDGET


def check_budgets(budgets: Collection[int]) -> None:
    """Raises InputError where there is no budget, or one stands there twice."""
    if not budgets:
        msg = f"There is no budget; give at least one, such as {DEFAULT_BUDGET}."
        raise InputError(msg)
    (twice, count), *_ = Counter(budgets).most_common(1)
    if count > 1:
        msg = f"The budget of {counted(twice, 'key')} is given twice; give it once."
        raise InputError(msg)


# A site may get this many times the budget, since rows at the borders of a sentence see fewer keys than
# those in the middle; so may a head of a plan, since others may do with less.
WIDEST = 3
# Settings see at most this share of the budget more, counted on held-out sentences.
TOLERANCE = 0.02
# Figures of mechanisms that attend alike differ by as much, since sums have another order.
_ROUNDING = 1e-6


def over_budget(keys: float, budget: int) -> bool:
    """Whether rows see more keys than a budget, by more than what is left to rounding; of NaN not."""
    return keys > budget * (1 + TOLERANCE)


def keys_allowed(keys: Iterable[float], budget: int) -> float:
    """Number of keys per row that a plan may attend to on held-out sentences to be compared at a budget.

    As many as the budget or, where mechanisms set for it on validation sentences see more of these, as
    the one that sees most.

    Args:
        keys: what rows of each mechanism that was set for the budget see; NaN where they are not counted.
        budget: keys per row.
    """
    return (1 + TOLERANCE) * max(budget, *(count for count in keys if not math.isnan(count)), 0.0)


def same_figures(row: Mapping[Any, Any], other: Mapping[Any, Any]) -> bool:
    """Whether two rows of `COMPARED` have the same keys, error and loss, up to rounding; without keys not."""
    return all(
        math.isclose(row[name], other[name], rel_tol=_ROUNDING, abs_tol=_ROUNDING)
        for name in (VISIBLE_KEYS.name, L1_ERROR.name, LOSS_CHANGE.name)
        if name in row
    )
