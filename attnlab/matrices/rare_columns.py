"""Sigma3, the rare-token family: the identity, except blocks of rows that attend one token."""

import math
from typing import Literal, get_args

from jaxtyping import Float, Int
from torch import Tensor

from attnlab.core.errors import InputError
from attnlab.matrices.block_search import BlockSpace, best_blocks
from attnlab.matrices.chunks import in_chunks
from attnlab.matrices.columns import fill_columns
from attnlab.matrices.fit import Fit, RareColumns, complete
from attnlab.matrices.padding import Sizes
from attnlab.matrices.priced import Task, best_error
from attnlab.matrices.residual import SparseError
from attnlab.matrices.supports import sides
from attnlab.matrices.values import Values, check_values
from attnlab.matrices.weights import checked_weights

Anchor = Literal["any", "first"]
Heights = Literal["fixed", "at_most"]


@in_chunks
def fit_rare_columns(
    H: Float[Tensor, "*batch query key"],
    *,
    window: int | tuple[int, ...],
    num_pos: int,
    values: Values = "free",
    anchor: Anchor = "any",
    heights: Heights = "fixed",
    causal: bool = False,
    error_nnz: int | Int[Tensor, "*#batch"] = 0,
    error_bound: float = math.inf,
    sizes: Sizes | None = None,
) -> Fit:
    """Nearest member of Sigma3: at most `num_pos` disjoint blocks of rows attend one column each.

    ::

        row i attends t_b   if i lies in block b = a_b .. a_b + w - 1,   t_b in the block
        row i attends i     otherwise
        minimise |H - P| = sum(h) - sum over rows of gain(h_i,column(i))

    with gain h for `free` values, h - |1 - h| for `binary` and `stochastic`, which are the same here.
    The optimum is exact, by dynamic programming over the rows. With an error the blocks are chosen
    together with it (`attnlab.matrices.block_search`): nearly always exactly, elsewhere the distance is
    an upper bound and `Fit.exact` is False. Blocks lie wholly inside the matrix
    (their columns are cut where a matrix has fewer keys than queries); a matrix of fewer than w
    rows can hold one block of all its rows. Rows without a key of their own are empty.

    Args:
        H: attention weights, at least 0.
        window: w, the rows of a block; of a pair the larger side.
        num_pos: how many blocks there may be.
        values: how the entries may be filled.
        anchor: `any` column of the block, as in the thesis's text, or the `first`, as in its code.
        heights: every block has exactly w rows (`fixed`), or 1 to w (`at_most`).
        causal: no row attends a later one; a block's column is then its first.
        error_nnz: s, how many entries E may correct.
        error_bound: eps, how large a correction may be.
        sizes: the real queries and keys of each matrix, see `attnlab.matrices.padding`.

    Raises:
        InputError: no attention weights, unknown values,
            anchor or heights, a negative window, num_pos or error.

    Cost: O(n w) for the gains (O(n w^2) for `at_most`) and O(n num_pos) for the placement; with an
    error a few times that and a few partial sorts of the matrix.
    Source: math.md section 3; thesis fig. 14.
    """
    check_values(values)
    check_blocks(num_pos, anchor, heights)
    H = checked_weights(H, sizes)
    block_rows = min(max(sides(window)), H.shape[-2])
    # A block of one row attends that row itself, as the identity does.
    lowest = block_rows if heights == "fixed" else 2
    tried = list(range(max(lowest, 1), block_rows + 1)) or [1]
    anchors = 1 if causal or anchor == "first" else block_rows
    task = Task(H, values, SparseError(error_nnz, error_bound))
    space = BlockSpace(tried, anchors, num_pos, sizes, causal=causal)
    found = best_blocks(task, space)
    placed = found.placement
    return complete(
        H,
        fill_columns(H, found.column, found.allowed, values),
        family="rare_columns",
        values=values,
        parameters=RareColumns(block_rows, placed.used, placed.start, placed.rows, placed.column),
        support_size=found.allowed.sum(-1),
        allowed=task.allowed,
        sizes=sizes,
        error=None if task.allowed.absent else best_error(task, found.column, found.allowed),
        lower_bound=found.lower_bound,
    )


def check_blocks(num_pos: int, anchor: str = "any", heights: str = "fixed") -> None:
    """Refuses what is no description of blocks.

    Raises:
        InputError: a negative number of blocks, or an unknown anchor or kind of height.
    """
    if num_pos < 0:
        msg = f"The number of rare columns must be 0 or more, not {num_pos}."
        raise InputError(msg)
    for name, given, known in (("anchor", anchor, Anchor), ("heights", heights, Heights)):
        if given not in get_args(known):
            msg = f"There is no {name} '{given}'; choose from: {', '.join(get_args(known))}."
            raise InputError(msg)
