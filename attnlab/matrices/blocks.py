"""Where to put the blocks of Sigma3: gains by prefix sums, placement by dynamic programming."""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional as F

from attnlab.matrices.batched import Sizes
from attnlab.matrices.offsets import band_entries


@dataclass(frozen=True)
class BlockGains:
    """What blocks of one height gain over the identity, by first row, and the best column of each.

    Blocks that do not fit have gain -inf.
    """

    height: int
    gain: Float[Tensor, "*batch query"]
    column: Int[Tensor, "*batch query"]


@dataclass(frozen=True)
class Placement:
    """Disjoint blocks with the largest total gain, from top to bottom, unused ones last.

    Attributes:
        total: the gain with at most 0, 1, .. blocks.
        used: False for a block that would not have helped; its other fields are 0.
    """

    total: Float[Tensor, "*batch count"]
    used: Bool[Tensor, "*batch block"]
    start: Int[Tensor, "*batch block"]
    rows: Int[Tensor, "*batch block"]
    column: Int[Tensor, "*batch block"]


def near_diagonal(
    H: Float[Tensor, "*batch query key"], heights: list[int]
) -> Float[Tensor, "*batch key offset"]:
    """What a block of any of these heights can attend: of each key the rows within the tallest."""
    reach = max(heights) - 1
    return band_entries(H.mT, (reach, reach))


def block_gains(
    gain: Float[Tensor, "*batch key offset"],
    heights: list[int],
    *,
    queries: int,
    anchors: int,
    sizes: Sizes | None,
) -> list[BlockGains]:
    """What every block of each height gains when its rows attend one column instead of themselves.

    ::

        gain(a, c) = sum over i in a..a+height-1 of (g_i,a+c - g_i,i),   0 <= c < min(height, anchors)

    `gain` holds g, what a row gains by attending a key, as `near_diagonal` lays it out, and 0 in the
    padding. A block fits when its rows and its column are real; in a matrix lower than the height it
    holds all rows. Sums run along the columns. Cost: O(n * height * anchors) for one height.
    """
    tallest, keys = max(heights), gain.shape[-2]
    # Row t holds what rows t-tallest+1 .. t+tallest-1 gain by attending column t, summed from the left.
    sums = F.pad(gain.cumsum(-1), (1, 0))
    sums = F.pad(sums, (0, 0, 0, max(queries + tallest - keys, 0)))
    replaced_gain = gain.new_zeros(*gain.shape[:-2], queries)
    replaced_gain[..., : min(queries, keys)] = gain[..., : min(queries, keys), tallest - 1]
    own_sums = F.pad(replaced_gain.cumsum(-1), (1, 0))
    real = torch.tensor([queries, keys], device=gain.device) if sizes is None else sizes
    best = []
    for height in heights:
        last = (torch.arange(queries, device=gain.device) + height).clamp(max=queries)
        replaced = own_sums[..., last] - own_sums[..., :-1]
        best.append(_best_columns(sums, replaced, height, anchors, real))
    return best


def _best_columns(
    sums: Tensor, replaced: Tensor, height: int, anchors: int, real: Tensor
) -> BlockGains:
    queries, tallest = replaced.shape[-1], sums.shape[-1] // 2
    start = torch.arange(queries, device=sums.device)
    rows, keys = real[..., :1], real[..., 1:]
    fits = start <= (rows - height).clamp(min=0)
    best = torch.full_like(replaced, -math.inf)
    column = start.expand(replaced.shape)
    for c in range(min(height, anchors)):
        at_column = sums[..., c : c + queries, :]
        first = tallest - 1 - c
        gained = at_column[..., first + height] - at_column[..., first] - replaced
        allowed = fits & (start + c < keys) & (start + c < rows)
        better = allowed & (gained > best)
        best = torch.where(better, gained, best)
        column = torch.where(better, start + c, column)
    return BlockGains(height, best, column)


def place_blocks(gains: list[BlockGains], num_pos: int) -> Placement:
    """The disjoint blocks with the largest total gain: weighted interval scheduling, solved exactly.

    ::

        f_j(i) = max( f_j(i - 1), max over heights h of f_{j-1}(i - h) + gain_h(i - h) )

    f_j(i) is the best total of at most j blocks in the first i rows. For each j the recursion over i
    is a running maximum, so that all rows and matrices go at once.
    Cost: O(n * num_pos * heights). Source: math.md section 3.
    """
    like = gains[0].gain
    rows = like.shape[-1] + 1
    before = like.new_zeros(*like.shape[:-1], rows)
    totals, steps = [before[..., -1]], []
    for _ in range(num_pos):
        ending, height_index = _best_ending(before, gains)
        running, end = ending.cummax(-1)
        used = running > before
        before = torch.where(used, running, before)
        steps.append((used, end, height_index))
        totals.append(before[..., -1])
    return _trace(totals, steps, gains)


def _best_ending(before: Tensor, gains: list[BlockGains]) -> tuple[Tensor, Tensor]:
    """Best total whose last block ends right before row i, and which height that block has."""
    best = torch.full_like(before, -math.inf)
    index = torch.zeros_like(before, dtype=torch.long)
    rows = before.shape[-1]
    for position, block in enumerate(gains):
        if block.height >= rows:
            continue
        reach = before[..., : rows - block.height] + block.gain[..., : rows - block.height]
        total = F.pad(reach, (block.height, 0), value=-math.inf)
        better = total > best
        best = torch.where(better, total, best)
        index = index.masked_fill(better, position)
    return best, index


def _trace(
    totals: list[Tensor], steps: list[tuple[Tensor, Tensor, Tensor]], gains: list[BlockGains]
) -> Placement:
    """The blocks behind the last total, found from the bottom row upwards."""
    heights = torch.tensor([block.height for block in gains], device=totals[0].device)
    columns = torch.stack([block.column for block in gains])
    row = torch.full_like(totals[0], columns.shape[-1], dtype=torch.long)[..., None]
    blocks = []
    for used, end, height_index in reversed(steps):
        taken = used.gather(-1, row)
        stop = end.gather(-1, row)
        kind = height_index.gather(-1, stop)
        start = (stop - heights[kind]) * taken
        column = columns.gather(-1, start.expand(len(gains), *start.shape))
        column = column.gather(0, kind[None])[0] * taken
        blocks.append((taken, start, heights[kind] * taken, column))
        row = torch.where(taken, start, row)
    total = torch.stack(totals, -1)
    if not blocks:
        none = total.new_zeros(*total.shape[:-1], 0, dtype=torch.long)
        return Placement(total, none.bool(), none, none, none)
    used, start, rows, column = (
        torch.cat(parts, -1).flip(-1) for parts in zip(*blocks, strict=True)
    )
    return Placement(total, used, start, rows, column)
