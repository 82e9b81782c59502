"""Fixed patterns (Raganato et al. 2020, arXiv 2002.10260, section 3): weights from positions alone."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from attnlab.attention.kernels.feature_products import kernel_sums, with_ones
from attnlab.attention.mechanism import (
    Context,
    Cost,
    Positions,
    Setup,
    Traits,
    nearest_real,
    sentence_ends,
    visible_or_all,
    without_keys,
)
from attnlab.attention.padding import PaddingSafeMechanism
from attnlab.attention.specification import Specification
from attnlab.core import InputError

SHIFTS = {"self": 0, "previous": -1, "next": 1}
# For so many queries one product with the written-out pattern is quicker than running sums.
FEW = 256
BACKWARD = ("self", "previous", "left")


@dataclass(frozen=True)
class Fixed(Specification):
    """Weights that follow from positions alone."""

    name: ClassVar[str] = "fixed"
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "pattern": ("self", "previous", "next", "left", "right", "start", "end")
    }
    pattern: Any

    def __post_init__(self) -> None:
        self.check_chosen()


class FixedAttention(PaddingSafeMechanism):
    """One key, or a stretch of keys with cubic weights, chosen by position.

    ::

        self, previous, next:  weight 1 at i, i - 1, i + 1
        left:   (j + 1)^3 for j <= i - 2            right:  (n - j)^3 for j >= i + 2
        end:    (j + 1)^3 for all j                 start:  (n - j)^3 for all j

    Positions are counted within the sentence. Rows sum to 1: stretches are normalised, and a row
    whose keys would all lie outside the sentence sees the key of the sentence nearest to it.
    In training whole keys are dropped, the same for all queries.
    """

    specification: ClassVar[type[Specification] | None] = Fixed
    source: ClassVar[str] = "Raganato et al. 2020, arXiv 2002.10260"
    traits: ClassVar[Traits] = Traits(subquadratic=True, bias=False, content_free=True)
    positions: ClassVar[Positions] = "offsets"

    def __init__(self, spec: Fixed, setup: Setup) -> None:
        if setup.causal and spec.pattern not in BACKWARD:
            msg = (
                f"'{spec}' looks ahead and cannot be causal; the patterns that do not are: "
                f"{', '.join(BACKWARD)}."
            )
            raise InputError(msg)
        super().__init__(spec, setup)

    def mix(self, query: Tensor, key: Tensor, value: Tensor, context: Context) -> Tensor:
        """Mixed values: one key taken a row, or running sums of weighted values."""
        visible, first_query = visible_or_all(key, context.visible), context.first_query
        if self.training and self.dropout:
            value = without_keys(value, self.dropout)
        if self.spec.pattern not in SHIFTS and query.shape[-2] <= FEW:
            matrix = self.matrix(query[:, :1], key[:, :1], context)
            return matrix.to(value.dtype) @ value
        index = nearest_real(self._targets(query, first_query), visible)
        # Padding between words hides even the key that a row would take.
        real = visible.gather(1, index)[:, None, :, None]
        alone = _rows_of(value, index).masked_fill(~real, 0.0)
        if self.spec.pattern not in SHIFTS:
            mixed, some = self._stretch(value, visible, query, first_query)
            alone = torch.where(some[:, None, :, None], mixed, alone)
        return alone.masked_fill(~self._some(query, visible, first_query)[:, None, :, None], 0.0)

    def matrix(self, query: Tensor, key: Tensor, context: Context) -> Tensor:
        """The pattern: rows sum to 1 over the sentence, the same for every head."""
        visible, first_query = visible_or_all(key, context.visible), context.first_query
        targets = self._targets(query, first_query)
        columns = torch.arange(key.shape[-2], device=key.device)
        wide = torch.promote_types(key.dtype, torch.float32)
        matrix = (nearest_real(targets, visible).unsqueeze(-1) == columns).to(wide)
        if self.spec.pattern not in SHIFTS:
            rows = torch.arange(query.shape[-2], device=key.device)[:, None] + first_query
            weights = self._weights(visible, wide)[:, None] * self._reach(columns - rows)
            total = weights.sum(-1, keepdim=True)
            matrix = torch.where(total > 0, weights / total.clamp(min=1.0), matrix)
        some = self._some(query, visible, first_query).unsqueeze(-1)
        matrix = (matrix * visible[:, None, :] * some).to(key.dtype)
        return matrix[:, None].expand(-1, query.shape[1], -1, -1)

    def first_and_recent(self) -> tuple[int, int] | None:
        """The key of the pattern; None for a stretch of keys."""
        shift = SHIFTS.get(self.spec.pattern)
        return None if shift is None else (0, 1 - shift)

    def cost(self, queries: int, keys: int, dim: int) -> Cost:
        """One product a value: running sums, or rows taken as they are."""
        return Cost(multiply_adds=(queries + keys) * dim, bytes=4 * keys * dim)

    def _targets(self, query: Tensor, first_query: int) -> Tensor:
        rows = torch.arange(query.shape[-2], device=query.device) + first_query
        return rows + SHIFTS.get(self.spec.pattern, 0)

    def _some(self, query: Tensor, visible: Tensor, first_query: int) -> Tensor:
        """Rows that have a key, `[batch, query]`: when causal, padding before a sentence has none."""
        rows = torch.arange(query.shape[-2], device=query.device) + first_query
        begun = visible.long().argmax(-1, keepdim=True) <= rows
        return visible.any(-1, keepdim=True) & (begun if self.causal else torch.ones_like(begun))

    def _weights(self, visible: Tensor, dtype: torch.dtype) -> Tensor:
        """Cubic weight of each key, 0 for padding, `[batch, key]`."""
        steps = torch.arange(visible.shape[-1], device=visible.device)
        begins = visible.long().argmax(-1, keepdim=True)
        if self.spec.pattern in {"left", "end"}:
            position = steps - begins + 1
        else:
            position = sentence_ends(visible)[:, None] - steps
        return position.to(dtype) ** 3 * visible

    def _reach(self, offset: Tensor) -> Tensor:
        reach = {"left": offset <= -2, "right": offset >= 2}
        return reach.get(self.spec.pattern, torch.ones_like(offset, dtype=torch.bool))

    def _stretch(
        self, value: Tensor, visible: Tensor, query: Tensor, first_query: int
    ) -> tuple[Tensor, Tensor]:
        """Weighted means over the stretch of each row, and which rows have one."""
        wide = torch.promote_types(value.dtype, torch.float32)
        weights = self._weights(visible, wide)[:, None, :, None]
        values = with_ones(value.to(wide))
        rows = torch.arange(query.shape[-2], device=query.device) + first_query
        if self.spec.pattern in {"start", "end"}:
            sums = (weights.mT @ values).expand(-1, -1, len(rows), -1)
        elif self.spec.pattern == "left":
            sums = _picked(_running_sums(weights, values), rows - 2) * (rows >= 2)[:, None]
        else:
            last = value.shape[2] - 1
            backwards = _running_sums(weights.flip(2), values.flip(2)).flip(2)
            sums = _picked(backwards, rows + 2) * (rows + 2 <= last)[:, None]
        total = sums[..., -1:]
        mixed = sums[..., :-1] / total.clamp(min=1.0)
        return mixed.to(value.dtype), (total > 0)[:, 0, :, 0]


def _running_sums(weights: Tensor, values: Tensor) -> Tensor:
    return kernel_sums(torch.ones_like(weights), weights, values, causal=True)


def _picked(sums: Tensor, rows: Tensor) -> Tensor:
    return sums[:, :, rows.clamp(0, sums.shape[2] - 1)]


def _rows_of(value: Tensor, index: Tensor) -> Tensor:
    index = index[:, None, :, None].expand(-1, value.shape[1], -1, value.shape[-1])
    return value.gather(2, index)
