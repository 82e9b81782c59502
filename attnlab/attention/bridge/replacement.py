"""The function that transformers calls instead of its own attention, which asks the module's mechanism."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from attnlab.attention.bridge.calls import (
    SITE,
    CallRecord,
    call_of,
    looks_at_tokens,
    token_ids_of_keys,
    tokens_before,
    weights_wanted,
)
from attnlab.attention.bridge.masks import Reading, read_mask
from attnlab.attention.bridge.scores import ScoreRule, without_scores
from attnlab.attention.bridge.sites import mechanism_of
from attnlab.attention.mechanism import Mechanism, Scoring
from attnlab.errors import AttnlabError


def attention_function(  # noqa: PLR0917 - transformers' signature
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    position_bias: Tensor | None = None,
    **extra: Any,
) -> tuple[Tensor, Tensor | None]:
    """What transformers calls instead of its own attention: `[batch, query, head, dim]` comes back."""
    mechanism = mechanism_of(module)
    call = call_of(module)
    groups, held = query.shape[1] // key.shape[1], key.shape[2]
    key, value = (x.repeat_interleave(groups, 1) if groups > 1 else x for x in (key, value))
    if mechanism.causal:
        key, value, attention_mask = _from_start(call.start_of(module), key, value, attention_mask)
    reading = read_mask(
        attention_mask,
        query.shape[2],
        key.shape[2],
        causal=mechanism.causal,
        past=tokens_before(module),
        real=call.real_keys(attention_mask, query.shape[2]) if mechanism.causal else None,
    )
    if scaling is not None:
        query = query * (scaling * query.shape[-1] ** 0.5)
    context: dict[str, Any] = {"first_query": reading.first_query}
    if looks_at_tokens(mechanism):
        context["token_ids"] = token_ids_of_keys(module, key.shape[0], key.shape[2])
    if vars(module)[SITE] == "cross":
        context |= _of_queries(mechanism, call, reading.first_query + query.shape[2])
    context |= _of_scores(mechanism, reading, position_bias, extra)
    for part in mechanism.modules():
        if isinstance(part, Mechanism):
            part.dropout = dropout  # the model decides at each call
    out = mechanism(query, key, value, reading.visible, **context)
    weights = None
    if extra.get("output_attentions") or weights_wanted(module):
        weights = mechanism.implied_matrix(query, key, reading.visible, **context)
        weights = weights[..., key.shape[2] - held :]
    return out.transpose(1, 2).contiguous(), weights


def _from_start(
    start: int, key: Tensor, value: Tensor, mask: Tensor | None
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Keys and values with nothing at the positions that a cache of a sliding window let go."""
    if not start:
        return key, value, mask
    key, value = (F.pad(x, (0, 0, start, 0)) for x in (key, value))
    if mask is not None:
        hidden = False if mask.dtype == torch.bool else torch.finfo(mask.dtype).min
        mask = F.pad(mask, (start, 0), value=hidden)
    return key, value, mask


def _of_queries(mechanism: Mechanism, call: CallRecord, tokens: int) -> dict[str, Any]:
    """Which queries are real, where padding in front of them shifts what a mechanism counts."""
    counts = any(
        part.positions in {"offsets", "pairs"}
        for part in mechanism.modules()
        if isinstance(part, Mechanism)
    )
    real = call.real
    if not counts or real is None or real.shape[1] < tokens or bool(real[:, 0].all()):
        return {}
    return {"real_queries": real[:, :tokens]}


def _of_scores(
    mechanism: Mechanism, reading: Reading, position_bias: Tensor | None, extra: dict[str, Any]
) -> dict[str, Any]:
    """What the model does to its scores, for mechanisms that have some.

    Raises:
        AttnlabError: a mechanism has none, which `install` could not know beforehand, as where the mask
            of a call hides pairs.
    """
    found: dict[str, Any] = {}
    # T5's cross-attention adds zeros.
    if position_bias is not None and (position_bias.requires_grad or bool(position_bias.any())):
        found["bias"] = position_bias
    if reading.bias is not None:
        found["bias"] = reading.bias + found.get("bias", 0.0)
    softcap, sinks = extra.get("softcap"), extra.get("s_aux")
    if reading.allowed is not None or softcap is not None or sinks is not None:
        found["scoring"] = Scoring(reading.allowed, softcap, sinks)
    rules: set[ScoreRule] = {"bias"} if "bias" in found else set()
    if reading.allowed is not None:
        rules.add("allowed")
    if softcap is not None:
        rules.add("softcap")
    if sinks is not None:
        rules.add("sinks")
    refusal = without_scores(mechanism, rules)
    if refusal is not None:
        raise AttnlabError(refusal)
    return found
