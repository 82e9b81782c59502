"""The band of square matrices, copied and measured through views: the fast form of a free band fit.

In memory row after row, the inner rows of a band are rows of left + right + 1 entries, n + 1 apart. The
entries between the band of one row and the band of the next stand side by side as well::

    (i, i + right + 1) ... (i, n - 1), (i + 1, 0) ... (i + 1, i - left)

so that everything off the band is one view too. Only in the first and last rows, where the band leaves
the matrix, do both views need a supplement.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from attnlab.matrices.distances import Distances, from_sums
from attnlab.matrices.supports import Window


def can_be_read_in_place(H: Float[Tensor, "*batch query key"], window: Window) -> bool:
    """Whether the matrices are square and contiguous, and the band narrow enough for this to pay."""
    square = H.shape[-2] == H.shape[-1] and H.numel() > 0
    return square and 4 * (sum(window) + 1) <= H.shape[-1] and H.is_contiguous()


def copy_band(H: Float[Tensor, "*batch n n"], window: Window) -> Float[Tensor, "*batch n n"]:
    """A new matrix with the band of H and zeros elsewhere. Cost: writing the matrix once."""
    structure = torch.zeros_like(H)
    left, right = window
    flat, source = structure.view(-1, *H.shape[-2:]), _batch(H)
    _inner(flat, window).copy_(_inner(source, window))
    flat[:, :left, : left + right] = _top(source, window)
    flat[:, H.shape[-1] - right :, H.shape[-1] - left - right :] = _bottom(source, window)
    return structure


def measure_off_band(H: Float[Tensor, "*batch n n"], window: Window) -> Distances:
    """The distances between H >= 0 and its band. Cost: reading the matrix twice."""
    flat = _batch(H)
    corners = torch.cat([corner.flatten(1) for corner in _passed_over(flat, window)], -1)
    ends = torch.cat([_top(flat, window).flatten(1), _bottom(flat, window).flatten(1)], -1)
    l1, squared = _sums(_between(flat, window), corners)
    band, band_squared = _sums(_inner(flat, window), ends)
    batch, n = H.shape[:-2], H.shape[-1]
    return from_sums(
        l1=l1.reshape(batch),
        squared=squared.reshape(batch),
        total=(l1 + band).reshape(batch),
        total_squared=(squared + band_squared).reshape(batch),
        entries=n * n,
    )


def _batch(H: Tensor) -> Tensor:
    return H.reshape(-1, *H.shape[-2:])


def _inner(flat: Tensor, window: Window) -> Tensor:
    """The rows whose band lies wholly inside, `[matrix, row, offset]`."""
    left, right = window
    n = flat.shape[-1]
    shape = (len(flat), n - left - right, left + right + 1)
    return flat.as_strided(shape, (n * n, n + 1, 1), flat.storage_offset() + left * n)


def _top(flat: Tensor, window: Window) -> Tensor:
    """The band in the first rows, which begin after it would, zeros beside it."""
    left, right = window
    return flat[:, :left, : left + right].tril(right)


def _bottom(flat: Tensor, window: Window) -> Tensor:
    """The band in the last rows, which end before it would, zeros beside it."""
    left, right = window
    n = flat.shape[-1]
    return flat[:, n - right :, n - left - right :].triu()


def _between(flat: Tensor, window: Window) -> Tensor:
    """What stands between the band of each row and that of the next, `[matrix, row, entry]`."""
    left, right = window
    n = flat.shape[-1]
    shape = (len(flat), n - 1, n - left - right)
    return flat.as_strided(shape, (n * n, n + 1, 1), flat.storage_offset() + right + 1)


def _passed_over(flat: Tensor, window: Window) -> tuple[Tensor, Tensor]:
    """Entries off the band where the band of another row would stand if rows had no ends.

    They are the corners at the end of the first rows and at the beginning of the last ones.
    """
    left, right = window
    n = flat.shape[-1]
    first = flat[:, : max(left - 1, 0), n - max(left - 1, 0) :].triu()
    last = flat[:, n - max(right - 1, 0) :, : max(right - 1, 0)].tril()
    return first, last


def _sums(view: Tensor, rest: Tensor) -> tuple[Tensor, Tensor]:
    """The sum and the sum of squares of a view `[matrix, row, entry]` and of what is beside it."""
    # Row by row first: torch runs one long reduction on a single core.
    squared = torch.linalg.vector_norm(view, dim=-1).square().sum(-1)
    return view.sum((-2, -1)) + rest.sum(-1), squared + rest.square().sum(-1)
