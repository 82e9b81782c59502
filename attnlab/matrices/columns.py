"""Matrices with one entry a row: what Sigma1, Sigma3 and the single column have in common."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from attnlab.matrices.padding import Sizes, sizes_of
from attnlab.matrices.values import Values


def fill_columns(
    H: Float[Tensor, "*batch query key"],
    column: Int[Tensor, "*batch query"],
    allowed: Bool[Tensor, "*batch query"],
    values: Values,
) -> Float[Tensor, "*batch query key"]:
    """The matrix in which row i attends key `column[i]` alone, or nothing where not allowed.

    With a single entry in a row `binary` and `stochastic` are the same: the entry is 1. `free` takes h.
    Cost: O(query), and one pass to write zeros.
    """
    structure = torch.zeros_like(H)
    if H.shape[-1] == 0:
        return structure
    index = column.clamp(0, H.shape[-1] - 1)[..., None]
    entry = H.gather(-1, index) if values == "free" else torch.ones_like(structure[..., :1])
    return structure.scatter_(-1, index, entry * allowed[..., None])


def real_columns(
    column: Int[Tensor, "*batch query"],
    H: Float[Tensor, "*batch query key"],
    sizes: Sizes | None,
    *,
    causal: bool,
) -> Bool[Tensor, "*batch query"]:
    """True where row and column are both real, and the column is not ahead when causal."""
    row = torch.arange(H.shape[-2], device=H.device)
    real = sizes_of(H, sizes)
    allowed = (row < real[..., :1]) & (column >= 0) & (column < real[..., 1:])
    return allowed & (column <= row) if causal else allowed
