"""Entries that the structured families may use, and their number.

offset = key position - query position: negative looks back, positive looks ahead.

The three ways in which the entries of a support may be filled (math.md section 3).
"""

from typing import Literal, get_args

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from attnlab.core import InputError

Window = tuple[int, int]


def sides(window: int | tuple[int, ...], *, causal: bool = False) -> Window:
    """The window as (left, right): how far a query looks back and ahead; one number is both sides.

    A causal window ends at the query itself.

    Raises:
        InputError: the window is no whole number from 0 up and no pair of them.

    >>> sides(3), sides((2, 1), causal=True)
    ((3, 3), (2, 0))
    """
    pair = (window, window) if isinstance(window, int) else window
    whole = isinstance(pair, tuple) and all(type(side) is int and side >= 0 for side in pair)
    if isinstance(window, bool) or not whole or len(pair) != 2:
        msg = f"A window is a whole number or a pair (left, right) from 0 up, not {window!r}."
        raise InputError(msg)
    return pair[0], 0 if causal else pair[1]


def reach_within(window: Window, queries: int, keys: int) -> Window:
    """The window without the offsets at which a matrix of this shape has no entry.

    >>> reach_within((100, 1), 5, 7)
    (4, 1)
    """
    left, right = window
    return min(left, max(queries - 1, 0)), min(right, max(keys - 1, 0))


def offsets(
    queries: int,
    keys: int,
    *,
    first_query: int = 0,
    device: torch.device | None = None,
    positions: Int[Tensor, " query"] | None = None,
) -> Int[Tensor, "query key"]:
    """Key position minus query position of every entry; the first query stands at `first_query`.

    Queries follow one another, or stand at `positions`.

    >>> offsets(2, 3).tolist(), offsets(1, 3, first_query=2).tolist()
    ([[0, 1, 2], [-1, 0, 1]], [[-2, -1, 0]])
    """
    rows = torch.arange(first_query, first_query + queries, device=device)
    rows = rows if positions is None else positions
    return torch.arange(keys, device=device) - rows[:, None]


def band_support(
    queries: int,
    keys: int,
    window: int | tuple[int, ...],
    *,
    device: torch.device | None = None,
    positions: Int[Tensor, " query"] | None = None,
) -> Bool[Tensor, "query key"]:
    """True at offsets -left..right: the space B(left, right) (thesis 3.1.2, math.md section 2).

    The rows are those of all queries in order, or those at `positions`.
    """
    left, right = sides(window)
    offset = offsets(queries, keys, device=device, positions=positions)
    return (offset >= -left) & (offset <= right)


def block_columns(
    start: Int[Tensor, "*batch block"],
    height: Int[Tensor, "*batch block"],
    column: Int[Tensor, "*batch block"],
    queries: int,
) -> Int[Tensor, "*batch query"]:
    """The key that each row attends in Sigma3: its own position, or the column of the block it is in.

    A block of height 0 holds no row. Blocks must be disjoint.

    >>> one = torch.tensor
    >>> block_columns(one([1]), one([3]), one([2]), 5).tolist()
    [0, 2, 2, 2, 4]
    """
    row = torch.arange(queries, device=start.device)
    inside = (row >= start[..., None]) & (row < (start + height)[..., None])
    moved = (inside * (column[..., None] - row)).sum(-2)
    return row + moved


def entries_at_offset(
    offset: Int[Tensor, "*#batch"], queries: Int[Tensor, "*#batch"], keys: Int[Tensor, "*#batch"]
) -> Int[Tensor, "*#batch"]:
    """Number of entries of a matrix of `queries` x `keys` at `offset`; n - |offset| when square."""
    last = torch.minimum(queries, keys - offset)
    return (last - (-offset).clamp(min=0)).clamp(min=0)


def band_dimension(
    sizes: Int[Tensor, "*batch 2"], window: int | tuple[int, ...], *, causal: bool = False
) -> Int[Tensor, "*batch"]:
    """Number of entries that the band holds in matrices of the given (queries, keys).

    ::

        dim B(l, r) = sum over d in [-l, r] of (n - |d|),   dim B(w, w) = (w + 1)(2n - w) - n

    for square matrices and a window smaller than n. Source: math.md section 2.

    >>> int(band_dimension(torch.tensor([16, 16]), 3))
    100
    """
    left, right = sides(window, causal=causal)
    offset = torch.arange(-left, right + 1, device=sizes.device)
    counts = entries_at_offset(offset, sizes[..., :1], sizes[..., 1:])
    return counts.sum(-1)


Values = Literal["binary", "free", "stochastic"]


def check_values(values: str) -> None:
    """Refuses values that are none of `binary`, `free`, `stochastic`.

    Raises:
        InputError: no such values; the message lists the choices.
    """
    if values not in get_args(Values):
        msg = f"There are no values '{values}'; choose from: {', '.join(get_args(Values))}."
        raise InputError(msg)


def fill_support(
    H: Float[Tensor, "*batch query key"],
    support: Bool[Tensor, "*#batch query key"],
    values: Values,
) -> Float[Tensor, "*batch query key"]:
    """The matrix on `support` that is nearest to H >= 0 in l1, with exact zeros elsewhere.

    ::

        free:        x = h          distance = off-support mass
        binary:      x = 1
        stochastic:  x = h / r      distance of row i = off_i + |1 - r_i|,  r_i = sum of h_i on S

    Renormalising is optimal whatever the rows of H sum to: all entries of a row move the same way, so
    their distance is |1 - r_i|, and no row with sum 1 comes nearer. When the rows of H sum to 1 the
    total is twice the off-support mass, and x is the softmax of the scores restricted to S. A row
    without mass on its support is spread evenly over it; a row without support stays 0.
    Source: math.md section 3. Cost: a few passes over the matrix.
    """
    if values == "binary":
        return support.to(H.dtype).expand_as(H).clone()
    kept = torch.where(support, H, 0)
    return kept if values == "free" else renormalised(kept, support)


def renormalised(
    kept: Float[Tensor, "*batch query key"], support: Bool[Tensor, "*#batch query key"]
) -> Float[Tensor, "*batch query key"]:
    """Rows scaled to sum to 1; spread evenly over the support where they have no mass, 0 without support."""
    total = kept.sum(-1, keepdim=True)
    # A quotient of integers would have the default dtype, whatever that of H is.
    even = support.to(kept.dtype) / support.sum(-1, keepdim=True).clamp(min=1)
    return torch.where(total > 0, kept / total, even)
