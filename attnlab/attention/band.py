"""Band attention: a query sees the keys at offsets -left..right (the thesis's w-band, section 3.1.2)."""

from typing import ClassVar

import torch
from jaxtyping import Bool
from torch import Tensor

from attnlab.attention.mechanism import MaskedSoftmax, offsets
from attnlab.attention.specification import Band, sides


class BandAttention(MaskedSoftmax):
    """Softmax over the keys at offsets -left..right of the query; when causal, over -left..0."""

    name: ClassVar[str] = "band"

    def __init__(self, spec: Band, *, causal: bool = False, dropout: float = 0.0) -> None:
        super().__init__(causal=causal, dropout=dropout)
        self.spec = spec

    def allowed(
        self, queries: int, keys: int, *, first_query: int = 0, device: torch.device | None = None
    ) -> Bool[Tensor, "query key"]:
        """True at offsets -left..right, cut at 0 when causal."""
        left, right = sides(self.name, self.spec.window)
        offset = offsets(queries, keys, first_query=first_query, device=device)
        return (offset >= -left) & (offset <= (0 if self.causal else right))
