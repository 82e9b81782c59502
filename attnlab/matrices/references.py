"""Reference points that stand beside every approximation (math.md section 1)."""

import torch
from jaxtyping import Float
from torch import Tensor

from attnlab.matrices.padding import Sizes, without_padding
from attnlab.matrices.supports import offsets


def zero_matrix(H: Float[Tensor, "*batch query key"]) -> Float[Tensor, "*batch query key"]:
    """Nothing at all: its `relative` distance is exactly 1."""
    return torch.zeros_like(H)


def uniform_matrix(
    H: Float[Tensor, "*batch query key"], sizes: Sizes | None = None, *, causal: bool = False
) -> Float[Tensor, "*batch query key"]:
    """Every row spread evenly over its keys: 1 / keys, or 1 / (i + 1) up to the diagonal when causal."""
    queries, keys = H.shape[-2:]
    every = torch.ones_like(H)
    if causal:
        every = every * (offsets(queries, keys, device=H.device) <= 0)
    every = without_padding(every, sizes)
    return every / every.sum(-1, keepdim=True).clamp(min=1)


def matrix_from_offsets(
    profile: Float[Tensor, "*batch offset"],
    queries: int,
    keys: int,
) -> Float[Tensor, "*batch query key"]:
    """The matrix whose weight depends on the offset alone: x_ij = profile(j - i).

    `profile` runs from offset -(queries - 1) to keys - 1, as `mean_weight_by_offset` gives it.
    Its rows need not sum to 1: at the border some offsets have no key.
    """
    column = offsets(queries, keys, device=profile.device) + queries - 1
    return profile[..., column]
