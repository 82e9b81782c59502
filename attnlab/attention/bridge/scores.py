"""What a transformers model does to its scores besides scaling, and which mechanisms have scores for it."""

import inspect
from collections.abc import Collection
from typing import Any, Literal

from torch import nn

from attnlab.attention.bridge.sites import AttentionAt
from attnlab.attention.mechanism import Mechanism

ScoreRule = Literal["bias", "allowed", "softcap", "sinks"]
_SAID: dict[ScoreRule, str] = {
    "bias": "adds relative positions to its scores",
    "allowed": "hides pairs by a mask of its own",
    "softcap": "caps its scores",
    "sinks": "has attention sinks",
}
# Of `layer_types` in a configuration: sliding_attention, hybrid_sliding, chunked_attention.
_NARROW = ("sliding", "chunked")


def score_rules(at: AttentionAt, config: Any) -> set[ScoreRule]:
    """What the model does to the scores of an attention module, as far as the module says it beforehand.

    Args:
        at: the module.
        config: the configuration of the text model.
    """
    found: set[ScoreRule] = set()
    # T5's cross-attention adds zeros.
    if at.site != "cross" and hasattr(at.module, "has_relative_attention_bias"):
        found.add("bias")
    window = _window(at.module, config)
    if window is not None and window < getattr(config, "max_position_embeddings", window + 1):
        found.add("allowed")
    if getattr(at.module, "attn_logit_softcapping", None) is not None:
        found.add("softcap")
    if getattr(at.module, "sinks", None) is not None:
        found.add("sinks")
    return found


def _window(module: nn.Module, config: Any) -> int | None:
    """How many keys a sliding window or a chunk of the model holds; None where it sees all."""
    if hasattr(module, "sliding_window"):
        return _whole(module.sliding_window)
    kinds, layer = getattr(config, "layer_types", None), getattr(module, "layer_idx", None)
    if kinds is not None and isinstance(layer, int) and layer < len(kinds):
        if not any(word in kinds[layer] for word in _NARROW):
            return None
        name = "attention_chunk_size" if "chunked" in kinds[layer] else "sliding_window"
        return _whole(getattr(config, name, None))
    # Mistral's modules ask the configuration at each call.
    constants = inspect.unwrap(type(module).forward).__code__.co_consts
    reads = "sliding_window" in constants
    return _whole(getattr(config, "sliding_window", None)) if reads else None


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) else None


def without_scores(mechanism: Mechanism, rules: Collection[ScoreRule]) -> str | None:
    """Why a mechanism, or that of one of its heads, cannot follow the rules; None where all can."""
    for part in mechanism.modules():
        if not isinstance(part, Mechanism):
            continue
        for rule, said in _SAID.items():
            able = part.traits.bias if rule == "bias" else part.scored
            if rule in rules and not able:
                return (
                    f"This model {said}, and '{part.name}' has no scores of single keys for that; "
                    "choose a mechanism with a softmax over keys, such as full, band or topk."
                )
    return None
