"""What a head is, by description length: the family that codes its matrices in the fewest bits."""

import math
from dataclasses import dataclass, field

import torch
from jaxtyping import Float, Int
from torch import Tensor

from attnlab.matrices.blocks import block_gains, place_blocks
from attnlab.matrices.chunks import check_matrices
from attnlab.matrices.code_lengths import CodeLength, Rows, log2_choose, shortest_code
from attnlab.matrices.columns import real_columns
from attnlab.matrices.offsets import band_entries, real_band
from attnlab.matrices.padding import sizes_of, without_padding
from attnlab.matrices.supports import block_columns, sides

FAMILIES = ("diffuse", "diagonal", "band", "rare_columns", "sink")


@dataclass(frozen=True)
class Described:
    """One family's shortest code of a corpus, its noise share, and the parameters that give it."""

    bits: Float[Tensor, "*batch"]
    eta: Float[Tensor, "*batch"]
    parameters: dict[str, Int[Tensor, "*batch"]] = field(default_factory=dict)


@dataclass(frozen=True)
class Labels:
    """Description lengths of the heads of a batch; families stand in the order of `FAMILIES`.

    Attributes:
        bits: of the whole corpus, naming the support included.
        bits_per_row: the same divided by the number of rows.
        eta: the share of noise that gives the fewest bits.
        chosen: the family with the fewest bits, an index into `FAMILIES`.
        runner_up: the next one.
        margin: bits per row between the two.
        parameters: of each family, what its best code uses: offset, left and right, rows of a
            block and number of blocks, position of the sink (from the end when `from_end` is 1).
    """

    bits: Float[Tensor, "*batch family"]
    bits_per_row: Float[Tensor, "*batch family"]
    eta: Float[Tensor, "*batch family"]
    chosen: Int[Tensor, "*batch"]
    runner_up: Int[Tensor, "*batch"]
    margin: Float[Tensor, "*batch"]
    parameters: dict[str, dict[str, Int[Tensor, "*batch"]]]


def label_heads(
    H: Float[Tensor, "*batch sentence query key"],
    *,
    window: int = 5,
    num_pos: int = 2,
    sink_positions: int = 2,
    causal: bool = False,
    sizes: Int[Tensor, "*#batch sentence 2"] | None = None,
) -> Labels:
    """The structural label of each head: the family with the shortest description of its matrices.

    ::

        x_i = (1 - eta) uniform(support of row i) + eta uniform(all keys of row i)
        bits = - sum_ij h_ij log2 x_ij + bits that name the support

    `diffuse` names nothing. A `diagonal` names its offset and a `band` its (left, right), not both 0,
    once per head;
    `rare_columns` name their rows and number once per head, and their places once per sentence,
    log2 C(n - k (w - 1), k) + k log2 w, since they move with the words; a `sink` names one of the first
    or last positions once per head. The placement of the blocks captures the most mass, which is the
    shortest code unless `causal`, where it is an upper bound.

    Args:
        H: the matrices of every head, all sentences of a corpus, at least 0.
        window: the largest offset, band side and rows of a block that are tried.
        num_pos: the largest number of blocks in a sentence.
        sink_positions: how many positions from either end can be a sink.
        causal: rows see the keys up to their own position only.
        sizes: the real queries and keys of each matrix, see `attnlab.matrices.padding`.

    Source: math.md section 5. Cost: (window + 1)^2 + window * num_pos passes over the bands.
    """
    check_matrices(H)
    sides(window)
    H = without_padding(H, sizes).double()
    sizes = sizes_of(H, sizes).expand(*H.shape[:-2], 2)
    rows = _rows(H, sizes, causal=causal)
    found = [
        _diffuse(rows),
        _diagonal(H, rows, window, sizes, causal=causal),
        _band(H, rows, window, sizes, causal=causal),
        _rare_columns(H, rows, window, num_pos, sizes, causal=causal),
        _sink(H, rows, sink_positions, sizes, causal=causal),
    ]
    bits = torch.stack([family.bits for family in found], -1)
    order = bits.argsort(-1)
    count = sizes[..., 0].sum(-1)
    least = bits.sort(-1).values
    return Labels(
        bits=bits,
        bits_per_row=bits / count[..., None].clamp(min=1),
        eta=torch.stack([family.eta for family in found], -1),
        chosen=order[..., 0],
        runner_up=order[..., 1],
        margin=(least[..., 1] - least[..., 0]) / count.clamp(min=1),
        parameters={name: family.parameters for name, family in zip(FAMILIES, found, strict=True)},
    )


def _rows(H: Tensor, sizes: Tensor, *, causal: bool) -> Rows:
    keys = sizes[..., 1:].expand(H.shape[:-1]).clamp(min=1)
    if causal:
        keys = keys.minimum(torch.arange(1, H.shape[-2] + 1, device=H.device))
    return Rows(H.sum(-1).flatten(-2), keys.to(H.dtype).flatten(-2))


