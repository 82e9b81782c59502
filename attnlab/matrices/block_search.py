"""The blocks of Sigma3 that come nearest together with the sparse error."""

import math
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from attnlab.matrices.blocks import Placement, block_gains, near_diagonal, place_blocks
from attnlab.matrices.columns import real_columns
from attnlab.matrices.offsets import real_band
from attnlab.matrices.padding import Sizes, sizes_of
from attnlab.matrices.priced import Task, corrected, priced_gain, priced_total
from attnlab.matrices.supports import block_columns

# Prices are found by iteration; nearly all matrices are settled after the second.
_ROUNDS = 3


@dataclass(frozen=True)
class BlockSpace:
    """Which blocks may be placed: heights, columns of a block that may be attended, how many blocks."""

    heights: list[int]
    anchors: int
    num_pos: int
    sizes: Sizes | None
    causal: bool


@dataclass(frozen=True)
class Blocks:
    """A placement, and the column of every row under it.

    `gained` is what it gains over the empty structure at its price; no placement beats `lower_bound`.
    """

    placement: Placement
    column: Int[Tensor, "*batch query"]
    allowed: Bool[Tensor, "*batch query"]
    gained: Float[Tensor, "*batch"]
    lower_bound: Float[Tensor, "*batch"] | None


def best_blocks(task: Task, space: BlockSpace) -> Blocks:
    """The placement that comes nearest to H together with its best error E.

    Without an error the dynamic programme is exact. With one, blocks share the corrections: the
    programme is solved at a price per correction (`priced`), the placement it finds gives the next price,
    and every price bounds all placements from below. Where a distance meets the bound it is the
    smallest; where none does, the best one found is kept and `lower_bound` stays below it.

    Cost: one dynamic programme, with an error one and a partial sort per round.
    """
    near = NearDiagonal.of(task.H, space)
    best = _placed(task, space, near, None)
    if task.allowed.absent:
        return best
    found = corrected(task, best.column, best.allowed)
    nearest, price = found.l1, found.price
    bound = torch.full_like(nearest, -math.inf)
    for _ in range(_ROUNDS):
        other = _placed(task, space, near, price)
        bound = bound.maximum(priced_total(task, price) - other.gained)
        found = corrected(task, other.column, other.allowed)
        best = _chosen(found.l1 < nearest - task.tolerance, other, best)
        nearest = nearest.minimum(found.l1)
        settled = bound >= nearest - task.tolerance
        # At a price that stays the same the next round would find the same again.
        if bool((settled | (found.price == price)).all()):
            break
        price = found.price
    return replace(best, lower_bound=bound.masked_fill(settled, math.inf))


@dataclass(frozen=True)
class NearDiagonal:
    """The entries that a block can attend, as `blocks.near_diagonal` lays them out, and which are real."""

    entries: Float[Tensor, "*batch key offset"]
    real: Bool[Tensor, "*#batch key offset"]
    own: int

    @classmethod
    def of(cls, H: Float[Tensor, "*batch query key"], space: BlockSpace) -> "NearDiagonal":
        """Those of H."""
        own = max(space.heights) - 1
        turned = None if space.sizes is None else space.sizes.flip(-1)
        real = real_band(H.mT, (own, own), turned)
        return cls(near_diagonal(H, space.heights), real, own)


def _placed(task: Task, space: BlockSpace, near: NearDiagonal, price: Tensor | None) -> Blocks:
    H, sizes = task.H, space.sizes
    gain = priced_gain(near.entries, task, price).masked_fill(~near.real, 0)
    gains = block_gains(
        gain, space.heights, queries=H.shape[-2], anchors=space.anchors, sizes=sizes
    )
    placed = place_blocks(gains, space.num_pos)
    gained = gain[..., near.own].sum(-1) + placed.total[..., -1]
    if sizes is not None:
        lowest = (sizes_of(H, sizes)[..., :1] - placed.start).clamp(min=0)
        placed = replace(placed, rows=placed.rows.minimum(lowest))
    column = block_columns(placed.start, placed.rows, placed.column, H.shape[-2])
    allowed = real_columns(column, H, sizes, causal=space.causal)
    return Blocks(placed, column, allowed, gained, None)


def _chosen(first: Bool[Tensor, "*batch"], one: Blocks, other: Blocks) -> Blocks:
    """`one` where `first`, else `other`."""

    def pick(a: Tensor, b: Tensor) -> Tensor:
        return torch.where(first[..., None], a, b)

    a, b = one.placement, other.placement
    placement = Placement(
        *(
            pick(getattr(a, name), getattr(b, name))
            for name in ("total", "used", "start", "rows", "column")
        )
    )
    return Blocks(
        placement,
        pick(one.column, other.column),
        pick(one.allowed, other.allowed),
        torch.where(first, one.gained, other.gained),
        None,
    )
