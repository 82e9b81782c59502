"""One column: every row attends one token (math.md section 3, the whole-column case of Sigma3).

Column + band: every row attends one key and its neighbours, the vertical and the diagonal of a map.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from attnlab.matrices.batched import (
    Positions,
    Sizes,
    checked_weights,
    counted_in,
    in_chunks,
    positions_of,
)
from attnlab.matrices.fit import Fit, Parameters, complete
from attnlab.matrices.priced import (
    Task,
    best_candidate,
    best_error,
    fill_columns,
    priced_gain,
    real_columns,
)
from attnlab.matrices.residual import SparseError, left_after_error
from attnlab.matrices.stochastic import fit_stochastic_rows
from attnlab.matrices.supports import (
    Values,
    Window,
    band_support,
    check_values,
    fill_support,
    reach_within,
    sides,
)


@dataclass(frozen=True)
class Column(Parameters):
    """Every row attends one column."""

    column: Int[Tensor, "*batch"]

    def described(self, index: int) -> str:
        """The member in words, such as `column 3`."""
        return f"column {int(self.column[index])}"


@in_chunks
def fit_column(
    H: Float[Tensor, "*batch query key"],
    *,
    values: Values = "free",
    causal: bool = False,
    error_nnz: int | Int[Tensor, "*#batch"] = 0,
    error_bound: float = math.inf,
    sizes: Sizes | None = None,
    positions: Positions | None = None,
) -> Fit:
    """Nearest matrix with a single column: t = argmax over t of the sum over rows of gain(h_it).

    ::

        gain(h) = h   (free)      gain(h) = h - |1 - h|   (binary, stochastic)

    With an error the column is the one that leaves least after the best E, exactly
    (`attnlab.matrices.priced`). A causal row before t cannot see it and stays empty. Arguments as
    in `fit_diagonal`.

    Raises:
        InputError: no attention weights, unknown values, a negative error or position.

    Cost: one pass, with an error a few partial sorts of the matrix more. Source: math.md section 3.
    """
    check_values(values)
    H = checked_weights(H, sizes)
    real = counted_in(H, sizes)
    at = positions_of(H, positions)
    usable = real & (torch.arange(H.shape[-1], device=H.device) <= at[:, None]) if causal else real
    task = Task(H, values, SparseError(error_nnz, error_bound))

    def gains(price: Tensor | None) -> Tensor:
        gain = priced_gain(H, task, price).masked_fill(~usable, 0).sum(-2)
        return gain.masked_fill(~usable.any(-2), -math.inf)

    def rows(column: Tensor) -> tuple[Tensor, Tensor]:
        every_row = column[..., None].expand(H.shape[:-1])
        return every_row, real_columns(every_row, H, sizes, causal=causal, positions=at)

    column = best_candidate(task, gains, rows)
    every_row, allowed = rows(column)
    return complete(
        H,
        fill_columns(H, every_row, allowed, values),
        family="column",
        values=values,
        parameters=Column(column),
        support_size=allowed.sum(-1),
        allowed=task.allowed,
        sizes=sizes,
        error=None if task.allowed.absent else best_error(task, every_row, allowed),
    )


@dataclass(frozen=True)
class ColumnBand(Parameters):
    """One column, and the offsets -left..right, for every row."""

    window: Window
    column: Int[Tensor, "*batch"]

    def described(self, index: int) -> str:
        """The member in words, such as `column 3 + offsets -3..3`."""
        left, right = self.window
        return f"column {int(self.column[index])} + offsets {-left}..{right}"


@in_chunks
def fit_column_band(
    H: Float[Tensor, "*batch query key"],
    *,
    window: int | tuple[int, ...],
    values: Values = "free",
    causal: bool = False,
    error_nnz: int | Int[Tensor, "*#batch"] = 0,
    error_bound: float = math.inf,
    sizes: Sizes | None = None,
) -> Fit:
    """Nearest matrix on the offsets -left..right and one column t, chosen together with the error.

    ::

        S_t = B(left, right) and the column t,   t = argmin over t of min over P on S_t, E of |H - P - E|

    Every column is tried, so P and E are optimal together for all values; among equals the first
    column is taken. A causal row before t cannot see it. Arguments as in `fit_band`, no entry dropped.

    Raises:
        InputError: no attention weights, unknown values, a negative window or error.

    Cost: a few passes over the matrix; with an error a fit of the whole matrix for every key.
    Source: math.md section 3; Kovaleva et al. 2019, "vertical + diagonal".
    """
    check_values(values)
    reach = sides(window, causal=causal)
    H = checked_weights(H, sizes)
    allowed = SparseError(error_nnz, error_bound)
    queries, keys = H.shape[-2:]
    real = counted_in(H, sizes)
    band = band_support(queries, keys, reach_within(reach, queries, keys), device=H.device) & real
    visible = real.tril() if causal else real
    column = _best_column(H, band, visible, values, allowed)
    support = _add_column(band, visible, column)
    structure, error = _fitted(H, support, values, allowed)
    return complete(
        H,
        structure,
        family="column_band",
        values=values,
        parameters=ColumnBand(reach, column),
        support_size=support.sum((-2, -1)),
        allowed=allowed,
        sizes=sizes,
        error=error,
    )


def _best_column(
    H: Tensor, band: Tensor, visible: Tensor, values: Values, allowed: SparseError
) -> Int[Tensor, "*batch"]:
    distances = (
        _distances_without_error(H, band, visible, values)
        if allowed.absent
        else _distances_with_error(H, band, visible, values, allowed)
    )
    # Of what differs by rounding alone the first is taken; padding has no column.
    distances = distances.masked_fill(~visible.any(-2), math.inf)
    if distances.shape[-1] == 0:
        return torch.zeros(H.shape[:-2], dtype=torch.long, device=H.device)
    rounding = 8 * torch.finfo(H.dtype).eps * (H.sum((-2, -1)) + H.shape[-2])
    nearest = distances <= (distances.amin(-1) + rounding)[..., None]
    return nearest.to(torch.int8).argmax(-1)


def _distances_without_error(
    H: Tensor, band: Tensor, visible: Tensor, values: Values
) -> Float[Tensor, "*batch key"]:
    """The distance with each column, less what all of them have in common."""
    added = visible & ~band
    if values == "free":
        return -torch.where(added, H, 0).sum(-2)
    if values == "binary":
        return torch.where(added, (1 - H).abs() - H, 0).sum(-2)
    # A row with the mass c on its support is off by r - c + |1 - c|, one without support by r.
    band_mass = torch.where(band, H, 0).sum(-1, keepdim=True)
    captured = band_mass + torch.where(added, H, 0)
    distance = (1 - captured).abs() - captured
    return torch.where(band.any(-1, keepdim=True) | added, distance, 0).sum(-2)


def _distances_with_error(
    H: Tensor, band: Tensor, visible: Tensor, values: Values, allowed: SparseError
) -> Float[Tensor, "*batch key"]:
    distances = H.new_empty(*H.shape[:-2], H.shape[-1])
    for key in range(H.shape[-1]):
        column = torch.full(H.shape[:-2], key, device=H.device)
        P, E = _fitted(H, _add_column(band, visible, column), values, allowed)
        residual = H - P
        left = (
            left_after_error(residual, allowed) if E is None else (residual - E).abs().sum((-2, -1))
        )
        distances[..., key] = left
    return distances


def _add_column(
    band: Tensor, visible: Tensor, column: Int[Tensor, "*batch"]
) -> Bool[Tensor, "*batch query key"]:
    key = torch.arange(band.shape[-1], device=band.device)
    return band | (visible & (key == column[..., None])[..., None, :])


def _fitted(
    H: Tensor, support: Tensor, values: Values, allowed: SparseError
) -> tuple[Tensor, Tensor | None]:
    """P on a support, and E where it is not simply what corrects the largest residuals."""
    if values == "stochastic" and not allowed.absent:
        return fit_stochastic_rows(H, support, allowed.nonzeros, allowed.bound)
    return fill_support(H, support, values), None
