"""What was expected of a model and what was found: which keys each layer reads."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from attnlab.attention import Full, Mechanism, asks_interface
from attnlab.questions.check.expectations import Expected, expected_of
from attnlab.questions.check.moved_rows import LayerAt, changes_by_layer
from attnlab.questions.check.probing import (
    DOUBLE,
    NeedsSingleError,
    Precision,
    Probe,
    compared,
)
from attnlab.questions.check.question import KEYS, MISMATCH, NOT_APPLICABLE, OK

SAME = "the same"
# Changed positions; of long texts a quarter each at the beginning and the end, the others between them.
MOST_POSITIONS = 32
# Of further changes where pairs seem unread.
_MOST_ROUNDS = 8
# Of what is a change where none should be; elsewhere less is enough.
_SEEN = 1e-3


@dataclass(frozen=True)
class Finding:
    """A row of the table of properties; see `PROPERTIES`."""

    property: str
    expected: str
    found: str
    outcome: str
    change: float | None = None
    site: str = ""
    layer: int | None = None
    distance: int | None = None


def not_applicable(name: str, why: str) -> Finding:
    """A property that the model does not claim."""
    return Finding(name, "", why, NOT_APPLICABLE)


def alike(name: str, one: Tensor, other: Tensor, precision: Precision, how: str = "") -> Finding:
    """Whether the same text was read alike.

    Raises:
        NeedsSingleError: the states are no numbers, in float64.
    """
    change, same = compared(one, other)
    if math.isnan(change) and precision is DOUBLE:
        raise NeedsSingleError(name)
    described = f"{SAME}{how}" if same else "other states"
    return Finding(name, SAME, described, OK if same else MISMATCH, change)


def every_layer(
    probe: Probe, layers: Sequence[LayerAt], precision: Precision, seed: int, causal: bool | None
) -> Iterator[Finding]:
    """Yields a finding for each layer: which keys it reads."""
    count = min(MOST_POSITIONS, max((at.length for at in layers), default=0))
    positions = {at.length: positions_of(at.length, count) for at in layers}
    changes = changes_by_layer(probe, layers, positions, seed)
    # Lists of norms and feed-forward layers move no other row; where layers that attend move none either,
    # each query reads itself alone.
    kinds = {
        type(at.module)
        for at, change in zip(layers, changes, strict=True)
        if at.site != "cross" and _mixes(change, positions[at.length], precision)
    }
    kinds = kinds or {type(at.module) for at in layers if _attends(at)}
    kept = [index for index, at in enumerate(layers) if type(at.module) in kinds]
    if not kept:
        yield not_applicable(KEYS, "its layers do not take states of all tokens")
    rounds: list[list[Tensor]] = []
    totals = Counter(layers[index].site for index in kept)
    numbers: Counter[str] = Counter()
    for index in kept:
        at, change = layers[index], changes[index]
        back = False if causal is not None and at.site != "decoder" else causal
        expected = expected_of(at.config, numbers[at.site], totals[at.site], causal=back)
        if at.site == "cross":
            expected = Expected(causal=False)
        if any(
            isinstance(part, Mechanism) and part.name != Full.name for part in at.module.modules()
        ):
            expected = Expected(back, known=False)
        nothing = torch.zeros_like(change)
        pairs = _Pairs(expected, change, positions[at.length], precision, nothing)
        # The content of some keys may leave the others next to no weight.
        for number in range(_MOST_ROUNDS):
            before = pairs.unread
            if not before.any():
                break
            if number == len(rounds):
                rounds.append(changes_by_layer(probe, layers, positions, seed + number, flat=True))
            pairs = replace(pairs, seen=torch.maximum(pairs.seen, rounds[number][index]))
            if torch.equal(pairs.unread, before):
                break
        yield replace(_keys_read(pairs), site=at.site, layer=numbers[at.site])
        numbers[at.site] += 1


def _attends(at: LayerAt) -> bool:
    """Whether there is attention within a layer."""
    return any(asks_interface(part) for part in at.module.modules())


def positions_of(length: int, count: int) -> Tensor:
    """So many positions, in order: of long texts some at either end and some between them.

    Of texts that have fewer tokens the last one comes again.
    """
    if count >= length:
        return torch.arange(count).clamp(max=length - 1)
    side = count // 4
    between = torch.linspace(side, length - side - 1, count - 2 * side).round().long()
    return torch.cat([torch.arange(side), between, torch.arange(length - side, length)])


def _mixes(change: Tensor, positions: Tensor, precision: Precision) -> bool:
    diagonal = torch.arange(change.shape[1]) == positions[:, None]
    return bool((change.masked_fill(diagonal, 0.0) > precision.moved).any())


@dataclass(frozen=True)
class _Pairs:
    """Which keys the queries of a layer read.

    Attributes:
        expected: what the configuration says.
        change: how far the row of each query moves with each of the changed keys.
        keys: their positions.
        precision: what counts as a change.
        seen: further changes, which show what is read and not what is not.
    """

    expected: Expected
    change: Float[Tensor, "key query"]
    keys: Int[Tensor, " key"]
    precision: Precision
    seen: Float[Tensor, "key query"]

    @property
    def queries(self) -> Int[Tensor, " query"]:
        """All positions."""
        return torch.arange(self.change.shape[1])

    @property
    def offsets(self) -> Int[Tensor, "key query"]:
        """How far each key is before the query."""
        return self.queries - self.keys[:, None]

    @property
    def allowed(self) -> Bool[Tensor, "key query"]:
        """True where the configuration says that a query reads a key."""
        return self.expected.pairs(self.keys, self.queries)

    @property
    def read(self) -> Bool[Tensor, "key query"]:
        """True where a query reads a key."""
        # NaN has moved.
        moved = ~(self.change <= self.precision.moved)
        return moved | (self.allowed & ~self.unread) if self.all_known else moved

    @property
    def unread(self) -> Bool[Tensor, "key query"]:
        """True where a query should read a key and does not."""
        unmoved = self.change <= _SEEN * self.precision.moved
        return self.allowed & unmoved & (self.seen <= self.precision.moved) & self.all_known

    @property
    def all_known(self) -> bool:
        """Whether the configuration says of each pair if it is read."""
        return self.expected.known and self.expected.causal is not None


def _keys_read(pairs: _Pairs) -> Finding:
    expected, allowed, offsets = pairs.expected, pairs.allowed, pairs.offsets
    claimed = ""
    if pairs.all_known:
        claimed = (
            _reach(allowed, offsets) if expected.chunk is None else f"its chunk of {expected.chunk}"
        )
    elif expected.causal:
        claimed = "none after"
    wrong, unread = pairs.read & ~allowed, pairs.unread
    if not claimed:
        outcome = NOT_APPLICABLE
    elif wrong.any() or unread.any():
        outcome = MISMATCH
    else:
        unseen = 0 < expected.reach >= len(pairs.queries) - 1
        outcome = NOT_APPLICABLE if unseen else OK
    shown = claimed if outcome == OK and expected.known else _reach(pairs.read, offsets)
    if outcome == MISMATCH and (shown == claimed or not _is_stretch(pairs.read, offsets)):
        shown += _pairs_in_words(wrong, pairs.keys, "more") + _pairs_in_words(
            unread, pairs.keys, "unread"
        )
    largest = float(pairs.change[~allowed].max()) if claimed and not allowed.all() else None
    return Finding(KEYS, claimed, shown, outcome, largest, distance=int(offsets.abs().max()))


def _pairs_in_words(pairs: Bool[Tensor, "key query"], keys: Tensor, how: str) -> str:
    """How many pairs there are, and the first of them; empty where there is none."""
    if not pairs.any():
        return ""
    key, query = pairs.nonzero()[0].tolist()
    return f", {int(pairs.sum())} pairs {how} (key {int(keys[key])} of query {query})"


def _is_stretch(read: Tensor, offsets: Tensor) -> bool:
    """Whether all keys between the first and the last that are read are read too, or none at all is."""
    seen = offsets[read]
    return not len(seen) or torch.equal((seen.min() <= offsets) & (offsets <= seen.max()), read)


def _reach(read: Tensor, offsets: Tensor) -> str:
    """How far a query sees in words, such as 'itself, 4 before'."""
    if not read.any():
        return "nothing"
    seen = offsets[read]
    sides = []
    for count, most, side in (
        (int(seen.max()), int(offsets.max()), "before"),
        (-int(seen.min()), -int(offsets.min()), "after"),
    ):
        if count > 0:
            sides.append(f"all {side}" if count >= most else f"{count} {side}")
    if sides == ["all before", "all after"]:
        return "all"
    return ", ".join(["itself", *sides])
