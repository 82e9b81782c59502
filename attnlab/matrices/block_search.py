"""The blocks of Sigma3 that come nearest together with the sparse error."""

import math
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from attnlab.matrices.blocks import Placement, block_gains, place_blocks
from attnlab.matrices.columns import real_columns
from attnlab.matrices.padding import Sizes, sizes_of, without_padding
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
    """A placement, the column of every row under it, and a bound that no placement beats."""

    placement: Placement
    column: Int[Tensor, "*batch query"]
    allowed: Bool[Tensor, "*batch query"]
    lower_bound: Float[Tensor, "*batch"] | None


def best_blocks(task: Task, space: BlockSpace) -> Blocks:
    """The placement that comes nearest to H together with its best error E.

    Without an error the dynamic programme is exact. With one, blocks share the corrections: the
    programme is solved at a price per correction (`priced`), the placement it finds gives the next price,
    and every price bounds all placements from below. Where a distance meets the bound it is the
    smallest; where none does, the best one found is kept and `lower_bound` stays below it.

    Cost: one dynamic programme, with an error one and a partial sort per round.
    """
    best = _placed(task, space, None)
    if task.allowed.absent:
        return best
    found = corrected(task, best.column, best.allowed)
    nearest, price = found.l1, found.price
    bound = torch.full_like(nearest, -math.inf)
    for _ in range(_ROUNDS):
        other = _placed(task, space, price)
        gained = _identity_gain(task, space, price) + other.placement.total[..., -1]
        bound = bound.maximum(priced_total(task, price) - gained)
        found = corrected(task, other.column, other.allowed)
        best = _chosen(found.l1 < nearest - task.tolerance, other, best)
        nearest, price = nearest.minimum(found.l1), found.price
        settled = bound >= nearest - task.tolerance
        if bool(settled.all()):
            break
    return replace(best, lower_bound=bound.masked_fill(settled, math.inf))


def _placed(task: Task, space: BlockSpace, price: Tensor | None) -> Blocks:
    H, sizes = task.H, space.sizes
    gain = without_padding(priced_gain(H, task, price), sizes)
    gains = block_gains(gain, space.heights, anchors=space.anchors, sizes=sizes)
    placed = place_blocks(gains, space.num_pos)
    if sizes is not None:
        lowest = (sizes_of(H, sizes)[..., :1] - placed.start).clamp(min=0)
        placed = replace(placed, rows=placed.rows.minimum(lowest))
    column = block_columns(placed.start, placed.rows, placed.column, H.shape[-2])
    allowed = real_columns(column, H, sizes, causal=space.causal)
    return Blocks(placed, column, allowed, None)


def _identity_gain(task: Task, space: BlockSpace, price: Tensor) -> Float[Tensor, "*batch"]:
    gain = priced_gain(task.H.diagonal(dim1=-2, dim2=-1)[..., None], task, price)[..., 0]
    real = sizes_of(task.H, space.sizes).amin(-1)
    return gain.masked_fill(
        torch.arange(gain.shape[-1], device=gain.device) >= real[..., None], 0
    ).sum(-1)


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
    return Blocks(placement, pick(one.column, other.column), pick(one.allowed, other.allowed), None)
