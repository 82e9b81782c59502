"""The two stacks of a model, each from token ids to tokens in context."""

from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from transformers import Cache
from transformers.modeling_outputs import BaseModelOutput

from attnlab.translation.configuration import TranslationConfig
from attnlab.translation.layers import DecoderLayer, EncoderLayer
from attnlab.translation.model_settings import RECURRENT
from attnlab.translation.positions import LearnedPositions, SinusoidalPositions
from attnlab.translation.tokenizer import PAD


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
        tokens = self.embedding(ids, first)
        states, own_matrices, cross_matrices = [tokens], [], []
        for layer in self.layers:
            tokens, own, across = layer(
                tokens,
                memory,
                visible,
                source_visible,
                token_ids=ids if first == 0 else None,
                source_token_ids=source_ids,
                cache=cache,
                first_query=first,
                weights=weights,
            )
            states.append(tokens)
            rows = None if visible is None else visible[:, first:]
            own_matrices.append(without_padding_rows(own, rows))
            cross_matrices.append(without_padding_rows(across, rows))
        return self.norm(tokens), states, own_matrices, cross_matrices


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
