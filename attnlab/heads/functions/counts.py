"""Counts that add up: over batches, over processes, in any order.

Everything is counted in two halves of the corpus (even and odd sentence numbers). What is picked
out of many (an offset, a relation, the best head) is picked on the choosing half and reported on
the other, so that the reported figure is not the best of many draws.
"""

import dataclasses
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

CHOOSING, REPORTED = 0, 1

# Not typing.Self: beartype cannot check it on methods.
Same = TypeVar("Same", bound="Counts")


@dataclass(frozen=True)
class Counts:
    """Tensors that are added field by field; fields that are no tensors must be equal."""

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


@dataclass(frozen=True)
class Scope:
    """Which rows and columns of a batch of attention matrices are counted, the same in all layers.

    Weights are taken to be 0 where a query may not look; capture asserts it of every batch.

    Attributes:
        queries: True for ordinary tokens as queries; special and padding tokens are dropped.
        keys: True for ordinary tokens as keys.
        seen: True where a query may look at a key, special keys among them.
        halves: for each sentence 0 (choosing) or 1 (reported).
    """

    queries: Bool[Tensor, "batch query"]
    keys: Bool[Tensor, "batch key"]
    seen: Bool[Tensor, "batch query key"]
    halves: Int[Tensor, " batch"]

    @cached_property
    def rows(self) -> Bool[Tensor, "batch query"]:
        """Ordinary queries that may look at two keys or more: where there was something to choose."""
        return self.queries & (self.seen.sum(-1) >= 2)

    @cached_property
    def pairs(self) -> Int[Tensor, "half query key"]:
        """In how many sentences a counted row may look at an ordinary key, by their places."""
        return sum_by_half(self.rows[:, :, None] & self.keys[:, None] & self.seen, self.halves)


def halves_of(numbers: Int[Tensor, " batch"]) -> Int[Tensor, " batch"]:
    """The half of each sentence, by its number in the whole corpus, whoever counts it."""
    return numbers % 2


def sum_by_half(values: Tensor, halves: Int[Tensor, " batch"]) -> Tensor:
    """Sums over the sentences of each half, `[half, ...]`, in int64 or float64."""
    wide = values.double() if values.is_floating_point() else values.long()
    sums = torch.zeros(2, *values.shape[1:], dtype=wide.dtype, device=values.device)
    return sums.index_add_(0, halves.long(), wide)


def largest(weights: Float[Tensor, "batch head query key"]) -> Int[Tensor, "batch head query"]:
    """The key with the largest weight of every row, the first of equals."""
    # max finds the place several times faster than argmax.
    return weights.max(-1).indices
