"""What is expected of a model as a whole and what is found: causality, padding, packing, cache, kernels."""

import warnings
from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from torch.nn import functional as F
from transformers import masking_utils

from attnlab.attention import Mechanism
from attnlab.core import AttnlabError, reason
from attnlab.questions.check.findings import (
    MOST_POSITIONS,
    Finding,
    alike,
    not_applicable,
    positions_of,
)
from attnlab.questions.check.probing import STOPS, Precision, Probe, last_states, of_precision
from attnlab.questions.check.question import MISMATCH, NOT_APPLICABLE, OK

PADDING = 3
HALVES = "cache, two halves"
# Up to so many tokens all come one at a time behind a cache; of more the last ones.
_ONE_BY_ONE = 64
# Texts in one pass.
_TEXTS = 8


def whole_model(probe: Probe, precision: Precision, causal: bool | None) -> Iterator[Finding]:
    """The properties of the model as a whole; one whose passes stop with an error does not apply."""
    alone = probe.states(probe.ids[None])

    def like_alone(name: str, states: Tensor, how: str = "") -> Finding:
        return alike(name, alone, states, precision, how)

    whole: dict[str, Callable[[str], Finding]] = {
        "causality": lambda name: causality(name, probe, precision, causal),
        "padding on the right": lambda name: right_padding(name, probe, like_alone),
        "padding on the left": lambda name: left_padding(name, probe, causal, like_alone),
        "packing": lambda name: packing(name, probe, precision, causal),
        "cache": lambda name: cache(name, probe, causal, like_alone),
        HALVES: lambda name: cache(name, probe, causal, like_alone, halves=True),
        "eager against SDPA": lambda name: kernel(name, "sdpa", probe, precision),
        "eager against flex": lambda name: flex(name, probe, precision),
    }
    for name, find in whole.items():
        try:
            yield find(name)
        except (AttnlabError, *STOPS) as error:
            if of_precision(error):
                raise
            yield not_applicable(name, f"stops: {reason(error)}")


def causality(name: str, probe: Probe, precision: Precision, causal: bool | None) -> Finding:
    """Whether a row moves with a later token."""
    tokens = probe.tokens
    largest = torch.zeros(())
    for part in positions_of(tokens, min(MOST_POSITIONS, tokens)).to(probe.device).split(_TEXTS):
        ids = probe.ids.repeat(len(part), 1)
        before = probe.states(ids)
        if before.shape[1] != tokens:
            return not_applicable(name, "its last states are not one a token")
        ids[torch.arange(len(part)), part] = probe.others[part]
        moved = (probe.states(ids) - before).abs().amax(-1) / before.abs().max()
        ahead = torch.arange(tokens, device=probe.device) < part[:, None]
        largest = torch.maximum(largest, moved.masked_fill(~ahead, 0.0).max().cpu())
    # NaN has moved.
    text = {True: "reads no later token", False: "reads later tokens", None: ""}
    shown = text[bool(largest <= precision.moved)]
    outcome = OK if text[causal] == shown else MISMATCH
    change = None if causal is False else float(largest)
    return Finding(name, text[causal], shown, NOT_APPLICABLE if causal is None else outcome, change)


LikeAlone = Callable[..., Finding]


def _padded(
    probe: Probe, ids: Tensor, *, before: int = 0, behind: int = 0
) -> tuple[Tensor, Tensor]:
    """Ids of one text with padding, and the mask that says so."""
    gaps = (before, behind)
    return F.pad(ids, gaps, value=probe.padding)[None], F.pad(torch.ones_like(ids), gaps)[None]


def right_padding(name: str, probe: Probe, like_alone: LikeAlone) -> Finding:
    """Whether a text is read alike with padding behind it, in both stacks where there are two."""
    if "attention_mask" not in probe.takes:
        return not_applicable(name, "takes no mask")
    ids, mask = _padded(probe, probe.ids, behind=PADDING)
    given = {"attention_mask": mask}
    if probe.source is not None:
        given = {"decoder_attention_mask": mask}
        given["input_ids"], given["attention_mask"] = _padded(probe, probe.source, behind=PADDING)
    return like_alone(name, probe.states(ids, **given)[:, : probe.tokens])


