"""Counts that add up: over batches, over processes, in any order.

Everything is counted in groups of sentences, by their numbers in the corpus. The even groups are the
choosing half, the odd ones the reported half: what is picked out of many (an offset, a relation, the
best head) is picked on the one and reported on the other, so that the reported figure is not the best
of many draws. The groups of a half, drawn with replacement, say how much depends on which sentences
there happen to be; they cost the same however large the corpus is.
"""

import dataclasses
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, TypeVar

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

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
        sums: dict[str, Any] = {}
        for field in dataclasses.fields(self):
            mine = getattr(self, field.name)
            if isinstance(mine, Counts):
                sums[field.name] = mine.by_half()
            elif isinstance(mine, Tensor):
                sums[field.name] = sum_of_halves(mine)
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
