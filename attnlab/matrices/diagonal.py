"""Sigma1, the positional family: every row attends the key at one offset."""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from attnlab.matrices.batched import Positions, Sizes, checked_weights, in_chunks, positions_of
from attnlab.matrices.fit import Fit, Outline, Parameters, complete
from attnlab.matrices.offsets import band_entries, real_band
from attnlab.matrices.priced import (
    Task,
    best_candidate,
    best_error,
    fill_columns,
    priced_gain,
    real_columns,
)
from attnlab.matrices.residual import SparseError
from attnlab.matrices.supports import Values, Window, check_values, reach_within, sides


@dataclass(frozen=True)
class Diagonal(Parameters):
    """Sigma1: row i attends key i + offset."""

    window: Window
    offset: Int[Tensor, "*batch"]

    def described(self, index: int) -> str:
        """The member in words, such as `offset +1`."""
        return f"offset {int(self.offset[index]):+d}"

    def outline(self, index: int) -> Outline:
        """The offset of the member."""
        return Outline((int(self.offset[index]),) * 2)


@in_chunks
def fit_diagonal(
    H: Float[Tensor, "*batch query key"],
    *,
    window: int | tuple[int, ...],
    values: Values = "free",
    causal: bool = False,
    error_nnz: int | Int[Tensor, "*#batch"] = 0,
    error_bound: float = math.inf,
    sizes: Sizes | None = None,
    positions: Positions | None = None,
) -> Fit:
    """Nearest member of Sigma1: a shifted identity whose offset d lies in -left..right.

    ::

        d = argmin over d of |H - S_d|,   |H - S_d| = sum(h) - sum over i of gain(h_i,i+d)

    with gain h for `free` values, h - |1 - h| for `binary` and `stochastic`, which are the same here.
    With an error d = argmin over d of min over E of |H - S_d - E|, exactly: offset and error are
    chosen together (`attnlab.matrices.priced`). Rows whose key falls outside the matrix are empty:
    they count with their whole mass in l1 and do not count in kl. Only offsets at which the matrix has
    an entry are tried; among equals the one nearest to 0 is taken, of
    two the one that looks back. The thesis tries d = 0 alone (`window=0`).

    Without an error the distance of each offset is a sum over rows: that of rows drawn evenly from a matrix,
    with their positions, divided by their number estimates that of all rows without bias. An error is of
    the rows at hand alone.

    Args:
        H: attention weights, at least 0.
        window: how far the offset may look back and ahead; one number is both sides.
        values: how the entries may be filled.
        causal: offsets up to 0 only.
        error_nnz: s, how many entries E may correct.
        error_bound: eps, how large a correction may be.
        sizes: the real queries and keys of each matrix, see `attnlab.matrices.batched`.
        positions: of the rows, where they are not all queries, in any order; see there.

    Raises:
        InputError: no attention weights, unknown values, a negative window, error or position.

    Cost: O(query * (left + right + 1)) for the choice, with an error a few partial sorts of the
    matrix more. Source: math.md section 3; thesis fig. 13.
    """
    check_values(values)
    reach = sides(window, causal=causal)
    at = positions_of(H, positions)
    left, right = reach_within(reach, int(at.max()) + 1, H.shape[-1])
    H = checked_weights(H, sizes)
    task = Task(H, values, SparseError(error_nnz, error_bound))
    inside = real_band(H, (left, right), sizes, at)
    entries = band_entries(H, (left, right), at)
    nearest_first = torch.tensor(sorted(range(-left, right + 1), key=abs), device=H.device)

    def gains(price: Tensor | None) -> Tensor:
        gain = priced_gain(entries, task, price).masked_fill(~inside, 0).sum(-2)
        return gain.masked_fill(~inside.any(-2), -math.inf)[..., nearest_first + left]

    def rows(candidate: Tensor) -> tuple[Tensor, Tensor]:
        column = at + nearest_first[candidate][..., None]
        return column, real_columns(column, H, sizes, causal=causal, positions=at)

    best = best_candidate(task, gains, rows)
    offset = nearest_first[best]
    column, allowed = rows(best)
    return complete(
        H,
        fill_columns(H, column, allowed, values),
        family="diagonal",
        values=values,
        parameters=Diagonal(reach, offset),
        support_size=allowed.sum(-1),
        allowed=task.allowed,
        sizes=sizes,
        error=None if task.allowed.absent else best_error(task, column, allowed),
    )
