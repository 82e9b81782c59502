"""Full attention (Vaswani et al. 2017, arXiv 1706.03762, eq. 1): every query sees every key."""

from typing import ClassVar

import torch
from jaxtyping import Bool
from torch import Tensor

from attnlab.attention.mechanism import MaskedSoftmax, offsets
from attnlab.attention.specification import Full


class FullAttention(MaskedSoftmax):
    """Softmax of scaled dot products over all keys, or over all keys up to the query when causal."""

    name: ClassVar[str] = "full"

    def __init__(self, spec: Full, *, causal: bool = False, dropout: float = 0.0) -> None:
        super().__init__(causal=causal, dropout=dropout)
        self.spec = spec

    def allowed(
        self, queries: int, keys: int, *, first_query: int = 0, device: torch.device | None = None
    ) -> Bool[Tensor, "query key"] | None:
        """Every pair, or the lower triangle; None also when one query comes after all keys."""
        if not self.causal or first_query >= keys - 1:
            return None
        return offsets(queries, keys, first_query=first_query, device=device) <= 0
