"""Running sums over what layers did: where attention stands, and how far mechanisms are from it.

Of training sentences `LayerSums` has what a head may be given. On other sentences `Measurements` has the
distance of each mechanism's matrix from full attention, and how many keys its rows attend to, counted.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from attnlab.attention import (
    LARGEST_OFFSET,
    Full,
    MaskedSoftmax,
    Mechanism,
    Specification,
    make,
    ordinals,
)
from attnlab.matrices.supports import offsets
from attnlab.reading import Observed

# How many first and last keys a head may keep for all rows.
ENDS = ((1, 0), (0, 1), (1, 1), (2, 0))
# Reach of the blocks of Sigma3 around a token.
REACHES = (2, 4)
# Weight of the mean of all tokens, in pairs of a row and a key.
PAIR_SMOOTHING = 50.0
# The steps towards static weights end when none of them changes by more than this share.
CHANGE, MOST_STEPS = 1e-6, 1000
TINY = 1e-12

Layer = tuple[str, int]
# Makes what a specification names for so many heads of a layer.
Build = Callable[[Layer, Specification, int], Mechanism]


class LayerSums:
    """Attention of one layer on calibration sentences, as running sums.

    Attributes:
        ends: the ends that the site allows.
        by_offset: for each of them, and for (0, 0), the attention by offset that the keys at these ends
            do not receive, `[head, offset]` from -LARGEST_OFFSET up.
    """

    def __init__(self, *, causal: bool, tokens: bool) -> None:
        self.causal = causal
        self.ends = ((0, 0), *(end for end in ENDS if not (causal and end[1])))
        self.by_offset: dict[tuple[int, int], Float[Tensor, "head offset"]] = {}
        # Rows by how many keys stand before their own position, and by the offset of the last key.
        self._room = torch.zeros(LARGEST_OFFSET + 1, 2 * LARGEST_OFFSET + 1, dtype=torch.float64)
        self._tokens: dict[int | None, _TokenSums] = (
            {reach: _TokenSums() for reach in (None, *REACHES)} if tokens else {}
        )

    def add(self, layer: Observed) -> None:
        """Counts one batch."""
        offset = offsets(*layer.weights.shape[-2:], device=layer.weights.device)
        real = layer.real_queries[:, :, None] & layer.visible[:, None]
        if self.causal:
            real = real & (offset <= 0)
        if layer.allowed is not None:
            real = real & layer.allowed.any(1)
        near = offset.abs() <= LARGEST_OFFSET
        column = (offset + LARGEST_OFFSET)[near].cpu()
        self._count_room(layer)
        for first, last in self.ends:
            kept = real & ~ends_of(layer.visible, first, last)[:, None]
            mass = (layer.weights * kept[:, None]).sum(0)[:, near].cpu()
            before = self.by_offset.get((first, last), torch.zeros(()))
            received = torch.zeros(len(mass), 2 * LARGEST_OFFSET + 1, dtype=torch.float64)
            self.by_offset[first, last] = before + received.index_add_(1, column, mass)
        for reach, sums in self._tokens.items():
            within = real if reach is None else real & (offset.abs() <= reach) & (offset != 0)
            sums.add(layer, within)

    def _count_room(self, layer: Observed) -> None:
        row = layer.real_queries.cumsum(-1) - 1
        # Below 0 where the keys are of another sentence, which is shorter.
        last = layer.visible.sum(-1, keepdim=True) - 1 - row
        counted = layer.real_queries & (last >= -LARGEST_OFFSET)
        before = row[counted].clamp(max=LARGEST_OFFSET).cpu()
        ahead = last[counted].clamp(max=0 if self.causal else LARGEST_OFFSET).cpu()
        ones = torch.ones((), dtype=torch.float64).expand(len(before))
        self._room.index_put_((before, ahead + LARGEST_OFFSET), ones, accumulate=True)

    def offsets_by_mass(self, end: tuple[int, int], head: int) -> list[int]:
        """Offsets with any attention outside the keys at these ends, most first."""
        mass = self.by_offset[end][head]
        order = mass.sort(descending=True, stable=True)
        return [
            int(index) - LARGEST_OFFSET
            for index, weight in zip(order.indices, order.values, strict=True)
            if weight > 0
        ]

    def static_weights(self, head: int, offsets: list[int]) -> list[float]:
        """Weights by offset that give each offset its share of a head's attention on these offsets.

        ::

            sum over rows of  w_d / sum of w over the offsets in the sentence   proportional to
            sum over rows of  h at offset d

        With every offset in every sentence that is the mean weight. Where each row holds as much of its
        attention on the offsets, no weights are nearer to the head's rows by Kullback-Leibler divergence.
        The steps are those of Hunter 2004 (MM algorithms for generalized Bradley-Terry models), at most
        `MOST_STEPS`.
        """
        column = torch.tensor(offsets)
        mass = self.by_offset[0, 0][head][column + LARGEST_OFFSET]
        left, right = self._room.nonzero(as_tuple=True)
        rows = self._room[left, right]
        reached = (column >= -left[:, None]) & (column <= right[:, None] - LARGEST_OFFSET)
        weights = mass / mass.sum()
        for _ in range(MOST_STEPS):
            before = weights
            share = rows / (reached * weights).sum(1).clamp(min=TINY)
            weights = mass / (reached * share[:, None]).sum(0).clamp(min=TINY)
            weights = (weights / weights.sum()).clamp(min=TINY)
            if bool(((weights - before).abs() <= CHANGE * before).all()):
                break
        return [float(weight) for weight in weights]

    def best_window(self, head: int, keys: int) -> tuple[int, int]:
        """The window of so many keys, its own among them, that holds most of a head's attention."""
        mass = self.by_offset[0, 0][head]
        splits = [(keys - 1 - right, right) for right in range(1 if self.causal else keys)]

        def mass_within(window: tuple[int, int]) -> float:
            start, stop = LARGEST_OFFSET - window[0], LARGEST_OFFSET + window[1] + 1
            return float(mass[max(start, 0) : stop].sum())

        return max(splits, key=lambda window: (mass_within(window), -abs(window[0] - window[1])))

    def tokens_by_weight(self, head: int, reach: int | None) -> list[int]:
        """Token ids by the mean attention that such a key receives from a row, most first."""
        return self._tokens[reach].ranked(head) if reach in self._tokens else []


