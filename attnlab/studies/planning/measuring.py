"""How far the matrix of a mechanism is from full attention, and how many keys its rows really see."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from attnlab.attention.mechanism import Mechanism
from attnlab.attention.mechanisms.full import Full
from attnlab.attention.mechanisms.softmax import MaskedSoftmax
from attnlab.attention.registry import make
from attnlab.attention.specification import Specification
from attnlab.extraction.observing import Observed

Layer = tuple[str, int]


class Measured(NamedTuple):
    """Sums over the rows of each sentence.

    Attributes:
        l1: distance of the mechanism's matrix from full attention.
        nonzeros: number of keys that the rows see.
        oracle: distance of the best rows of probabilities that see as many keys each.
        bound: distance of the best matrix with as many entries in all; no matrix is nearer.
    """

    l1: Float[Tensor, "batch head"]
    nonzeros: Float[Tensor, "batch head"]
    oracle: Float[Tensor, "batch head"]
    bound: Float[Tensor, "batch head"]


def measure(
    mechanism: Mechanism, layer: Observed, heads: Sequence[int], *, bounds: bool = False
) -> Measured:
    """One mechanism in place of some heads of a layer.

    A softmax over fewer keys is full attention renormalised on them, so that a row with mass m on its
    keys has the distance 2 (1 - m), and a row without keys 1 (math.md section 3).

    Args:
        mechanism: made for so many heads.
        layer: queries, keys and full attention.
        heads: indices of the heads.
        bounds: whether `oracle` and `bound` are computed; they are NaN otherwise.
    """
    rows = layer.real_queries[:, None, :, None]
    weights = layer.weights[:, list(heads)]
    query, key = layer.query[:, list(heads)], layer.key[:, list(heads)]
    if isinstance(mechanism, MaskedSoftmax):
        seen = mechanism.support(query, key, layer.visible, token_ids=layer.token_ids) & rows
        l1 = _renormalised(weights, seen).sum(-1)
    else:
        matrix = (
            mechanism.implied_matrix(query, key, layer.visible, token_ids=layer.token_ids) * rows
        )
        seen = matrix != 0
        l1 = (matrix - weights).abs().sum((-2, -1))
    nonzeros = seen.sum((-2, -1)).double().expand(l1.shape)
    if not bounds:
        unknown = torch.full_like(l1, torch.nan)
        return Measured(l1, nonzeros, unknown, unknown)
    return Measured(l1, nonzeros, _best_rows(weights, seen), _best_entries(weights, seen))


def _renormalised(
    weights: Float[Tensor, "batch head query key"], seen: Bool[Tensor, "batch head query key"]
) -> Float[Tensor, "batch head query"]:
    """Distance of each row from itself renormalised on the keys that it sees; 0 for padding."""
    whole, held = weights.sum(-1), (weights * seen).sum(-1)
    return torch.where(seen.any(-1), 2 * (whole - held), whole)


def _best_rows(
    weights: Float[Tensor, "batch head query key"], seen: Bool[Tensor, "batch head query key"]
) -> Float[Tensor, "batch head"]:
    """The same with the largest weights of each row, as many as it sees."""
    counts = seen.expand(weights.shape).sum(-1, keepdim=True)
    ranked = weights.sort(dim=-1, descending=True).values
    rank = torch.arange(weights.shape[-1], device=weights.device)
    return _renormalised(ranked, rank < counts).sum(-1)


def _best_entries(
    weights: Float[Tensor, "batch head query key"], seen: Bool[Tensor, "batch head query key"]
) -> Float[Tensor, "batch head"]:
    """What remains without the largest entries, as many as all rows see together."""
    counts = seen.expand(weights.shape).sum((-2, -1))[..., None]
    ranked = weights.flatten(2).sort(dim=-1, descending=True).values
    rank = torch.arange(ranked.shape[-1], device=weights.device)
    return (ranked * (rank >= counts)).sum(-1)


@dataclass(frozen=True)
class Sums:
    """Sums of one mechanism at some heads of a layer: over all sentences, and of each `[head, 3]`."""

    heads: tuple[int, ...]
    mechanism: Mechanism
    by_head: Measured
    by_sentence: dict[int, Tensor]


class Measurements:
    """Sums of distances and keys over sentences, for each specification at the heads that may get it.

    Args:
        wanted: the heads of each specification by layer.
        detailed: whether oracles and bounds are computed, and sums of each sentence kept.
    """

    def __init__(
        self, wanted: Mapping[Layer, Mapping[Specification, Sequence[int]]], *, detailed: bool
    ) -> None:
        self.rows: dict[Layer, int] = dict.fromkeys(wanted, 0)
        self.full_keys: dict[Layer, int] = dict.fromkeys(wanted, 0)
        self._detailed = detailed
        self._full = {layer: _made(Full(), layer[0], 1) for layer in wanted}
        self._sums = {
            layer: {spec: _empty(layer[0], spec, heads) for spec, heads in own.items()}
            for layer, own in wanted.items()
        }

    def add(self, layer: Observed) -> None:
        """Counts one batch."""
        at = layer.site, layer.layer
        self.rows[at] += int(layer.real_queries.sum())
        self.full_keys[at] += int(measure(self._full[at], layer, [0]).nonzeros.sum())
        for sums in self._sums[at].values():
            mechanism = sums.mechanism.to(layer.query.device)
            found = measure(mechanism, layer, sums.heads, bounds=self._detailed)
            for total, part in zip(sums.by_head, found, strict=True):
                total.add_(part.sum(0).cpu())
            if self._detailed:
                rows = layer.real_queries.sum(-1, keepdim=True).expand(found.l1.shape)
                by_sentence = torch.stack([found.l1, found.nonzeros, rows], -1).cpu()
                sums.by_sentence.update(zip(layer.sentences, by_sentence, strict=True))

    def at(self, layer: Layer, specification: Specification, head: int) -> Measured:
        """The sums of one head, each of no dimension."""
        sums = self._sums[layer][specification]
        place = sums.heads.index(head)
        return Measured(*(total[place] for total in sums.by_head))

    def by_sentence(
        self, layer: Layer, specification: Specification, head: int
    ) -> Mapping[int, Float[Tensor, " 3"]]:
        """Distance, number of keys and number of rows of one head, by sentence."""
        sums = self._sums[layer][specification]
        place = sums.heads.index(head)
        return {number: parts[place] for number, parts in sums.by_sentence.items()}


def _made(specification: Specification, site: str, heads: int) -> Mechanism:
    made = make(specification, causal=site == "decoder", cross=site == "cross", heads=heads)
    return made.double().eval()


def _empty(site: str, specification: Specification, heads: Sequence[int]) -> Sums:
    zeros = Measured(*(torch.zeros(len(heads), dtype=torch.float64) for _ in range(4)))
    return Sums(tuple(heads), _made(specification, site, len(heads)), zeros, {})
