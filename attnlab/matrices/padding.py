"""Ragged batches: a matrix may be smaller than the tensor that holds it.

`sizes[..., 0]` and `sizes[..., 1]` say how many queries and keys of each matrix are real. They are
the leading ones; whatever stands right of them and below them is padding and never counts. Sizes
broadcast: `[sentence, 1, 2]` serves matrices `[sentence, head, query, key]`. None means no padding.
"""

import torch
from jaxtyping import Bool, Int, Shaped
from torch import Tensor

from attnlab.core.errors import InputError

Sizes = Int[Tensor, "*#batch 2"]


def counted_entries(sizes: Sizes, queries: int, keys: int) -> Bool[Tensor, "*#batch query key"]:
    """True where an entry belongs to the matrix and False in the padding.

    >>> counted_entries(torch.tensor([1, 2]), 2, 3).tolist()
    [[True, True, False], [False, False, False]]
    """
    rows = torch.arange(queries, device=sizes.device) < sizes[..., :1]
    columns = torch.arange(keys, device=sizes.device) < sizes[..., 1:]
    return rows[..., :, None] & columns[..., None, :]


def counted_in(H: Shaped[Tensor, "*batch query key"], sizes: Sizes | None) -> Bool[Tensor, "..."]:
    """True where an entry of `H` belongs to a matrix; everywhere without sizes."""
    queries, keys = H.shape[-2:]
    if sizes is None:
        return torch.ones(queries, keys, dtype=torch.bool, device=H.device)
    return counted_entries(sizes, queries, keys)


def without_padding(
    H: Shaped[Tensor, "*batch query key"], sizes: Sizes | None
) -> Shaped[Tensor, "*batch query key"]:
    """`H` with exact zeros in the padding, whatever stood there; `H` itself when there is none.

    Raises:
        InputError: a size is negative or larger than the tensor.
    """
    if sizes is None:
        return H
    check_sizes(sizes, H.shape[-2], H.shape[-1])
    return H.masked_fill(~counted_entries(sizes, H.shape[-2], H.shape[-1]), 0)


def check_sizes(sizes: Sizes, queries: int, keys: int) -> None:
    """Refuses sizes that do not fit into matrices of `queries` x `keys`.

    Raises:
        InputError: a size is negative or larger than the tensor.
    """
    room = torch.tensor([queries, keys], device=sizes.device)
    if bool(((sizes < 0) | (sizes > room)).any()):
        msg = f"Sizes must lie between 0 and {queries} x {keys}, the size of the padded matrices."
        raise InputError(msg)


def sizes_of(
    H: Shaped[Tensor, "*batch query key"], sizes: Sizes | None
) -> Int[Tensor, "*#batch 2"]:
    """`sizes`, or the size of the whole tensor where there is no padding."""
    return torch.tensor(H.shape[-2:], device=H.device) if sizes is None else sizes
