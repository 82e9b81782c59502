"""What a figure of every head must reach, from its counts: the figure, its interval, and its draws."""

import torch
from jaxtyping import Float
from torch import Tensor

from attnlab.functions.counts import REPORTED, resampled, sum_of_halves
from attnlab.functions.intervals import RatioCounts
from attnlab.functions.verdict import Condition


def share_condition(
    statistic: str,
    counts: RatioCounts,
    least: float | Float[Tensor, "group head"],
    *,
    seed: int,
) -> Condition:
    """The share of hits in the reported half, with an interval over its sentences.

    Args:
        statistic: what the share is.
        counts: hits by group, one figure a head, such as rows whose largest weight is at an offset;
            as denominators out of how many.
        least: the share that it must reach, or how many hits a control has of the same observations.
        seed: of the bootstrap draws.
    """
    total = counts.denominator
    asked = total * least if isinstance(least, float) else least
    of_half = counts.by_half()
    share = of_half.ratio[REPORTED]
    low, high = (end[REPORTED] for end in of_half.share_interval())
    return Condition(
        statistic,
        share,
        low,
        high,
        torch.full_like(share, least)
        if isinstance(least, float)
        else sum_of_halves(least)[REPORTED] / sum_of_halves(total)[REPORTED],
        (resampled(counts.numerator, seed) >= resampled(asked, seed))[:, REPORTED],
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
