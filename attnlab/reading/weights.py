"""One layer's attention weights for one batch, with what is known of its tokens; and their check."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from math import isnan
from typing import Any, Generic, Literal, Protocol, TypeVar, runtime_checkable

import pandas as pd
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from attnlab.core import HEAD_COLUMNS, KEYS, AttnlabError, Site, Sums
from attnlab.reading.vocabulary import Axis

# How far by rounding a row sum may be from 1, and weights computed in two ways from each other, by the type
# of the weights. Many a model takes the softmax in float32, whatever else it computes in, and some
# processors round it otherwise in rows of another length.
TOLERANCES = {torch.float64: 1e-4, torch.float32: 1e-4, torch.float16: 5e-3, torch.bfloat16: 3e-2}


@runtime_checkable
class Naming(Protocol):
    """Names tokens by their ids, as a `Vocabulary` does."""

    def tokens(self, ids: Sequence[int]) -> list[str]:
        """Tokens as text."""


@dataclass(frozen=True)
class Rows:
    """The queries of a batch that the rows of some weights are of, where they are not all of them.

    Attributes:
        among: all queries.
        chosen: the positions of all rows that are handed on, block after block, in order.
        start: which of these the first row at hand is, from 0.
    """

    among: Axis
    chosen: Int[Tensor, " row"]
    start: int = 0


@dataclass(frozen=True)
class LayerWeights:
    """Attention weights of one layer for one batch, of all heads and rows or of those that are wanted.

    Attributes:
        site: encoder, decoder or cross.
        layer: from 0.
        weights: before dropout; exactly 0 in the rows of padding.
        queries: the tokens that look, one each row.
        keys: the tokens that are looked at.
        causal: whether rows must not look ahead.
        sentences: numbers of the sentences of the batch.
        vocabularies: of the queries and of the keys.
        has_sink: whether a learned logit that is no token takes what a row lacks to a sum of 1.
        has_tokens: whether the tokens are known; of a file of matrices alone they are not.
        rows: which queries the rows are; None where they are all.
        attention: the attention weights, where `weights` are shares of contributions.
        contribution: then the sum of contributions of each row, which its shares are of.
    """

    site: Site
    layer: int
    weights: Float[Tensor, "batch head query key"]
    queries: Axis
    keys: Axis
    causal: bool
    sentences: tuple[int, ...]
    vocabularies: tuple[Naming, Naming]
    has_sink: bool = False
    has_tokens: bool = True
    rows: Rows | None = None
    attention: Float[Tensor, "batch head query key"] | None = None
    contribution: Float[Tensor, "batch head query"] | None = None

    @property
    def is_first_block(self) -> bool:
        """Whether no rows of these sentences were handed on before."""
        return self.rows is None or self.rows.start == 0

    @cached_property
    def positions(self) -> Int[Tensor, " query"]:
        """The position of each row among the queries."""
        count = self.weights.shape[2]
        if self.rows is None:
            return torch.arange(count, device=self.weights.device)
        return self.rows.chosen[self.rows.start : self.rows.start + count]

    @cached_property
    def counted_queries(self) -> Bool[Tensor, "batch query"]:
        """True at rows that count, of those at hand, see `counted_of_all`."""
        counted = self.counted_of_all
        return counted if self.rows is None else counted[:, self.positions]

    @cached_property
    def counted_of_all(self) -> Bool[Tensor, "batch all_queries"]:
        """True at queries whose rows count (heads.md, section 1): content tokens, at hand or not.

        In cross-attention a row goes by the token that it predicts: row t predicts token t + 1 (trap 5),
        so the row of the start token counts and that of the last token does not. Without tokens all do.
        """
        content = self.queries.content if self.rows is None else self.rows.among.content
        if self.site == "cross" and self.has_tokens:
            content = torch.cat([content[:, 1:], torch.zeros_like(content[:, :1])], 1)
        return content

    @cached_property
    def offsets(self) -> Int[Tensor, "query key"]:
        """Key position minus query position."""
        keys = torch.arange(self.weights.shape[3], device=self.weights.device)
        return keys - self.positions[:, None]

    @cached_property
    def visible(self) -> Bool[Tensor, "batch query key"]:
        """True at pairs of real tokens, those ahead left out where `causal`."""
        pairs = self.queries.real[:, :, None] & self.keys.real[:, None, :]
        return pairs & (self.offsets <= 0) if self.causal else pairs

    @cached_property
    def sizes(self) -> Int[Tensor, "batch 1 2"]:
        """Real queries and keys of every sentence of the batch, for all heads."""
        sides = [self.queries.real.sum(-1), self.keys.real.sum(-1)]
        return torch.stack(sides, -1)[:, None].to(self.exact.device)

    @cached_property
    def wide(self) -> Float[Tensor, "batch head query key"]:
        """The weights as they are, half precision in float32."""
        return widened(self.weights)

    @cached_property
    def entropies(self) -> Float[Tensor, "batch head query"]:
        """Entropy of every row in nats, see `row_entropies`."""
        return -self._information[0]

    @cached_property
    def _information(self) -> tuple[Tensor, Tensor]:
        """Sums over keys, and over content keys, of w log w; the logarithms are most of the work."""
        terms, content = _terms(self.wide), self.keys.content.to(self.wide.dtype)[..., None]
        # All heads in one product: the same columns are summed in each.
        on_content = (terms.flatten(1, 2) @ content).view(terms.shape[:3])
        return terms.sum(-1).double(), on_content.double()

    @cached_property
    def confidence(self) -> Float[Tensor, "batch head query"]:
        """Largest weight of every row on a content key."""
        return self.wide.masked_fill(~self.keys.content[:, None, None], 0.0).amax(-1)

    @cached_property
    def content_mass(self) -> Float[Tensor, "batch head query"]:
        """Weight of every row on content keys; below the smallest normal number it is 0."""
        content = self.keys.content.to(self.wide.dtype)[..., None]
        # All heads in one product: the same columns are summed in each.
        mass = (self.wide.flatten(1, 2) @ content).view(self.wide.shape[:3])
        return mass.masked_fill(mass < torch.finfo(mass.dtype).tiny, 0.0)

    @cached_property
    def content_entropies(self) -> Float[Tensor, "batch head query"]:
        """Entropy of every row among its content keys in nats, 0 in a row without weight on any.

        ::

            - sum over content keys of p log p = log m - (sum over content keys of w log w) / m

        for p = w / m, where m is `content_mass`.
        """
        mass = self.content_mass.double()
        some = mass.masked_fill(mass == 0, 1.0)
        entropies = some.log() - self._information[1] / some
        return entropies.clamp(min=0).masked_fill(mass == 0, 0.0)

    @cached_property
    def exact(self) -> Float[Tensor, "batch head query key"]:
        """The weights in float64."""
        weights = self.weights.cpu() if self.weights.device.type == "mps" else self.weights
        return weights.double()


def widened(tensor: Tensor) -> Tensor:
    """The tensor as it is, half precision in float32."""
    return tensor if tensor.dtype in {torch.float32, torch.float64} else tensor.float()


def row_entropies(
    weights: Float[Tensor, "batch head query key"],
) -> Float[Tensor, "batch head query"]:
    """-sum over keys of w log w in nats, in float64; logarithms in the precision of the weights.

    >>> row_entropies(torch.tensor([[[[0.5, 0.5, 0.0]]]])).exp().round().item()
    2.0
    """
    return -_terms(weights).sum(-1).double()


def _terms(weights: Float[Tensor, "batch head query key"]) -> Float[Tensor, "batch head query key"]:
    """Every weight times its logarithm."""
    # torch's own xlogy and entr are several times slower; 0 log 0 is 0 all the same.
    logarithms = weights.clamp(min=torch.finfo(weights.dtype).tiny).log_()
    return logarithms.mul_(weights)


def checked(layer: LayerWeights) -> LayerWeights:
    """The layer with the rows of padding queries set to 0, after its weights were checked.

    Rows of real queries must sum to 1, or be 0 throughout for a query that sees no key, or sum to
    at most 1 where a sink takes the rest; keys that are padding, or ahead in a causal layer, must
    get nothing.

    Raises:
        AttnlabError: one of these does not hold; the message names site and layer.
    """
    real = layer.queries.real[:, None, :, None]
    shape = layer.weights.shape
    expected = (*layer.queries.real.shape, layer.keys.real.shape[1])
    if (shape[0], *shape[2:]) != expected:
        msg = (
            f"{layer.site} layer {layer.layer}: weights of shape {tuple(shape)} do not fit "
            f"{expected} (batch, query, key); this model cannot be analyzed."
        )
        raise AttnlabError(msg)
    # Filled, not multiplied: a row of padding may hold NaN, the softmax of nothing.
    weights = layer.weights if real.all() else layer.weights.masked_fill(~real, 0.0)
    sums = weights.sum(-1, dtype=torch.float32 if weights.dtype != torch.float64 else None)
    error = (
        (sums - 1).clamp(min=0) + weights.amin(-1).clamp(max=0).abs()
        if layer.has_sink
        else ((sums - 1).abs())
    )
    off = (error * real.squeeze(-1)).masked_fill(sums == 0, 0.0).max()
    hidden = weights.sum(1).masked_fill(layer.visible, 0.0)
    ahead = hidden.masked_fill(layer.offsets <= 0, 0.0).sum() if layer.causal else hidden.sum() * 0
    tolerance = TOLERANCES.get(layer.weights.dtype, 1e-4)
    row_error, hidden_mass, ahead_mass = torch.stack(
        [off.double(), hidden.sum().double(), ahead.double()]
    ).tolist()
    within = f" (tolerance {tolerance:g})"
    # Written so that NaN fails too.
    if isnan(row_error):
        problem, within = "some are NaN", ""
    elif not row_error <= tolerance:
        problem = f"a row's sum is {row_error:.3g} away from 1"
    elif not ahead_mass <= tolerance:
        problem = f"mass {ahead_mass:.3g} stands above the diagonal"
    elif not hidden_mass <= tolerance:
        problem = f"mass {hidden_mass:.3g} stands on padding"
    else:
        return replace(layer, weights=weights)
    msg = (
        f"{layer.site} layer {layer.layer}: {problem}{within}, so these are no "
        "attention weights of a model in eval mode with its padding and causal masks."
    )
    raise AttnlabError(msg)


View = Literal["all", "content"]
ALL: View = "all"
CONTENT: View = "content"
VIEWS: tuple[View, ...] = (ALL, CONTENT)


def stacked(tables: Sequence[pd.DataFrame], views: Sequence[View]) -> pd.DataFrame:
    """The tables of all views one after another, with the view as column `keys` behind the head."""
    named = []
    for table, keys in zip(tables, views, strict=True):
        if not table.empty:
            behind = sum(name in table for name in HEAD_COLUMNS)
            named.append(table.copy())
            named[-1].insert(behind, KEYS.name, keys)
    return pd.concat(named, ignore_index=True) if named else pd.DataFrame()


def rows_of_view(table: pd.DataFrame, keys: View) -> pd.DataFrame:
    """The rows of one view of a table that `stacked` gave; an empty table is returned as it is."""
    return table if table.empty else table[table[KEYS.name] == keys].reset_index(drop=True)


Key = TypeVar("Key")
Value = TypeVar("Value")
Same = TypeVar("Same", bound="PerLayer[Any, Any]")


class PerLayer(ABC, Generic[Key, Value]):
    """Reduces each layer's weights to values that add up, fed one layer and batch at a time.

    Two that were fed different sentences give with `+` what one fed all of them holds.

    Attributes:
        sums: the values of all that was fed, by site, layer and what else a subclass tells apart.
        by_rows: whether it can be fed some rows of a matrix at a time; others need them all at once.
    """

    by_rows: bool = False

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
        """The consumer as it was before anything was fed."""
        return self._with(Sums())

    def _with(self: Same, sums: Sums[Any, Any]) -> Same:
        made = copy(self)
        made.sums = sums
        return made
