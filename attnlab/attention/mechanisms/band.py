"""Band attention: a query sees the keys at offsets -left..right (the thesis's w-band, section 3.1.2)."""

from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from attnlab.attention.kernels.union import Union
from attnlab.attention.mechanism import Context, Positions, Setup, Traits
from attnlab.attention.mechanisms.sparse import UnionSoftmax
from attnlab.attention.specification import Specification, sides


@dataclass(frozen=True)
class Band(Specification):
    """A query sees the keys at offsets -left..right; one number stands for both sides."""

    name: ClassVar[str] = "band"
    window: Any

    def __post_init__(self) -> None:
        self.shorten_window()


class BandAttention(UnionSoftmax):
    """Softmax over the keys at offsets -left..right of the query; when causal, over -left..0.

    Between different sentences (cross-attention) the offset is taken as it stands: query 5 sees
    the keys around the fifth real token, counted from 0.
    """

    specification: ClassVar[type[Specification] | None] = Band
    source: ClassVar[str] = "thesis, section 3.1.2"
    traits: ClassVar[Traits] = Traits(subquadratic=True)
    positions: ClassVar[Positions] = "offsets"

    def __init__(self, spec: Band, setup: Setup) -> None:
        left, right = sides(self.name, spec.window)
        self.band = Union((left, 0 if setup.causal else right), causal=setup.causal)
        super().__init__(spec, setup)

    def union(self, query: Tensor, key: Tensor, context: Context) -> Union:  # noqa: ARG002 - all alike
        """Offsets -left..right, cut at 0 when causal."""
        return self.band

    def first_and_recent(self) -> tuple[int, int]:
        """No first key; the left side and the row itself."""
        return 0, self.band.window[0] + 1

    def slots(self) -> int:
        """Both sides and the query's own position."""
        return sum(self.band.window) + 1