class _TokenSums:
    """Attention that the keys of each token id receive, by head; in the last row, pairs with a row."""

    def __init__(self) -> None:
        self.sums: Float[Tensor, "row token"] = torch.zeros(0, 0, dtype=torch.float64)

    def add(self, layer: Observed, within: Bool[Tensor, "batch query key"]) -> None:
        ids = layer.token_ids[layer.visible].cpu()
        mass = (layer.weights * within[:, None]).sum(-2).transpose(0, 1)[:, layer.visible].cpu()
        pairs = within.sum(-2)[layer.visible].double().cpu()
        rows, types = self.sums.shape
        wide = torch.zeros(len(mass) + 1, max(types, int(ids.max()) + 1), dtype=torch.float64)
        wide[:rows, :types] = self.sums
        self.sums = wide.index_add_(1, ids, torch.cat([mass, pairs[None]]))

    def ranked(self, head: int) -> list[int]:
        received, pairs = self.sums[head], self.sums[-1]
        mean = received.sum() / pairs.sum().clamp(min=1)
        weight = (received + PAIR_SMOOTHING * mean) / (pairs + PAIR_SMOOTHING)
        seen = (pairs > 0).nonzero().flatten()
        order = weight[seen].sort(descending=True, stable=True).indices
        return [int(token) for token in seen[order]]


def ends_of(visible: Bool[Tensor, "batch key"], first: int, last: int) -> Bool[Tensor, "batch key"]:
    """True at the first and the last few real keys of each sentence."""
    ordinal, count = ordinals(visible), visible.sum(-1, keepdim=True)
    return visible & ((ordinal < first) | (ordinal >= count - last))


