"""What heads do on some sentences, summed: by offset, and how much their rows differ from one to the next.

Rows are of different lengths, and a weight shrinks with the number of keys. So a row is held against rows of
the same position with as many keys alone: of the same length of sentence in the encoder, of any in the
decoder, whose rows end at themselves, and of sources of the same length in cross-attention.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from attnlab.ablation import ablate_each, all_heads
from attnlab.budget import Layer, LayerSums
from attnlab.core import Head
from attnlab.evaluation import Evaluator
from attnlab.reading import Observed, Sentences


class RowMoments:
    """Sums over sentences of the rows of one layer, by position of the query and number of keys.

    Args:
        heads: of the layer.
        longest: most tokens of a sentence.
        causal: whether a row sees keys up to its own position alone.

    Attributes:
        counts: how many rows there are of each position and number of keys.
        sums: these rows added up, by head; padded with zeros.
    """

    def __init__(self, heads: int, longest: int, *, causal: bool) -> None:
        self.causal = causal
        shape = longest, longest + 1
        self.counts: Float[Tensor, "query keys"] = torch.zeros(shape, dtype=torch.float64)
        self.sums: Float[Tensor, "head query keys key"] = torch.zeros(
            (heads, *shape, longest), dtype=torch.float64
        )
        self._squares = torch.zeros((heads, *shape), dtype=torch.float64)

    def add(self, layer: Observed) -> None:
        """Counts one batch, padded behind its tokens."""
        sentence, query = layer.real_queries.nonzero(as_tuple=True)
        keys = query + 1 if self.causal else layer.visible.sum(-1)[sentence]
        # Sums are kept on the CPU, wherever the model is.
        rows = layer.weights[sentence, :, query].double().cpu()
        place = query.cpu(), keys.cpu()
        self.counts.index_put_(place, torch.ones(len(rows), dtype=torch.float64), accumulate=True)
        width = min(rows.shape[-1], self.sums.shape[-1])
        for head, own in enumerate(rows.unbind(1)):
            self.sums[head, ..., :width].index_put_(place, own[:, :width], accumulate=True)
            self._squares[head].index_put_(place, own.square().sum(-1), accumulate=True)

    def variance(self) -> Float[Tensor, " head"]:
        """Variance of a row over sentences: expected squared distance from the mean of its position.

        ::

            sum over groups g and rows x of g of |x - mean of g|^2 / sum over groups of (rows of g - 1)

        Unbiased whatever the sizes of groups; 0 for a head whose rows follow from position and length,
        at most 1.
        """
        several = self.counts > 1
        counts = self.counts[several]
        apart = self._squares[:, several] - self.sums[:, several].square().sum(-1) / counts
        return apart.sum(-1).clamp(min=0) / (counts - 1).sum()


class Learned:
    """What heads did on training sentences: where their weights stand, and how much rows differ."""

    def __init__(self, sentences: Sentences) -> None:
        self._longest = max(
            len(side) for one in sentences.usable for side in (one.source, one.target or ())
        )
        self.sums: dict[Layer, LayerSums] = {}
        self.moments: dict[Layer, RowMoments] = {}

    def add(self, layer: Observed) -> None:
        """Counts one batch."""
        at, causal = (layer.site, layer.layer), layer.site == "decoder"
        if at not in self.sums:
            self.sums[at] = LayerSums(causal=causal, tokens=False)
            self.moments[at] = RowMoments(layer.weights.shape[1], self._longest, causal=causal)
        self.sums[at].add(layer)
        self.moments[at].add(layer)


def without_each(evaluator: Evaluator) -> dict[Head, float]:
    """Change of the loss per token with the output of each head set to 0."""
    heads = all_heads(evaluator.projections)
    before, tokens = evaluator.losses().sum(), evaluator.tokens.sum()
    found = ablate_each(evaluator.projections, heads, "zero", evaluator.losses)
    return {head: float((after.sum() - before) / tokens) for head, after in found.items()}
