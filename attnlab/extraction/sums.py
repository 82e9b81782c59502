"""Values of layers that add up: over batches, over shares of the sentences, in any order."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from copy import copy
from typing import Any, Generic, TypeVar

from attnlab.extraction.weights import LayerWeights
from attnlab.sums import Sums

Key = TypeVar("Key")
Value = TypeVar("Value")
Same = TypeVar("Same", bound="PerLayer[Any, Any]")


class PerLayer(ABC, Generic[Key, Value]):
    """Reduces each layer's weights to values that add up, fed one layer and batch at a time.

    Two that were fed different sentences give with `+` what one fed all of them holds.

    Attributes:
        sums: the values of all that was fed, by site, layer and what else a subclass tells apart.
    """

    def __init__(self) -> None:
        self.sums: Sums[Key, Value] = Sums()

    @abstractmethod
    def values_of(self, layer: LayerWeights) -> Mapping[Key, Value]:
        """The values of one layer and batch."""

    def update(self, layer: LayerWeights) -> None:
        """Adds one layer's weights for one batch."""
        self.sums = self.sums + self.values_of(layer)

    def __add__(self: Same, other: Same) -> Same:
        return self._with(self.sums + other.sums)

    def emptied(self: Same) -> Same:
        """The same before anything was fed."""
        return self._with(Sums())

    def _with(self: Same, sums: Sums[Any, Any]) -> Same:
        made = copy(self)
        made.sums = sums
        return made
