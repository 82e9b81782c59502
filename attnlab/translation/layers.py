"""Encoder and decoder layers: attention and feed-forward parts, each with residual and LayerNorm."""

from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from transformers import Cache, EncoderDecoderCache

from attnlab.attention.mechanism import Mechanism
from attnlab.attention.multihead import MultiHeadAttention, OwnAttention
from attnlab.errors import InputError
from attnlab.translation.configuration import TranslationConfig, plan_in, projects_apart


class Residual(nn.Module):
    """A sub-layer's surroundings: dropout, residual sum, and LayerNorm after or before.

    ::

        post: LayerNorm(x + dropout(f(x)))        pre: x + dropout(f(LayerNorm(x)))
    """

    def __init__(self, config: TranslationConfig) -> None:
        super().__init__()
        self.before = config.norm == "pre"
        self.norm = nn.LayerNorm(config.dim)
        self.dropout = nn.Dropout(config.dropout)

    def enter(self, tokens: Tensor) -> Tensor:
        """What the sub-layer reads."""
        return self.norm(tokens) if self.before else tokens

    def leave(self, tokens: Tensor, change: Tensor) -> Tensor:
        """What the next sub-layer reads: `tokens` with the sub-layer's `change`."""
        total = tokens + self.dropout(change)
        return total if self.before else self.norm(total)


class FeedForward(nn.Module):
    """ReLU feed-forward part: max(0, x W_1 + b_1) W_2 + b_2 (Vaswani et al. 2017, eq. 2)."""

    def __init__(self, config: TranslationConfig) -> None:
        super().__init__()
        self.inner = nn.Linear(config.dim, config.feed_forward)
        self.outer = nn.Linear(config.feed_forward, config.dim)
        for layer in (self.inner, self.outer):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(self, tokens: Float[Tensor, "batch token dim"]) -> Float[Tensor, "batch token dim"]:
        """Each token changed on its own."""
        return self.outer(torch.relu(self.inner(tokens)))


def attention_at(
    config: TranslationConfig, site: Literal["encoder", "decoder", "cross"], layer: int
) -> MultiHeadAttention:
    """Multi-head attention with the mechanisms that `config.attention` names for the layer's heads."""
    source_types = config.source_vocab_size or config.vocab_size
    mechanism = plan_in(config).mechanism(
        site,
        layer,
        config.heads,
        dropout=config.attention_dropout,
        vocabulary=config.vocab_size if site == "decoder" else source_types,
    )
    return MultiHeadAttention(
        config.dim,
        config.heads,
        mechanism,
        init=config.init,
        scaled=config.scaled,
        global_projections=projects_apart(config, site, layer),
    )


class EncoderLayer(nn.Module):
    """Self-attention and feed-forward part."""

    def __init__(self, config: TranslationConfig, layer: int) -> None:
        super().__init__()
        self.attention = attention_at(config, "encoder", layer)
        self.after_attention = Residual(config)
        self.feed_forward = FeedForward(config)
        self.after_feed_forward = Residual(config)

    def forward(
        self,
        tokens: Float[Tensor, "batch token dim"],
        visible: Bool[Tensor, "batch token"],
        *,
        token_ids: Int[Tensor, "batch token"] | None = None,
        weights: bool = False,
    ) -> tuple[Float[Tensor, "batch token dim"], Float[Tensor, "batch head token token"] | None]:
        """Tokens after the layer, and the attention weights on request."""
        entering = self.after_attention.enter(tokens)
        mixed, matrix = self.attention(
            entering,
            *self.attention.keys_and_values(entering),
            visible,
            token_ids=token_ids,
            weights=weights,
        )
        tokens = self.after_attention.leave(tokens, mixed)
        change = self.feed_forward(self.after_feed_forward.enter(tokens))
        return self.after_feed_forward.leave(tokens, change), matrix


