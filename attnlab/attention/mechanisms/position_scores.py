"""Mechanisms without queries and keys: weights that follow from positions."""

from abc import abstractmethod
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from attnlab.attention.mechanism import Context, Cost, Traits, visible_or_all
from attnlab.attention.mechanisms.softmax import softmax_over
from attnlab.attention.padding import PaddingSafeMechanism


class ContentFree(PaddingSafeMechanism):
    """Weights that follow from positions and token ids: nothing is scored."""

    traits: ClassVar[Traits] = Traits(bias=False, content_free=True)

    def mix(self, query: Tensor, key: Tensor, value: Tensor, context: Context) -> Tensor:
        """Mixed values; single weights are dropped in training."""
        matrix = self.matrix(query, key, context).to(value.dtype)
        return F.dropout(matrix, self.dropout, self.training) @ value

    def cost(self, queries: int, keys: int, dim: int) -> Cost:
        """One product a pair."""
        return Cost(multiply_adds=queries * keys * dim, bytes=4 * queries * keys)


class PositionalSoftmax(ContentFree):
    """Softmax of scores of pairs of positions, over the keys of the sentence.

    When causal, over the keys up to the row's own.
    """

    @abstractmethod
    def scores(self, rows: range, keys: int, like: Tensor) -> Float[Tensor, "#head query key"]:
        """Scores of the rows at these positions, on the device of `like`, in its precision or a wider one."""

    def matrix(self, query: Tensor, key: Tensor, context: Context) -> Tensor:
        """The weights: rows sum to 1 over the keys of the sentence."""
        rows = range(context.first_query, context.first_query + query.shape[-2])
        scores = self.scores(rows, key.shape[-2], key)
        seen = visible_or_all(key, context.visible)[:, None, None]
        if self.causal:
            row = torch.arange(rows.start, rows.stop, device=key.device)[:, None]
            seen = seen & (torch.arange(key.shape[-2], device=key.device) <= row)
        weights = softmax_over(scores[None], seen.expand(-1, -1, len(rows), -1)).to(key.dtype)
        return weights.expand(-1, query.shape[1], -1, -1)
