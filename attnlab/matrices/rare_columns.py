"""Sigma3, the rare-token family: the identity, except blocks of rows that attend one token.

The blocks of Sigma3 that come nearest together with the sparse error.
"""

import math
from dataclasses import dataclass, replace
from typing import Literal, get_args

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from attnlab.core import InputError
from attnlab.matrices.batched import Sizes, checked_weights, in_chunks, sizes_of
from attnlab.matrices.blocks import Placement, block_gains, near_diagonal, place_blocks
from attnlab.matrices.fit import Fit, Outline, Parameters, complete
from attnlab.matrices.offsets import real_band
from attnlab.matrices.priced import (
    Task,
    best_error,
    corrected,
    fill_columns,
    priced_gain,
    priced_total,
    real_columns,
)
from attnlab.matrices.residual import SparseError
from attnlab.matrices.supports import Values, block_columns, check_values, sides

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
    fit = corrected(task, best.column, best.allowed)
    nearest, price = fit.l1, fit.price
    bound = torch.full_like(nearest, -math.inf)
    for _ in range(_ROUNDS):
        other = _placed(task, space, near, price)
        bound = bound.maximum(priced_total(task, price) - other.gained)
        fit = corrected(task, other.column, other.allowed)
        best = _chosen(fit.l1 < nearest - task.tolerance, other, best)
        nearest = nearest.minimum(fit.l1)
        settled = bound >= nearest - task.tolerance
        # At a price that stays the same the next round would find the same again.
        if bool((settled | (fit.price == price)).all()):
            break
        price = fit.price
    return replace(best, lower_bound=bound.masked_fill(settled, math.inf))


@dataclass(frozen=True)
class NearDiagonal:
    """The entries that a block can attend, as `blocks.near_diagonal` lays them out, and which are real."""

    entries: Float[Tensor, "*batch key offset"]
    real: Bool[Tensor, "*#batch key offset"]
    diagonal: int

    @classmethod
    def of(cls, H: Float[Tensor, "*batch query key"], space: BlockSpace) -> "NearDiagonal":
        """The entries of H near its diagonal."""
        diagonal = max(space.heights) - 1
        turned = None if space.sizes is None else space.sizes.flip(-1)
        real = real_band(H.mT, (diagonal, diagonal), turned)
        return cls(near_diagonal(H, space.heights), real, diagonal)


def _placed(task: Task, space: BlockSpace, near: NearDiagonal, price: Tensor | None) -> Blocks:
    H, sizes = task.H, space.sizes
    gain = priced_gain(near.entries, task, price).masked_fill(~near.real, 0)
    gains = block_gains(
        gain, space.heights, queries=H.shape[-2], anchors=space.anchors, sizes=sizes
    )
    placed = place_blocks(gains, space.num_pos)
    gained = gain[..., near.diagonal].sum(-1) + placed.total[..., -1]
    if sizes is not None:
        lowest = (sizes_of(H, sizes)[..., :1] - placed.start).clamp(min=0)
        placed = replace(placed, rows=placed.rows.minimum(lowest))
    column = block_columns(placed.start, placed.rows, placed.column, H.shape[-2])
    allowed = real_columns(column, H, sizes, causal=space.causal)
    return Blocks(placed, column, allowed, gained, None)


def _chosen(first: Bool[Tensor, "*batch"], preferred: Blocks, other: Blocks) -> Blocks:
    """`preferred` where `first`, else `other`."""

    def pick(a: Tensor, b: Tensor) -> Tensor:
        return torch.where(first[..., None], a, b)

    a, b = preferred.placement, other.placement
    placement = Placement(
        *(
            pick(getattr(a, name), getattr(b, name))
            for name in ("total", "used", "start", "rows", "column")
        )
    )
    return Blocks(
        placement,
        pick(preferred.column, other.column),
        pick(preferred.allowed, other.allowed),
        torch.where(first, preferred.gained, other.gained),
        None,
    )


Anchor = Literal["any", "first"]
Heights = Literal["fixed", "at_most"]


