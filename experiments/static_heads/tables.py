"""Heads whose weights are the same in every sentence, in three forms, learned from the sums of their rows."""

from typing import ClassVar, Unpack

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from attnlab.attention import CallContext, Mechanism, Specification, Static
from attnlab.budget import LayerSums
from attnlab.matrices import fit_static_scores
from attnlab.matrices.supports import offsets
from experiments.static_heads.moments import RowMoments

FORMS = FITTED, MEAN, OFFSETS = "key and offset", "mean matrix", "offset alone"
TINY = 1e-12


class TableAttention(Mechanism):
    """A softmax of scores by position over the visible keys; positions behind the table are its last."""

    name: ClassVar[str] = "table"

    def __init__(self, scores: Float[Tensor, "query key"], site: str) -> None:
        super().__init__(causal=site == "decoder", cross=site == "cross")
        self.scores: Tensor
        self.register_buffer("scores", scores.float())

    def forward(
        self,
        query: Float[Tensor, "batch head query dim"],
        key: Float[Tensor, "batch head key dim"],
        value: Float[Tensor, "batch head key value_dim"],
        visible: Bool[Tensor, "batch key"] | None = None,
        **told: Unpack[CallContext],
    ) -> Float[Tensor, "batch head query value_dim"]:
        """Mixed values; the weights are the same for every head."""
        return self.implied_matrix(query, key, visible, **told).to(value.dtype) @ value

    def implied_matrix(
        self,
        query: Float[Tensor, "batch head query dim"],
        key: Float[Tensor, "batch head key dim"],
        visible: Bool[Tensor, "batch key"] | None = None,
        **told: Unpack[CallContext],
    ) -> Float[Tensor, "batch head query key"]:
        """The weights of all heads, rows summing to 1."""
        shape, first = (query.shape[-2], key.shape[-2]), told.get("first_query", 0)
        rows, columns = (
            torch.arange(start, start + count, device=key.device).clamp(max=most - 1)
            for start, count, most in zip((first, 0), shape, self.scores.shape, strict=True)
        )
        seen = key.new_ones(len(key), 1, shape[1]).bool() if visible is None else visible[:, None]
        if self.causal:
            seen = seen & (offsets(*shape, first_query=first, device=key.device) <= 0)
        scores = self.scores[rows][:, columns].masked_fill(~seen, -torch.inf)
        weights = scores.softmax(-1).masked_fill(~seen.any(-1, keepdim=True), 0)
        return weights.to(key.dtype)[:, None].expand(-1, query.shape[1], -1, -1)


def static_heads(
    site: str, moments: RowMoments, sums: LayerSums
) -> dict[str, list[Mechanism | Specification]]:
    """What stands in for each head of a layer, by form.

    ::

        key and offset:  exp(a_j + r_(j-i)) / Z, nearest to the head's rows by cross-entropy
        mean matrix:     mean of the rows of position i over sentences, normalised over the keys there are
        offset alone:    w_(j-i) / Z, the share of each offset that of the head

    Source: SAF (arXiv 2609.34650), PAPA (Hassid et al. 2022, arXiv 2211.03495), `LayerSums.static_weights`.
    """
    fitted, mean = fitted_scores(moments), mean_matrix(moments).clamp(min=TINY).log()
    return {
        FITTED: [TableAttention(one, site) for one in fitted],
        MEAN: [TableAttention(one, site) for one in mean],
        OFFSETS: [_by_offset(sums, head) for head in range(len(fitted))],
    }


def fitted_scores(moments: RowMoments) -> Float[Tensor, "head query key"]:
    """The best a_j + r_(j-i) of each head."""
    if moments.causal:
        return fit_static_scores(moments.sums.sum(2)[:, None], causal=True).matrix
    by_keys = moments.sums.transpose(1, 2)
    counts, queries, keys = by_keys.shape[1:]
    sizes = torch.stack([torch.full((counts,), queries), torch.arange(counts).clamp(max=keys)], -1)
    return fit_static_scores(by_keys, sizes).matrix


def mean_matrix(moments: RowMoments) -> Float[Tensor, "head query key"]:
    """Mean weight of each pair of positions over the rows that see it; 0 where none does."""
    seeing = moments.counts.flip(1).cumsum(1).flip(1)[:, 1:]
    return moments.sums.sum(2) / seeing.clamp(min=1)


def _by_offset(sums: LayerSums, head: int) -> Static:
    there = sorted(sums.offsets_by_mass((0, 0), head))
    return Static(tuple(there), tuple(sums.static_weights(head, there)))
