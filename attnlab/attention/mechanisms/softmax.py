"""Softmax over a support: mechanisms that score some pairs and leave the others out."""

from abc import abstractmethod
from typing import ClassVar, Unpack

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional as F

from attnlab.attention.mechanism import CallContext, Context, Form
from attnlab.attention.padding import PaddingSafeMechanism


class MaskedSoftmax(PaddingSafeMechanism):
    """Softmax of scaled dot products over the pairs that a support allows.

    ::

        out_i = sum over allowed j of softmax_j(q_i . k_j / sqrt(dim)) v_j

    A subclass says which pairs are allowed; `SparseSoftmax` has a form that never scores the others.
    """

    forms: ClassVar[tuple[Form, ...]] = ("auto", "dense")
    scored: ClassVar[bool] = True

    @abstractmethod
    def pairs(
        self,
        query: Float[Tensor, "batch head query dim"],
        key: Float[Tensor, "batch head key dim"],
        context: Context,
    ) -> Bool[Tensor, "#batch #head query key"] | None:
        """True where a query may see a key, padding aside; None when every pair is allowed."""

    def mix(self, query: Tensor, key: Tensor, value: Tensor, context: Context) -> Tensor:
        """Mixed values; without keys, 0."""
        if context.bias is None and context.scoring is None:
            return self.unbiased(query, key, value, context)
        matrix = self.matrix(query, key, context)
        return F.dropout(matrix, self.active_dropout(), self.training) @ value

    def unbiased(self, query: Tensor, key: Tensor, value: Tensor, context: Context) -> Tensor:
        """Mixed values where the scores are the scaled products alone."""
        return self.dense(query, key, value, context)

    def matrix(self, query: Tensor, key: Tensor, context: Context) -> Tensor:
        """Attention weights: rows sum to 1 over the keys seen (below 1 with sinks), exactly 0 elsewhere."""
        scores = scores_of(query, key, context)
        seen = self._seen(query, key, context)
        if context.scoring is not None and context.scoring.sinks is not None:
            return softmax_with_sinks(scores, seen, context.scoring.sinks)
        return scores.softmax(-1) if seen is None else softmax_over(scores, seen)

    def support(
        self,
        query: Float[Tensor, "batch head query dim"],
        key: Float[Tensor, "batch head key dim"],
        visible: Bool[Tensor, "batch key"] | None = None,
        **call_context: Unpack[CallContext],
    ) -> Bool[Tensor, "batch head query key"]:
        """True for the pairs whose weight may differ from 0."""
        context = Context(visible, **call_context)
        query, key = self.real_tokens(query, key, visible, context.first_query)
        shape = (*query.shape[:-1], key.shape[-2])
        order = self.arrangement(query, key, context)
        if order is not None:
            query, key = order.of_queries(query), order.of_keys(key)
            context = order.of_context(context)
        seen = self._seen(query, key, context)
        if seen is None:
            return torch.ones(shape, dtype=torch.bool, device=query.device)
        return seen.expand(shape) if order is None else order.matrix_back(seen.expand(shape))

    def dense(self, query: Tensor, key: Tensor, value: Tensor, context: Context) -> Tensor:
        """Every pair scored, those outside the support left out: fused, or as two plain products."""
        if _product_is_faster(query, key):
            matrix = self.matrix(query, key, context)
            return F.dropout(matrix, self.active_dropout()).to(value.dtype) @ value
        seen = self._seen(query, key, context)
        return F.scaled_dot_product_attention(
            query, key, value, attn_mask=seen, dropout_p=self.active_dropout()
        )

    def active_dropout(self) -> float:
        """The dropout of this call: 0 outside training."""
        return self.dropout if self.training else 0.0

    def _seen(
        self, query: Tensor, key: Tensor, context: Context
    ) -> Bool[Tensor, "#batch #head #query key"] | None:
        pairs = self.pairs(query, key, context)
        if context.scoring is not None and context.scoring.allowed is not None:
            allowed = context.scoring.allowed
            pairs = allowed if pairs is None else pairs & allowed
        if context.visible is None:
            return pairs
        keys = context.visible[:, None, None, :]
        return keys if pairs is None else keys & pairs


def _product_is_faster(query: Tensor, key: Tensor) -> bool:
    """Whether two plain products beat torch's fused attention: on a CPU, in 16 bits, for short texts.

    Measured with torch 2.13 forward and backward: at 15 to 64 keys the fused kernel takes 5 to 9
    times as long in bfloat16; at 256 keys the two are even.
    """
    return query.device.type == "cpu" and query.element_size() == 2 and key.shape[-2] <= 128


def scaled_scores(query: Tensor, key: Tensor, bias: Tensor | None = None) -> Tensor:
    """Products q . k / sqrt(dim) every pair, plus `bias`."""
    scores = (query * query.shape[-1] ** -0.5) @ key.mT
    return scores if bias is None else scores + bias


def scores_of(query: Tensor, key: Tensor, context: Context) -> Tensor:
    """Scaled products of every pair, capped and biased as the context says."""
    softcap = None if context.scoring is None else context.scoring.softcap
    if softcap is None:
        return scaled_scores(query, key, context.bias)
    scores = softcap * (scaled_scores(query, key) / softcap).tanh()
    return scores if context.bias is None else scores + context.bias


def softmax_with_sinks(scores: Tensor, seen: Tensor | None, sinks: Tensor) -> Tensor:
    """Softmax of each row over the entries `seen` and its head's sink, whose own weight is left out."""
    sink = sinks.to(scores.dtype)[:, None, None].expand(*scores.shape[:-1], 1)
    scores = torch.cat([scores, sink], -1)
    if seen is None:
        return scores.softmax(-1)[..., :-1]
    # A sink of -inf is none: a row without keys and sink is empty.
    has_sink = sink > -torch.inf
    seen = torch.cat([seen.expand(*scores.shape[:-1], seen.shape[-1]), has_sink], -1)
    return softmax_over(scores, seen)[..., :-1]


def softmax_over(scores: Tensor, seen: Tensor) -> Tensor:
    """Softmax of each row over the entries `seen`, exactly 0 elsewhere, and 0 in empty rows.

    >>> softmax_over(torch.zeros(2, 2), torch.tensor([[True, False], [False, False]])).tolist()
    [[1.0, 0.0], [0.0, 0.0]]
    """
    # Where, not a sum: a score outside the support may be infinite or NaN.
    scores = scores.where(seen, -torch.inf)
    some = seen.any(-1, keepdim=True)
    if bool(some.all()):
        return scores.softmax(-1)
    # The softmax of a row of -inf is NaN, and so is its gradient.
    return scores.where(some, 0.0).softmax(-1).where(some, 0.0)
