"""Whether a tensor holds attention weights at all."""

import torch
from jaxtyping import Float
from torch import Tensor

from attnlab.errors import InputError


def check_weights(H: Float[Tensor, "*batch query key"]) -> None:
    """Refuses NaN, infinite and negative entries, naming the first matrix and place.

    Raises:
        InputError: an entry cannot be an attention weight. Positions count from 0.
    """
    bad = ~(H >= 0) | H.isinf()
    if not bool(bad.any()):
        return
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
        InputError: a row sums to 0.
    """
    total = H.sum(-1, keepdim=True)
    empty = (total[..., 0] == 0).nonzero()
    if len(empty):
        *index, row = empty[0].tolist()
        msg = f"Row {row} of matrix {matrix_name(index)} sums to 0 and cannot be normalized."
        raise InputError(msg)
    return H / total
