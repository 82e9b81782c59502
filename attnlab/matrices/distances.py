"""How far an approximation X is from attention weights H (math.md section 1).

Every function takes `[*batch query key]` and returns `[*batch]`. A distance alone says nothing: put
the zero matrix (`relative` exactly 1), the uniform matrix and the mean by offset beside it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from inspect import getdoc

import torch
from jaxtyping import Float
from torch import Tensor

from attnlab.core import Column, with_plugins
from attnlab.matrices.batched import Sizes, checked_approximation, checked_weights, sizes_of

_LONG_COLUMN = 256


@dataclass(frozen=True)
class Distances:
    """The distances that need only H and X, each with the leading dimensions of H."""

    l1: Float[Tensor, "*batch"]
    mean_error: Float[Tensor, "*batch"]
    relative: Float[Tensor, "*batch"]
    frobenius: Float[Tensor, "*batch"]


def measure(
    H: Float[Tensor, "*batch query key"],
    X: Float[Tensor, "*#batch query key"],
    sizes: Sizes | None = None,
) -> Distances:
    """All distances between `H` and `X` at once, over the entries that are no padding.

    ::

        l1 = sum |h - x|     mean_error = l1 / (queries * keys)
        relative = l1 / sum h     frobenius = |H - X|_F / |H|_F

    `l1` is the thesis's distance (eq. 22) and `mean_error` its "Mean Error". For an H whose rows sum
    to 1, `relative` lies in [0, 2]. A quotient 0 / 0 (an exact approximation of nothing) is 0.
    H is at least 0. Cost: a handful of passes over the matrix.
    """
    H = checked_weights(H, sizes)
    return measure_residual(H, H - checked_approximation(X, H, sizes), sizes)


def measure_residual(
    H: Float[Tensor, "*batch query key"],
    residual: Float[Tensor, "*batch query key"],
    sizes: Sizes | None,
    *,
    nonnegative: bool = False,
) -> Distances:
    """The distances from H and R = H - X, both 0 in the padding.

    `nonnegative` says that R has no negative entry, which saves a pass.
    """
    l1 = (residual if nonnegative else residual.abs()).sum((-2, -1))
    total = H.sum((-2, -1))
    entries = sizes_of(H, sizes).prod(-1)
    return Distances(
        l1=l1,
        mean_error=_quotient(l1, entries.to(l1.dtype)),
        relative=_quotient(l1, total),
        frobenius=_quotient(_norm(residual), _norm(H)),
    )


def from_sums(
    *, l1: Tensor, squared: Tensor, total: Tensor, total_squared: Tensor, entries: int
) -> Distances:
    """The distances from the sums of |h - x|, (h - x)^2, h and h^2, and the number of entries."""
    return Distances(
        l1=l1,
        mean_error=l1 / entries,
        relative=_quotient(l1, total),
        frobenius=_quotient(squared, total_squared).sqrt(),
    )


def l1_distance(
    H: Float[Tensor, "*batch query key"],
    X: Float[Tensor, "*#batch query key"],
    sizes: Sizes | None = None,
) -> Float[Tensor, "*batch"]:
    """Sum over all entries of |h - x| (thesis eq. 22); twice the off-support mass of a renormalised H.

    >>> float(l1_distance(torch.eye(3), torch.zeros(3, 3)))
    3.0
    """
    return measure(H, X, sizes).l1


def mean_error(
    H: Float[Tensor, "*batch query key"],
    X: Float[Tensor, "*#batch query key"],
    sizes: Sizes | None = None,
) -> Float[Tensor, "*batch"]:
    """Mean over all entries of |h - x|, the thesis's "Mean Error"."""
    return measure(H, X, sizes).mean_error


def relative_distance(
    H: Float[Tensor, "*batch query key"],
    X: Float[Tensor, "*#batch query key"],
    sizes: Sizes | None = None,
) -> Float[Tensor, "*batch"]:
    """Sum of |h - x| divided by the sum of h."""
    return measure(H, X, sizes).relative


def frobenius_distance(
    H: Float[Tensor, "*batch query key"],
    X: Float[Tensor, "*#batch query key"],
    sizes: Sizes | None = None,
) -> Float[Tensor, "*batch"]:
    """|H - X|_F / |H|_F."""
    return measure(H, X, sizes).frobenius


Distance = Callable[[Tensor, Tensor], Tensor]
_DISTANCES: dict[str, Distance] = {
    "l1": l1_distance,
    "mean_error": mean_error,
    "relative": relative_distance,
    "frobenius": frobenius_distance,
}


def distances() -> dict[str, Distance]:
    """Each distance between H and X by name, `[*batch query key]` to `[*batch]`.

    Other distributions register theirs as entry points of the group `attnlab.distances`.

    Raises:
        InputError: what another distribution registered is no function, cannot be imported, or has the name
            of another.
    """
    return with_plugins("attnlab.distances", _DISTANCES, "a function of H and X", callable)


def further_columns() -> tuple[Column, ...]:
    """A column of a table for each distance, which means what the first line of its docstring says."""
    return tuple(
        Column(name, name.replace("_", " "), (getdoc(distance) or "").partition("\n")[0], 3)
        for name, distance in distances().items()
    )


def kl_divergence(
    H: Float[Tensor, "*batch query key"],
    X: Float[Tensor, "*#batch query key"],
    sizes: Sizes | None = None,
) -> Float[Tensor, "*batch"]:
    """Mean over rows of KL(h_i || x_i) in nats; inf where X misses mass that H has.

    ::

        KL(h || x) = sum_j h_j log(h_j / x_j),   0 log 0 = 0

    Meaningful only when the rows of H and X sum to 1. Because softmax never gives an exact zero, every
    proper support misses some mass and has inf; compare supports by their l1 distance instead.
    Without any row the mean is 0. Cost: a few passes over the matrix.
    """
    H = checked_weights(H, sizes)
    X = checked_approximation(X, H, sizes)
    rows = sizes_of(H, sizes)[..., 0].to(H.dtype)
    return _quotient(row_divergence(H, X).sum(-1), rows)


def row_divergence(
    H: Float[Tensor, "*batch query key"], X: Float[Tensor, "*batch query key"]
) -> Float[Tensor, "*batch query"]:
    """KL(h_i || x_i) of every row, in nats; inf where X misses mass that H has."""
    ratio = torch.where(H > 0, H / X, 1.0)
    return (H * ratio.log()).sum(-1)


def _norm(matrix: Tensor) -> Tensor:
    # In two steps, because torch runs a single long reduction on one core.
    if matrix.shape[-2] > _LONG_COLUMN:
        return torch.linalg.vector_norm(torch.linalg.vector_norm(matrix, dim=-1), dim=-1)
    return torch.linalg.vector_norm(matrix, dim=(-2, -1))


def _quotient(numerator: Tensor, denominator: Tensor) -> Tensor:
    return torch.where(numerator == 0, numerator, numerator / denominator)
