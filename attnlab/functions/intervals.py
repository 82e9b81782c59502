"""Intervals for shares and means, at 95 % unless said otherwise."""

from dataclasses import dataclass

import pandas as pd
from jaxtyping import Float, Int
from scipy.stats import norm
from torch import Tensor

from attnlab.functions.counts import Counts, sum_by_group
from attnlab.functions.thresholds import CONFIDENCE_LEVEL


def wilson_interval(
    hits: Int[Tensor, "*shape"], total: Int[Tensor, "*shape"], level: float = CONFIDENCE_LEVEL
) -> tuple[Float[Tensor, "*shape"], Float[Tensor, "*shape"]]:
    """Lower and upper end of Wilson's interval for a share; 0 and 1 where `total` is 0.

    The share itself is never outside, whatever is lost in rounding.

    ::

        (p + z^2 / 2n +- z sqrt(p (1 - p) / n + z^2 / 4n^2)) / (1 + z^2 / n)

    Observations are taken as independent. Source: Wilson 1927, JASA 22 (158).

    >>> import torch
    >>> low, high = wilson_interval(torch.tensor(9), torch.tensor(10))
    >>> print(f"{low:.3f} {high:.3f}")
    0.596 0.982
    """
    z = float(norm.ppf((1 + level) / 2))
    n = total.double().clamp_min(1)
    share = hits / n
    centre = share + z**2 / (2 * n)
    half_width = z * (share * (1 - share) / n + z**2 / (4 * n**2)).sqrt()
    scale = 1 + z**2 / n
    low = ((centre - half_width) / scale).clamp_min(0).minimum(share)
    high = ((centre + half_width) / scale).clamp_max(1).maximum(share)
    none = total == 0
    return low.masked_fill(none, 0), high.masked_fill(none, 1)


def difference_interval(
    first: tuple[pd.Series, pd.Series, pd.Series], second: tuple[pd.Series, pd.Series, pd.Series]
) -> tuple[pd.Series, pd.Series]:
    """Lower and upper end for the difference of two shares, each given as (share, low, high).

    ::

        d = p1 - p2,   d - sqrt((p1 - l1)^2 + (u2 - p2)^2)   to   d + sqrt((u1 - p1)^2 + (p2 - l2)^2)

    Source: Newcombe 1998, Statistics in Medicine 17, method 10 (both intervals Wilson's).
    """
    (p1, l1, u1), (p2, l2, u2) = first, second
    below = ((p1 - l1) ** 2 + (u2 - p2) ** 2) ** 0.5
    above = ((u1 - p1) ** 2 + (p2 - l2) ** 2) ** 0.5
    return p1 - p2 - below, p1 - p2 + above


@dataclass(frozen=True)
class RatioCounts(Counts):
    """Sums from which a ratio of sums over sentences and its interval are computed.

    With numerator a_s and denominator b_s of sentence s, each sentence is one observation: rows of
    one sentence are not independent. The first axis, `part`, is the group, or the half.
    """

    sentences: Int[Tensor, " part"]
    numerator: Float[Tensor, "part *shape"]
    denominator: Float[Tensor, "part *shape"]
    squared_numerator: Float[Tensor, "part *shape"]
    product: Float[Tensor, "part *shape"]
    squared_denominator: Float[Tensor, "part *shape"]

    @property
    def ratio(self) -> Float[Tensor, "part *shape"]:
        """Sum of numerators over sum of denominators; NaN where there is none."""
        return self.numerator / self.denominator

    def of_each_head(self, chosen: Int[Tensor, " head"]) -> "RatioCounts":
        """One figure per head: of the last axis, the one that is chosen for the head."""
        index = chosen[:, None].expand(len(self.numerator), -1, -1)
        sums = (
            values.gather(-1, index)[..., 0]
            for values in (
                self.numerator,
                self.denominator,
                self.squared_numerator,
                self.product,
                self.squared_denominator,
            )
        )
        return RatioCounts(self.sentences, *sums)

    def interval(
        self, level: float = CONFIDENCE_LEVEL
    ) -> tuple[Float[Tensor, "part *shape"], Float[Tensor, "part *shape"]]:
        """Lower and upper end, from the spread between sentences; NaN below two sentences.

        ::

            R = sum a / sum b,   var R = S / (S - 1) * sum (a_s - R b_s)^2 / (sum b)^2

        Source: Cochran 1977, Sampling Techniques, section 6.4 (ratio estimate).
        """
        ratio = self.ratio
        residual = (
            self.squared_numerator - 2 * ratio * self.product + ratio**2 * self.squared_denominator
        ).clamp_min(0)
        count = self.sentences.double().reshape(-1, *[1] * (ratio.ndim - 1))
        error = (count / (count - 1) * residual).sqrt() / self.denominator
        width = float(norm.ppf((1 + level) / 2)) * error
        return ratio - width, ratio + width


def count_ratio(
    numerator: Float[Tensor, "batch *shape"],
    denominator: Tensor,
    groups: Int[Tensor, " batch"],
) -> RatioCounts:
    """The sums of a batch; a sentence whose denominator is 0 everywhere is no observation.

    Args:
        numerator: one figure a sentence (and head, and kind).
        denominator: `[batch]`, or of the numerator's shape.
        groups: of each sentence.
    """
    a = numerator.double()
    b = denominator.double().reshape(-1, *denominator.shape[1:], *[1] * (a.ndim - denominator.ndim))
    b = b.expand_as(a)
    counted = (b != 0).reshape(len(b), -1).any(1)
    return RatioCounts(
        sum_by_group(counted.long(), groups),
        *(sum_by_group(values, groups) for values in (a, b, a * a, a * b, b * b)),
    )