def _diffuse(rows: Rows) -> Described:
    bits = (rows.total * rows.keys.log2()).sum(-1)
    return Described(bits, torch.ones_like(bits))


def _diagonal(H: Tensor, rows: Rows, window: int, sizes: Tensor, *, causal: bool) -> Described:
    reach = sides(window, causal=causal)
    entries = band_entries(H, reach).flatten(-3, -2)
    inside = real_band(H, reach, sizes).flatten(-3, -2)
    codes = [
        shortest_code(rows, entries[..., index], inside[..., index].long())
        for index in range(entries.shape[-1])
    ]
    offsets = [{"offset": d} for d in range(-reach[0], reach[1] + 1)]
    return _shortest(codes, offsets)


def _band(H: Tensor, rows: Rows, window: int, sizes: Tensor, *, causal: bool) -> Described:
    reach = sides(window, causal=causal)
    entries = band_entries(H, reach).flatten(-3, -2)
    inside = real_band(H, reach, sizes).flatten(-3, -2)
    codes, named = [], []
    for left in range(reach[0] + 1):
        for right in range(reach[1] + 1):
            if left + right == 0:  # a diagonal
                continue
            part = slice(reach[0] - left, reach[0] + right + 1)
            codes.append(shortest_code(rows, entries[..., part].sum(-1), inside[..., part].sum(-1)))
            named.append({"left": left, "right": right})
    return _shortest(codes, named) if codes else _never(rows)


def _rare_columns(
    H: Tensor, rows: Rows, window: int, num_pos: int, sizes: Tensor, *, causal: bool
) -> Described:
    codes, named = [], []
    for block_rows in range(2, min(window, H.shape[-2]) + 1):
        anchors = 1 if causal else block_rows
        gains = block_gains(H, [block_rows], anchors=anchors, sizes=sizes)
        # The count of blocks is part of the code, so as many as asked for are placed where they fit.
        forced = [
            type(gain)(gain.height, gain.gain + _more_than_any_gain(H), gain.column)
            for gain in gains
        ]
        for count in range(1, num_pos + 1):
            placed = place_blocks(forced, count)
            column = block_columns(placed.start, placed.rows, placed.column, H.shape[-2])
            real = real_columns(column, H, sizes, causal=causal)
            place = column.clamp(0, H.shape[-1] - 1)[..., None]
            captured = H.gather(-1, place)[..., 0] * real
            code = shortest_code(rows, captured.flatten(-2), real.long().flatten(-2))
            bits = _naming_bits(placed.used.sum(-1), sizes[..., 0], block_rows, anchors)
            codes.append(CodeLength(code.bits + bits.sum(-1), code.eta))
            named.append({"block_rows": block_rows, "num_pos": count})
    return _shortest(codes, named) if codes else _never(rows)


def _more_than_any_gain(H: Tensor) -> float:
    return float(H.sum((-2, -1)).max()) * 2 + 1


def _naming_bits(blocks: Tensor, rows: Tensor, block_rows: int, anchors: int) -> Tensor:
    """log2 C(n - k (w - 1), k) + k log2 w of each sentence; a sentence lower than w has w = n."""
    height = rows.clamp(max=block_rows, min=1)
    k = blocks.double()
    places = log2_choose(rows - k * (height - 1), k)
    return places + k * height.clamp(max=anchors).double().log2()


def _sink(H: Tensor, rows: Rows, positions: int, sizes: Tensor, *, causal: bool) -> Described:
    codes, named = [], []
    for from_end in (0, 1):
        for position in range(positions):
            key = sizes[..., 1] - 1 - position if from_end else sizes[..., 1] * 0 + position
            column = key[..., None].expand(H.shape[:-1])
            real = real_columns(column, H, sizes, causal=causal)
            place = column.clamp(0, H.shape[-1] - 1)[..., None]
            captured = H.gather(-1, place)[..., 0] * real
            codes.append(shortest_code(rows, captured.flatten(-2), real.long().flatten(-2)))
            named.append({"position": position, "from_end": from_end})
    return _shortest(codes, named)


def _never(rows: Rows) -> Described:
    """A family without a member among the options."""
    bits = torch.full_like(rows.total[..., 0], math.inf)
    return Described(bits, torch.ones_like(bits))


def _shortest(codes: list[CodeLength], named: list[dict[str, int]]) -> Described:
    """The best of several codes of each head; saying which one it is costs log2 of their number."""
    bits = torch.stack([code.bits for code in codes], -1) + math.log2(len(codes))
    best = bits.argmin(-1, keepdim=True)
    eta = torch.stack([code.eta for code in codes], -1)
    parameters = {
        name: torch.tensor([options[name] for options in named], device=bits.device)[best[..., 0]]
        for name in named[0]
    }
    return Described(bits.gather(-1, best)[..., 0], eta.gather(-1, best)[..., 0], parameters)
