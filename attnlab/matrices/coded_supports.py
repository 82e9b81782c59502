"""The supports that each family offers a row, and what each of them captures (math.md section 5).

How many bits a row costs when it is coded as a support and a little noise (math.md section 5).
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from attnlab.core import InputError
from attnlab.matrices.batched import Positions, positions_of
from attnlab.matrices.blocks import block_gains, near_diagonal, place_blocks
from attnlab.matrices.families import CODED, FAMILIES, NO_FAMILY
from attnlab.matrices.offsets import band_entries, real_band
from attnlab.matrices.priced import real_columns
from attnlab.matrices.supports import block_columns, sides

# Far below any noise share that a corpus could tell from 0.
_SMALLEST = 2.0**-41
# Each at least halves the distance to the next eta at which a row's code breaks down; a few are enough.
_MOST_STEPS = 80


@dataclass(frozen=True)
class Rows:
    """The rows of a corpus as a coder sees them: how much each weighs and how many keys it has.

    Padding rows have total 0.
    """

    total: Float[Tensor, "*batch row"]
    keys: Float[Tensor, "*#batch row"]


@dataclass(frozen=True)
class CodeLength:
    """Bits of a whole corpus under one support per row, and the noise share that gives them."""

    bits: Float[Tensor, "*batch"]
    eta: Float[Tensor, "*batch"]


def shortest_code(
    rows: Rows,
    captured: Float[Tensor, "*batch row"],
    support: Int[Tensor, "*#batch row"],
) -> CodeLength:
    """The cross-entropy of all rows with the best share of noise.

    ::

        x_i = (1 - eta) uniform(support of row i) + eta uniform(all n_i keys)
        bits(eta) = - sum_i c_i log2((1 - eta) / m_i + eta / n_i) - sum_i (r_i - c_i) log2(eta / n_i)

    c_i is the mass of row i on its support of m_i keys and r_i its whole mass. A row without support is
    coded as uniform. The function is convex in eta, see `_best_noise`; where supports hold all keys
    (`diffuse`) every eta costs the same, and all is called noise, eta = 1.
    Source: math.md section 5. Cost: a few passes over the rows.
    """
    supported = support > 0
    m = support.clamp(min=1).to(captured.dtype)
    inside = captured * supported
    outside = (rows.total - captured).clamp(min=0) * supported
    eta = _best_noise(inside * (1 - m / rows.keys), 1 - m / rows.keys, outside.sum(-1))
    e = eta[..., None]
    bits = -(inside * ((1 - e) / m + e / rows.keys).log2()).sum(-1)
    bits = bits - (outside * (e / rows.keys).log2()).sum(-1)
    unsupported = (rows.total * rows.keys.log2() * ~supported).sum(-1)
    return CodeLength(bits + unsupported, eta)


def _best_noise(
    gained: Float[Tensor, "*batch row"],
    missing: Float[Tensor, "*#batch row"],
    outside: Float[Tensor, "*batch"],
) -> Float[Tensor, "*batch"]:
    """The share of noise at which the code is shortest.

    With u_i = 1 - m_i / n_i, eta times the slope of the likelihood is concave and falls from what lies
    outside all supports::

        g(eta) = outside - eta * sum_i gained_i / (1 - eta u_i)        gained_i = c_i u_i

    From the right of its root Newton's steps fall to it, and from the left the first one leads there; a step
    that leaves what is known of the root halves that instead. Where g(1) >= 0 all is noise.

    Args:
        gained: c u of each row, 0 where a row has no support.
        missing: u of each row.
        outside: mass of the rows with a support that is off it.
    """
    low, high = torch.zeros_like(outside), torch.ones_like(outside)
    # The root, were all rows alike.
    eta = outside / (outside + gained.sum(-1)).clamp(min=_SMALLEST)
    done = outside >= (gained / (1 - missing).clamp(min=_SMALLEST)).sum(-1)
    eta = torch.where(done, 1.0, eta.clamp(_SMALLEST, 1.0))
    for _ in range(_MOST_STEPS):
        if bool(done.all()):
            break
        room = 1 - eta[..., None] * missing
        share = gained / room
        value = outside - eta * share.sum(-1)
        low, high = torch.where(value > 0, eta, low), torch.where(value > 0, high, eta)
        step = eta + value / (share / room).sum(-1)
        step = torch.where((step > low) & (step < high), step, (low + high) / 2)
        # What has converged stays, whatever else is in the batch.
        step = torch.where(done, eta, step)
        done, eta = done | ((step - eta).abs() <= _SMALLEST), step
    return eta.clamp(min=_SMALLEST)


def log2_choose(n: Float[Tensor, "*shape"], k: Float[Tensor, "*#shape"]) -> Float[Tensor, "*shape"]:
    """log2 of n over k.

    >>> round(float(log2_choose(torch.tensor(8.0), torch.tensor(1.0))), 3)
    3.0
    """
    nats = torch.lgamma(n + 1) - torch.lgamma(k + 1) - torch.lgamma(n - k + 1)
    return nats / torch.log(torch.tensor(2.0, dtype=nats.dtype, device=nats.device))


@dataclass(frozen=True)
class Search:
    """How far the supports reach that are tried.

    What is tried does not depend on the matrices, so that no size of a padded tensor matters.

    Attributes:
        window: the largest offset, band side and rows of a block.
        num_pos: the largest number of blocks in a sentence.
        column_positions: how many positions from either end can be the column.
        causal: rows see the keys up to their own position only.
    """

    window: int = 5
    num_pos: int = 2
    column_positions: int = 2
    causal: bool = False

    def __post_init__(self) -> None:
        for name in ("window", "num_pos", "column_positions"):
            given = getattr(self, name)
            if type(given) is not int or given < 0:
                msg = f"{name} must be a whole number from 0 up, not {given!r}."
                raise InputError(msg)


def with_room(
    H: Float[Tensor, "*batch query key"], search: Search
) -> Float[Tensor, "*batch rows columns"]:
    """H with padding up to the rows of the highest block, where it is smaller."""
    rows, columns = (max(search.window - length, 0) for length in H.shape[-2:])
    return F.pad(H, (0, columns, 0, rows))


@dataclass(frozen=True)
class Candidate:
    """One support of every row, and the mass on it.

    Attributes:
        family: one of `CODED`.
        parameters: which member of the family it is.
        captured: mass of each row on its support.
        support: number of keys in each row's support; 0 where it has none.
        naming_bits: what names the positions in each sentence; None where nothing moves.
    """

    family: str
    parameters: dict[str, int]
    captured: Float[Tensor, "*batch sentence query"]
    support: Int[Tensor, "*#batch sentence query"]
    naming_bits: Float[Tensor, "*batch sentence"] | None = None


def candidates(
    H: Float[Tensor, "*batch sentence query key"],
    sizes: Int[Tensor, "*#batch sentence 2"],
    search: Search,
    positions: Positions | None = None,
) -> Iterator[Candidate]:
    """Every member of every family, in the order of `CODED`, one at a time.

    Args:
        H: matrices with zeros in the padding, at least as large as a block (`with_room`).
        sizes: real queries and keys of each matrix; supports broadcast as they do.
        search: which members are tried.
        positions: of the rows, where they are not all queries. A family whose members are chosen over all
            rows at once has none then.
    """
    for name in CODED:
        yield from FAMILIES[name].candidates(H, sizes, search, positions)


def nothing(
    H: Tensor, sizes: Tensor, search: Search, positions: Positions | None
) -> Iterator[Candidate]:
    """Rows without a support."""
    del sizes, search, positions
    empty = torch.zeros_like(H[..., 0])
    yield Candidate(NO_FAMILY, {}, empty, empty.long())


def diagonals(
    H: Tensor, sizes: Tensor, search: Search, positions: Positions | None
) -> Iterator[Candidate]:
    """Each offset within reach."""
    reach = sides(search.window, causal=search.causal)
    entries, inside = band_entries(H, reach, positions), real_band(H, reach, sizes, positions)
    for index, offset in enumerate(range(-reach[0], reach[1] + 1)):
        column = (..., index)
        yield Candidate("diagonal", {"offset": offset}, entries[column], inside[column].long())


def bands(
    H: Tensor, sizes: Tensor, search: Search, positions: Positions | None
) -> Iterator[Candidate]:
    """Each band within reach that is no diagonal."""
    reach = sides(search.window, causal=search.causal)
    entries, inside = band_entries(H, reach, positions), real_band(H, reach, sizes, positions)
    for left in range(reach[0] + 1):
        for right in range(reach[1] + 1):
            if left + right == 0:  # a diagonal
                continue
            part = (..., slice(reach[0] - left, reach[0] + right + 1))
            parameters = {"left": left, "right": right}
            yield Candidate("band", parameters, entries[part].sum(-1), inside[part].sum(-1))


def rare_columns(
    H: Tensor, sizes: Tensor, search: Search, positions: Positions | None
) -> Iterator[Candidate]:
    """Blocks of rows that attend one key, where they capture most; placed over all rows at once."""
    if positions is not None:
        return
    sizes = sizes.expand(*H.shape[:-2], 2)
    for block_rows in range(2, search.window + 1):
        anchors = 1 if search.causal else block_rows
        near = near_diagonal(H, [block_rows])
        gains = block_gains(near, [block_rows], queries=H.shape[-2], anchors=anchors, sizes=sizes)
        # The count of blocks is part of the code, so as many as asked for are placed where they fit.
        more_than_any = 2 * H.sum((-2, -1))[..., None] + 1
        forced = [replace(gain, gain=gain.gain + more_than_any) for gain in gains]
        for count in range(1, search.num_pos + 1):
            placed = place_blocks(forced, count)
            column = block_columns(placed.start, placed.rows, placed.column, H.shape[-2])
            captured, real = _column_weights(H, column, sizes, search, positions)
            bits = _naming_bits(placed.used.sum(-1), sizes[..., 0], block_rows, anchors)
            parameters = {"block_rows": block_rows, "num_pos": count}
            yield Candidate("rare_columns", parameters, captured, real, bits)


def _naming_bits(blocks: Tensor, rows: Tensor, block_rows: int, anchors: int) -> Tensor:
    """log2 C(n - k (w - 1), k) + k log2 w of each sentence; a sentence lower than w has w = n."""
    height = rows.clamp(max=block_rows, min=1)
    k = blocks.double()
    bits_of_positions = log2_choose(rows - k * (height - 1), k)
    return bits_of_positions + k * height.clamp(max=anchors).double().log2()


def fixed_columns(
    H: Tensor, sizes: Tensor, search: Search, positions: Positions | None
) -> Iterator[Candidate]:
    """One of the first or last keys for every row."""
    for parameters, column in _positions(H, sizes, search):
        yield Candidate("column", parameters, *_column_weights(H, column, sizes, search, positions))


def columns_and_bands(
    H: Tensor, sizes: Tensor, search: Search, positions: Positions | None
) -> Iterator[Candidate]:
    """One of the first or last keys with each diagonal and each band."""
    left, right = sides(search.window, causal=search.causal)
    entries = band_entries(H, (left, right), positions)
    inside = real_band(H, (left, right), sizes, positions)
    row = positions_of(H, positions)
    single = [(at, at) for at in range(-left, right + 1) if at]
    bands = [(-back, ahead) for back in range(left + 1) for ahead in range(right + 1)]
    parts = {
        (first, last): (..., slice(first + left, last + left + 1))
        for first, last in (*single, *bands)
    }
    # The same beside every column.
    sums = {ends: (entries[part].sum(-1), inside[part].sum(-1)) for ends, part in parts.items()}
    for position, column in _positions(H, sizes, search):
        weight, real = _column_weights(H, column, sizes, search, positions)
        distance = column - row
        for (first, last), (captured, support) in sums.items():
            # A key that the band holds already is not counted twice.
            alone = (distance < first) | (distance > last)
            parameters = {"first_offset": first, "last_offset": last, **position}
            yield Candidate(
                "column_band", parameters, captured + weight * alone, support + real * alone
            )


def _positions(
    H: Tensor, sizes: Tensor, search: Search
) -> Iterator[tuple[dict[str, int], Int[Tensor, "*#batch query"]]]:
    """The first and the last keys, each as the column of every row."""
    for from_end in (0, 1):
        for position in range(search.column_positions):
            key = sizes[..., 1] - 1 - position if from_end else sizes[..., 1] * 0 + position
            column = key[..., None].expand(*key.shape, H.shape[-2])
            yield {"position": position, "from_end": from_end}, column


def _column_weights(
    H: Tensor, column: Tensor, sizes: Tensor, search: Search, positions: Positions | None
) -> tuple[Tensor, Int[Tensor, "*#batch query"]]:
    """Each row's weight on one key, and 1 where that key is real and visible."""
    real = real_columns(column, H, sizes, causal=search.causal, positions=positions)
    index = column.clamp(0, H.shape[-1] - 1).expand(H.shape[:-1])[..., None]
    return H.gather(-1, index)[..., 0] * real, real.long()


def keys_of_rows(
    H: Float[Tensor, "*batch query key"],
    sizes: Int[Tensor, "*batch 2"],
    *,
    causal: bool,
    positions: Positions | None = None,
) -> Int[Tensor, "*batch query"]:
    """How many keys each row may look at, at least 1."""
    keys = sizes[..., 1:].expand(H.shape[:-1]).clamp(min=1)
    if causal:
        keys = keys.minimum(positions_of(H, positions) + 1)
    return keys
