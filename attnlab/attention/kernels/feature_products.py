"""Attention by a product of feature vectors: sums over keys first, so that no pair is ever formed."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, wraps
from typing import Any, TypeVar, cast

import torch
from jaxtyping import Float
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


def elu_features(x: Float[Tensor, "*rows dim"]) -> Float[Tensor, "*rows dim"]:
    """elu(x) + 1, without the loss of exp(x) beside 1 (Katharopoulos et al. 2020, eq. 7).

    >>> elu_features(torch.tensor([-8.0], dtype=torch.bfloat16)).item() > 0
    True
    """
    return torch.where(x >= 0, x.clamp(min=0) + 1, x.clamp(max=0).exp())


def elu_exponents(x: Float[Tensor, "*rows dim"]) -> Float[Tensor, "*rows dim"]:
    """Logarithms of `elu_features`."""
    return torch.where(x >= 0, x.clamp(min=0).log1p(), x.clamp(max=0))


def taylor_features(x: Float[Tensor, "*rows dim"]) -> Float[Tensor, "*rows wider"]:
    """1 and the vector at unit length: dot products are 1 + q^ . k^ (Li et al. 2020)."""
    # Squares of very large and very small numbers overflow and vanish.
    largest = x.detach().abs().amax(-1, keepdim=True)
    x = x / largest.where(largest > 0, 1.0)
    return torch.cat([torch.ones_like(x[..., :1]), F.normalize(x, dim=-1)], -1)


def favor_exponents(
    x: Float[Tensor, "*rows dim"], features: int, seed: int
) -> Float[Tensor, "*rows feature"]:
    """Logarithms of positive random features of x / dim^(1/4) (Choromanski et al. 2021, lemma 1).

    ::

        phi(x) = exp(w . x - |x|^2 / 2) / sqrt(features),   E[phi(q) . phi(k)] = exp(q . k / sqrt(dim))
    """
    directions = orthogonal_directions(features, x.shape[-1], seed).to(x)
    x = x * x.shape[-1] ** -0.25
    return x @ directions.T - x.square().sum(-1, keepdim=True) / 2 - math.log(features) / 2


def common_height(exponents: Tensor, real: Tensor, *, causal: bool) -> Tensor:
    """The number taken off the exponents of all keys: their maximum over real keys, 0 when causal.

    A factor common to all keys cancels out. To look at later keys for it would let the future in.
    """
    if causal:
        return exponents.new_zeros(())
    height = exponents.detach().masked_fill(~real, -torch.inf).amax((-2, -1), keepdim=True)
    return height.where(height.isfinite(), 0.0)


@lru_cache(maxsize=32)
def orthogonal_directions(features: int, dim: int, seed: int) -> Float[Tensor, "features dim"]:
    """Gaussian directions, orthogonal within each group of `dim`, with Gaussian lengths."""
    generator = torch.Generator().manual_seed(seed)
    groups = []
    # What is kept for later calls may be first drawn in inference mode, and then needed in training.
    with torch.inference_mode(mode=False):
        for _ in range(-(-features // dim)):
            square = torch.randn(dim, dim, generator=generator, dtype=torch.float64)
            lengths = torch.randn(dim, dim, generator=generator, dtype=torch.float64).norm(dim=-1)
            basis, upper = torch.linalg.qr(square)
            # Without the signs of R's diagonal the directions would not be uniform (Mezzadri 2007).
            groups.append((basis * upper.diagonal().sign()).T * lengths[:, None])
        return torch.cat(groups)[:features]


@dataclass(frozen=True)
class ScaledSums:
    """Rows `sums * exp(level)`, `[..., query, value]` and `[..., query, 1]`; no keys have level -inf."""

    sums: Tensor
    level: Tensor

    def in_rows(self, before: int, after: int) -> "ScaledSums":
        """The sums with so many rows without keys added (or, below 0, rows taken away) at both ends."""
        pad = (0, 0, before, after)
        return ScaledSums(F.pad(self.sums, pad), F.pad(self.level, pad, value=-torch.inf))


def together(parts: list[ScaledSums]) -> ScaledSums:
    """The sum of all parts, at the highest of their levels."""
    level = torch.stack([part.level for part in parts]).amax(0)
    sums = [part.sums * (part.level - _finite(level)).exp() for part in parts]
    return ScaledSums(torch.stack(sums).sum(0), level)


def over_all(query: Tensor, key: Tensor, value: Tensor) -> ScaledSums:
    """Sum over keys j and features m of exp(query_im + key_jm) value_j.

    Every feature is scaled by its largest key and every row by its largest term, so that one term of
    each row is 1. Keys that do not count have exponents of -inf.
    """
    height = key.detach().amax(-2, keepdim=True)
    query = query + height
    level = query.detach().amax(-1, keepdim=True)
    phi_key = (key - _finite(height)).exp()
    return ScaledSums((query - _finite(level)).exp() @ (phi_key.mT @ value), level)


def over_earlier(query: Tensor, key: Tensor, value: Tensor, last: int) -> ScaledSums:
    """`over_all` for keys up to `last` behind the row: row i has keys 0..i + last.

    Rows and keys are halved again and again: the later half of the rows sees the earlier half of
    the keys whole, at a scale that no later key has a say in.
    Cost: O(tokens * log(tokens) * features * dim).
    """
    rows, keys = query.shape[-2], key.shape[-2]
    cut, front = min(max(-last, 0), rows), max(last, 0)
    length = max(keys, front + rows - cut, 1)
    size = 1 << (length - 1).bit_length()
    query = F.pad(query[..., cut:, :], (0, 0, front, size - front - rows + cut))
    key = F.pad(key, (0, 0, 0, size - keys), value=-torch.inf)
    value = F.pad(value, (0, 0, 0, size - keys))
    return _triangle_sums(query, key, value).in_rows(cut - front, front + rows - cut - size)


def over_later(query: Tensor, key: Tensor, value: Tensor, first: int) -> ScaledSums:
    """`over_all` for keys from `first` behind the row on: row i has keys i + first and later."""
    last = key.shape[-2] - query.shape[-2] - first
    turned = over_earlier(query.flip(-2), key.flip(-2), value.flip(-2), last)
    return ScaledSums(turned.sums.flip(-2), turned.level.flip(-2))


def _triangle_sums(query: Tensor, key: Tensor, value: Tensor) -> ScaledSums:
    """Keys 0..i for row i of a power of two."""
    logits = query + key
    level = logits.detach().amax(-1, keepdim=True)
    weight = (logits - _finite(level)).exp().sum(-1, keepdim=True)
    total, half = ScaledSums(weight * value, level), 1
    while half < query.shape[-2]:
        rows, keys, values = (x.unflatten(-2, (-1, 2, half)) for x in (query, key, value))
        later = over_all(rows[..., 1, :, :], keys[..., 0, :, :], values[..., 0, :, :])
        later = later.in_rows(half, 0)
        part = ScaledSums(later.sums.flatten(-3, -2), later.level.flatten(-3, -2))
        total, half = together([total, part]), 2 * half
    return total


def _finite(level: Tensor) -> Tensor:
    return level.masked_fill(level == -torch.inf, 0.0)
