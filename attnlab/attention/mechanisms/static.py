"""Static attention: weights that follow from offsets alone, such as a head's mean weights."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from attnlab.attention.kernels.union import taken
from attnlab.attention.mechanism import (
    Context,
    Cost,
    Positions,
    Setup,
    Traits,
    nearest_real,
    visible_or_all,
    without_keys,
)
from attnlab.attention.padding import PaddingSafeMechanism
from attnlab.attention.specification import Specification
from attnlab.core import InputError

# For so many keys one product with the written-out matrix is quicker than a sum over offsets.
FEW = 256


@dataclass(frozen=True)
class Static(Specification):
    """The weight of a key follows from its offset alone."""

    name: ClassVar[str] = "static"
    offsets: Any
    weights: Any

    def __post_init__(self) -> None:
        self.check_distinct("offsets")
        weights = self.weights
        numbers = isinstance(weights, list | tuple) and all(
            type(weight) in {int, float} and 0 < weight < math.inf for weight in weights
        )
        if not numbers or not weights or len(weights) != len(self.offsets):
            msg = (
                f"The option 'weights' of '{self.name}' is a list of numbers above 0, one for each "
                f"offset, not {weights!r}."
            )
            raise InputError(msg)
        object.__setattr__(self, "weights", tuple(float(weight) for weight in weights))


class StaticAttention(PaddingSafeMechanism):
    """Fixed weights by offset, normalised over the keys of the sentence that a row reaches.

    ::

        x_ij = w(j - i) / sum over the keys k of the sentence of w(k - i)

    A row that reaches no key takes the one nearest to its smallest offset. In training whole keys
    are dropped, the same for all queries. Source: PAPA (Hassid et al. 2022, arXiv 2211.03495), whose
    mean matrices over inputs depend on positions rather than offsets; math.md section 7.
    """

    specification: ClassVar[type[Specification] | None] = Static
    source: ClassVar[str] = "Hassid et al. 2022, arXiv 2211.03495"
    traits: ClassVar[Traits] = Traits(subquadratic=True, bias=False, content_free=True)
    positions: ClassVar[Positions] = "offsets"

    def __init__(self, spec: Static, setup: Setup) -> None:
        check_not_ahead(spec, max(spec.offsets), setup)
        super().__init__(spec, setup)

    def mix(self, query: Tensor, key: Tensor, value: Tensor, context: Context) -> Tensor:
        """Mixed values; the weights are the same for every head."""
        if self.training and self.dropout:
            value = without_keys(value, self.dropout)
        if key.shape[-2] <= FEW:
            return self.matrix(query[:, :1], key[:, :1], context).to(value.dtype) @ value
        index, weights = self._entries(query, key, context)
        parts = zip(index.unbind(-1), weights.to(value.dtype).unbind(-1), strict=True)
        return torch.stack(
            [taken(value, column[:, None]) * weight[:, None, :, None] for column, weight in parts]
        ).sum(0)

    def matrix(self, query: Tensor, key: Tensor, context: Context) -> Tensor:
        """The weights of all heads, rows summing to 1."""
        index, weights = self._entries(query, key, context)
        matrix = weights.new_zeros(*index.shape[:2], key.shape[-2])
        matrix = matrix.scatter_add(-1, index, weights).to(key.dtype)
        return matrix[:, None].expand(-1, query.shape[1], -1, -1)

    def first_and_recent(self) -> tuple[int, int]:
        """No first key; those up to the farthest offset."""
        return 0, 1 - min(self.spec.offsets)

    def cost(self, queries: int, keys: int, dim: int) -> Cost:
        """One product a key and row: nothing is scored."""
        pairs = queries * min(len(self.spec.offsets), keys)
        return Cost(multiply_adds=pairs * dim, bytes=4 * pairs)

    def _entries(self, query: Tensor, key: Tensor, context: Context) -> tuple[Tensor, Tensor]:
        """The key of each offset of each row, and its weight: `[batch, query, offset]`."""
        visible, keys = visible_or_all(key, context.visible), key.shape[-2]
        wide = torch.promote_types(key.dtype, torch.float32)
        offset = torch.tensor(self.spec.offsets, device=key.device)
        weight = torch.tensor(self.spec.weights, dtype=wide, device=key.device)
        rows = torch.arange(query.shape[-2], device=key.device) + context.first_query
        target = (rows[:, None] + offset).expand(len(visible), -1, -1)
        index = target.clamp(0, keys - 1)
        reached = (target == index) & visible.gather(1, index.flatten(1)).view(index.shape)
        alone = nearest_real(rows + nearest_offset(self.spec.offsets), visible)
        allowed = visible.gather(1, alone)
        if self.causal:
            allowed = allowed & (alone <= rows)
        some = reached.any(-1, keepdim=True)
        index = torch.where(some, index, alone[..., None])
        first = torch.arange(len(offset), device=key.device) == 0
        weights = torch.where(some, weight * reached, first * allowed[..., None].to(wide))
        return index, weights / weights.sum(-1, keepdim=True).clamp(min=torch.finfo(wide).tiny)


def nearest_offset(offsets: tuple[int, ...]) -> int:
    """The smallest offset in size; of two that are as small the one that looks back; of none, 0.

    >>> nearest_offset((-2, 2, 5)), nearest_offset(())
    (-2, 0)
    """
    return min(offsets, key=lambda offset: (abs(offset), offset), default=0)


def check_not_ahead(spec: Specification, farthest: int, setup: Setup) -> None:
    """Refuses what looks ahead where the future is hidden."""
    if setup.causal and farthest > 0:
        msg = f"'{spec}' looks ahead and cannot be causal; use offsets up to 0."
        raise InputError(msg)
