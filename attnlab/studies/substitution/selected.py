"""A mechanism at some heads of a layer, full attention at the others."""

from collections.abc import Iterable
from typing import ClassVar, Unpack

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from attnlab.attention.mechanism import CallContext, Mechanism, Setup
from attnlab.attention.mechanisms.full import Full, FullAttention


class SelectedHeads(Mechanism):
    """Computes a layer both ways and takes each head from the one that it has.

    Unlike `PerHead` it needs no mechanism made for a part of the heads, so that what was calibrated
    for a layer can be tried at one head. Cost: both ways.

    Args:
        mechanism: made for all heads of the layer.
        heads: those that have it.
        count: number of heads of the layer.
    """

    name: ClassVar[str] = "selected heads"
    # The two that it computes are asked for themselves.
    scored: ClassVar[bool] = True

    def __init__(self, mechanism: Mechanism, heads: Iterable[int], count: int) -> None:
        super().__init__(causal=mechanism.causal, cross=mechanism.cross)
        self.mechanism = mechanism
        self.full = FullAttention(Full(), Setup(causal=mechanism.causal, cross=mechanism.cross))
        chosen = set(heads)
        mask = torch.tensor([head in chosen for head in range(count)])
        self.register_buffer("mask", mask[:, None, None], persistent=False)

    def forward(
        self,
        query: Float[Tensor, "batch head query dim"],
        key: Float[Tensor, "batch head key dim"],
        value: Float[Tensor, "batch head key value_dim"],
        visible: Bool[Tensor, "batch key"] | None = None,
        **told: Unpack[CallContext],
    ) -> Float[Tensor, "batch head query value_dim"]:
        """Mixed values, each head by what it has."""
        replaced = self.mechanism(query, key, value, visible, **told)
        kept = self.full(query, key, value, visible, **_for_full(told))
        return torch.where(self.get_buffer("mask"), replaced, kept)

    def implied_matrix(
        self,
        query: Float[Tensor, "batch head query dim"],
        key: Float[Tensor, "batch head key dim"],
        visible: Bool[Tensor, "batch key"] | None = None,
        **told: Unpack[CallContext],
    ) -> Float[Tensor, "batch head query key"]:
        """The matrices of all heads, each from what it has."""
        replaced = self.mechanism.implied_matrix(query, key, visible, **told)
        kept = self.full.implied_matrix(query, key, visible, **_for_full(told))
        return torch.where(self.get_buffer("mask"), replaced, kept)


def _for_full(told: CallContext) -> CallContext:
    """Full attention counts no positions."""
    part: CallContext = {**told}
    part.pop("real_queries", None)
    return part
