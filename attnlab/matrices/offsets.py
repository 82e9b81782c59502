"""Mass by offset: one pass over a matrix gives every band distance and every diagonal at once."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional as F

from attnlab.matrices.batched import (
    Positions,
    Sizes,
    check_matrices,
    checked_weights,
    in_chunks,
    positions_of,
    sizes_of,
)
from attnlab.matrices.supports import entries_at_offset


@in_chunks
def mass_by_offset(
    H: Float[Tensor, "*batch query key"],
    sizes: Sizes | None = None,
    *,
    positions: Positions | None = None,
) -> Float[Tensor, "*batch offset"]:
    """Sum of each diagonal, from offset -(queries - 1) up to keys - 1; of rows from -(last position).

    Sums of several sentences add up, so that a corpus can be streamed. Cost: one pass.

    >>> mass_by_offset(torch.tensor([[0.5, 0.5], [1.0, 0.0]])).tolist()
    [1.0, 0.5, 0.5]
    """
    H = checked_weights(H, sizes)
    if positions is None:
        return skewed(H).sum(-2)
    at, keys = positions_of(H, positions), H.shape[-1]
    last = int(at.max())
    index = torch.arange(keys, device=H.device) - at[:, None] + last
    mass = H.new_zeros(*H.shape[:-2], last + keys)
    return mass.index_add_(-1, index.flatten(), H.flatten(-2))


def skewed(H: Float[Tensor, "*batch query key"]) -> Float[Tensor, "*batch query offset"]:
    """The matrix with its diagonals as columns, zeros where an offset has no entry.

    Rows come out in reverse order. The column of offset d is d + queries - 1.
    Cost: one pass; the result has queries + keys - 1 columns.
    """
    *batch, queries, keys = H.shape
    columns = max(queries + keys - 1, 0)
    # Reading rows of length q + k as rows of length q + k - 1 shifts each by one more than the last.
    wide = F.pad(H.flip(-2), (0, queries)).flatten(-2)
    return wide[..., : queries * columns].reshape(*batch, queries, columns)


def entries_by_offset(
    sizes: Int[Tensor, "*batch 2"], queries: int, keys: int
) -> Int[Tensor, "*batch offset"]:
    """Number of real entries at each offset of matrices padded to `queries` x `keys`."""
    offset = torch.arange(1 - queries, keys, device=sizes.device)
    return entries_at_offset(offset, sizes[..., :1], sizes[..., 1:])


def mass_beyond_windows(
    H: Float[Tensor, "*batch query key"],
    widest: int,
    sizes: Sizes | None = None,
    *,
    causal: bool = False,
    positions: Positions | None = None,
) -> Float[Tensor, "*batch window"]:
    """The l1 distance of H to the w-band for every w in 0..widest, in one pass.

    ::

        beyond(w) = sum of h_ij over |j - i| > w        (causal: over j - i < -w and j > i)

    This is the exact optimum of the `free` values; the `stochastic` one is twice as large when the
    rows of H sum to 1. Captured mass m(w) = 1 - beyond(w) / sum(h). Falls with w, never below 0.
    A sum over rows: that of some rows, with their positions, estimates that of all. Source: math.md
    sections 2 and 6. Cost: one pass over the matrix.
    """
    mass = mass_by_offset(H, sizes=sizes, positions=positions)
    queries, keys = H.shape[-2:]
    queries = queries if positions is None else mass.shape[-1] - keys + 1
    distance = torch.arange(1 - queries, keys, device=H.device)
    # Forward-looking mass is beyond every causal window.
    reach = min(widest, max(queries, keys, 1) - 1)
    far = torch.where(distance > 0, reach + 1, -distance) if causal else distance.abs()
    nearest = F.one_hot(far.clamp(max=reach + 1), reach + 2).to(H.dtype)
    by_distance = mass @ nearest
    # Summed from the outside, so that small remainders are not differences of large sums.
    beyond = by_distance.flip(-1).cumsum(-1).flip(-1)[..., 1:]
    # Past the last offset of the matrix a wider window holds nothing more.
    return torch.cat([beyond, beyond[..., -1:].expand(*beyond.shape[:-1], widest - reach)], -1)


def mean_weight_by_offset(
    H: Float[Tensor, "*batch sentence query key"],
    sizes: Int[Tensor, "*#batch sentence 2"] | None = None,
) -> Float[Tensor, "*batch offset"]:
    """Mean weight at each offset over all sentences; 0 at an offset that no sentence has.

    ::

        mean(d) = sum of h_i,i+d over sentences and rows / how many such entries there are

    The `static` level of math.md section 7 when the sentences are others than those measured on.
    Cost: one pass.
    """
    check_matrices(H, dimensions=3)
    mass = mass_by_offset(H, sizes=sizes).sum(-2)
    every = sizes_of(H, sizes).expand(*H.shape[:-2], 2)
    entries = entries_by_offset(every, H.shape[-2], H.shape[-1]).sum(-2)
    return mass / entries.clamp(min=1)


def band_entries(
    H: Float[Tensor, "*batch query key"],
    window: tuple[int, int],
    positions: Positions | None = None,
) -> Float[Tensor, "*batch query offset"]:
    """Every row's entries at offsets -left..right, 0 where an offset leaves the matrix.

    Cost: O(query * (left + right + 1)), without a pass over the matrix.
    """
    column, inside = band_columns(positions_of(H, positions), H.shape[-1], window)
    if H.shape[-1] == 0:
        return H.new_zeros(*H.shape[:-1], column.shape[-1])
    return H.gather(-1, column.expand(*H.shape[:-2], *column.shape)) * inside


def matrix_from_band(
    entries: Float[Tensor, "*batch query offset"],
    keys: int,
    window: tuple[int, int],
    positions: Positions | None = None,
) -> Float[Tensor, "*batch query key"]:
    """The matrix with these entries at offsets -left..right and zeros elsewhere.

    The inverse of `band_entries`: what would stand outside the matrix is dropped.
    """
    column, inside = band_columns(positions_of(entries, positions), keys, window)
    matrix = entries.new_zeros(*entries.shape[:-1], keys)
    if keys == 0:
        return matrix
    return matrix.scatter_add_(-1, column.expand_as(entries), entries * inside)


def band_columns(
    positions: Int[Tensor, " query"], keys: int, window: tuple[int, int]
) -> tuple[Int[Tensor, "query offset"], Bool[Tensor, "query offset"]]:
    """The key at each offset -left..right of each query, kept within the matrix, and where it truly is."""
    left, right = window
    column = positions[:, None] + torch.arange(-left, right + 1, device=positions.device)
    return column.clamp(0, max(keys - 1, 0)), (column >= 0) & (column < keys)


def real_band(
    H: Float[Tensor, "*batch query key"],
    window: tuple[int, int],
    sizes: Sizes | None,
    positions: Positions | None = None,
) -> Bool[Tensor, "*#batch query offset"]:
    """True where an entry of `band_entries` stands in the matrix and not in its padding."""
    queries, keys = H.shape[-2:]
    column, inside = band_columns(positions_of(H, positions), keys, window)
    if sizes is None:
        return inside
    row = torch.arange(queries, device=H.device)[:, None]
    real = sizes[..., None, None, :]
    return inside & (row < real[..., 0]) & (column < real[..., 1])
