"""The sink: every row attends one token (math.md section 3, the whole-column case of Sigma3)."""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor

from attnlab.matrices.chunks import in_chunks
from attnlab.matrices.columns import fill_columns, real_columns
from attnlab.matrices.fit import Fit, Sink, SparseError, complete
from attnlab.matrices.padding import Sizes, counted_entries, without_padding
from attnlab.matrices.values import Values, check_values, entry_gain


@in_chunks
def fit_sink(
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

    A causal row before t cannot see it and stays empty. Arguments as in `fit_diagonal`.

    Raises:
        InputError: unknown values or a negative error.

    Cost: one pass. Source: math.md section 3.
    """
    check_values(values)
    H = without_padding(H, sizes)
    queries, keys = H.shape[-2:]
    real = torch.ones(queries, keys, dtype=torch.bool, device=H.device)
    if sizes is not None:
        real = counted_entries(sizes, queries, keys)
    usable = real.tril() if causal else real
    gain = entry_gain(H, values).masked_fill(~usable, 0).sum(-2)
    best = gain.masked_fill(~usable.any(-2), -math.inf)
    column = best.argmax(-1) if keys else best.new_zeros(best.shape[:-1], dtype=torch.long)
    every_row = column[..., None].expand(H.shape[:-1])
    allowed = real_columns(every_row, H, sizes, causal=causal)
    return complete(
        H,
        fill_columns(H, every_row, allowed, values),
        family="sink",
        values=values,
        parameters=Sink(column),
        support_size=allowed.sum(-1),
        allowed=SparseError(error_nnz, error_bound),
        sizes=sizes,
    )
