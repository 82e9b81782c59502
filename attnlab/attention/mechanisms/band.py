"""Band attention: a query sees the keys at offsets -left..right (the thesis's w-band, section 3.1.2)."""

from dataclasses import dataclass
from typing import Any, ClassVar

from jaxtyping import Bool
from torch import Tensor

from attnlab.attention.kernels.flex import attend_blocks
from attnlab.attention.kernels.union import Union, attend
from attnlab.attention.mechanism import Context, Positions
from attnlab.attention.mechanisms.softmax import MaskedSoftmax
from attnlab.attention.specification import Specification, sides
from attnlab.attention.traits import Place, Traits


@dataclass(frozen=True)
class Band(Specification):
    """A query sees the keys at offsets -left..right; one number stands for both sides."""

    name: ClassVar[str] = "band"
    window: Any

    def __post_init__(self) -> None:
        self.shorten_window()


class BandAttention(MaskedSoftmax):
    """Softmax over the keys at offsets -left..right of the query; when causal, over -left..0.

    Between different sentences (cross-attention) the offset is taken as it stands: query 5 sees
    the keys around the fifth real token, counted from 0.
    """

    specification: ClassVar[type[Specification] | None] = Band
    name: ClassVar[str] = Band.name
    source: ClassVar[str] = "thesis, section 3.1.2"
    traits: ClassVar[Traits] = Traits()
    positions: ClassVar[Positions] = "offsets"

    def __init__(self, spec: Band, place: Place) -> None:
        self.spec = spec
        left, right = sides(self.name, spec.window)
        self.union = Union((left, 0 if place.causal else right), causal=place.causal)
        super().__init__(place)

    def pairs(self, query: Tensor, key: Tensor, context: Context) -> Bool[Tensor, "1 1 query key"]:
        """True at offsets -left..right, cut at 0 when causal."""
        return self.union.pairs(query.shape[-2], key.shape[-2], context.first_query, query.device)

    def slots(self) -> int:
        """Both sides and the query's own position."""
        return sum(self.union.window) + 1

    def fast(self, query: Tensor, key: Tensor, value: Tensor, context: Context) -> Tensor:
        """Chunks of queries on the stretches of keys that their windows cover."""
        return attend(query, key, value, self.union, context, dropout=self.active_dropout())

    def has_flex(self) -> bool:
        """A band is known from two positions."""
        return True

    def flex(self, query: Tensor, key: Tensor, value: Tensor, context: Context) -> Tensor:
        """FlexAttention that skips all blocks outside the band."""
        return attend_blocks(query, key, value, self.union, context)
