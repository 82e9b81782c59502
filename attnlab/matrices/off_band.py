"""The distance of a square matrix to its band, read in place: no residual is ever written.

In memory row after row, the entries between the band of one row and the band of the next stand side
by side::

    (i, i + right + 1) ... (i, n - 1), (i + 1, 0) ... (i + 1, i - left)

so that everything off the band is one view with rows of n - left - right entries, n + 1 apart. Only
where the band leaves the matrix does the view pass over a few entries that are off the band too.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from attnlab.matrices.distances import Distances, from_sums
from attnlab.matrices.offsets import band_entries


def measure_off_band(H: Float[Tensor, "*batch n n"], window: tuple[int, int]) -> Distances:
    """The distances between H >= 0 and its projection on the band, `measure(H, project_band(H, window))`.

    H must be contiguous and the band narrower than the matrix. Cost: two readings of the matrix.
    """
    left, right = window
    n = H.shape[-1]
    flat = H.reshape(-1, n * n)
    between = flat.as_strided(
        (len(flat), n - 1, n - left - right),
        (n * n, n + 1, 1),
        flat.storage_offset() + right + 1,
    )
    passed = flat[:, _passed_over(n, window, H.device)]
    entries = band_entries(H, window).reshape(len(flat), -1)
    l1 = between.sum((-2, -1)) + passed.sum(-1)
    row_norms = torch.linalg.vector_norm(between, dim=-1)
    squared = row_norms.square().sum(-1) + passed.square().sum(-1)
    return from_sums(
        l1=l1.reshape(H.shape[:-2]),
        squared=squared.reshape(H.shape[:-2]),
        total=(l1 + entries.sum(-1)).reshape(H.shape[:-2]),
        total_squared=(squared + entries.square().sum(-1)).reshape(H.shape[:-2]),
        entries=n * n,
    )


def _passed_over(n: int, window: tuple[int, int], device: torch.device) -> Tensor:
    """Places in the flattened matrix where the band of a row would stand if rows had no ends."""
    left, right = window
    # Only in the first and the last rows does the band leave the matrix.
    border = [*range(left), *range(max(n - right, left), n)]
    row = torch.tensor(border, dtype=torch.long, device=device)[:, None]
    column = row + torch.arange(-left, right + 1, device=device)
    place = row * n + column
    outside = (column < 0) | (column >= n)
    return place[outside & (place >= 0) & (place < n * n)]