class DecoderLayer(nn.Module):
    """Causal self-attention, cross-attention and feed-forward part; keeps keys and values in a cache.

    The layer of a language model has no cross-attention.
    """

    def __init__(self, config: TranslationConfig, layer: int) -> None:
        super().__init__()
        self.layer = layer
        self.attention = attention_at(config, "decoder", layer)
        self.after_attention = Residual(config)
        self.cross: MultiHeadAttention | None = None
        if "cross" in config.sites:
            self.cross = attention_at(config, "cross", layer)
            self.after_cross = Residual(config)
        self.feed_forward = FeedForward(config)
        self.after_feed_forward = Residual(config)

    def forward(
        self,
        tokens: Float[Tensor, "batch query dim"],
        memory: Float[Tensor, "batch source dim"] | None,
        visible: Bool[Tensor, "batch key"] | None,
        source_visible: Bool[Tensor, "batch source"] | None,
        *,
        token_ids: Int[Tensor, "batch query"] | None = None,
        source_token_ids: Int[Tensor, "batch source"] | None = None,
        cache: Cache | None = None,
        first_query: int = 0,
        weights: bool = False,
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """Tokens after the layer, and the weights of self- and cross-attention on request.

        Raises:
            InputError: there is a cache, and a mechanism cannot decode with one.
        """
        if cache is not None:
            refuse_uncached(self)
        entering = self.after_attention.enter(tokens)
        keys, values = self.attention.keys_and_values(entering)
        if cache is not None:
            own_cache = (
                cache.self_attention_cache if isinstance(cache, EncoderDecoderCache) else cache
            )
            keys, values = own_cache.update(keys, values, self.layer)
        mixed, own = self.attention(
            entering,
            keys,
            values,
            visible,
            first_query=first_query,
            token_ids=token_ids,
            weights=weights,
        )
        tokens = self.after_attention.leave(tokens, mixed)
        across = None
        if self.cross is not None and memory is not None:
            mixed, across = self.cross(
                self.after_cross.enter(tokens),
                *self._memory_keys_and_values(self.cross, memory, cache),
                source_visible,
                first_query=first_query,
                token_ids=source_token_ids,
                weights=weights,
            )
            tokens = self.after_cross.leave(tokens, mixed)
        change = self.feed_forward(self.after_feed_forward.enter(tokens))
        return self.after_feed_forward.leave(tokens, change), own, across

    def _memory_keys_and_values(
        self, cross: MultiHeadAttention, memory: Tensor, cache: Cache | None
    ) -> tuple[Tensor, Tensor]:
        """Keys and values of the source, computed once a sentence when there is a cache."""
        if not isinstance(cache, EncoderDecoderCache):
            return cross.keys_and_values(memory)
        if cache.is_updated.get(self.layer):
            kept = cache.cross_attention_cache.layers[self.layer]
            return kept.keys, kept.values
        keys, values = cache.cross_attention_cache.update(
            *cross.keys_and_values(memory), self.layer
        )
        cache.is_updated[self.layer] = True
        return keys, values


def first_uncached(module: nn.Module) -> Mechanism | None:
    """The first mechanism of a decoder that cannot decode with a cache; None when all can.

    Mechanisms say so by their trait `cached`; those that choose keys by token cannot either where
    keys are target tokens, since a cache keeps no token ids.
    """
    for part in module.modules():
        if isinstance(part, OwnAttention):
            for mechanism in part.mechanism.modules():
                if isinstance(mechanism, Mechanism) and not _decodes(mechanism):
                    return mechanism
    return None


def refuse_uncached(module: nn.Module) -> None:
    """Raises InputError where a mechanism of the decoder cannot decode with a cache."""
    found = first_uncached(module)
    if found is not None:
        msg = (
            f"The mechanism '{found.name}' cannot decode with a cache of keys and values; call the "
            "model with use_cache=False (generate does by itself when use_cache is not given)."
        )
        raise InputError(msg)


def _decodes(mechanism: Mechanism) -> bool:
    by_token = mechanism.causal and getattr(mechanism, "uses_tokens", False)
    return mechanism.traits.cached and not by_token
