"""How far the matrix of a mechanism is from full attention, and how many keys its rows really see."""

from collections.abc import Callable, Mapping, Sequence
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
from attnlab.reading.observing import Observed

Layer = tuple[str, int]
# Makes what a specification names for so many heads of a layer.
Build = Callable[[Layer, Specification, int], Mechanism]


class Measured(NamedTuple):
    """Sums over the rows of each sentence.

    Attributes:
        l1: distance of the mechanism's matrix from full attention.
        nonzeros: number of keys that the rows see; without a support, the number whose scores and
            mixing take as many multiply-adds on a sentence of this length.
        oracle: distance of the best rows of probabilities that see as many keys each.
        bound: distance of the best matrix with as many entries in all; no matrix is nearer.
        keyless: number of rows that see no key.
    """

    l1: Float[Tensor, "batch head"]
    nonzeros: Float[Tensor, "batch head"]
    oracle: Float[Tensor, "batch head"]
    bound: Float[Tensor, "batch head"]
    keyless: Float[Tensor, "batch head"]

    @property
    def error(self) -> Float[Tensor, "..."]:
        """The distance, where a row without keys counts 2.

        A softmax over keys that hold the mass m is 2 (1 - m) away, so 2 is what keys that hold nothing
        cost. By its distance alone, which is 1, leaving a head out would beat every support that holds
        less than half of its attention.
        """
        return self.l1 + self.keyless


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
        allowed = mechanism.support(query, key, layer.visible, **layer.told(heads)) & rows
        l1 = _renormalised(weights, allowed).sum(-1)
    else:
        matrix = mechanism.implied_matrix(query, key, layer.visible, **layer.told(heads)) * rows
        allowed = matrix != 0
        l1 = (matrix - weights).abs().sum((-2, -1))
    nonzeros = (
        allowed.sum((-2, -1)).double() if mechanism.traits.support else _work(mechanism, layer)
    )
    nonzeros = nonzeros.expand(l1.shape)
    keyless = (~allowed.any(-1) & rows[..., 0]).sum(-1).double().expand(l1.shape)
    if not bounds:
        unknown = torch.full_like(l1, torch.nan)
        return Measured(l1, nonzeros, unknown, unknown, keyless)
    best = _best_rows(weights, allowed), _best_entries(weights, allowed)
    return Measured(l1, nonzeros, *best, keyless)


def _work(mechanism: Mechanism, layer: Observed) -> Float[Tensor, "batch 1"]:
    """Multiply-adds of a head on each sentence, in those of scoring and mixing one key."""
    dim = layer.query.shape[-1]
    counts = zip(layer.real_queries.sum(-1).tolist(), layer.visible.sum(-1).tolist(), strict=True)
    work = [mechanism.cost(*both, dim).multiply_adds / (2 * dim) for both in counts]
    return torch.tensor(work, dtype=torch.float64, device=layer.query.device)[:, None]


def _renormalised(
    weights: Float[Tensor, "batch head query key"], allowed: Bool[Tensor, "batch head query key"]
) -> Float[Tensor, "batch head query"]:
    """Distance of each row from itself renormalised on the keys that it sees; 0 for padding."""
    whole, held = weights.sum(-1), (weights * allowed).sum(-1)
    return torch.where(allowed.any(-1), 2 * (whole - held), whole)


def _best_rows(
    weights: Float[Tensor, "batch head query key"], allowed: Bool[Tensor, "batch head query key"]
) -> Float[Tensor, "batch head"]:
    """The same with the largest weights of each row, as many as it sees."""
    counts = allowed.expand(weights.shape).sum(-1, keepdim=True)
    ranked = weights.sort(dim=-1, descending=True).values
    rank = torch.arange(weights.shape[-1], device=weights.device)
    return _renormalised(ranked, rank < counts).sum(-1)


def _best_entries(
    weights: Float[Tensor, "batch head query key"], allowed: Bool[Tensor, "batch head query key"]
) -> Float[Tensor, "batch head"]:
    """What remains without the largest entries, as many as all rows see together."""
    counts = allowed.expand(weights.shape).sum((-2, -1))[..., None]
    ranked = weights.flatten(2).sort(dim=-1, descending=True).values
    rank = torch.arange(ranked.shape[-1], device=weights.device)
    return (ranked * (rank >= counts)).sum(-1)


def untaught(layer: Layer, specification: Specification, heads: int) -> Mechanism:
    """What a specification names for so many heads, without tables that have to be learned."""
    site = layer[0]
    made = make(specification, causal=site == "decoder", cross=site == "cross", heads=heads)
    return made.double().eval()


@dataclass(frozen=True)
class Sums:
    """Sums of one mechanism at some heads of a layer: over all sentences, and of each `[head, 3]`."""

    heads: tuple[int, ...]
    by_head: Measured
    by_sentence: dict[int, Tensor]


class Measurements:
    """Sums of distances and keys over sentences, for each specification at the heads that may get it.

    Args:
        wanted: the heads of each specification by layer.
        detailed: whether oracles and bounds are computed, and sums of each sentence kept.
        build: makes the mechanism of a specification, again for each batch, since tables of all
            specifications would not fit into memory together.
    """

    def __init__(
        self,
        wanted: Mapping[Layer, Mapping[Specification, Sequence[int]]],
        *,
        detailed: bool,
        build: Build = untaught,
    ) -> None:
        self.rows: dict[Layer, int] = dict.fromkeys(wanted, 0)
        self.full_keys: dict[Layer, int] = dict.fromkeys(wanted, 0)
        self._detailed, self._build = detailed, build
        self._sums = {
            layer: {spec: _empty(heads) for spec, heads in own.items()}
            for layer, own in wanted.items()
        }

    def add(self, layer: Observed) -> None:
        """Counts one batch."""
        at = layer.site, layer.layer
        self.rows[at] += int(layer.real_queries.sum())
        full = untaught(at, Full(), 1)
        self.full_keys[at] += int(measure(full, layer, [0]).nonzeros.sum())
        for specification, sums in self._sums[at].items():
            mechanism = self._build(at, specification, len(sums.heads)).to(layer.query.device)
            found = measure(mechanism, layer, sums.heads, bounds=self._detailed)
            for total, part in zip(sums.by_head, found, strict=True):
                total.add_(part.sum(0).cpu())
            if self._detailed:
                rows = layer.real_queries.sum(-1, keepdim=True).expand(found.l1.shape)
                by_sentence = torch.stack([found.error, found.nonzeros, rows], -1).cpu()
                sums.by_sentence.update(zip(layer.sentences, by_sentence, strict=True))

    def at(self, layer: Layer, specification: Specification, head: int) -> Measured:
        """The sums of one head, each of no dimension."""
        sums = self._sums[layer][specification]
        index = sums.heads.index(head)
        return Measured(*(total[index] for total in sums.by_head))

    def by_sentence(
        self, layer: Layer, specification: Specification, head: int
    ) -> Mapping[int, Float[Tensor, " 3"]]:
        """Error, number of keys and number of rows of one head, by sentence."""
        sums = self._sums[layer][specification]
        index = sums.heads.index(head)
        return {number: parts[index] for number, parts in sums.by_sentence.items()}


def _empty(heads: Sequence[int]) -> Sums:
    zeros = Measured(*(torch.zeros(len(heads), dtype=torch.float64) for _ in Measured._fields))
    return Sums(tuple(heads), zeros, {})
