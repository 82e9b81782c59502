"""Feature vectors whose dot products stand in for exp(q . k): elu + 1, Taylor, positive random features."""

import math
from functools import lru_cache

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F


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
    """What is taken off the exponents of all keys: their maximum over real keys, 0 when causal.

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
