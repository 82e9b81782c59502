"""Consumers of the weights of a pass through a model or a file, and the sentences that a pass covered."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from attnlab.core import Site
from attnlab.reading.reading_notes import SentencesDropped
from attnlab.reading.weights import LayerWeights


@runtime_checkable
class Consumer(Protocol):
    """Something that reduces weights to what it wants to know, and keeps no matrix it need not.

    One with an attribute `by_rows` that is True can be handed some rows of the matrices at a time.
    """

    def update(self, layer: LayerWeights) -> None:
        """Takes one layer's weights for one batch."""


@dataclass(frozen=True)
class Coverage:
    """Sentences and layers that a pass through a model covered; shares of the same sentences add up.

    Attributes:
        sentences: how many sentences were read.
        dropped: how many were not, and why.
        layers: number of layers that were read, by site.
        streamed: False when all layers of a batch had to be held at once.
    """

    sentences: int
    dropped: tuple[SentencesDropped, ...]
    layers: dict[Site, int]
    streamed: bool

    def __add__(self, other: "Coverage") -> "Coverage":
        return Coverage(
            self.sentences + other.sentences,
            self.dropped,
            self.layers,
            self.streamed and other.streamed,
        )
