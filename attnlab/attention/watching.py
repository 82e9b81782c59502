"""Full attention that stands in a model to see what passes: for calibration and for comparisons."""

from jaxtyping import Bool, Float, Int
from torch import Tensor

from attnlab.attention.full import FullAttention
from attnlab.attention.mechanism import Mechanism
from attnlab.attention.specification import Full
from attnlab.attention.traits import Place


class WatchingAttention(Mechanism):
    """Full attention by another name; a subclass says in `forward` what it does with what it sees."""

    def __init__(self, *, causal: bool, cross: bool) -> None:
        super().__init__(causal=causal, cross=cross)
        self.full = FullAttention(Full(), Place(causal=causal, cross=cross))

    def implied_matrix(
        self,
        query: Float[Tensor, "batch head query dim"],
        key: Float[Tensor, "batch head key dim"],
        visible: Bool[Tensor, "batch key"] | None = None,
        *,
        first_query: int = 0,
        token_ids: Int[Tensor, "batch key"] | None = None,  # noqa: ARG002 - full attention
        bias: Float[Tensor, "#batch #head query key"] | None = None,
    ) -> Float[Tensor, "batch head query key"]:
        """Full attention weights."""
        return self.full.implied_matrix(query, key, visible, first_query=first_query, bias=bias)
