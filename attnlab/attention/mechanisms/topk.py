"""The best support of a given size: each query keeps the k keys it scores highest (Gupta et al. 2021)."""

from dataclasses import dataclass
from typing import Any, ClassVar

from jaxtyping import Bool
from torch import Tensor

from attnlab.attention.kernels.union import best
from attnlab.attention.mechanism import Context, Cost, visible_or_all
from attnlab.attention.mechanisms.softmax import MaskedSoftmax, scores_of
from attnlab.attention.specification import Specification
from attnlab.core import LONGEST_TEXT
from attnlab.matrices.supports import offsets


@dataclass(frozen=True)
class TopK(Specification):
    """Each query keeps the `k` keys it scores highest."""

    name: ClassVar[str] = "topk"
    k: Any

    def __post_init__(self) -> None:
        self.check_integer("k", 1)
        self.check_at_most(LONGEST_TEXT, "k")


class TopKAttention(MaskedSoftmax):
    """Softmax over the k highest scores of each row; of equal scores the earlier key wins.

    No support of k keys a row captures more of the full weights: a bound for every pattern of that
    size, not a saving, since all pairs are scored to find it.
    """

    specification: ClassVar[type[Specification] | None] = TopK
    source: ClassVar[str] = "Gupta et al. 2021, arXiv 2106.06899"
    spec: TopK

    def pairs(
        self, query: Tensor, key: Tensor, context: Context
    ) -> Bool[Tensor, "batch head query key"]:
        """True for the k best real keys of each row, of those that causality and the model leave it."""
        scores = scores_of(query, key, context).detach()
        eligible = visible_or_all(key, context.visible)[:, None, None, :].expand(scores.shape)
        if self.causal:
            shape = (query.shape[-2], key.shape[-2])
            eligible = eligible & (
                offsets(*shape, first_query=context.first_query, device=query.device) <= 0
            )
        if context.scoring is not None and context.scoring.allowed is not None:
            eligible = eligible & context.scoring.allowed
        index, usable = best(scores, eligible, self.spec.k)
        return eligible.new_zeros(scores.shape).scatter(-1, index, usable)

    def cost(self, queries: int, keys: int, dim: int) -> Cost:
        """All pairs are scored; only k a row are mixed."""
        kept = min(self.spec.k, keys)
        return Cost(multiply_adds=queries * (keys + kept) * dim, bytes=4 * queries * keys)
