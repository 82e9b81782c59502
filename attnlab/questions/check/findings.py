"""What was expected of a model and what was found: which keys each layer reads."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
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
# Changed positions; of long texts as many at the beginning as at the end.
MOST_POSITIONS = 32
_FEWEST_PAIRS = 8
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
    found = f"{SAME}{how}" if same else "other states"
    return Finding(name, SAME, found, OK if same else MISMATCH, change)


def every_layer(
    probe: Probe, layers: Sequence[LayerAt], precision: Precision, seed: int, causal: bool | None
) -> Iterator[Finding]:
    """Which keys each layer reads."""
    count = min(MOST_POSITIONS, probe.tokens)
    positions = {at.length: positions_of(at.length, count) for at in layers}
    changes = changes_by_layer(probe, layers, positions, seed)
    found = list(zip(layers, changes, strict=True))
    # Lists of norms and feed-forward layers move no other row; where layers that attend move none either,
    # each query reads itself alone.
    kinds = {type(at.module) for at, one in found if _mixes(one, positions[at.length], precision)}
    kinds = kinds or {type(at.module) for at in layers if _attends(at)}
    kept = [(at, change) for at, change in found if type(at.module) in kinds]
    if not kept:
        yield not_applicable(KEYS, "its layers do not take states of all tokens")
    numbers = {at.site: 0 for at, _ in kept}
    totals = {site: sum(at.site == site for at, _ in kept) for site in numbers}
    for at, change in kept:
        number = numbers[at.site]
        numbers[at.site] += 1
        back = False if causal is not None and at.site == "encoder" else causal
        expected = expected_of(at.config, number, totals[at.site], causal=back)
        if any(
            isinstance(part, Mechanism) and part.name != Full.name for part in at.module.modules()
        ):
            expected = Expected(back, known=False)
        finding = _keys_read(expected, change, positions[at.length], precision)
        yield replace(finding, site=at.site, layer=number)


def _attends(at: LayerAt) -> bool:
    """Whether there is attention within a layer."""
    return any(asks_interface(part) for part in at.module.modules())


def positions_of(length: int, count: int) -> Tensor:
    """So many positions at the beginning and at the end."""
    first = count // 2 if count < length else count
    return torch.cat([torch.arange(first), torch.arange(length - (count - first), length)])


def _mixes(change: Tensor, positions: Tensor, precision: Precision) -> bool:
    own = torch.arange(change.shape[1]) == positions[:, None]
    return bool((change.masked_fill(own, 0.0) > precision.moved).any())


def _keys_read(
    expected: Expected, change: Tensor, positions: Tensor, precision: Precision
) -> Finding:
    queries = torch.arange(change.shape[1])
    offsets = queries - positions[:, None]
    # NaN has moved.
    read = ~(change <= precision.moved)
    said, wanted = "", expected.pairs(positions, queries)
    if expected.known and expected.causal is not None:
        said = (
            _reach(wanted, offsets) if expected.chunk is None else f"its chunk of {expected.chunk}"
        )
    elif expected.causal:
        said = "none after"
    wrong = read & ~wanted
    missing = _unread(change > _SEEN * precision.moved, wanted, offsets) if expected.known else []
    if not said:
        outcome = NOT_APPLICABLE
    elif wrong.any() or missing:
        outcome = MISMATCH
    else:
        unseen = 0 < expected.reach >= len(queries) - 1
        outcome = NOT_APPLICABLE if unseen else OK
    shown = said if outcome == OK and expected.known else _reach(read, offsets)
    if outcome == MISMATCH and shown == said:
        shown += f", {int(wrong.sum())} pairs more, {len(missing)} offsets fewer"
    largest = float(change[~wanted].max()) if said and not wanted.all() else None
    return Finding(KEYS, said, shown, outcome, largest)


def _unread(read: Tensor, wanted: Tensor, offsets: Tensor) -> list[int]:
    """Offsets at which no query reads a key though all should.

    Of few pairs all weights may be too small to see.
    """
    found = []
    for offset in offsets.unique().tolist():
        at = wanted & (offsets == offset)
        if int(at.sum()) >= _FEWEST_PAIRS and not bool((read & at).any()):
            found.append(offset)
    return found


def _reach(read: Tensor, offsets: Tensor) -> str:
    """How far a query sees in words, such as 'itself, 4 before'."""
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
