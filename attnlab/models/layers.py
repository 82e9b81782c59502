"""Encoder and decoder layers: attention and feed-forward parts, each with residual and LayerNorm."""

from typing import Any, Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from transformers import Cache, EncoderDecoderCache
from transformers.modeling_outputs import BaseModelOutput

from attnlab.attention import NO_GAP, Gap, Mechanism, MultiHeadAttention, OwnAttention, gaps_of
from attnlab.core import InputError
from attnlab.models.configuration import (
    TranslationConfig,
    has_relative_bias,
    plan_in,
    projects_apart,
)
from attnlab.models.tokenizer import PAD
from attnlab.models.training_settings import RECURRENT


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
        """The input of the sub-layer."""
        return self.norm(tokens) if self.before else tokens

    def leave(self, tokens: Tensor, change: Tensor) -> Tensor:
        """The input of the next sub-layer: `tokens` with the sub-layer's `change`."""
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
        """The tokens, each changed on its own."""
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
        relative=has_relative_bias(config, site),
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
        gap: Gap = NO_GAP,
        weights: bool = False,
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """Tokens after the layer, and the weights of self- and cross-attention on request.

        Raises:
            InputError: there is a cache, and a mechanism cannot decode with one.
        """
        if cache is not None:
            check_cached(self)
        entering = self.after_attention.enter(tokens)
        keys, values = self.attention.keys_and_values(entering)
        if cache is not None:
            self_cache = (
                cache.self_attention_cache if isinstance(cache, EncoderDecoderCache) else cache
            )
            keys, values = self_cache.update(keys, values, self.layer)
        mixed, self_weights = self.attention(
            entering,
            keys,
            values,
            gap.closed(visible),
            first_query=first_query - gap.skipped,
            token_ids=token_ids,
            key_sums=gap.sums,
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
        return self.after_feed_forward.leave(tokens, change), self_weights, across

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
                if isinstance(mechanism, Mechanism):
                    by_token = mechanism.causal and getattr(mechanism, "uses_tokens", False)
                    if by_token or not mechanism.traits.cached:
                        return mechanism
    return None


def check_cached(module: nn.Module) -> None:
    """Raises InputError where a mechanism of the decoder cannot decode with a cache."""
    mechanism = first_uncached(module)
    if mechanism is not None:
        msg = (
            f"The mechanism '{mechanism.name}' cannot decode with a cache of keys and values; call the "
            "model with use_cache=False (generate does by itself when use_cache is not given)."
        )
        raise InputError(msg)


def sinusoidal_positions(
    count: int,
    dim: int,
    *,
    first: int = 0,
    base: float = 10000.0,
    dtype: torch.dtype = torch.float32,
    device: torch.device | None = None,
) -> Float[Tensor, "count dim"]:
    """Position vectors of the positions `first` to `first + count - 1`.

    ::

        PE(pos, 2i) = sin(pos / base^(2i/dim)),   PE(pos, 2i+1) = cos(pos / base^(2i/dim))

    Source: Vaswani et al. 2017, section 3.5; math.md section 8.

    >>> [round(float(number), 4) for number in sinusoidal_positions(2, 6)[1]]
    [0.8415, 0.5403, 0.0464, 0.9989, 0.0022, 1.0]
    """
    position = torch.arange(first, first + count, dtype=torch.float64, device=device)
    even = torch.arange(0, dim, 2, dtype=torch.float64, device=device)
    angle = position[:, None] / base ** (even / dim)
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)[:, :dim].to(dtype)


