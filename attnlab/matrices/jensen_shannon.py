"""Jensen-Shannon distances between heads over the same keys (math.md section 1)."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from attnlab.matrices.batched import entries_at_once


def js_divergences(
    first: Float[Tensor, "head row key"], other: Float[Tensor, "other_head row key"] | None = None
) -> Float[Tensor, "head other_head"]:
    """Jensen-Shannon divergence in bits of each pair of heads, summed over the rows.

    ::

        JSD(p, q) = H((p + q) / 2) - (H(p) + H(q)) / 2,    H(p) = -sum over keys of p log p

    Half precision is widened to float32, from which a distance below 0.002 cannot be told from 0.
    Cost: O(head * other_head * row * key).

    Args:
        first: rows that sum to 1.
        other: the rows of other heads; None: the same heads, each pair of which is taken once.
    """
    pairs = [
        rows.to(torch.promote_types(rows.dtype, torch.float32))
        for rows in (first, first if other is None else other)
    ]
    sums = first.new_zeros(len(pairs[0]), len(pairs[1]), dtype=torch.float64)
    # Some entries at a time, since those of all heads are read once for each head.
    at_once = max(entries_at_once(first.device) // max(*map(len, pairs), 1), 1)
    # Halves too are above 0, so that the logarithm needs no case of its own.
    least = 2 * torch.finfo(pairs[0].dtype).tiny
    for parts in zip(*(rows.flatten(1).split(at_once, -1) for rows in pairs), strict=True):
        left, right = (part.clamp(min=least) for part in parts)
        half_left, half_right = _information(left) / 2, _information(right) / 2
        left, right = left / 2, right / 2
        for head in range(len(left)):
            behind = head + 1 if other is None else 0
            middle = _information(left[head] + right[behind:])
            sums[head, behind:] += half_left[head] + half_right[behind:] - middle
    if other is None:
        sums += sums.T.clone()
    return sums / math.log(2)


def _information(weights: Float[Tensor, "head entry"]) -> Float[Tensor, " head"]:
    """Sum of x log x over the entries of each head, all above 0."""
    return weights.log().mul_(weights).sum(-1).double()


def js_distances(
    divergences: Float[Tensor, "head other_head"], rows: int | Tensor
) -> Float[Tensor, "head other_head"]:
    """Jensen-Shannon distance of each pair of heads, from 0 to 1: the root of the mean divergence.

    Source: Endres and Schindelin 2003, IEEE Transactions on Information Theory 49 (7), for two distributions.

    Args:
        divergences: sums over the rows, see `js_divergences`.
        rows: how many.
    """
    return (divergences / rows).clamp(min=0).sqrt()
