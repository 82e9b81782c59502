"""What a label of heads consists of, and what it may look at: one layer, one batch, one view."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

from jaxtyping import Float, Int
from torch import Tensor

from attnlab.extraction.views import ALL, View
from attnlab.extraction.weights import LayerWeights
from attnlab.functions.counts import Counts, Largest, Scope, largest
from attnlab.functions.links import PossibleLinks
from attnlab.functions.verdict import Verdict
from attnlab.functions.word_attention import BatchUnits

Value = TypeVar("Value")


@dataclass(frozen=True)
class GoldWords:
    """Word units of the queries and the keys of a batch, and which of them belong together."""

    queries: BatchUnits
    keys: BatchUnits
    links: PossibleLinks


@dataclass(frozen=True)
class BatchFacts:
    """What is known of a batch at one site in one view, the same for all its layers.

    Attributes:
        scope: which rows and columns count.
        ranks: each key's frequency rank in the corpus, 0 for the most frequent type.
        words: gold arcs (self-attention) or alignments (cross-attention), if there are any.
        types: how many types the vocabulary of the keys has; None where that is not known.
    """

    scope: Scope
    ranks: Int[Tensor, "batch key"]
    words: GoldWords | None = None
    types: int | None = None
    _known: dict[Any, Any] = field(default_factory=dict)

    def once(self, compute: Callable[["BatchFacts"], Value]) -> Value:
        """What `compute` gives for this batch, worked out once for all its layers."""
        if compute not in self._known:
            self._known[compute] = compute(self)
        found: Value = self._known[compute]
        return found


@dataclass(frozen=True)
class LayerView:
    """One layer's weights for one batch in one view, see `attnlab.extraction.views`."""

    layer: LayerWeights
    keys: View
    facts: BatchFacts

    @property
    def cross(self) -> bool:
        """Whether queries and keys are different sentences."""
        return self.layer.site == "cross"

    @cached_property
    def best(self) -> Largest:
        """The key of the largest weight of every row."""
        return largest(self.layer.wide, None if self.keys == ALL else self.layer.keys.content)

    @property
    def mass(self) -> Float[Tensor, "batch head query"] | None:
        """Weight of every row on the keys that are looked at; None where that is all of it."""
        return None if self.keys == ALL else self.layer.content_mass

    @property
    def entropies(self) -> Float[Tensor, "batch head query"]:
        """Entropy of every row in nats among the keys that are looked at."""
        return self.layer.entropies if self.keys == ALL else self.layer.content_entropies


@dataclass(frozen=True)
class HeadLabel:
    """One function that heads can have. Other distributions add theirs, see `attnlab.plugins`.

    Attributes:
        name: what it is called in tables.
        family: of the matrices that such a head should leave behind, see `attnlab.matrices.labels`.
        count: what is counted of a layer and batch; None where the label does not apply.
        decide: a verdict per head from the counts of all sentences and the seed of the bootstrap.
        precedence: of several labels that hold the smallest comes first.
        by_view: whether it depends on the view; else it is counted once, with all keys.
        against_untrained: whether the same head of an untrained model must not carry it too; if not, a
            head that is not confirmed has strength 0.
    """

    name: str
    family: str
    count: Callable[[LayerView], Counts | None]
    decide: Callable[[Any, int], list[Verdict]]
    precedence: int = 99
    by_view: bool = True
    against_untrained: bool = True
