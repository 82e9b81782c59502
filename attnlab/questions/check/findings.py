"""What was expected of a model and what was found, of each layer and of the model as a whole."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from unittest.mock import patch
from typing import Any

import torch
from torch import Tensor
from transformers import masking_utils

from attnlab.attention import FullAttention, Mechanism
from attnlab.core import reason
from attnlab.questions.check.expectations import Expected, expected_of
from attnlab.questions.check.probing import (
    DOUBLE,
    LayerAt,
    NeedsSingleError,
    Precision,
    Probe,
    changes_by_layer,
    last_states,
    of_precision,
)
from attnlab.questions.check.question import KEYS, MISMATCH, NOT_APPLICABLE, OK

SAME = "the same"
# Changed positions; of long texts as many at the beginning as at the end.
MOST_POSITIONS = 32
_ONE_BY_ONE = 64
_FEWEST_PAIRS = 8
# Of what is a change where none should be; elsewhere less is enough.
_SEEN = 1e-3
PADDING = 3


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


def _not_applicable(name: str, why: str) -> Finding:
    return Finding(name, "", why, NOT_APPLICABLE)


def _alike(name: str, one: Tensor, other: Tensor, precision: Precision, how: str = "") -> Finding:
    change = float((one - other).abs().max() / one.abs().max())
    if math.isnan(change) and precision is DOUBLE:
        raise NeedsSingleError(name)
    same = change <= precision.same
    found = f"{SAME}{how}" if same else "other states"
    return Finding(name, SAME, found, OK if same else MISMATCH, change)


def every_layer(
    probe: Probe, layers: Sequence[LayerAt], precision: Precision, seed: int, causal: bool | None
) -> Iterator[Finding]:
    """Which keys each layer reads."""
    count = min(MOST_POSITIONS, probe.tokens)
    lengths = {at.length for at in layers}
    positions = {length: _positions(length, count) for length in lengths}
    changes = changes_by_layer(probe, layers, positions, seed)
    found = list(zip(layers, changes, strict=True))
    # Lists of norms and feed-forward layers move no other row.
    kinds = {type(at.module) for at, one in found if _mixes(one, positions[at.length], precision)}
    kept = [(at, change) for at, change in found if type(at.module) in kinds]
    if not kept:
        yield _not_applicable(KEYS, "its layers do not take states of all tokens")
    numbers = {at.site: 0 for at, _ in kept}
    totals = {site: sum(at.site == site for at, _ in kept) for site in numbers}
    for at, change in kept:
        number = numbers[at.site]
        numbers[at.site] += 1
        back = (causal if at.site == "decoder" else False) if causal is not None else None
        expected = expected_of(at.config, number, totals[at.site], causal=back)
        if any(
            isinstance(part, Mechanism) and part.name != FullAttention.name
            for part in at.module.modules()
        ):
            expected = Expected(back, known=False)
        yield _keys_read(at.site, number, expected, change, positions[at.length], precision)


def _positions(length: int, count: int) -> Tensor:
    first = count // 2 if count < length else count
    return torch.cat([torch.arange(first), torch.arange(length - (count - first), length)])


def _mixes(change: Tensor, positions: Tensor, precision: Precision) -> bool:
    own = torch.arange(change.shape[1]) == positions[:, None]
    return bool((change.masked_fill(own, 0.0) > precision.moved).any())


def _keys_read(
    site: str,
    layer: int,
    expected: Expected,
    change: Tensor,
    positions: Tensor,
    precision: Precision,
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
        said = "none behind"
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
    return Finding(KEYS, said, shown, outcome, largest, site, layer)


def _unread(read: Tensor, wanted: Tensor, offsets: Tensor) -> list[int]:
    """Offsets at which no query reads a key though all should; of one pair the weight may be too small to see."""
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
        (-int(seen.min()), -int(offsets.min()), "behind"),
    ):
        if count > 0:
            sides.append(f"all {side}" if count >= most else f"{count} {side}")
    if sides == ["all before", "all behind"]:
        return "all"
    return ", ".join(["itself", *sides])


def causality(probe: Probe, precision: Precision, causal: bool | None) -> Finding:
    """Whether a row moves with a token behind it."""
    tokens = probe.tokens
    changed = _positions(tokens, min(MOST_POSITIONS, tokens)).to(probe.device)
    largest, behind = 0.0, False
    for part in changed.split(8):
        ids = probe.ids.repeat(len(part), 1)
        before = probe.states(ids)
        if before.shape[1] != tokens:
            return _not_applicable("causality", "its last states are not one a token")
        rows = torch.arange(len(part), device=probe.device)
        ids[rows, part] = probe.others[part]
        moved = (probe.states(ids) - before).abs().amax(-1) / before.abs().max()
        ahead = torch.arange(tokens, device=probe.device) < part[:, None]
        largest = max(largest, float(moved.masked_fill(~ahead, 0.0).max()))
        behind = behind or not largest <= precision.moved
    found = "reads tokens behind" if behind else "reads none behind"
    if causal is None:
        return Finding("causality", "", found, NOT_APPLICABLE, largest)
    said = "reads none behind" if causal else "reads tokens behind"
    return Finding(
        "causality", said, found, OK if said == found else MISMATCH, largest if causal else None
    )


def right_padding(probe: Probe, precision: Precision) -> Finding:
    """Whether a text is read alike with padding behind it."""
    name = "padding on the right"
    if "attention_mask" not in probe.takes:
        return _not_applicable(name, "takes no mask")
    if probe.source is None:
        alone = probe.states(probe.ids[None])
        padded, mask = _padded(probe, probe.ids, (0, PADDING))
        states = probe.states(padded, attention_mask=mask)
        return _alike(name, alone, states[:, : alone.shape[1]], precision)
    alone = probe.states(probe.ids[None])
    source, mask = _padded(probe, probe.source, (0, PADDING))
    given = {"input_ids": source, "attention_mask": mask}
    target, target_mask = _padded(probe, probe.ids, (0, PADDING))
    if "decoder_attention_mask" in probe.takes:
        given["decoder_attention_mask"] = target_mask
    states = probe.states(target, **given)
    return _alike(name, alone, states[:, : alone.shape[1]], precision)


def _padded(probe: Probe, ids: Tensor, gaps: tuple[int, int]) -> tuple[Tensor, Tensor]:
    pad = torch.nn.functional.pad
    return pad(ids, gaps, value=probe.padding)[None], pad(torch.ones_like(ids), gaps)[None]


def left_padding(probe: Probe, precision: Precision, causal: bool | None) -> Finding:
    """Whether a decoder reads a text alike with padding before it, as texts are generated in batches."""
    name = "padding on the left"
    if probe.source is not None or not causal:
        return _not_applicable(name, "an encoder pads behind")
    if "attention_mask" not in probe.takes:
        return _not_applicable(name, "takes no mask")
    alone = probe.states(probe.ids[None])
    padded, mask = _padded(probe, probe.ids, (PADDING, 0))
    by_mask = probe.states(padded, attention_mask=mask)[:, PADDING:]
    found = _alike(name, alone, by_mask, precision, ", by the mask")
    if found.outcome == OK or "position_ids" not in probe.takes:
        return found
    # As `generate` hands them in.
    positions = (mask.cumsum(-1) - 1).clamp(min=0)
    states = probe.states(padded, attention_mask=mask, position_ids=positions)[:, PADDING:]
    return _alike(name, alone, states, precision, ", with position_ids")


def packing(probe: Probe, precision: Precision, causal: bool | None) -> Finding:
    """Whether a text is read alike behind another in its row, where position_ids begin again."""
    name, half = "packing", probe.tokens // 2
    if not causal or "position_ids" not in probe.takes:
        return _not_applicable(name, "is not claimed")
    positions = torch.cat([torch.arange(half), torch.arange(probe.tokens - half)])[None]
    alone = probe.states(probe.ids[None, half:])
    # A model that looks for packed texts calls this; others make no promise.
    asked = "find_packed_sequence_indices"
    with patch.object(masking_utils, asked, wraps=getattr(masking_utils, asked)) as looked:
        packed = probe.states(probe.ids[None], position_ids=positions.to(probe.device))
    if not looked.called:
        return _not_applicable(name, "is not claimed")
    return _alike(name, alone, packed[:, half:], precision)


def cache(probe: Probe, precision: Precision, causal: bool | None) -> Finding:
    """Whether tokens that come one at a time, with a cache, are read as all at once."""
    name = "cache"
    if not causal or "use_cache" not in probe.takes:
        return _not_applicable(name, "has none")
    ids = probe.ids[None]
    whole = probe.states(ids)
    first = 1 if probe.tokens <= _ONE_BY_ONE else probe.tokens - _ONE_BY_ONE // 4
    given: dict[str, Any] = {"use_cache": True}
    outputs, states = probe.call(ids[:, :first], **given), []
    for end in range(first, probe.tokens + 1):
        states.append(last_states(outputs))
        held = next(
            (n for n in ("past_key_values", "cache_params") if outputs.get(n) is not None), None
        )
        if held is None or held not in probe.takes:
            return _not_applicable(name, "has none")
        if end < probe.tokens:
            outputs = probe.call(ids[:, end : end + 1], **given, **{held: outputs[held]})
    return _alike(name, whole, torch.cat(states, 1), precision)


def kernel_alike(name: str, kernel: str, probe: Probe, precision: Precision) -> Finding:
    """Whether a kernel of attention reads a padded text as eager attention does."""
    model = probe.model
    if any(isinstance(part, Mechanism) for part in model.modules()):
        return _not_applicable(name, "attends by attnlab")
    if not getattr(model.base_model, f"_supports_{kernel.removesuffix('ention')}", False):
        return _not_applicable(name, "has one kernel")
    source = probe.ids if probe.source is None else probe.source
    padded, mask = _padded(probe, source, (0, PADDING))
    ids = padded if probe.source is None else probe.ids[None]
    given = {"attention_mask": mask} | ({} if probe.source is None else {"input_ids": padded})
    before = model.config._attn_implementation  # noqa: SLF001 - it has no public name
    found = []
    try:
        for one in ("eager", kernel):
            model.set_attn_implementation(one)
            found.append(probe.states(ids, **given)[:, : probe.tokens])
    finally:
        model.set_attn_implementation(before)
    return _alike(name, *found, precision)


def whole_model(probe: Probe, precision: Precision, causal: bool | None) -> Iterator[Finding]:
    """The properties of the model as a whole; one whose passes stop with an error does not apply."""
    whole: dict[str, Callable[[], Finding]] = {
        "causality": lambda: causality(probe, precision, causal),
        "padding on the right": lambda: right_padding(probe, precision),
        "padding on the left": lambda: left_padding(probe, precision, causal),
        "packing": lambda: packing(probe, precision, causal),
        "cache": lambda: cache(probe, precision, causal),
    }
    kernels = {"sdpa": "eager against SDPA"}
    if probe.device.type == "cuda":
        kernels["flex_attention"] = "eager against flex"
    for kernel, name in kernels.items():
        whole[name] = partial(kernel_alike, name, kernel, probe, precision)
    for name, finding in whole.items():
        try:
            yield finding()
        except (
            ArithmeticError,
            AttributeError,
            ImportError,
            LookupError,
            NotImplementedError,
            RuntimeError,
            TypeError,
            ValueError,
        ) as error:
            if of_precision(error):
                raise
            yield _not_applicable(name, f"stops: {reason(error)}")