class RowSums(NamedTuple):
    """Sums over the rows of each sentence.

    Attributes:
        l1: distance of the mechanism's matrix from full attention.
        nonzeros: number of keys that the rows attend to; without a support, the number whose scores and
            mixing take as many multiply-adds on a sentence of this length.
        oracle: distance of the best rows of probabilities (with a sink, of sums up to 1) that see as many
            keys each.
        bound: distance of the best matrix with as many entries in all; no matrix is nearer.
        keyless: what rows that see no key count beyond their distance, see `beyond_distance`.
        empty: number of these rows.
    """

    l1: Float[Tensor, "batch head"]
    nonzeros: Float[Tensor, "batch head"]
    oracle: Float[Tensor, "batch head"]
    bound: Float[Tensor, "batch head"]
    keyless: Float[Tensor, "batch head"]
    empty: Float[Tensor, "batch head"]

    @property
    def error(self) -> Float[Tensor, "..."]:
        """The distance, where a row without keys counts as much as the keys that cost most.

        A softmax over keys that hold the mass m is 2 (1 - m) away, so 2 is what keys that hold nothing
        cost. By its distance alone, which is 1, leaving a head out would beat every support that holds
        less than half of its attention.
        """
        return self.l1 + self.keyless


def measure(
    mechanism: Mechanism, layer: Observed, heads: Sequence[int], *, bounds: bool = False
) -> RowSums:
    """One mechanism in place of some heads of a layer.

    A softmax over fewer keys is full attention renormalised on them, so that a row with mass m on its
    keys has the distance 2 (1 - m), and a row without keys 1 (math.md section 3). A sink of weight s
    keeps its part: the row has mass m / (m + s) then, and the distance (1 - s - m) (1 + m / (m + s)).

    Args:
        mechanism: made for so many heads.
        layer: queries, keys and full attention.
        heads: indices of the heads.
        bounds: whether `oracle` and `bound` are computed; they are NaN otherwise.
    """
    rows = layer.real_queries[:, None, :, None]
    weights = layer.weights[:, list(heads)]
    query, key = layer.query[:, list(heads)], layer.key[:, list(heads)]
    context = layer.call_context(heads)
    allowed = None
    if isinstance(mechanism, MaskedSoftmax):
        allowed = mechanism.support(query, key, layer.visible, **context) & rows
    # What little keys hold beside a sink is lost to rounding, so that rows are not renormalised there.
    if allowed is not None and not layer.has_sinks:
        l1 = _renormalised(weights, allowed).sum(-1)
    else:
        matrix = mechanism.implied_matrix(query, key, layer.visible, **context) * rows
        allowed = matrix != 0 if allowed is None else allowed
        l1 = (matrix - weights).abs().sum((-2, -1))
    nonzeros = (
        allowed.sum((-2, -1)).double() if mechanism.traits.support else _work(mechanism, layer)
    )
    nonzeros = nonzeros.expand(l1.shape)
    empty = ~allowed.any(-1) & rows[..., 0]
    keyless = (empty * beyond_distance(weights, sinks=layer.has_sinks)).sum(-1)
    best = torch.full_like(l1, torch.nan), torch.full_like(l1, torch.nan)
    if bounds:
        best = _best_rows(weights, allowed, sinks=layer.has_sinks), _best_entries(weights, allowed)
    return RowSums(l1, nonzeros, *best, keyless, empty.sum(-1).expand(l1.shape).to(l1))


def beyond_distance(
    weights: Float[Tensor, "batch head query key"], *, sinks: bool
) -> Float[Tensor, "batch head query"]:
    """The error of a row without keys beyond its distance: as much in all as the keys that cost most.

    A softmax over keys that hold the mass m beside a sink of weight s is (1 - s - m) (1 + m / (m + s))
    away. Over m that is 2 (1 - sqrt(s / 2))^2 at most, which is 2 without a sink, and 1 - s, the distance
    of an empty row, where the sink holds half of the row or more.
    """
    whole = weights.sum(-1)
    if not sinks:
        return torch.ones_like(whole)
    sink = (1 - whole).clamp(min=0)
    most = 2 * (1 - (sink / 2).sqrt()).square()
    return torch.where(sink < 0.5, most - whole, 0.0)


def _work(mechanism: Mechanism, layer: Observed) -> Float[Tensor, "batch 1"]:
    """Multiply-adds of a head on each sentence, in those of scoring and mixing one key."""
    dim = layer.query.shape[-1]
    counts = zip(layer.real_queries.sum(-1).tolist(), layer.visible.sum(-1).tolist(), strict=True)
    work = [mechanism.cost(*both, dim).multiply_adds / (2 * dim) for both in counts]
    return torch.tensor(work, dtype=torch.float64, device=layer.query.device)[:, None]


