"""One column: every row attends one token (math.md section 3, the whole-column case of Sigma3)."""

import math

from jaxtyping import Float, Int
from torch import Tensor

from attnlab.matrices.best_first import best_candidate
from attnlab.matrices.chunks import in_chunks
from attnlab.matrices.columns import fill_columns, real_columns
from attnlab.matrices.fit import Column, Fit, complete
from attnlab.matrices.padding import Sizes, counted_in
from attnlab.matrices.priced import Task, best_error, priced_gain
from attnlab.matrices.residual import SparseError
from attnlab.matrices.values import Values, check_values
from attnlab.matrices.weights import checked_weights


@in_chunks
def fit_column(
    H: Float[Tensor, "*batch query key"],
    *,
    values: Values = "free",
    causal: bool = False,
    error_nnz: int | Int[Tensor, "*#batch"] = 0,
    error_bound: float = math.inf,
    sizes: Sizes | None = None,
) -> Fit:
    """Nearest matrix with a single column: t = argmax over t of the sum over rows of gain(h_it).

    ::

        gain(h) = h   (free)      gain(h) = h - |1 - h|   (binary, stochastic)

    With an error the column is the one that leaves least after the best E, exactly
    (`attnlab.matrices.best_first`). A causal row before t cannot see it and stays empty. Arguments as
    in `fit_diagonal`.

    Raises:
        InputError: no attention weights, unknown values or a negative error.

    Cost: one pass, with an error a few partial sorts of the matrix more. Source: math.md section 3.
    """
    check_values(values)
    H = checked_weights(H, sizes)
    real = counted_in(H, sizes)
    usable = real.tril() if causal else real
    task = Task(H, values, SparseError(error_nnz, error_bound))

    def gains(price: Tensor | None) -> Tensor:
        gain = priced_gain(H, task, price).masked_fill(~usable, 0).sum(-2)
        return gain.masked_fill(~usable.any(-2), -math.inf)

    def rows(column: Tensor) -> tuple[Tensor, Tensor]:
        every_row = column[..., None].expand(H.shape[:-1])
        return every_row, real_columns(every_row, H, sizes, causal=causal)

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
