"""Which keys each layer of a model reads, as its configuration says."""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Int
from torch import Tensor
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING,
    MODEL_FOR_MASKED_LM_MAPPING,
)

from attnlab.attention import attention_modules, only_scores_next
from attnlab.core import InputError

# Entries of configurations whose attention has a pattern of its own: Reformer, LongT5, Pegasus-X.
_OWN_PATTERNS = ("attn_layers", "local_radius", "stagger_local_blocks")


@dataclass(frozen=True)
class Expected:
    """What a query of a layer reads.

    Attributes:
        causal: whether nothing behind it; None where the configuration does not say.
        known: whether the configuration says which of the others.
        window: keys on each side, itself left out; None for all, below 0 for none, itself neither.
        chunk: length of the chunks that do not see each other; None for no chunks.
    """

    causal: bool | None
    known: bool = True
    window: int | None = None
    chunk: int | None = None

    @property
    def reach(self) -> int:
        """The distance beyond which there is a key that a query does not read; 0 without any."""
        return (self.window or 0) if self.chunk is None else self.chunk

    def pairs(
        self, keys: Int[Tensor, " key"], queries: Int[Tensor, " query"]
    ) -> Bool[Tensor, "key query"]:
        """True where a query reads a key."""
        offsets = queries[None] - keys[:, None]
        read = torch.ones_like(offsets, dtype=torch.bool)
        if self.causal:
            read &= offsets >= 0
        if self.window is not None:
            read &= offsets.abs() <= self.window
        if self.chunk is not None:
            read &= queries[None] // self.chunk == keys[:, None] // self.chunk
        return read


def reads_back(model: Any) -> bool | None:
    """Whether the stack that writes is causal, as its configuration says; None where nothing tells."""
    config = model.config.get_text_config()
    if model.config.is_encoder_decoder:
        return True
    both_ways = getattr(config, "use_bidirectional_attention", None)
    if getattr(config, "is_causal", True) is False or both_ways in {True, "all"}:
        return False
    if getattr(config, "is_decoder", False):
        return True
    # XLM and Flaubert; XLNet.
    for name, back in (("causal", True), ("attn_type", "uni")):
        if hasattr(config, name):
            return bool(getattr(config, name) == back)
    if type(config) in MODEL_FOR_MASKED_LM_MAPPING:
        return False
    if only_scores_next(model.config):
        return True
    try:
        return any(at.site == "decoder" for at in attention_modules(model))
    except InputError:
        return type(config) in MODEL_FOR_CAUSAL_LM_MAPPING or None


def expected_of(config: Any, layer: int, layers: int, *, causal: bool | None) -> Expected:
    """What a layer reads.

    Args:
        config: of its stack.
        layer: from 0.
        layers: how many were found in the stack.
        causal: whether the stack is.
    """
    kinds = getattr(config, "layer_types", None) or getattr(config, "attention_layers", None)
    if isinstance(kinds, list | tuple) and kinds:
        return (
            _of_kind(config, str(kinds[layer]), causal)
            if len(kinds) == layers
            else Expected(causal, known=False)
        )
    patterned = any(getattr(config, name, None) is not None for name in _OWN_PATTERNS)
    # BigBird, whose blocks are drawn, and which reads all of short texts.
    if patterned or (getattr(config, "attention_type", "") == "block_sparse" and not causal):
        return Expected(causal, known=False)
    sides = getattr(config, "attention_window", None)
    if sides is not None and not causal:
        # Longformer and the encoder of LED: half of it on either side.
        return Expected(causal, window=(sides[layer] if isinstance(sides, list) else sides) // 2)
    if getattr(config, "use_sliding_window", True):
        return Expected(causal, window=_window(config, causal))
    return Expected(causal)


def _of_kind(config: Any, kind: str, causal: bool | None) -> Expected:
    if kind in {"full_attention", "global"}:
        return Expected(causal)
    if kind == "sliding_attention":
        return Expected(causal, window=_window(config, causal))
    if kind == "local":
        return Expected(causal, window=config.window_size - 1)
    if kind == "chunked_attention":
        return Expected(causal, chunk=config.attention_chunk_size)
    return Expected(causal, known=False)


def _window(config: Any, causal: bool | None) -> int | None:
    """Keys on each side: of causal windows transformers counts the query itself, of others it does not.

    Gemma 3 counts it both ways too.
    """
    width = getattr(config, "sliding_window", None)
    if not isinstance(width, int):
        return None
    exclusive = causal or getattr(config, "use_bidirectional_attention", None) in {True, "all"}
    return width - 1 if exclusive else width
