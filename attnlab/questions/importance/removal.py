"""What is left of a model when its heads are removed one after another, and how measures rank them."""

import random
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from attnlab.ablation import (
    Difference,
    Means,
    Replacement,
    ablate_cumulatively,
    ablated,
    loss_differences,
)
from attnlab.core import Head
from attnlab.evaluation import Evaluator, Steps
from attnlab.models import score
from attnlab.questions.importance.question import REMOVED_CHANGE


def removal_curves(
    evaluator: Evaluator,
    orders: Mapping[str, Sequence[Head]],
    replacement: Replacement,
    means: Means | None,
    *,
    points: int,
    bleu: bool,
    seed: int,
    losses: Steps,
    translations: Steps,
) -> pd.DataFrame:
    """Loss, and BLEU at a few points, with none, one, two, ... and all heads of an order removed.

    Args:
        evaluator: on sentences that the orders were not chosen on.
        orders: heads by the name of the order, the first to be removed first.
        replacement: what stands in for a removed head.
        means: mean outputs, for `mean`.
        points: at how many numbers of heads BLEU is measured, none and all among them.
        bleu: whether it is measured at all.
        seed: of the bootstrap.
        losses: told of every number of heads.
        translations: told of every point.

    Returns:
        The columns of `attnlab.questions.importance.question.CUMULATIVE`; an interval is for one step at a
        time, uncorrected, and `bleu` NaN between the points.
    """
    tables = []
    for name, order in orders.items():
        steps = ablate_cumulatively(
            evaluator.projections, order, replacement, losses.of(evaluator.losses), means
        )
        found = loss_differences(steps[0], steps, evaluator.tokens, seed=seed)
        tables.append(_curve(name, order, found).assign(replacement=replacement))
    table = pd.concat(tables, ignore_index=True)
    table["bleu"] = np.nan
    if bleu:
        known: dict[frozenset[Head], float] = {}
        for name, order in orders.items():
            for count in bleu_points(len(order), points):
                removed = frozenset(order[:count])
                if removed not in known:
                    with ablated(evaluator.projections, sorted(removed), replacement, means):
                        written = translations.of(evaluator.translations)()
                    known[removed] = score(written, evaluator.references).bleu
                row = (table["order"] == name) & (table["heads_removed"] == count)
                table.loc[row, "bleu"] = known[removed]
    return table


def _curve(name: str, order: Sequence[Head], found: Sequence[Difference]) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "order": name,
            "heads_removed": range(len(found)),
            "removed": ["", *map(str, order)],
            "loss": [step.after for step in found],
            REMOVED_CHANGE.name: [step.change for step in found],
            REMOVED_CHANGE.low: [step.low for step in found],
            REMOVED_CHANGE.high: [step.high for step in found],
        }
    )


def bleu_points(heads: int, points: int) -> list[int]:
    """Numbers of heads, evenly from none to all.

    >>> bleu_points(24, 5)
    [0, 6, 12, 18, 24]
    >>> bleu_points(2, 10)
    [0, 1, 2]
    """
    return sorted({round(index) for index in np.linspace(0, heads, min(points, heads + 1))})


def count_translations(orders: Mapping[str, Sequence[Head]], points: int) -> int:
    """How many different models the points of all orders translate with."""
    return len(
        {
            frozenset(order[:count])
            for order in orders.values()
            for count in bleu_points(len(order), points)
        }
    )


def orders_of(heads: Sequence[Head], measures: pd.DataFrame, *, seed: int) -> dict[str, list[Head]]:
    """The heads in rising order of every column of `measures` (a row a head), and at random."""
    orders = {
        str(name): [heads[index] for index in column.argsort(kind="stable")]
        for name, column in measures.items()
    }
    shuffled = list(heads)
    random.Random(seed).shuffle(shuffled)
    return {**orders, "random": shuffled}
