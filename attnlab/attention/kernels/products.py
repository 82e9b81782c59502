"""Attention by a product of feature vectors: sums over keys first, so that no pair is ever formed."""

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

import torch
from torch import Tensor
from torch.nn import functional as F

from attnlab.attention.mechanism import visible_or_all

TOKENS_AT_ONCE = 64
# For so many queries forming all pairs is quicker than any sum over keys.
SHORT = 64
Method = TypeVar("Method", bound=Callable[..., Tensor])


def in_full_precision(method: Method) -> Method:
    """The method of a mechanism without autocast, which would put long sums into 16 bits."""

    @wraps(method)
    def plain(module: Any, query: Tensor, *others: Any, **context: Any) -> Tensor:
        with torch.autocast(query.device.type, enabled=False):
            return method(module, query, *others, **context)

    return cast("Method", plain)


def kernel_sums(phi_query: Tensor, phi_key: Tensor, value: Tensor, *, causal: bool) -> Tensor:
    """Sum over keys j (up to the query when causal) of (phi_q . phi_j) v_j, `[..., query, value]`.

    Cost: O(tokens * features * dim); when causal, queries and keys are the same tokens, and sums up
    to each chunk of 64 are kept: O(tokens / 64 * features * dim) numbers.
    """
    if not causal:
        return phi_query @ (phi_key.mT @ value)
    tokens = phi_query.shape[-2]
    size = min(TOKENS_AT_ONCE, tokens)
    filling = -tokens % size
    query, key, value = (
        F.pad(x, (0, 0, 0, filling)).unflatten(-2, (-1, size)) for x in (phi_query, phi_key, value)
    )
    near = (query @ key.mT).tril() @ value
    sums = (key.mT @ value).cumsum(-3)
    before = F.pad(sums[..., :-1, :, :], (0, 0, 0, 0, 1, 0))
    return (near + query @ before).flatten(-3, -2)[..., :tokens, :]


def kernel_matrix(phi_query: Tensor, phi_key: Tensor, *, future: Tensor | None) -> Tensor:
    """phi_q . phi_k for every pair, 0 where `future` is True."""
    matrix = phi_query @ phi_key.mT
    return matrix if future is None else matrix.masked_fill(future, 0.0)


def normalised(numerator: Tensor, denominator: Tensor) -> Tensor:
    """The quotient, and 0 where there is nothing to divide by."""
    some = denominator > 0
    return torch.where(some, numerator / denominator.where(some, 1.0), 0.0)


def nothing_lost(
    denominator: Tensor, key: Tensor, visible: Tensor | None, *, first_query: int, causal: bool
) -> bool:
    """Whether every row that has keys has a sum far from underflow and overflow."""
    limits = torch.finfo(denominator.dtype)
    sums = denominator.detach()
    fine = (sums > limits.tiny**0.5) & (sums < limits.max**0.5)
    real = visible_or_all(key, visible)[:, None, :, None]
    some = real.any(-2, keepdim=True)
    if causal:
        rows = torch.arange(sums.shape[-2], device=key.device) + first_query
        some = (real.cumsum(-2) > 0)[:, :, rows.clamp(max=key.shape[-2] - 1)]
    return bool((fine | ~some).all())


def with_ones(value: Tensor) -> Tensor:
    """Values with a 1 beside them: their sums bring the denominator along."""
    return torch.cat([value, torch.ones_like(value[..., :1])], -1)