class SinusoidalPositions(nn.Module):
    """Adds sines and cosines to token vectors; nothing is learned and any length works."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim

    def forward(
        self, tokens: Float[Tensor, "batch token dim"], first: int = 0
    ) -> Float[Tensor, "batch token dim"]:
        """`tokens` plus the vectors of positions `first` and on."""
        table = sinusoidal_positions(
            tokens.shape[1], self.dim, first=first, dtype=tokens.dtype, device=tokens.device
        )
        return tokens + table


class LearnedPositions(nn.Module):
    """Adds a learned vector for each of `max_positions` positions."""

    def __init__(self, dim: int, max_positions: int) -> None:
        super().__init__()
        self.table = nn.Embedding(max_positions, dim)

    def forward(
        self, tokens: Float[Tensor, "batch token dim"], first: int = 0
    ) -> Float[Tensor, "batch token dim"]:
        """`tokens` plus the learned vectors of positions `first` and on.

        Raises:
            InputError: the text is longer than the table.
        """
        end, size = first + tokens.shape[1], self.table.num_embeddings
        if end > size:
            msg = (
                f"A text of {end} tokens is longer than the {size} learned positions of this model; "
                "shorten it or train with larger max_positions or sinusoidal positions."
            )
            raise InputError(msg)
        return tokens + self.table.weight[first:end]


class Embedding(nn.Module):
    """Token vectors scaled by sqrt(dim), plus positions, then dropout; a recurrent model has no positions."""

    def __init__(self, config: TranslationConfig, types: int) -> None:
        super().__init__()
        self.scale = config.dim**0.5
        self.tokens = nn.Embedding(types, config.dim, padding_idx=PAD)
        nn.init.normal_(self.tokens.weight, std=config.dim**-0.5)
        with torch.no_grad():
            self.tokens.weight[PAD].zero_()
        self.positions: nn.Module = (
            LearnedPositions(config.dim, config.max_positions)
            if config.positions == "learned"
            else SinusoidalPositions(config.dim)
        )
        self.orders = config.kind != RECURRENT
        self.dropout = nn.Dropout(config.dropout)

    def forward(
        self, ids: Int[Tensor, "batch token"], first: int = 0
    ) -> Float[Tensor, "batch token dim"]:
        """Vectors of the tokens at positions `first` and on."""
        vectors = self.tokens(ids) * self.scale
        return self.dropout(self.positions(vectors, first) if self.orders else vectors)


class Encoder(nn.Module):
    """Embedding and encoder layers; called alone by `generate`."""

    main_input_name = "input_ids"

    def __init__(self, config: TranslationConfig) -> None:
        super().__init__()
        self.embedding = Embedding(config, config.source_vocab_size or config.vocab_size)
        self.layers = nn.ModuleList(
            EncoderLayer(config, number) for number in range(config.encoder_layers)
        )
        self.norm = nn.LayerNorm(config.dim) if config.norm == "pre" else nn.Identity()

    def forward(
        self,
        input_ids: Int[Tensor, "batch token"],
        attention_mask: Tensor | None = None,
        *,
        output_attentions: bool = False,
        output_hidden_states: bool = False,
        **_: Any,
    ) -> BaseModelOutput:
        """Source tokens in context; `attention_mask` is 1 at real tokens (default: not padding)."""
        visible = real_tokens(input_ids, attention_mask)
        tokens = self.embedding(input_ids)
        states, matrices = [tokens], []
        for layer in self.layers:
            tokens, matrix = layer(tokens, visible, token_ids=input_ids, weights=output_attentions)
            states.append(tokens)
            matrices.append(without_padding_rows(matrix, visible))
        encoded = BaseModelOutput(
            last_hidden_state=self.norm(tokens),
            hidden_states=tuple(states) if output_hidden_states else None,
            attentions=tuple(matrices) if output_attentions else None,
        )
        # Behind the encoder, cross-attention may choose its keys by token; beams repeat it too.
        encoded["token_ids"] = input_ids
        return encoded


class Decoder(nn.Module):
    """Embedding and decoder layers, over the encoder's output where there is an encoder."""

    def __init__(self, config: TranslationConfig) -> None:
        super().__init__()
        self.embedding = Embedding(config, config.vocab_size)
        self.layers = nn.ModuleList(
            DecoderLayer(config, number) for number in range(config.decoder_layers)
        )
        self.norm = nn.LayerNorm(config.dim) if config.norm == "pre" else nn.Identity()

    def get_input_embeddings(self) -> nn.Embedding:
        """The embedding of what is predicted."""
        return self.embedding.tokens

    def forward(
        self,
        ids: Int[Tensor, "batch query"],
        memory: Float[Tensor, "batch source dim"] | None,
        visible: Bool[Tensor, "batch key"] | None,
        source_visible: Bool[Tensor, "batch source"] | None,
        *,
        source_ids: Int[Tensor, "batch source"] | None = None,
        cache: Cache | None = None,
        weights: bool = False,
    ) -> tuple[Tensor, list[Tensor], list[Tensor | None], list[Tensor | None]]:
        """Target tokens in context, states between layers, self- and cross-attention by layer."""
        first = cache.get_seq_length() if cache is not None else 0
        self_modules = {
            number: layer.attention
            for number, layer in enumerate(self.layers)
            if isinstance(layer, DecoderLayer)
        }
        gaps = gaps_of(cache, visible, self_modules)
        tokens = self.embedding(ids, first)
        states, self_matrices, cross_matrices = [tokens], [], []
        for number, layer in enumerate(self.layers):
            tokens, self_weights, across = layer(
                tokens,
                memory,
                visible,
                source_visible,
                token_ids=ids if first == 0 else None,
                source_token_ids=source_ids,
                cache=cache,
                first_query=first,
                gap=gaps[number] if number < len(gaps) else NO_GAP,
                weights=weights,
            )
            states.append(tokens)
            rows = None if visible is None else visible[:, first:]
            self_matrices.append(without_padding_rows(self_weights, rows))
            cross_matrices.append(without_padding_rows(across, rows))
        return self.norm(tokens), states, self_matrices, cross_matrices


def real_tokens(
    ids: Tensor | None, attention_mask: Tensor | None, memory: Tensor | None = None
) -> Bool[Tensor, "batch token"]:
    """True at real tokens: from the attention mask, else from padding ids, else everywhere."""
    if attention_mask is not None:
        return attention_mask.bool()
    if ids is not None:
        return ids != PAD
    if memory is None:
        msg = "a model needs input_ids or encoder_outputs"
        raise ValueError(msg)
    return torch.ones(memory.shape[:2], dtype=torch.bool, device=memory.device)


def without_padding_rows(matrix: Tensor | None, visible: Tensor | None) -> Tensor | None:
    """The matrix with the rows of padding queries set to 0."""
    if matrix is None or visible is None:
        return matrix
    return matrix * visible[:, None, :, None]
