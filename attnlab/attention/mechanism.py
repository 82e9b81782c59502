"""What every attention mechanism is: queries, keys, values in; mixed values out; the matrix it applied."""

from abc import ABC, abstractmethod
from typing import ClassVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F


class Mechanism(nn.Module, ABC):
    """One way of mixing values, the same for every head it is called with.

    Tensors are `[batch, head, token, dim]`. `visible` is True where a key is a real token. A causal
    mechanism lets a query see keys up to its own position; `first_query` is the position of the
    first query, so that cached decoding sees what uncached decoding sees.

    The law of every mechanism, in eval mode: `forward(q, k, v) == implied_matrix(q, k) @ v`.

    Attributes:
        name: how the mechanism is written in a specification.
        causal: whether a query is kept from keys behind it.
        dropout: probability with which a weight is dropped in training mode.
    """

    name: ClassVar[str]

    def __init__(self, *, causal: bool = False, dropout: float = 0.0) -> None:
        super().__init__()
        self.causal = causal
        self.dropout = dropout

    @abstractmethod
    def forward(
        self,
        query: Float[Tensor, "batch head query dim"],
        key: Float[Tensor, "batch head key dim"],
        value: Float[Tensor, "batch head key value_dim"],
        visible: Bool[Tensor, "batch key"] | None = None,
        *,
        first_query: int = 0,
    ) -> Float[Tensor, "batch head query value_dim"]:
        """Mixed values, one row a query; a query that sees no key gets 0."""

    @abstractmethod
    def implied_matrix(
        self,
        query: Float[Tensor, "batch head query dim"],
        key: Float[Tensor, "batch head key dim"],
        visible: Bool[Tensor, "batch key"] | None = None,
        *,
        first_query: int = 0,
    ) -> Float[Tensor, "batch head query key"]:
        """The matrix that `forward` multiplies the values by, without dropout."""


class MaskedSoftmax(Mechanism):
    """Softmax of scaled dot products over a set of pairs that is fixed before any score is computed.

    ::

        out_i = sum over allowed j of softmax_j(q_i . k_j / sqrt(dim)) v_j

    A subclass says which pairs are allowed. Cost: O(query * key * dim), the dense form.
    """

    @abstractmethod
    def allowed(
        self, queries: int, keys: int, *, first_query: int = 0, device: torch.device | None = None
    ) -> Bool[Tensor, "query key"] | None:
        """True where a query may see a key; None when every pair is allowed."""

    def forward(
        self,
        query: Float[Tensor, "batch head query dim"],
        key: Float[Tensor, "batch head key dim"],
        value: Float[Tensor, "batch head key value_dim"],
        visible: Bool[Tensor, "batch key"] | None = None,
        *,
        first_query: int = 0,
    ) -> Float[Tensor, "batch head query value_dim"]:
        """Mixed values through torch's fused attention; a query that sees no key gets 0."""
        dropout = self.dropout if self.training else 0.0
        if _product_is_faster(query, key):
            matrix = self.implied_matrix(query, key, visible, first_query=first_query)
            return F.dropout(matrix, dropout).to(value.dtype) @ value
        seen = self._seen(query, key, visible, first_query)
        return F.scaled_dot_product_attention(query, key, value, attn_mask=seen, dropout_p=dropout)

    def implied_matrix(
        self,
        query: Float[Tensor, "batch head query dim"],
        key: Float[Tensor, "batch head key dim"],
        visible: Bool[Tensor, "batch key"] | None = None,
        *,
        first_query: int = 0,
    ) -> Float[Tensor, "batch head query key"]:
        """Attention weights: rows sum to 1 over the keys seen, exactly 0 elsewhere."""
        scores = (query @ key.mT) * query.shape[-1] ** -0.5
        seen = self._seen(query, key, visible, first_query)
        if seen is None:
            return scores.softmax(-1)
        # The lowest number instead of -inf: a row without any key would turn into NaN.
        lowest = torch.finfo(scores.dtype).min
        return scores.masked_fill(~seen, lowest).softmax(-1).masked_fill(~seen, 0.0)

    def _seen(
        self, query: Tensor, key: Tensor, visible: Tensor | None, first_query: int
    ) -> Bool[Tensor, "batch #head #query key"] | None:
        pairs = self.allowed(
            query.shape[-2], key.shape[-2], first_query=first_query, device=query.device
        )
        if visible is None:
            return None if pairs is None else pairs.expand(query.shape[0], 1, *pairs.shape)
        keys = visible[:, None, None, :]
        return keys if pairs is None else keys & pairs


def _product_is_faster(query: Tensor, key: Tensor) -> bool:
    """Whether two plain products beat torch's fused attention: on a CPU, in 16 bits, for short texts.

    Measured with torch 2.13 forward and backward: at 15 to 64 keys the fused kernel takes 5 to 9
    times as long in bfloat16; at 256 keys the two are even.
    """
    return query.device.type == "cpu" and query.element_size() == 2 and key.shape[-2] <= 128


def offsets(
    queries: int, keys: int, *, first_query: int = 0, device: torch.device | None = None
) -> Tensor:
    """Key position minus query position for every pair, `[query, key]`.

    >>> offsets(2, 3).tolist()
    [[0, 1, 2], [-1, 0, 1]]
    """
    rows = torch.arange(first_query, first_query + queries, device=device)
    return torch.arange(keys, device=device) - rows[:, None]
