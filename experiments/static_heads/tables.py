"""Heads whose weights are the same in every sentence, in three forms, learned from the sums of their rows."""

from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from attnlab.attention import (
    Mechanism,
    PositionalSoftmax,
    Positions,
    Setup,
    Specification,
    Static,
)
from attnlab.budget import LayerSums
from attnlab.matrices import fit_static_scores
from experiments.shared.learned_heads import RowMoments

FORMS = FITTED, MEAN, OFFSETS = "key and offset", "mean matrix", "offset alone"
TINY = 1e-12


class TableAttention(PositionalSoftmax):
    """A softmax of scores by position over the visible keys; positions behind the table are its last."""

    name: ClassVar[str] = "table"
    positions: ClassVar[Positions] = "pairs"

    def __init__(self, table: Float[Tensor, "query key"], site: str) -> None:
        super().__init__(None, Setup(causal=site == "decoder", cross=site == "cross"))
        self.table: Tensor
        self.register_buffer("table", table.float())

    def scores(self, rows: range, keys: int, like: Tensor) -> Float[Tensor, "1 query key"]:
        """Those of the table, the same for every head."""
        row, column = (
            torch.arange(part.start, part.stop, device=like.device).clamp(max=most - 1)
            for part, most in zip((rows, range(keys)), self.table.shape, strict=True)
        )
        return self.table[row][:, column][None]


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
