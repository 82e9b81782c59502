"""Reference points that stand beside every approximation, and bounds that no method of a class beats."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from attnlab.matrices.batched import Sizes, checked_weights, without_padding
from attnlab.matrices.offsets import mean_weight_by_offset
from attnlab.matrices.residual import largest_of_residual
from attnlab.matrices.supports import offsets


def zero_matrix(H: Float[Tensor, "*batch query key"]) -> Float[Tensor, "*batch query key"]:
    """The matrix of zeros, whose `relative` distance is exactly 1."""
    return torch.zeros_like(checked_weights(H))


def uniform_matrix(
    H: Float[Tensor, "*batch query key"], sizes: Sizes | None = None, *, causal: bool = False
) -> Float[Tensor, "*batch query key"]:
    """Every row spread evenly over its keys: 1 / keys, or 1 / (i + 1) up to the diagonal when causal."""
    H = checked_weights(H, sizes)
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


def diagonal_means(
    H: Float[Tensor, "*batch query key"],
) -> Float[Tensor, "*batch query key"]:
    """Every entry replaced by the mean of its diagonal: nearest in Frobenius of those by offset alone.

    Cost: a pass for the means and one to write the matrix.

    Raises:
        InputError: no attention weights.
    """
    H = checked_weights(H)
    return matrix_from_offsets(mean_weight_by_offset(H[..., None, :, :]), *H.shape[-2:])


def top_entries(
    H: Float[Tensor, "*batch query key"], nonzeros: int, sizes: Sizes | None = None
) -> Float[Tensor, "*batch query key"]:
    """The `nonzeros` largest entries of each matrix, zeros elsewhere.

    No matrix with so few non-zeros is nearer in l1 or Frobenius: a lower bound for every sparse method.
    Source: math.md section 7. Cost: a partial sort of the whole matrix.
    """
    return largest_of_residual(checked_weights(H, sizes), nonzeros, math.inf)


def truncated_svd(
    H: Float[Tensor, "*batch query key"], rank: int, sizes: Sizes | None = None
) -> Float[Tensor, "*batch query key"]:
    """The nearest matrix of at most this rank in the Frobenius norm (Eckart and Young).

    ::

        X = sum over i < rank of sigma_i u_i v_i^T

    No method of that rank is nearer; in l1 another matrix may be. Source: math.md section 7.
    Cost: a singular value decomposition, O(n^3).
    """
    left, singular, right = torch.linalg.svd(checked_weights(H, sizes), full_matrices=False)
    return (left[..., :rank] * singular[..., None, :rank]) @ right[..., :rank, :]


def cumulative_spectrum(
    H: Float[Tensor, "*batch query key"], sizes: Sizes | None = None
) -> Float[Tensor, "*batch value"]:
    """Share of the sum of singular values that the largest 1, 2, ... of them hold.

    ::

        c_r = sum over i <= r of sigma_i / sum over all i of sigma_i

    Where few hold nearly all, a matrix of low rank is near. Source: Wang et al. 2020, section 3;
    math.md section 8. Of a zero matrix, whose rank is 0, every share is 1. Cost: a singular value
    decomposition, O(n^3).
    """
    singular = torch.linalg.svdvals(checked_weights(H, sizes))
    total = singular.sum(-1, keepdim=True)
    return torch.where(total > 0, singular.cumsum(-1) / total, 1.0)