@dataclass(frozen=True)
class RareColumns(Parameters):
    """Sigma3: the identity, but rows start..start+rows-1 of each used block attend `column`.

    Used blocks stand first, from top to bottom; unused ones hold no row.
    """

    block_rows: int
    used: Bool[Tensor, "*batch block"]
    start: Int[Tensor, "*batch block"]
    rows: Int[Tensor, "*batch block"]
    column: Int[Tensor, "*batch block"]

    def described(self, index: int) -> str:
        """The member in words, such as `rows 4-6 to 5`, or `identity`."""
        phrases = [
            f"rows {start}-{start + rows - 1} to {column}"
            for start, rows, column in self.outline(index).blocks
        ]
        return ", ".join(phrases) or "identity"

    def outline(self, index: int) -> Outline:
        """Offset 0, and the blocks."""
        blocks = torch.stack([self.start[index], self.rows[index], self.column[index]], -1)
        return Outline((0, 0), blocks=tuple(map(tuple, blocks[self.used[index]].tolist())))


@in_chunks
def fit_rare_columns(
    H: Float[Tensor, "*batch query key"],
    *,
    window: int | tuple[int, ...],
    num_pos: int,
    values: Values = "free",
    anchor: Anchor = "any",
    heights: Heights = "fixed",
    causal: bool = False,
    error_nnz: int | Int[Tensor, "*#batch"] = 0,
    error_bound: float = math.inf,
    sizes: Sizes | None = None,
) -> Fit:
    """Nearest member of Sigma3: at most `num_pos` disjoint blocks of rows attend one column each.

    ::

        row i attends t_b   if i lies in block b = a_b .. a_b + w - 1,   t_b in the block
        row i attends i     otherwise
        minimise |H - P| = sum(h) - sum over rows of gain(h_i,column(i))

    with gain h for `free` values, h - |1 - h| for `binary` and `stochastic`, which are the same here.
    The optimum is exact, by dynamic programming over the rows. With an error the blocks are chosen
    together with it (`attnlab.matrices.rare_columns`): nearly always exactly, elsewhere the distance is
    an upper bound and `Fit.exact` is False. Blocks lie wholly inside the matrix
    (their columns are cut where a matrix has fewer keys than queries); a matrix of fewer than w
    rows can hold one block of all its rows. Rows without a key of their own are empty.

    Args:
        H: attention weights, at least 0.
        window: w, the rows of a block; of a pair the larger side.
        num_pos: how many blocks there may be.
        values: how the entries may be filled.
        anchor: `any` column of the block, as in the thesis's text, or the `first`, as in its code.
        heights: every block has exactly w rows (`fixed`), or 1 to w (`at_most`).
        causal: no row attends a later one; a block's column is then its first.
        error_nnz: s, how many entries E may correct.
        error_bound: eps, how large a correction may be.
        sizes: the real queries and keys of each matrix, see `attnlab.matrices.batched`.

    Raises:
        InputError: no attention weights, unknown values,
            anchor or heights, a negative window, num_pos or error.

    Cost: O(n w) for the gains (O(n w^2) for `at_most`) and O(n num_pos) for the placement; with an
    error a few times that and a few partial sorts of the matrix.
    Source: math.md section 3; thesis fig. 14.
    """
    check_values(values)
    check_blocks(num_pos, anchor, heights)
    H = checked_weights(H, sizes)
    block_rows = min(max(sides(window)), H.shape[-2])
    # A block of one row attends that row itself, as the identity does.
    lowest = block_rows if heights == "fixed" else 2
    tried = list(range(max(lowest, 1), block_rows + 1)) or [1]
    anchors = 1 if causal or anchor == "first" else block_rows
    task = Task(H, values, SparseError(error_nnz, error_bound))
    space = BlockSpace(tried, anchors, num_pos, sizes, causal=causal)
    blocks = best_blocks(task, space)
    placed = blocks.placement
    return complete(
        H,
        fill_columns(H, blocks.column, blocks.allowed, values),
        family="rare_columns",
        values=values,
        parameters=RareColumns(block_rows, placed.used, placed.start, placed.rows, placed.column),
        support_size=blocks.allowed.sum(-1),
        allowed=task.allowed,
        sizes=sizes,
        error=None if task.allowed.absent else best_error(task, blocks.column, blocks.allowed),
        lower_bound=blocks.lower_bound,
    )


def check_blocks(num_pos: int, anchor: str = "any", heights: str = "fixed") -> None:
    """Refuses what is no description of blocks.

    Raises:
        InputError: a negative number of blocks, or an unknown anchor or kind of height.
    """
    if num_pos < 0:
        msg = f"The number of rare columns must be 0 or more, not {num_pos}."
        raise InputError(msg)
    for name, given, choices in (("anchor", anchor, Anchor), ("heights", heights, Heights)):
        if given not in get_args(choices):
            msg = f"There is no {name} '{given}'; choose from: {', '.join(get_args(choices))}."
            raise InputError(msg)
