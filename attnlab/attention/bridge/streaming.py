"""Caches that let go the keys and values that no head of a plan attends to again."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from transformers import Cache, DynamicCache, EncoderDecoderCache, PreTrainedModel
from transformers.cache_utils import DynamicLayer

from attnlab.attention.bridge.sites import AttentionAt, mechanism_of, mechanisms_in, score_rules
from attnlab.attention.mechanism import Mechanism
from attnlab.attention.multihead import PerHead
from attnlab.core import InputError, layer_name


class Gap(NamedTuple):
    """The positions that a layer's cache let go: `skipped` of them behind the `first`."""

    first: int = 0
    skipped: int = 0

    def closed(self, keys: Tensor | None) -> Tensor | None:
        """Values by position, in the last dimension, of the positions that are kept."""
        if keys is None or not self.skipped:
            return keys
        return torch.cat([keys[..., : self.first], keys[..., self.first + self.skipped :]], -1)


NO_GAP = Gap()
_OTHER = (
    "A streaming cache serves the model with the mechanisms that it was made for; make one by "
    "attnlab.attention.streaming_cache after installing them."
)


class StreamingLayer(DynamicLayer):
    """Keys and values of a layer's first and latest tokens.

    A query at position i meets those kept in their order, and counts its own position without those
    skipped: every offset within the window is as it was, and a first token stays outside of it.

    Attributes:
        first: how many real tokens are kept in front.
        recent: how many keys up to its own a query may attend to.
        tokens: how many there were so far.
        padding: how many tokens of a text are padding at most, which are kept in front besides.
        followed: whether the mechanisms of the call know of the gap.
    """

    is_croppable = False

    def __init__(self, first: int, recent: int) -> None:
        super().__init__()
        self.first = first
        self.recent = recent
        self.tokens = 0
        self.padding = 0
        self.followed = False

    def follow(self, real: Tensor | None, mechanism: Mechanism | None) -> Gap:
        """The gap that the call that is coming meets.

        Args:
            real: True at the real tokens so far and of the call, `[batch, token]`; None where all are.
            mechanism: what is in the layer now; None where there is no such layer.

        Raises:
            InputError: it may attend to other keys than the mechanism that the cache was made for.
        """
        if mechanism is None or mechanism.first_and_recent() != (self.first, self.recent):
            raise InputError(_OTHER)
        self.followed = True
        skipped = self.tokens - super().get_seq_length()
        if not skipped:  # later padding stands behind the first tokens of every text
            self.padding = 0 if real is None else int((~real).sum(-1).max())
        return Gap(self.first + self.padding, skipped)

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """All keys and values that the queries of the call may attend to."""
        if not self.followed:
            raise InputError(_OTHER)
        self.followed = False
        keys, values = super().update(key_states, value_states, *args, **kwargs)
        self.tokens += key_states.shape[-2]
        front, last = self.first + self.padding, keys.shape[-2] - (self.recent - 1)
        if last > front:  # copies, since a view would hold what is let go
            self.keys, self.values = (
                torch.cat([x[..., :front, :], x[..., last:, :]], -2) for x in (keys, values)
            )
        return keys, values

    def get_seq_length(self) -> int:
        """Number of tokens so far, from which positions are counted."""
        return self.tokens

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Masks are those of all tokens; the mechanisms take what they need."""
        return self.tokens + query_length, 0

    def crop(self, tokens_to_remove: int) -> None:
        """Does nothing where no token is taken back.

        Raises:
            InputError: some are, as by speculative decoding; keys that they pushed out are gone.
        """
        if tokens_to_remove:
            msg = (
                "A streaming cache cannot take tokens back, as speculative decoding does; generate without "
                "an assistant or prompt lookup, or without the cache."
            )
            raise InputError(msg)

    def reset(self) -> None:
        """Forgets all tokens."""
        super().reset()
        self.tokens = 0


def streaming_cache(model: PreTrainedModel) -> Cache:
    """A cache for `generate(past_key_values=...)` that holds what the model's mechanisms need, and no more.

    Each layer keeps the first tokens and the latest ones that any of its heads attends to again, so its
    size stays the same however long the text becomes. What is generated is what the full cache gives:
    positions are counted on, and keys are rotated before they are kept.

    Args:
        model: with mechanisms that attend to first keys and to keys within a distance, in every layer of
            its decoder.

    Raises:
        InputError: there is no decoder with mechanisms, or a layer may attend to any earlier key.
    """
    config = model.config.get_text_config(decoder=True)
    layers: dict[int, StreamingLayer] = {}
    for at, mechanism in mechanisms_in(model):
        if at.site != "decoder":
            continue
        name = layer_name(at.site, at.layer)
        if "bias" in score_rules(at, config):
            msg = f"{name} counts relative positions from the keys in its cache, so none can be let go."
            raise InputError(msg)
        kept = mechanism.first_and_recent()
        if kept is None:
            msg = (
                f"{name} has '{_unbounded(mechanism)}', which may attend to any earlier key, so its cache "
                "cannot let one go; use a plan of bands and first keys."
            )
            raise InputError(msg)
        layers[cache_layer_of(at)] = StreamingLayer(*kept)
    if not layers:
        msg = (
            f"{type(model).__name__} has no mechanisms in a decoder; put some in with "
            "attnlab.attention.install first."
        )
        raise InputError(msg)
    cache = DynamicCache(config=config)
    cache.layers = [layers.get(number, layer) for number, layer in enumerate(cache.layers)]
    across = model.config.is_encoder_decoder
    return EncoderDecoderCache(cache, DynamicCache(config=config)) if across else cache


def _unbounded(mechanism: Mechanism) -> str:
    """The mechanism, or that of the first of its heads, that may attend to any earlier key."""
    parts = mechanism.parts() if isinstance(mechanism, PerHead) else [([], mechanism)]
    part = next(part for _, part in parts if part.first_and_recent() is None)
    return str(getattr(part, "spec", None) or part.name)


def cache_bytes(cache: Cache) -> int:
    """Bytes of the keys and values that a cache of transformers holds."""
    caches = (
        (cache.self_attention_cache, cache.cross_attention_cache)
        if isinstance(cache, EncoderDecoderCache)
        else (cache,)
    )
    tensors = [x for part in caches for layer in part.layers for x in (layer.keys, layer.values)]
    return sum(x.untyped_storage().nbytes() for x in tensors if x is not None)


def gaps_of(
    cache: Cache | None, real: Tensor | None, modules: Mapping[int, nn.Module]
) -> list[Gap]:
    """The gap of each layer of a decoder's self-attention cache, before the call that is coming.

    Args:
        cache: None for no cache.
        real: True at the real tokens, those in the cache included; None where all are.
        modules: the decoder's own attention modules, by the layer of the cache that each of them uses.

    Raises:
        InputError: a streaming cache that was made for other mechanisms.
    """
    cache = getattr(cache, "self_attention_cache", cache)
    gaps = []
    for number, layer in enumerate([] if cache is None else cache.layers):
        if isinstance(layer, StreamingLayer):
            module = modules.get(number)
            gaps.append(layer.follow(real, None if module is None else mechanism_of(module)))
        else:
            gaps.append(NO_GAP)
    return gaps


def cache_layer_of(at: AttentionAt) -> int:
    """The layer of a decoder's cache that an attention module uses."""
    # Zamba's layers share modules, which do not know their number.
    layer = getattr(at.module, "layer_idx", None)
    return at.layer if layer is None else layer
