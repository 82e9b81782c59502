"""What a figure of every head must reach, from its counts: the figure, its interval, and its draws."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from attnlab.functions.counts import REPORTED, resampled, sum_of_halves
from attnlab.functions.intervals import RatioCounts, wilson_interval
from attnlab.functions.verdict import Condition


def share_condition(
    statistic: str,
    hits: Int[Tensor, "group head"],
    total: Int[Tensor, "group head"],
    least: float | Float[Tensor, "group head"],
    *,
    seed: int,
) -> Condition:
    """The share of hits in the reported half, with Wilson's interval.

    Args:
        statistic: what the share is.
        hits: such as rows whose largest weight is at an offset.
        total: out of how many.
        least: the share that it must reach, or how many hits a control has of the same observations.
        seed: of the bootstrap draws.
    """
    asked = total.double() * least if isinstance(least, float) else least
    found, of = (sum_of_halves(one)[REPORTED] for one in (hits, total))
    share = found / of.double()
    low, high = wilson_interval(found, of)
    return Condition(
        statistic,
        share,
        low,
        high,
        torch.full_like(share, least)
        if isinstance(least, float)
        else sum_of_halves(least)[REPORTED] / of,
        (resampled(hits, seed) >= resampled(asked, seed))[:, REPORTED],
    )


def ratio_condition(
    statistic: str, counts: RatioCounts, threshold: float, *, seed: int
) -> Condition:
    """A ratio of sums over the sentences of the reported half; it must reach `threshold`.

    Args:
        statistic: what the ratio is.
        counts: by group, one figure a head.
        threshold: a number for all heads.
        seed: of the bootstrap draws.
    """
    of_half = counts.by_half()
    value = of_half.ratio[REPORTED]
    low, high = of_half.interval()
    drawn = resampled(counts.numerator, seed) / resampled(counts.denominator, seed)
    return Condition(
        statistic,
        value,
        low[REPORTED],
        high[REPORTED],
        value.new_full(value.shape, threshold),
        drawn[:, REPORTED] >= threshold,
    )
