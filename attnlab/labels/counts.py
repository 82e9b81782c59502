"""Counts that add up: over batches, over processes, in any order.

Everything is counted in groups of sentences, by their numbers in the corpus. The even groups are the
choosing half, the odd ones the reported half: what is picked out of many (an offset, a relation, the
best head) is picked on the one and reported on the other, so that the reported figure is not the best
of many draws. The groups of a half, drawn with replacement, say how much depends on which sentences
there happen to be; they cost the same however large the corpus is.
"""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, TypeVar

import pandas as pd
import torch
from jaxtyping import Bool, Float, Int, Shaped
from scipy.stats import norm
from scipy.stats import t as student
from torch import Tensor

from attnlab.labels.label_columns import CONFIDENCE_LEVEL

CHOOSING, REPORTED = 0, 1
GROUPS_OF_HALF = 32
GROUPS = 2 * GROUPS_OF_HALF
DRAWS_OF_HALVES = 400

# Not typing.Self: beartype cannot check it on methods.
Same = TypeVar("Same", bound="Counts")


@dataclass(frozen=True)
class Counts:
    """Tensors that are added field by field; fields that are no tensors must be equal.

    The first axis of every tensor is the group, or the half after `by_half`.
    """

    def __add__(self: Same, other: Same) -> Same:
        sums = {}
        for field in dataclasses.fields(self):
            mine, theirs = getattr(self, field.name), getattr(other, field.name)
            if isinstance(mine, Tensor | Counts) and theirs is not None:
                sums[field.name] = mine + theirs
            elif mine != theirs:
                msg = f"Counts with different {field.name} do not add up: {mine} and {theirs}."
                raise ValueError(msg)
        return dataclasses.replace(self, **sums)

    def by_half(self: Same) -> Same:
        """The same counts, summed over the groups of either half."""
        return self.summed(sum_of_halves)

    def whole(self: Same) -> Same:
        """The same counts, summed over all groups, as a single one."""
        return self.summed(lambda counts: counts.sum(0, keepdim=True))

    def summed(self: Same, by: Callable[[Tensor], Tensor]) -> Same:
        """The same counts, each tensor summed by a function."""
        sums: dict[str, Any] = {}
        for field in dataclasses.fields(self):
            mine = getattr(self, field.name)
            if isinstance(mine, Counts):
                sums[field.name] = mine.summed(by)
            elif isinstance(mine, Tensor):
                sums[field.name] = by(mine)
        return dataclasses.replace(self, **sums)


@dataclass(frozen=True)
class Scope:
    """Which rows and columns of a batch of attention matrices are counted, the same in all layers.

    Weights are taken to be 0 where a query may not look; capture asserts it of every batch.

    Attributes:
        queries: True for ordinary tokens as queries; special and padding tokens are dropped.
        keys: True for ordinary tokens as keys.
        seen: True where a query may look at a key, special keys among them.
        groups: of each sentence, from `groups_of`.
    """

    queries: Bool[Tensor, "batch query"]
    keys: Bool[Tensor, "batch key"]
    seen: Bool[Tensor, "batch query key"]
    groups: Int[Tensor, " batch"]

    @cached_property
    def rows(self) -> Bool[Tensor, "batch query"]:
        """Ordinary queries that may look at two keys or more: where there was something to choose."""
        return self.queries & (self.seen.sum(-1) >= 2)

    def of_content(self) -> "Scope":
        """The same rows with special tokens left out as keys."""
        return dataclasses.replace(self, seen=self.seen & self.keys[:, None])


def groups_of(numbers: Int[Tensor, " batch"]) -> Int[Tensor, " batch"]:
    """The group of each sentence, by its number in the whole corpus, whoever counts it."""
    return numbers % GROUPS


def sum_by_group(values: Tensor, groups: Int[Tensor, " batch"]) -> Tensor:
    """Sums over the sentences of each group, `[group, ...]`, in int64 or float64."""
    wide = values.double() if values.is_floating_point() else values.long()
    sums = torch.zeros(GROUPS, *values.shape[1:], dtype=wide.dtype, device=values.device)
    return sums.index_add_(0, groups.long(), wide)


def sum_of_halves(values: Shaped[Tensor, "group *shape"]) -> Shaped[Tensor, "half *shape"]:
    """Sums over the groups of either half."""
    return values.unflatten(0, (GROUPS_OF_HALF, 2)).sum(0)


@lru_cache(maxsize=8)
def _draws(seed: int) -> Float[Tensor, "draw group half"]:
    """How often each group is drawn when the groups of a half are drawn with replacement."""
    generator = torch.Generator().manual_seed(seed)
    picks = torch.randint(GROUPS_OF_HALF, (DRAWS_OF_HALVES, GROUPS_OF_HALF, 2), generator=generator)
    times = torch.zeros(DRAWS_OF_HALVES, GROUPS_OF_HALF, 2, dtype=torch.float64)
    return times.scatter_add_(1, picks, torch.ones_like(times))


def resampled(
    values: Shaped[Tensor, "group *shape"], seed: int
) -> Float[Tensor, "draw half *shape"]:
    """Sums of either half in bootstrap draws of its groups; the same draws for the same seed."""
    wide = values.double().unflatten(0, (GROUPS_OF_HALF, 2))
    times = _draws(seed).to(wide.device)
    return torch.einsum("dgh,gh...->dh...", times, wide)


@dataclass(frozen=True)
class Largest:
    """The key with the largest weight of every row, the first of equals.

    Attributes:
        key: its index.
        found: False in a row without weight on any key that could be it.
    """

    key: Int[Tensor, "batch head query"]
    found: Bool[Tensor, "batch head query"]


def largest(
    weights: Float[Tensor, "batch head query key"], among: Bool[Tensor, "batch key"] | None = None
) -> Largest:
    """The key with the largest weight of every row, among all keys or those that are named."""
    if among is not None:
        weights = weights.masked_fill(~among[:, None, None], 0.0)
    # max finds the index several times faster than argmax.
    most, key = weights.max(-1)
    return Largest(key, most > 0)


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
        effective = alike.masked_fill(self.denominator == 0, 0)
        return wilson_interval(share * effective, effective, level)

    @property
    def _variance(self) -> Float[Tensor, "part *shape"]:
        """The variance of the ratio, from the spread between sentences; NaN below two."""
        ratio, count = self.ratio, self.sentences.double()
        residual = (
            self.squared_numerator - 2 * ratio * self.product + ratio**2 * self.squared_denominator
        ).clamp_min(0)
        return count / (count - 1) * residual / self.denominator**2


def _student(sentences: Int[Tensor, "*shape"], level: float) -> Float[Tensor, "*shape"]:
    """The quantile of Student's t for a spread between so many sentences; NaN below two."""
    freedom = (sentences - 1).clamp_min(0).cpu().numpy()
    quantile = torch.as_tensor(student.ppf((1 + level) / 2, freedom), dtype=torch.float64)
    return quantile.to(sentences.device)


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
