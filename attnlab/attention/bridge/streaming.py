"""Caches that let go the keys and values that no head of a plan attends to again, or that sums stand for."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from transformers import Cache, DynamicCache, EncoderDecoderCache, PreTrainedModel
from transformers.cache_utils import DynamicLayer

from attnlab.attention.bridge.sites import AttentionAt, mechanism_of, mechanisms_in, score_rules
from attnlab.attention.mechanism import KeySums, Mechanism
from attnlab.attention.multihead import PerHead
from attnlab.attention.specification import Specification
from attnlab.core import InputError, layer_name


class Gap(NamedTuple):
    """The positions that a layer's cache let go: `skipped` of them behind the `first`.

    Attributes:
        first: how many are kept in front.
        skipped: how many are let go.
        sums: what is kept in their place; None for nothing.
    """

    first: int = 0
    skipped: int = 0
    sums: KeySums | None = None

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


class BoundedLayer(DynamicLayer, ABC):
    """What a layer needs of earlier tokens, in a size that does not grow with their number.

    Attributes:
        tokens: how many there were so far.
        followed: whether the mechanisms of the call know what is kept.
    """

    is_croppable = False

    def __init__(self) -> None:
        super().__init__()
        self.tokens = 0
        self.followed = False

    def follow(self, real: Tensor | None, mechanism: Mechanism | None) -> Gap:
        """The gap that the call that is coming meets.

        Args:
            real: True at the real tokens so far and of the call, `[batch, token]`; None where all are.
            mechanism: what is in the layer now; None where there is no such layer.

        Raises:
            InputError: it needs other than the mechanism that the cache was made for.
        """
        if mechanism is None or not self.serves(mechanism):
            raise InputError(_OTHER)
        self.followed = True
        return self.gap(real)

    @abstractmethod
    def serves(self, mechanism: Mechanism) -> bool:
        """Whether what is kept is what the mechanism needs."""

    @abstractmethod
    def gap(self, real: Tensor | None) -> Gap:
        """The positions let go before the call that is coming."""

    def check_followed(self) -> None:
        """Refuses a call whose attention knows nothing of the gap."""
        if not self.followed:
            raise InputError(_OTHER)
        self.followed = False

    def get_seq_length(self) -> int:
        """Number of tokens so far, from which positions are counted."""
        return self.tokens

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Length and offset of masks, which are those of all tokens: mechanisms take what they need."""
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


class StreamingLayer(BoundedLayer):
    """Keys and values of a layer's first and latest tokens.

    A query at position i meets those kept in their order, and counts its own position without those
    skipped: every offset within the window is as it was, and a first token stays outside of it.

    Attributes:
        first: how many real tokens are kept in front.
        recent: how many keys up to its own a query may attend to.
        padding: how many tokens of a text are padding at most, which are kept in front besides.
    """

    def __init__(self, first: int, recent: int) -> None:
        super().__init__()
        self.first = first
        self.recent = recent
        self.padding = 0

    def serves(self, mechanism: Mechanism) -> bool:
        """Whether it attends to as many first and recent keys."""
        return mechanism.first_and_recent() == (self.first, self.recent)

    def gap(self, real: Tensor | None) -> Gap:
        """The positions between the first and the recent ones."""
        skipped = self.tokens - DynamicLayer.get_seq_length(self)
        if not skipped:  # later padding stands behind the first tokens of every text
            self.padding = 0 if real is None else int((~real).sum(-1).max())
        return Gap(self.first + self.padding, skipped)

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """All keys and values that the queries of the call may attend to."""
        self.check_followed()
        keys, values = super().update(key_states, value_states, *args, **kwargs)
        self.tokens += key_states.shape[-2]
        front, last = self.first + self.padding, keys.shape[-2] - (self.recent - 1)
        if last > front:  # copies, since a view would hold what is let go
            self.keys, self.values = (
                torch.cat([x[..., :front, :], x[..., last:, :]], -2) for x in (keys, values)
            )
        return keys, values


class StateLayer(BoundedLayer):
    """Sums over a layer's tokens: `keys` holds features times values, `values` the features' own sum.

    ::

        S = sum_j phi(k_j) v_j,   z = sum_j phi(k_j),   out_i = phi(q_i) S / phi(q_i) . z

    Source: Katharopoulos et al. 2020, arXiv 2006.16236, equations 18 to 20.
    """

    def __init__(self, specification: Specification | None) -> None:
        super().__init__()
        self.specification = specification

    def serves(self, mechanism: Mechanism) -> bool:
        """Whether it has the same features."""
        return getattr(mechanism, "spec", None) == self.specification

    def gap(self, real: Tensor | None) -> Gap:  # noqa: ARG002
        """All positions so far, in whose place there are sums."""
        return Gap(0, self.tokens, self)

    def update(
        self, key_states: Tensor, value_states: Tensor, *_: Any, **__: Any
    ) -> tuple[Tensor, Tensor]:
        """The keys and values of the call alone."""
        self.check_followed()
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        self.tokens += key_states.shape[-2]
        return key_states, value_states

    def earlier(self) -> Tensor | None:
        """The sums of all calls before this one, `[batch, head, feature, value_dim + 1]`."""
        return torch.cat([self.keys, self.values], -1) if self.keys.numel() else None

    def add(self, sums: Tensor) -> None:
        """Adds those over the keys of a call."""
        before = self.earlier()
        total = sums if before is None else before + sums
        self.keys, self.values = total[..., :-1].clone(), total[..., -1:].clone()


def streaming_cache(model: PreTrainedModel) -> Cache:
    """A cache for `generate(past_key_values=...)` that holds what the model's mechanisms need, and no more.

    Each layer keeps the first tokens and the latest ones that any of its heads attends to again, or,
    of linear attention, sums of features times values, so its size stays the same however long the text
    becomes. What is generated is what the full cache gives: positions are counted on, and keys are
    rotated before they are kept.

    Args:
        model: with mechanisms, in every layer of its decoder, that attend to first keys and to keys within
            a distance, or that sum over keys: `linear` with features `elu` or `taylor` in all heads.

    Raises:
        InputError: there is no decoder with mechanisms, or a layer may attend to any earlier key.
    """
    config = model.config.get_text_config(decoder=True)
    layers: dict[int, BoundedLayer] = {}
    for at, mechanism in mechanisms_in(model):
        if at.site != "decoder":
            continue
        name = layer_name(at.site, at.layer)
        if "bias" in score_rules(at, config):
            msg = f"{name} counts relative positions from the keys in its cache, so none can be let go."
            raise InputError(msg)
        layer = _bounded_layer(mechanism)
        if layer is None:
            msg = (
                f"{name} has '{_unbounded(mechanism)}', which may attend to any earlier key, so its cache "
                "cannot let one go; use a plan of bands and first keys, or linear attention in all heads."
            )
            raise InputError(msg)
        layers[cache_layer_of(at)] = layer
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


def _bounded_layer(mechanism: Mechanism) -> BoundedLayer | None:
    if mechanism.sums_over_keys():
        return StateLayer(getattr(mechanism, "spec", None))
    kept = mechanism.first_and_recent()
    return None if kept is None else StreamingLayer(*kept)


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
        if isinstance(layer, BoundedLayer):
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
