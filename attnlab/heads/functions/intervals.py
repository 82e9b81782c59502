"""Intervals for shares and means, at 95 % unless said otherwise."""

from dataclasses import dataclass

from jaxtyping import Float, Int
from scipy.stats import norm
from torch import Tensor

from attnlab.heads.functions.counts import Counts, sum_by_half

LEVEL = 0.95


def wilson_interval(
    hits: Int[Tensor, "*shape"], total: Int[Tensor, "*shape"], level: float = LEVEL
) -> tuple[Float[Tensor, "*shape"], Float[Tensor, "*shape"]]:
    """Lower and upper end of Wilson's interval for a share; 0 and 1 where `total` is 0.

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
    low, high = (centre - half_width) / scale, (centre + half_width) / scale
    none = total == 0
    return low.clamp_min(0).masked_fill(none, 0), high.clamp_max(1).masked_fill(none, 1)


@dataclass(frozen=True)
class RatioCounts(Counts):
    """Sums from which a ratio of sums over sentences and its interval are computed.

    With numerator a_s and denominator b_s of sentence s, each sentence is one observation: rows of
    one sentence are not independent.
    """

    sentences: Int[Tensor, " half"]
    numerator: Float[Tensor, "half *shape"]
    denominator: Float[Tensor, "half *shape"]
    squared_numerator: Float[Tensor, "half *shape"]
    product: Float[Tensor, "half *shape"]
    squared_denominator: Float[Tensor, "half *shape"]

    @property
    def ratio(self) -> Float[Tensor, "half *shape"]:
        """Sum of numerators over sum of denominators; NaN where there is none."""
        return self.numerator / self.denominator

    def interval(
        self, level: float = LEVEL
    ) -> tuple[Float[Tensor, "half *shape"], Float[Tensor, "half *shape"]]:
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
    halves: Int[Tensor, " batch"],
) -> RatioCounts:
    """The sums of a batch; a sentence whose denominator is 0 everywhere is no observation.

    Args:
        numerator: one figure a sentence (and head, and kind).
        denominator: `[batch]`, or of the numerator's shape.
        halves: 0 or 1 for each sentence.
    """
    a = numerator.double()
    b = denominator.double().reshape(-1, *denominator.shape[1:], *[1] * (a.ndim - denominator.ndim))
    b = b.expand_as(a)
    counted = (b != 0).reshape(len(b), -1).any(1)
    return RatioCounts(
        sum_by_half(counted.long(), halves),
        *(sum_by_half(values, halves) for values in (a, b, a * a, a * b, b * b)),
    )
