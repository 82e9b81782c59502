"""Rows that sum to 1 on a support and the sparse error beside them, fitted together in l1."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from attnlab.matrices.residual import check_error
from attnlab.matrices.supports import renormalised


def fit_stochastic_rows(
    H: Float[Tensor, "*batch query key"],
    support: Bool[Tensor, "*#batch query key"],
    nonzeros: int | Int[Tensor, "*#batch"],
    bound: float,
) -> tuple[Float[Tensor, "*batch query key"], Float[Tensor, "*batch query key"]]:
    """P, whose rows sum to 1 on `support`, and E, such that no such pair has a smaller |H - P - E|.

    ::

        minimise |H - P - E|_1,   p >= 0 on S,   sum of p_i = 1,   at most s non-zeros in E, |e| <= eps

    Take row i with mass r on its support S and D = 1 - r, and write p = h + q on S: the q sum to D, and
    q >= -h. If E may touch the entries K of the row, the loss on S is at least ::

        sum over S of max(|q_j| - eps [j in K], 0) >= |D| - sum over K of c_j
        c_j = eps             if D >= 0     (only positive q count)
        c_j = min(h_j, eps)   if D < 0      (only negative q count, and none is below -h_j)

    and it is never below 0. Setting e_j = -c_j (D >= 0) or e_j = c_j (D < 0) on K, cut so that the c sum
    to at most |D|, and P to the row of H - E renormalised on S, reaches that bound: what is left of D moves
    all entries of S the same way. Off S the loss of entry j is h_j, or max(h_j - eps, 0) when corrected.

    So the first, second, .. correction on S saves c_(1), c_(2), .. in falling order until |D| is used up,
    and off S the savings are min(h_j, eps) in falling order. Both sequences fall, hence so does their
    merger: the gain of k corrections is concave in k for every row, and the s largest savings of the
    whole matrix are optimal; among equal ones those of larger entries are taken. Rows without support
    stay empty in P. In the Frobenius norm another pair may be nearer.

    Raises:
        InputError: `nonzeros` is negative, or `bound` is negative or NaN.

    Source: math.md sections 3 and 4. Cost: a sort of every row and two sorts of the matrix.
    """
    check_error(nonzeros, bound)
    savings = _signed_savings(H, support, bound)
    error = savings.masked_fill(~_largest(savings.abs(), H, nonzeros), 0)
    kept = torch.where(support, H - error, 0)
    return renormalised(kept, support), error


def _signed_savings(H: Tensor, support: Tensor, bound: float) -> Float[Tensor, "*batch query key"]:
    """What correcting each entry saves, the larger ones of its row first; negative where e is."""
    support = support.expand_as(H)
    missing = 1 - torch.where(support, H, 0).sum(-1, keepdim=True)
    falling = H.masked_fill(~support, -1).sort(dim=-1, descending=True, stable=True)
    short = missing >= 0
    most = torch.where(short, missing, falling.values).clamp(max=bound)
    most = most.masked_fill(falling.values < 0, 0)
    # What is left is compared with the limit, not a difference of sums: no saving exceeds its entry.
    left = (missing.abs() - (most.cumsum(-1) - most)).clamp(min=0)
    on_support = torch.zeros_like(H).scatter_(-1, falling.indices, torch.minimum(left, most))
    return torch.where(support, torch.where(short, -on_support, on_support), H.clamp(max=bound))


def _largest(
    savings: Tensor, H: Tensor, nonzeros: int | Tensor
) -> Bool[Tensor, "*batch query key"]:
    """True at the `nonzeros` largest savings of each matrix, larger entries first among equals."""
    flat = savings.flatten(-2)
    by_entry = H.flatten(-2).argsort(dim=-1, descending=True, stable=True)
    order = flat.gather(-1, by_entry).argsort(dim=-1, descending=True, stable=True)
    counts = torch.as_tensor(nonzeros, device=H.device)[..., None]
    chosen = (torch.arange(flat.shape[-1], device=H.device) < counts).expand_as(flat)
    marked = torch.zeros_like(flat, dtype=torch.bool)
    return marked.scatter_(-1, by_entry.gather(-1, order), chosen).reshape(H.shape)
