"""Broad heads: mean entropy near the largest possible, ln n with n the keys a row may look at."""

from dataclasses import dataclass

from jaxtyping import Bool, Float, Int
from torch import Tensor

from attnlab.labels.counts import REPORTED, Counts, RatioCounts, Scope, count_ratio, sum_by_group
from attnlab.labels.label import HeadLabel, LayerView
from attnlab.labels.label_columns import BROAD
from attnlab.labels.verdict import Verdict, ratio_condition, verdicts_of


@dataclass(frozen=True)
class BroadCounts(Counts):
    """Entropy of each head's rows, against the largest there could be.

    Attributes:
        entropy: summed entropy over summed ln n of the same rows, by sentence.
        rows: how many rows that is.
    """

    entropy: RatioCounts
    rows: Int[Tensor, "group head"]


def count_broad(
    entropies: Float[Tensor, "batch head query"],
    scope: Scope,
    counted: Bool[Tensor, "batch head query"] | None = None,
) -> BroadCounts:
    """Counts of a batch from the entropies in nats of rows; of the `counted` ones, None for all."""
    rows = scope.rows[:, None].expand(entropies.shape)
    rows = rows if counted is None else rows & counted
    largest = scope.seen.sum(-1).clamp_min(1).double().log()[:, None] * rows
    return BroadCounts(
        count_ratio((entropies.double() * rows).sum(-1), largest.sum(-1), scope.groups),
        sum_by_group(rows.sum(-1), scope.groups),
    )


def decide_broad(counts: BroadCounts, seed: int = 0) -> list[Verdict]:
    """One verdict per head, on the mean entropy as a share of ln n."""
    condition = ratio_condition(
        "mean_entropy_over_ln_n", counts.entropy, BROAD.threshold, seed=seed, least=0.0, most=1.0
    )
    of_half = counts.by_half()
    return verdicts_of(
        "broad",
        BROAD,
        [""] * len(condition.value),
        [condition],
        denominator=of_half.rows[REPORTED],
        counted=of_half.entropy.sentences[REPORTED],
    )


def _count(view: LayerView) -> BroadCounts:
    counted = None if view.mass is None else view.mass > 0
    return count_broad(view.entropies, view.facts.scope, counted)


BROAD_LABEL = HeadLabel(
    name="broad",
    meaning="even weights: the entropy of its rows is near the largest possible",
    count=_count,
    decide=decide_broad,
    precedence=4,
    # Untrained rows are nearly even, so no head could ever pass that control.
    against_untrained=False,
)
