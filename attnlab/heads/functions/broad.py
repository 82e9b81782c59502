"""Broad heads: mean entropy near the largest possible, ln n with n the keys a row may look at."""

from dataclasses import dataclass

from jaxtyping import Float, Int
from torch import Tensor

from attnlab.heads.functions.conditions import ratio_condition
from attnlab.heads.functions.counts import REPORTED, Counts, Scope, sum_by_group
from attnlab.heads.functions.intervals import RatioCounts, count_ratio
from attnlab.heads.functions.thresholds import BROAD, Rule
from attnlab.heads.functions.verdict import Verdict, verdicts_of


@dataclass(frozen=True)
class BroadCounts(Counts):
    """Entropy of each head's rows, against the largest there could be.

    Attributes:
        entropy: summed entropy over summed ln n of the same rows, by sentence.
        rows: how many rows that is.
    """

    entropy: RatioCounts
    rows: Int[Tensor, " group"]


def count_broad(entropies: Float[Tensor, "batch head query"], scope: Scope) -> BroadCounts:
    """Counts of a batch from the entropies in nats of whole rows, special keys among the candidates."""
    entropy_nats = entropies.double() * scope.rows[:, None]
    largest = scope.seen.sum(-1).clamp_min(1).double().log() * scope.rows
    return BroadCounts(
        count_ratio(entropy_nats.sum(-1), largest.sum(-1), scope.groups),
        sum_by_group(scope.rows.sum(1), scope.groups),
    )


def judge_broad(counts: BroadCounts, rule: Rule = BROAD, seed: int = 0) -> list[Verdict]:
    """One verdict per head, on the mean entropy as a share of ln n."""
    found = ratio_condition("mean_entropy_over_ln_n", counts.entropy, rule.threshold, seed=seed)
    rows = counts.by_half().rows[REPORTED].expand_as(found.value)
    return verdicts_of(
        "broad", rule, [""] * len(found.value), [found], denominator=rows, counted=rows
    )