def left_padding(name: str, probe: Probe, causal: bool | None, like_alone: LikeAlone) -> Finding:
    """Whether a decoder reads a text alike with padding before it, as texts are generated in batches."""
    if probe.source is not None or not causal:
        return not_applicable(name, "an encoder pads at the end")
    if "attention_mask" not in probe.takes:
        return not_applicable(name, "takes no mask")
    ids, mask = _padded(probe, probe.ids, before=PADDING)
    by_mask = probe.states(ids, attention_mask=mask)[:, PADDING:]
    finding = like_alone(name, by_mask, ", by the mask")
    if finding.outcome == OK or "position_ids" not in probe.takes:
        return finding
    # As `generate` hands them in.
    positions = (mask.cumsum(-1) - 1).clamp(min=0)
    states = probe.states(ids, attention_mask=mask, position_ids=positions)[:, PADDING:]
    return like_alone(name, states, ", with position_ids")


def packing(name: str, probe: Probe, precision: Precision, causal: bool | None) -> Finding:
    """Whether a text is read alike behind another in its row, where position_ids begin again."""
    if not causal or probe.source is not None or "position_ids" not in probe.takes:
        return not_applicable(name, "is not claimed")
    half = probe.tokens // 2
    positions = torch.cat([torch.arange(half), torch.arange(probe.tokens - half)])[None]
    # A model that looks for packed texts calls this; others make no promise.
    function = "find_packed_sequence_indices"
    with patch.object(masking_utils, function, wraps=getattr(masking_utils, function)) as looked:
        packed = probe.states(probe.ids[None], position_ids=positions.to(probe.device))
    if not looked.called:
        return not_applicable(name, "is not claimed")
    return alike(name, probe.states(probe.ids[None, half:]), packed[:, half:], precision)


def cache(
    name: str, probe: Probe, causal: bool | None, like_alone: LikeAlone, *, halves: bool = False
) -> Finding:
    """Whether tokens that come one at a time, or in two halves, with a cache are read as all at once.

    The second half comes as prompts that are read in chunks: several queries behind more keys, where a causal
    mask that begins at the first key hides most of them.
    """
    first = 1 if probe.tokens <= _ONE_BY_ONE else probe.tokens - _ONE_BY_ONE // 4
    parts = [first] + [1] * (probe.tokens - first)
    if halves:
        parts = [probe.tokens // 2, probe.tokens - probe.tokens // 2]
    states: list[Tensor] = []
    given: dict[str, Any] = {"use_cache": True}
    for ids in probe.ids[None].split(parts, dim=1):
        outputs = probe.call(ids, **given)
        kept = [n for n in ("past_key_values", "cache_params") if outputs.get(n) is not None]
        if not causal or not kept or kept[0] not in probe.takes:
            return not_applicable(name, "has none")
        given[kept[0]] = outputs[kept[0]]
        states.append(last_states(outputs))
    return like_alone(name, torch.cat(states, 1))


def kernel(name: str, other: str, probe: Probe, precision: Precision) -> Finding:
    """Whether a kernel of attention reads a padded text as eager attention does."""
    model = probe.model
    if any(isinstance(part, Mechanism) for part in model.modules()):
        return not_applicable(name, "attends by attnlab")
    if not getattr(model.base_model, f"_supports_{other.replace('attention', 'attn')}", False):
        return not_applicable(name, "has one kernel")
    padded, mask = _padded(
        probe, probe.ids if probe.source is None else probe.source, behind=PADDING
    )
    ids = padded if probe.source is None else probe.ids[None]
    given = {"attention_mask": mask} | ({} if probe.source is None else {"input_ids": padded})
    before = model.config._attn_implementation  # noqa: SLF001 - it has no public name
    try:
        model.set_attn_implementation("eager")
        plain = probe.states(ids, **given)[:, : probe.tokens]
        model.set_attn_implementation(other)
        fused = probe.states(ids, **given)[:, : probe.tokens]
    finally:
        model.set_attn_implementation(before)
    return alike(name, plain, fused, precision)


def flex(name: str, probe: Probe, precision: Precision) -> Finding:
    """Whether FlexAttention reads a padded text as eager attention does.

    It is not compiled, which would take a minute and has no float64: masks are the same.
    """
    with torch.compiler.set_stance("force_eager"), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "flex_attention called without torch.compile")
        return kernel(name, "flex_attention", probe, precision)
