"""How many bits a row costs when it is coded as a support and a little noise (math.md section 5)."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

# 2^-40 is far below any noise share that a corpus could tell from 0.
_HALVINGS = 40


@dataclass(frozen=True)
class Rows:
    """The rows of a corpus as a coder sees them: how much each weighs and how many keys it has.

    Padding rows have total 0.
    """

    total: Float[Tensor, "*batch row"]
    keys: Float[Tensor, "*#batch row"]


@dataclass(frozen=True)
class CodeLength:
    """Bits of a whole corpus under one support per row, and the noise share that gives them."""

    bits: Float[Tensor, "*batch"]
    eta: Float[Tensor, "*batch"]


def shortest_code(
    rows: Rows,
    captured: Float[Tensor, "*batch row"],
    support: Int[Tensor, "*#batch row"],
) -> CodeLength:
    """The cross-entropy of all rows with the best share of noise.

    ::

        x_i = (1 - eta) uniform(support of row i) + eta uniform(all n_i keys)
        bits(eta) = - sum_i c_i log2((1 - eta) / m_i + eta / n_i) - sum_i (r_i - c_i) log2(eta / n_i)

    c_i is the mass of row i on its support of m_i keys and r_i its whole mass. A row without support is
    coded as uniform. The function is convex in eta, so bisection of its slope finds the minimum; where
    supports hold all keys (`diffuse`) every eta costs the same, and all is called noise, eta = 1.
    Source: math.md section 5. Cost: 40 passes over the rows.
    """
    supported = support > 0
    m = support.clamp(min=1).to(captured.dtype)
    inside = captured * supported
    outside = (rows.total - captured).clamp(min=0) * supported
    low = torch.zeros_like(captured[..., 0])
    high = torch.ones_like(low)
    missed = outside.sum(-1)
    for _ in range(_HALVINGS):
        eta = (low + high) / 2
        e = eta[..., None]
        slope = (inside * (m - rows.keys) / ((1 - e) * rows.keys + e * m)).sum(-1) + missed / eta
        # More noise helps while the slope of the likelihood is positive.
        low, high = torch.where(slope > 0, eta, low), torch.where(slope > 0, high, eta)
    every_key = ((inside == 0) | (m == rows.keys)).all(-1)
    eta = torch.where(every_key, 1.0, (low + high) / 2)
    e = eta[..., None]
    bits = -(inside * ((1 - e) / m + e / rows.keys).log2()).sum(-1)
    bits = bits - (outside * (e / rows.keys).log2()).sum(-1)
    unsupported = (rows.total * rows.keys.log2() * ~supported).sum(-1)
    return CodeLength(bits + unsupported, eta)


def log2_choose(n: Float[Tensor, "*shape"], k: Float[Tensor, "*#shape"]) -> Float[Tensor, "*shape"]:
    """log2 of n over k.

    >>> round(float(log2_choose(torch.tensor(8.0), torch.tensor(1.0))), 3)
    3.0
    """
    nats = torch.lgamma(n + 1) - torch.lgamma(k + 1) - torch.lgamma(n - k + 1)
    return nats / torch.log(torch.tensor(2.0, dtype=nats.dtype, device=nats.device))
