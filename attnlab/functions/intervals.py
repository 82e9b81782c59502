"""Intervals for shares and means, at 95 % unless said otherwise."""

from dataclasses import dataclass

import pandas as pd
import torch
from jaxtyping import Float, Int, Shaped
from scipy.stats import norm
from scipy.stats import t as student
from torch import Tensor

from attnlab.functions.counts import Counts, sum_by_group
from attnlab.functions.thresholds import CONFIDENCE_LEVEL


def wilson_interval(
    hits: Shaped[Tensor, "*shape"],
    total: Shaped[Tensor, "*shape"],
    level: float = CONFIDENCE_LEVEL,
) -> tuple[Float[Tensor, "*shape"], Float[Tensor, "*shape"]]:
    """Lower and upper end of Wilson's interval for a share; 0 and 1 where `total` is 0.

    The share itself is never outside, whatever is lost in rounding.

    ::

        (p + z^2 / 2n +- z sqrt(p (1 - p) / n + z^2 / 4n^2)) / (1 + z^2 / n)

    Observations are taken as independent; numbers of them need not be whole, as those of
    `RatioCounts.share_interval` are not. Source: Wilson 1927, JASA 22 (158).

    >>> import torch
    >>> low, high = wilson_interval(torch.tensor(9), torch.tensor(10))
    >>> print(f"{low:.3f} {high:.3f}")
    0.596 0.982
    """
    z = float(norm.ppf((1 + level) / 2))
    none = total == 0
    n = total.double().masked_fill(none, 1)
    share = hits / n
    centre = share + z**2 / (2 * n)
    half_width = z * (share * (1 - share) / n + z**2 / (4 * n**2)).sqrt()
    scale = 1 + z**2 / n
    low = ((centre - half_width) / scale).clamp_min(0).minimum(share)
    high = ((centre + half_width) / scale).clamp_max(1).maximum(share)
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
    `sentences` counts those whose denominator is not 0.
    """

    sentences: Int[Tensor, "part *shape"]
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
                self.sentences,
                self.numerator,
                self.denominator,
                self.squared_numerator,
                self.product,
                self.squared_denominator,
            )
        )
        return RatioCounts(*sums)

    def interval(
        self, level: float = CONFIDENCE_LEVEL
    ) -> tuple[Float[Tensor, "part *shape"], Float[Tensor, "part *shape"]]:
        """Lower and upper end, from the spread between sentences; NaN below two sentences.

        ::

            R = sum a / sum b,   var R = S / (S - 1) * sum (a_s - R b_s)^2 / (sum b)^2

        Source: Cochran 1977, Sampling Techniques, section 6.4 (ratio estimate).
        """
        width = _student(self.sentences, level) * self._variance.sqrt()
        return self.ratio - width, self.ratio + width

    def share_interval(
        self, level: float = CONFIDENCE_LEVEL
    ) -> tuple[Float[Tensor, "part *shape"], Float[Tensor, "part *shape"]]:
        """Lower and upper end for a share, where numerators count some of what denominators count.

        Wilson's interval for as many independent observations as tell as much as these do::

            n' = n / max(1, var R / (R (1 - R) / n)) * (z / t)^2,   n = sum b

        with var R as in `interval` and t of S - 1 degrees of freedom. Shares of 0 and 1 vary between no
        sentences, so what their rows tell beyond the sentence is not known: n / max(...) is S there, as if
        the rows of a sentence were all alike. NaN below two sentences, 0 and 1 without any.
        Source: Korn and Graubard 1998, Survey Methodology 24, with Wilson's in place of the exact interval.
        """
        share = self.ratio
        independent = share * (1 - share) / self.denominator
        effect = (self._variance / independent).clamp_min(1)
        alike = torch.where(independent == 0, self.sentences, self.denominator / effect)
        z = float(norm.ppf((1 + level) / 2))
        alike = alike * (z / _student(self.sentences, level)) ** 2
        known = alike.masked_fill(self.denominator == 0, 0)
        return wilson_interval((share * known).nan_to_num(0), known, level)

    @property
    def _variance(self) -> Float[Tensor, "part *shape"]:
        """Of the ratio, from the spread between sentences; NaN below two."""
        ratio, count = self.ratio, self.sentences.double()
        residual = (
            self.squared_numerator - 2 * ratio * self.product + ratio**2 * self.squared_denominator
        ).clamp_min(0)
        return count / (count - 1) * residual / self.denominator**2


def _student(sentences: Int[Tensor, "*shape"], level: float) -> Float[Tensor, "*shape"]:
    """The quantile of Student's t for a spread between so many sentences; NaN below two."""
    freedom = (sentences - 1).clamp_min(0).cpu().numpy()
    found = torch.as_tensor(student.ppf((1 + level) / 2, freedom), dtype=torch.float64)
    return found.to(sentences.device)


def count_ratio(
    numerator: Float[Tensor, "batch *shape"],
    denominator: Tensor,
    groups: Int[Tensor, " batch"],
) -> RatioCounts:
    """The sums of a batch; a sentence whose denominator is 0 is no observation.

    Args:
        numerator: one figure a sentence (and head, and kind).
        denominator: `[batch]`, or of the numerator's shape.
        groups: of each sentence.
    """
    a = numerator.double()
    b = denominator.double().reshape(-1, *denominator.shape[1:], *[1] * (a.ndim - denominator.ndim))
    b = b.expand_as(a)
    return RatioCounts(
        sum_by_group((b != 0).long(), groups),
        *(sum_by_group(values, groups) for values in (a, b, a * a, a * b, b * b)),
    )
