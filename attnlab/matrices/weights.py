"""Whether a tensor holds attention weights at all."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from attnlab.core.errors import InputError
from attnlab.matrices.padding import Sizes, without_padding

DTYPES = (torch.float32, torch.float64)


def checked_weights(
    H: Float[Tensor, "*batch query key"], sizes: Sizes | None = None, *, dimensions: int = 2
) -> Float[Tensor, "*batch query key"]:
    """H with zeros in the padding, once it is known to hold attention weights outside of it.

    Raises:
        InputError: not a float32 or float64 tensor of at least `dimensions` dimensions, a matrix without
            queries or keys, sizes that do not fit, or an entry that is negative or not finite.
    """
    check_matrices(H, dimensions)
    H = without_padding(H, sizes)
    check_weights(H)
    return H


def checked_approximation(
    X: Float[Tensor, "*#batch query key"], H: Float[Tensor, "*batch query key"], sizes: Sizes | None
) -> Float[Tensor, "*batch query key"]:
    """X in the shape of H with zeros in the padding, once it is known to be finite outside of it.

    Raises:
        InputError: X is no float32 or float64 tensor, does not fit the shape of H, or is not finite.
    """
    check_matrices(X)
    fits = X.ndim <= H.ndim and all(
        mine in {1, theirs} for mine, theirs in zip(X.shape[::-1], H.shape[::-1], strict=False)
    )
    if not fits:
        msg = f"An approximation of shape {list(X.shape)} does not fit weights of {list(H.shape)}."
        raise InputError(msg)
    X = without_padding(X.expand_as(H), sizes)
    if not bool(X.isfinite().all()):
        msg = "An approximation has an entry that is no finite number."
        raise InputError(msg)
    return X


def check_matrices(H: Any, dimensions: int = 2) -> None:
    """Refuses what is no batch of matrices in single or double precision.

    Raises:
        InputError: not a float32 or float64 tensor, too few dimensions, or no queries or keys.
    """
    if not isinstance(H, Tensor) or H.dtype not in DTYPES:
        kind = str(H.dtype).removeprefix("torch.") if isinstance(H, Tensor) else type(H).__name__
        msg = (
            f"Attention weights must be a floating-point tensor [*batch, query, key] in float32 or "
            f"float64, not {kind}."
        )
        raise InputError(msg)
    if H.ndim < dimensions:
        msg = (
            f"Attention weights must be a floating-point tensor [*batch, query, key] of at least "
            f"{dimensions} dimensions, not {H.ndim}."
        )
        raise InputError(msg)
    if 0 in H.shape[-2:]:
        msg = f"A matrix needs at least one query and one key, not {H.shape[-2]} x {H.shape[-1]}."
        raise InputError(msg)


def check_weights(H: Float[Tensor, "*batch query key"]) -> None:
    """Refuses NaN, infinite and negative entries, naming the first matrix and entry.

    Raises:
        InputError: no matrices, or an entry that cannot be an attention weight. Positions count from 0.
    """
    check_matrices(H)
    if H.numel() == 0:
        return
    lowest, highest = H.aminmax()  # both are NaN where an entry is
    if bool((lowest >= 0) & (highest < torch.inf)):
        return
    bad = ~(H >= 0) | H.isinf()
    *index, row, column = bad.nonzero()[0].tolist()
    value = float(H[(*index, row, column)])
    kind = "negative" if value < 0 else "no finite number"
    msg = (
        f"Matrix {matrix_name(index)} has an entry that is {kind} ({value:g}) at row {row}, column "
        f"{column}; attention weights are 0 or more."
    )
    raise InputError(msg)


def matrix_name(index: list[int]) -> str:
    """How a matrix of a batch is addressed: its indices joined by points, `0` for a single one.

    >>> matrix_name([2, 5])
    '2.5'
    """
    return ".".join(map(str, index)) or "0"


def matrix_names(batch: torch.Size) -> list[str]:
    """The names of all matrices of a batch, in the order of `flatten`.

    >>> matrix_names(torch.Size([2, 2]))
    ['0.0', '0.1', '1.0', '1.1']
    """
    every = torch.ones(batch, dtype=torch.bool).nonzero().tolist() if batch else [[]]
    return [matrix_name(index) for index in every]


def rows_sum_to_one(H: Float[Tensor, "*batch query key"], tolerance: float = 1e-3) -> bool:
    """Whether every row of every matrix sums to 1 within the tolerance."""
    return bool(((H.sum(-1) - 1).abs() <= tolerance).all())


def normalized_rows(H: Float[Tensor, "*batch query key"]) -> Float[Tensor, "*batch query key"]:
    """Every row divided by its sum.

    Raises:
        InputError: no attention weights, or a row sums to 0.
    """
    check_weights(H)
    total = H.sum(-1, keepdim=True)
    empty = (total[..., 0] == 0).nonzero()
    if len(empty):
        *index, row = empty[0].tolist()
        msg = f"Row {row} of matrix {matrix_name(index)} sums to 0 and cannot be normalized."
        raise InputError(msg)
    return H / total
