"""Reference points that stand beside every approximation, and bounds that no method of a class beats."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from attnlab.matrices.offsets import mean_weight_by_offset
from attnlab.matrices.padding import Sizes, without_padding
from attnlab.matrices.residual import largest_of_residual
from attnlab.matrices.supports import offsets
from attnlab.matrices.weights import checked_weights


def zero_matrix(H: Float[Tensor, "*batch query key"]) -> Float[Tensor, "*batch query key"]:
    """Nothing at all: its `relative` distance is exactly 1."""
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


def own_mean_by_offset(
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


def top_entries_of_rows(
    H: Float[Tensor, "*batch query key"], per_row: int, sizes: Sizes | None = None
) -> Float[Tensor, "*batch query key"]:
    """The `per_row` largest entries of each row, zeros elsewhere.

    The best possible support that gives every row as many keys. Source: math.md section 7.
    """
    H = checked_weights(H, sizes)
    top = H.topk(min(per_row, H.shape[-1]), dim=-1)
    return torch.zeros_like(H).scatter_(-1, top.indices, top.values)


def truncated_svd(
    H: Float[Tensor, "*batch query key"], rank: int, sizes: Sizes | None = None
) -> Float[Tensor, "*batch query key"]:
    """The nearest matrix of at most this rank in the Frobenius norm (Eckart and Young).

    ::

        X = sum over i < rank of sigma_i u_i v_i^T

    No method of that rank is nearer; in l1 another matrix may be. Source: math.md section 7.
    Cost: a singular value decomposition, O(n^3).
    """
    return _truncated(checked_weights(H, sizes), rank)


def _truncated(matrix: Tensor, rank: int) -> Tensor:
    left, singular, right = torch.linalg.svd(matrix, full_matrices=False)
    return (left[..., :rank] * singular[..., None, :rank]) @ right[..., :rank, :]


def sparse_plus_low_rank(
    H: Float[Tensor, "*batch query key"],
    *,
    rank: int,
    nonzeros: int,
    rounds: int = 50,
    sizes: Sizes | None = None,
) -> tuple[Float[Tensor, "*batch query key"], Float[Tensor, "*batch query key"]]:
    """A low-rank and a sparse matrix whose sum is near H in the Frobenius norm.

    ::

        L <- truncated SVD of H - S,   S <- largest entries of H - L,   alternately

    A heuristic: each step is exact and never goes away from H, but the pair that it ends in is a local
    optimum and bounds nothing. Cost: `rounds` singular value decompositions.
    """
    H = checked_weights(H, sizes)
    low_rank, sparse = H, torch.zeros_like(H)
    for _ in range(rounds):
        low_rank = _truncated(H - sparse, rank)
        sparse = largest_of_residual(without_padding(H - low_rank, sizes), nonzeros, math.inf)
    return low_rank, sparse