def _renormalised(
    weights: Float[Tensor, "batch head query key"],
    allowed: Bool[Tensor, "batch head query key"],
) -> Float[Tensor, "batch head query"]:
    """Distance of each row from itself renormalised on the keys that it sees; 0 for padding."""
    whole, kept = weights.sum(-1), (weights * allowed).sum(-1)
    return torch.where(allowed.any(-1), 2 * (whole - kept), whole)


def _best_rows(
    weights: Float[Tensor, "batch head query key"],
    allowed: Bool[Tensor, "batch head query key"],
    *,
    sinks: bool,
) -> Float[Tensor, "batch head"]:
    """The distance with the largest weights of each row, as many as it sees; beside a sink as they are."""
    counts = allowed.expand(weights.shape).sum(-1, keepdim=True)
    ranked = weights.sort(dim=-1, descending=True).values
    rank = torch.arange(weights.shape[-1], device=weights.device)
    if sinks:
        return (ranked * (rank >= counts)).sum((-2, -1))
    return _renormalised(ranked, rank < counts).sum(-1)


def _best_entries(
    weights: Float[Tensor, "batch head query key"], allowed: Bool[Tensor, "batch head query key"]
) -> Float[Tensor, "batch head"]:
    """The distance without the largest entries, as many as all rows see together."""
    counts = allowed.expand(weights.shape).sum((-2, -1))[..., None]
    ranked = weights.flatten(2).sort(dim=-1, descending=True).values
    rank = torch.arange(ranked.shape[-1], device=weights.device)
    return (ranked * (rank >= counts)).sum(-1)


def untaught(layer: Layer, specification: Specification, heads: int) -> Mechanism:
    """The mechanism that a specification names for so many heads, without tables that are learned."""
    site = layer[0]
    made = make(specification, causal=site == "decoder", cross=site == "cross", heads=heads)
    return made.double().eval()


class Sums(NamedTuple):
    """Sums of one mechanism at some heads of a layer over all sentences."""

    heads: tuple[int, ...]
    by_head: RowSums


class Measurements:
    """Sums of distances and keys over sentences, for each specification at the heads that may get it.

    Args:
        wanted: the heads of each specification by layer.
        detailed: whether oracles and bounds are computed.
        build: makes the mechanism of a specification, again for each batch, since tables of all
            specifications would not fit into memory together.

    Attributes:
        rows: by layer, how many rows of a head there were.
        full_keys: by layer, how many keys these rows have under full attention.
    """

    def __init__(
        self,
        layers: Mapping[Layer, Mapping[Specification, Iterable[int]]],
        *,
        detailed: bool,
        build: Build = untaught,
    ) -> None:
        self.rows: dict[Layer, int] = dict.fromkeys(layers, 0)
        self.full_keys: dict[Layer, int] = dict.fromkeys(layers, 0)
        self._detailed, self._build = detailed, build
        self._sums: dict[Layer, dict[Specification, Sums]] = {layer: {} for layer in layers}
        for layer, settings in layers.items():
            for specification, members in settings.items():
                heads = tuple(sorted(members))
                zeros = (torch.zeros(len(heads), dtype=torch.float64) for _ in RowSums._fields)
                self._sums[layer][specification] = Sums(heads, RowSums(*zeros))

    def add(self, layer: Observed) -> None:
        """Counts one batch."""
        at = layer.site, layer.layer
        self.rows[at] += int(layer.real_queries.sum())
        full = untaught(at, Full(), 1)
        self.full_keys[at] += int(measure(full, layer, [0]).nonzeros.sum())
        for specification, sums in self._sums[at].items():
            mechanism = self._build(at, specification, len(sums.heads)).to(layer.query.device)
            parts = measure(mechanism, layer, sums.heads, bounds=self._detailed)
            for total, part in zip(sums.by_head, parts, strict=True):
                total.add_(part.sum(0).cpu())

    def at(self, layer: Layer, specification: Specification, head: int) -> RowSums:
        """The sums of one head, each of no dimension."""
        sums = self._sums[layer][specification]
        index = sums.heads.index(head)
        return RowSums(*(total[index] for total in sums.by_head))
