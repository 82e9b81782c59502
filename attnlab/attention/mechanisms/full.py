"""Full attention (Vaswani et al. 2017, arXiv 1706.03762, eq. 1): every query sees every key."""

from dataclasses import dataclass
from typing import ClassVar

from jaxtyping import Bool
from torch import Tensor
from torch.nn import functional as F

from attnlab.attention.kernels.union import Union
from attnlab.attention.mechanism import Context, Form
from attnlab.attention.mechanisms.softmax import MaskedSoftmax
from attnlab.attention.specification import Specification
from attnlab.core import LONGEST_TEXT
from attnlab.matrices.supports import offsets


@dataclass(frozen=True)
class Full(Specification):
    """Every query sees every key."""

    name: ClassVar[str] = "full"


class FullAttention(MaskedSoftmax):
    """Softmax of scaled dot products over all keys, or over all keys up to the query when causal."""

    specification: ClassVar[type[Specification] | None] = Full
    source: ClassVar[str] = "Vaswani et al. 2017, arXiv 1706.03762"
    forms: ClassVar[tuple[Form, ...]] = ("auto", "dense", "flex")
    spec: Full

    def pairs(
        self, query: Tensor, key: Tensor, context: Context
    ) -> Bool[Tensor, "1 1 query key"] | None:
        """Every pair, or the lower triangle; None also when one query comes after all keys."""
        queries, keys, first = query.shape[-2], key.shape[-2], context.first_query
        if not self.causal or first >= keys - 1:
            return None
        return (offsets(queries, keys, first_query=first, device=query.device) <= 0)[None, None]

    def union(self, query: Tensor, key: Tensor, context: Context) -> Union:  # noqa: ARG002 - all alike
        """Every key of the sentence, which FlexAttention takes beside the other heads of a layer."""
        return Union((LONGEST_TEXT, LONGEST_TEXT), causal=self.causal)

    def dense(self, query: Tensor, key: Tensor, value: Tensor, context: Context) -> Tensor:
        """Torch's fused attention; without padding its own causal form, which skips half the work."""
        square = query.shape[-2] == key.shape[-2] and context.first_query == 0
        short = query.shape[-2] <= 128
        if short or not (self.causal and square and context.visible is None):
            return super().dense(query, key, value, context)
        return F.scaled_dot_product_attention(
            query, key, value, is_causal=True, dropout_p=self.active_dropout()
        )
