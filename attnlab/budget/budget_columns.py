"""What mechanisms in place of full attention are measured by, in columns; nothing heavy is imported."""

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
)

if TYPE_CHECKING:
    from attnlab.attention import AttentionPlan

# The level of what cannot be used, since it looks at what it replaces.
ORACLE = "oracle"
# All sites that are compared, in the column of sites.
ALL = "all"
# The model as it is, in the column of mechanisms.
FULL = "full"
BUDGET = Column(
    "budget",
    "budget",
    "Keys that a row may see on average over the heads of a site, counted on validation sentences; of a "
    "mechanism without a support, the multiply-adds of scoring and mixing as many; of a plan that was "
    "searched over all its heads. Empty for full attention and for plans from files.",
)
MECHANISM = Column(
    "mechanism",
    "mechanism",
    "Name of the mechanism, of one head as `--attention` takes it; `full` for the model as it is, `searched` "
    "for a plan with one mechanism for each head, or the file of a plan.",
)
LEVEL = Column(
    "level",
    "level",
    "`oracle`, chosen from the matrices that it replaces, a bound and no method; `calibrated`, keys or "
    "tables learned on training sentences, a setting chosen on validation sentences; `static`, weights "
    "of other sentences; `none`, nothing is learned.",
)
SETTING = Column(
    "setting",
    "setting",
    "The setting of each site that is nearest to full attention (l1) on validation sentences within the "
    "budget, as `--attention` takes it; of a searched plan the heads of each family.",
)
MASS = Estimate(
    Column(
        "mass_fraction",
        "attention captured",
        "Share of full attention on the pairs that the mechanism counts, 0 to 1; empty where it has no "
        "support.",
        3,
    )
)
ERROR = Estimate(
    Column(
        "output_error",
        "output error",
        "|X V - H V| / |H V|, Frobenius norms over a head and sentence, which counts with its rows: 0 "
        "is exact, 1 is as far as an output of zeros. H is full attention, X the mechanism's matrix, V the "
        "values.",
        3,
    )
)
L1_ERROR = Estimate(
    Column(
        "error",
        "l1 error",
        "|X - H| in l1 per row, H full attention and X the mechanism's matrix: 0 is exact, 2 the most. A "
        "row without visible keys gets the largest error that keys can have, 2 (less beside a sink), so that "
        "leaving a head out is no better than keys of little weight.",
        3,
    )
)
VISIBLE_KEYS = Column(
    "visible_keys",
    "keys per row",
    "Attended keys per query, counted over all rows of the held-out sentences: fewer at the ends of a "
    "sentence, more where global tokens attend to all, 1 for a fixed pattern; empty without a support.",
    2,
    "keys",
)
KEYS_OVER_BUDGET = Column(
    "keys_over_budget",
    "over budget",
    "Keys per row less the budget. Below 0 where no setting has more within the budget; a little above "
    "0 where held-out sentences have more keys than those that the setting was chosen on.",
    2,
)
WORK = Column("multiply_adds", "multiply-adds", "Work on a sentence of mean length, per head.", 0)
LENGTH_RATIO = Column(
    "length_ratio",
    "length ratio",
    "Length of the translations divided by that of the references, in words: above 1 where a model "
    "repeats itself, which costs BLEU.",
    3,
)


def _gain(name: str, measure: str, meaning: str, digits: int) -> Estimate:
    heading, short = (f"{measure} gain of{space}another over this" for space in " \n")
    said = (
        f"{meaning}, at the same heads and budget: the one that the result names, `searched` in a "
        "plan search. Above 0 that one is better."
    )
    return Estimate(Column(name, heading, said, digits, short))


LOSS_GAIN = _gain("loss_gain", "loss", "Loss of this row less that of another", 4)
BLEU_GAIN = _gain("bleu_gain", "BLEU", "BLEU of another row less that of this one", 2)
TIME = Column(
    "time_ratio",
    "time",
    "Time of the losses of all sentences, divided by that of full attention measured alternately; "
    "attnlab's own code on this device, short sentences.",
    2,
)
STEPS = Column(
    "steps",
    "steps",
    "Batches of training after the model as it was, with the change in place, 0 for none; full attention "
    "that mechanisms are compared with had as many.",
)
# What is known of heads that a mechanism replaces together.
REPLACED = (
    BUDGET,
    MECHANISM,
    LEVEL,
    SETTING,
    Column(
        "settings_tried",
        "tried",
        "How many settings were measured there, those over the budget among them.",
    ),
    Column("replaced_heads", "heads", "How many heads have the mechanism."),
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
SITES = Column(
    "sites",
    "sites",
    "Where all heads have the mechanism: each site that it can be at, and these together; `all` for all "
    "sites that are compared.",
)
COMPARED = Table(
    "summary.csv",
    "sites, mechanism, budget and steps, means over heads and rows",
    (SITES, *REPLACED, *LOSS_GAIN, *BLEU_GAIN),
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
    """How many keys per row a plan may see on held-out sentences to be held against mechanisms.

    As many as the budget or, where mechanisms set for it on validation sentences see more of these, as
    the one that sees most.

    Args:
        keys: what rows of each mechanism that was set for the budget see; NaN where they are not counted.
        budget: keys per row.
    """
    return (1 + TOLERANCE) * max(budget, *(one for one in keys if not math.isnan(one)), 0.0)


def same_figures(row: Mapping[Any, Any], other: Mapping[Any, Any]) -> bool:
    """Whether two rows of `COMPARED` have the same keys, error and loss, up to rounding; without keys not."""
    return all(
        math.isclose(row[name], other[name], rel_tol=_ROUNDING, abs_tol=_ROUNDING)
        for name in (VISIBLE_KEYS.name, L1_ERROR.name, LOSS_CHANGE.name)
        if name in row
    )
