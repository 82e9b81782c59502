"""What was expected of a model and what was found, of each layer and of the model as a whole."""

import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from attnlab.attention import FullAttention, Mechanism
from attnlab.core import reason
from attnlab.questions.check.expectations import Expected, expected_of
from attnlab.questions.check.probing import (
    LayerAt,
    Precision,
    Probe,
    changes_by_layer,
    last_states,
)
from attnlab.questions.check.question import KEYS, MISMATCH, NOT_APPLICABLE, OK

SAME = "the same"
# Models call these to make the mask of packed texts from positions.
_MASKS = {
    "create_causal_mask", "create_sliding_window_causal_mask", "create_chunked_causal_mask"
}  # fmt: skip
# Changed positions; of long texts as many at the beginning as at the end.
MOST_POSITIONS = 32
_ONE_BY_ONE = 64
_FEWEST_PAIRS = 4


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
    # NaN is no small change.
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
    # Lists of norms and feed-forward layers move no other row; a model all of whose layers do so stays.
    mixing = {at.site: False for at in layers}
    for at, change in found:
        mixing[at.site] |= _mixes(change, positions[at.length], precision)
    kinds = {
        type(at.module) for at, change in found if _mixes(change, positions[at.length], precision)
    }
    kept = [(at, c) for at, c in found if type(at.module) in kinds or not mixing[at.site]]
    totals = {site: sum(at.site == site for at, _ in kept) for site in mixing}
    numbers = dict.fromkeys(mixing, 0)
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
        said = _reach(wanted, offsets)
    elif expected.causal:
        said = "none behind"
    wrong = read & ~wanted
    missing = _unread(read, wanted, offsets) if expected.known else []
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
    gap = 3
    if probe.source is None:
        alone = probe.states(probe.ids[None])
        padded, mask = _padded(probe, probe.ids, (0, gap))
        states = probe.states(padded, attention_mask=mask)
        return _alike(name, alone, states[:, : alone.shape[1]], precision)
    alone = probe.states(probe.ids[None])
    source, mask = _padded(probe, probe.source, (0, gap))
    given = {"input_ids": source, "attention_mask": mask}
    target, target_mask = _padded(probe, probe.ids, (0, gap))
    if "decoder_attention_mask" in probe.takes:
        given["decoder_attention_mask"] = target_mask
    states = probe.states(target, **given)
    return _alike(name, alone, states[:, : alone.shape[1]], precision)


def _padded(probe: Probe, ids: Tensor, gaps: tuple[int, int]) -> tuple[Tensor, Tensor]:
    pad = torch.nn.functional.pad
    return pad(ids, gaps, value=probe.padding)[None], pad(torch.ones_like(ids), gaps)[None]


def left_padding(probe: Probe, precision: Precision, causal: bool | None) -> Finding:
    """Whether a decoder reads a text alike with padding before it, as texts are generated in batches."""
    name, gap = "padding on the left", 3
    if probe.source is not None or not causal:
        return _not_applicable(name, "an encoder pads behind")
    if "attention_mask" not in probe.takes:
        return _not_applicable(name, "takes no mask")
    alone = probe.states(probe.ids[None])
    padded, mask = _padded(probe, probe.ids, (gap, 0))
    by_mask = probe.states(padded, attention_mask=mask)[:, gap:]
    found = _alike(name, alone, by_mask, precision, ", by the mask")
    if found.outcome == OK or "position_ids" not in probe.takes:
        return found
    # As `generate` hands them in.
    positions = (mask.cumsum(-1) - 1).clamp(min=0)
    states = probe.states(padded, attention_mask=mask, position_ids=positions)[:, gap:]
    return _alike(name, alone, states, precision, ", with position_ids")


def packing(probe: Probe, precision: Precision, causal: bool | None) -> Finding:
    """Whether a text is read alike behind another in its row, where position_ids begin again."""
    name = "packing"
    if not causal or probe.source is not None or not _claims_packing(probe.model):
        return _not_applicable(name, "is not claimed")
    half = probe.tokens // 2
    positions = torch.cat([torch.arange(half), torch.arange(probe.tokens - half)])[None]
    alone = probe.states(probe.ids[None, half:])
    given = {"position_ids": positions.to(probe.device), "attention_mask": None}
    return _alike(name, alone, probe.states(probe.ids[None], **given)[:, half:], precision)


def _claims_packing(model: Any) -> bool:
    """Whether the body makes its masks from positions, and has attention layers alone."""
    code = getattr(inspect.unwrap(type(model.base_model).forward), "__code__", None)
    kinds = getattr(model.config.get_text_config(), "layer_types", None) or ()
    return (
        code is not None
        and bool(_MASKS & set(code.co_names))
        and "position_ids" in code.co_varnames
        and all(
            str(kind).endswith("full_attention") or "sliding" in str(kind) or "chunked" in str(kind)
            for kind in kinds
        )
    )


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


def kernels(probe: Probe, precision: Precision) -> Iterator[Finding]:
    """Whether SDPA and, on a GPU, flex attention read a padded text as eager attention does."""
    model = probe.model
    others = {"sdpa": "eager against SDPA"}
    if probe.device.type == "cuda":
        others["flex_attention"] = "eager against flex"
    own = any(isinstance(part, Mechanism) for part in model.modules())
    source = probe.ids if probe.source is None else probe.source
    padded, mask = _padded(probe, source, (0, 3))
    ids = padded if probe.source is None else probe.ids[None]
    given = {"attention_mask": mask} | ({} if probe.source is None else {"input_ids": padded})

    def states(kernel: str) -> Tensor:
        model.set_attn_implementation(kernel)
        return probe.states(ids, **given)[:, : probe.tokens]

    before = model.config._attn_implementation  # noqa: SLF001 - it has no public name
    for kernel, name in others.items():
        if own:
            yield _not_applicable(name, "attends by mechanisms of attnlab")
            continue
        try:
            yield _alike(name, states("eager"), states(kernel), precision)
        except (ValueError, ImportError, NotImplementedError, AttributeError) as error:
            yield _not_applicable(
                name, "has one kernel" if isinstance(error, ValueError) else reason(error)
            )
        finally:
            model.set_attn_implementation(before)


def whole_model(probe: Probe, precision: Precision, causal: bool | None) -> Iterator[Finding]:
    """The properties of the model as a whole."""
    yield causality(probe, precision, causal)
    yield right_padding(probe, precision)
    yield left_padding(probe, precision, causal)
    yield packing(probe, precision, causal)
    yield cache(probe, precision, causal)
    yield from kernels(probe, precision)
