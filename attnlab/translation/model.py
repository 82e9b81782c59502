"""The encoder-decoder of the thesis's equation (3), as a transformers model that trains and generates."""

from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from transformers import DynamicCache, EncoderDecoderCache, GenerationMixin, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput, Seq2SeqLMOutput

from attnlab.addresses import SITES
from attnlab.attention.mechanisms.linformer import share_projections
from attnlab.translation.configuration import IGNORED_LABEL, TranslationConfig, plan_in
from attnlab.translation.layers import DecoderLayer, EncoderLayer, first_uncached
from attnlab.translation.loss import chunked_cross_entropy
from attnlab.translation.positions import LearnedPositions, SinusoidalPositions
from attnlab.translation.tokenizer import PAD


class Embedding(nn.Module):
    """Token vectors scaled by sqrt(dim), plus positions, then dropout."""

    def __init__(self, config: TranslationConfig, types: int) -> None:
        super().__init__()
        self.scale = config.dim**0.5
        self.tokens = nn.Embedding(types, config.dim, padding_idx=PAD)
        nn.init.normal_(self.tokens.weight, std=config.dim**-0.5)
        with torch.no_grad():
            self.tokens.weight[PAD].zero_()
        self.positions = (
            LearnedPositions(config.dim, config.max_positions)
            if config.positions == "learned"
            else SinusoidalPositions(config.dim)
        )
        self.dropout = nn.Dropout(config.dropout)

    def forward(
        self, ids: Int[Tensor, "batch token"], first: int = 0
    ) -> Float[Tensor, "batch token dim"]:
        """Vectors of the tokens at positions `first` and on."""
        return self.dropout(self.positions(self.tokens(ids) * self.scale, first))


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
        visible = _visible(input_ids, attention_mask)
        tokens = self.embedding(input_ids)
        states, matrices = [tokens], []
        for layer in self.layers:
            tokens, matrix = layer(tokens, visible, token_ids=input_ids, weights=output_attentions)
            states.append(tokens)
            matrices.append(_without_padding_rows(matrix, visible))
        encoded = BaseModelOutput(
            last_hidden_state=self.norm(tokens),
            hidden_states=tuple(states) if output_hidden_states else None,
            attentions=tuple(matrices) if output_attentions else None,
        )
        # Behind the encoder, cross-attention may choose its keys by token; beams repeat it too.
        encoded["token_ids"] = input_ids
        return encoded


class Decoder(nn.Module):
    """Embedding and decoder layers over the encoder's output."""

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
        memory: Float[Tensor, "batch source dim"],
        visible: Bool[Tensor, "batch key"] | None,
        source_visible: Bool[Tensor, "batch source"],
        *,
        source_ids: Int[Tensor, "batch source"] | None = None,
        cache: EncoderDecoderCache | None = None,
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
            own_matrices.append(_without_padding_rows(own, rows))
            cross_matrices.append(_without_padding_rows(across, rows))
        return self.norm(tokens), states, own_matrices, cross_matrices


class TranslationModel(PreTrainedModel, GenerationMixin):
    """Encoder-decoder translation model whose every head can be looked at and replaced.

    Called with `output_attentions=True` it returns, for each of the three sites, a tuple over
    layers of weights `[batch, head, query, key]` before dropout: rows of real tokens sum to 1 over
    real keys, everything at padding is exactly 0, and nothing stands above the decoder's diagonal.
    """

    config_class = TranslationConfig
    base_model_prefix = "model"
    main_input_name = "input_ids"

    def __init__(self, config: TranslationConfig) -> None:
        super().__init__(config)
        self.attention_plan = plan_in(config)
        self.encoder = Encoder(config)
        self.decoder = Decoder(config)
        self.output = nn.Linear(config.dim, config.vocab_size, bias=False)
        nn.init.xavier_uniform_(self.output.weight)
        self._tied_weights_keys: dict[str, str] = {}
        if config.tie_word_embeddings:
            self._tied_weights_keys["output.weight"] = "decoder.embedding.tokens.weight"
        if config.source_vocab_size is None:
            # Assigned rather than declared: transformers ties declared keys only when the output is tied.
            self.encoder.embedding.tokens = self.decoder.embedding.tokens
            self._tied_weights_keys["encoder.embedding.tokens.weight"] = (
                "decoder.embedding.tokens.weight"
            )
        self._tied_weights_keys |= share_projections(self)
        self.post_init()

    def _init_weights(self, module: nn.Module) -> None:
        """Nothing: every module draws its weights when it is made (transformers calls this again)."""

    def get_encoder(self, *_: Any, **__: Any) -> Encoder:
        """The encoder, which `generate` calls once a sentence."""
        return self.encoder

    def get_input_embeddings(self) -> nn.Embedding:
        """The source embedding."""
        return self.encoder.embedding.tokens

    def get_output_embeddings(self) -> nn.Linear:
        """The layer that scores target types."""
        return self.output

    def generate(self, inputs: Tensor | None = None, **kwargs: Any) -> Any:
        """What `GenerationMixin.generate` writes; without an attention mask, padding ids are unseen."""
        ids = kwargs.get("input_ids") if inputs is None else inputs
        if ids is not None and kwargs.get("attention_mask") is None:
            kwargs["attention_mask"] = (ids != PAD).long()
        if kwargs.get("use_cache") is None and first_uncached(self.decoder) is not None:
            kwargs["use_cache"] = False
        return super().generate(inputs, **kwargs)

    def save_pretrained(self, save_directory: Any, **kwargs: Any) -> None:
        """Writes the model with the attention that stands in it now.

        Raises:
            InputError: a mechanism object stands in it, which `config.json` cannot name.
        """
        self.config.attention = dict.fromkeys(SITES, "full") | self.attention_plan.as_dict()
        super().save_pretrained(save_directory, **kwargs)

    def prepare_decoder_input_ids_from_labels(self, labels: Tensor) -> Tensor:
        """Labels shifted right behind the start token, padding instead of ignored labels."""
        start = torch.full_like(labels[:, :1], self.config.decoder_start_token_id)
        shifted = torch.cat([start, labels[:, :-1]], dim=1)
        return shifted.masked_fill(shifted == IGNORED_LABEL, PAD)

    def forward(  # noqa: PLR0917 - the order that transformers calls it in
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        decoder_input_ids: Tensor | None = None,
        decoder_attention_mask: Tensor | None = None,
        encoder_outputs: BaseModelOutput | tuple[Tensor, ...] | None = None,
        past_key_values: EncoderDecoderCache | None = None,
        labels: Tensor | None = None,
        use_cache: bool | None = None,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
        return_dict: bool | None = None,
        num_items_in_batch: Tensor | int | None = None,
        **_: Any,
    ) -> Seq2SeqLMOutput | tuple[Any, ...]:
        """Scores of the next target token at each position, and the loss when there are labels.

        The loss is the mean over real target tokens (label -100 is left out), in nats; label
        smoothing applies in training mode only. In training mode with labels, logits are None:
        they are the largest tensor of all and nothing reads them.
        """
        weights = bool(output_attentions)
        if encoder_outputs is None:
            encoded = self.encoder(
                input_ids,
                attention_mask,
                output_attentions=weights,
                output_hidden_states=bool(output_hidden_states),
            )
        elif isinstance(encoder_outputs, BaseModelOutput):
            encoded = encoder_outputs
        else:
            encoded = BaseModelOutput(last_hidden_state=encoder_outputs[0])
        memory = encoded.last_hidden_state
        source_visible = _visible(input_ids, attention_mask, memory)
        if decoder_input_ids is None and labels is not None:
            decoder_input_ids = self.prepare_decoder_input_ids_from_labels(labels)
        cache = past_key_values
        if use_cache and cache is None and labels is None:
            cache = EncoderDecoderCache(DynamicCache(), DynamicCache())
        visible = None
        if decoder_attention_mask is not None:
            visible = decoder_attention_mask.bool()
        elif labels is not None and weights:
            # Causality alone keeps real queries from padding behind them; only the weights need it said.
            visible = labels != IGNORED_LABEL
        elif weights and cache is None and decoder_input_ids is not None:
            visible = decoder_input_ids != PAD
        source_ids = encoded.get("token_ids", input_ids)
        hidden, states, own, across = self.decoder(
            decoder_input_ids,
            memory,
            visible,
            source_visible,
            source_ids=source_ids,
            cache=cache,
            weights=weights,
        )
        loss, logits = self._loss_and_logits(hidden, labels, num_items_in_batch)
        output = Seq2SeqLMOutput(
            loss=loss,
            logits=logits,
            past_key_values=cache,
            decoder_hidden_states=tuple(states) if output_hidden_states else None,
            decoder_attentions=tuple(own) if weights else None,
            cross_attentions=tuple(across) if weights else None,
            encoder_last_hidden_state=memory,
            encoder_hidden_states=encoded.hidden_states,
            encoder_attentions=encoded.attentions,
        )
        return output.to_tuple() if return_dict is False else output

    def _loss_and_logits(
        self, hidden: Tensor, labels: Tensor | None, num_items_in_batch: Tensor | int | None
    ) -> tuple[Tensor | None, Tensor | None]:
        if labels is None:
            return None, self.output(hidden)
        real = labels != IGNORED_LABEL
        smoothing = self.config.label_smoothing if self.training else 0.0
        total = chunked_cross_entropy(
            hidden[real], self.output.weight, labels[real], smoothing=smoothing
        )
        count = real.sum() if num_items_in_batch is None else num_items_in_batch
        return total / count, None if self.training else self.output(hidden)


def _visible(
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


def _without_padding_rows(matrix: Tensor | None, visible: Tensor | None) -> Tensor | None:
    """The matrix with the rows of padding queries set to 0."""
    if matrix is None or visible is None:
        return matrix
    return matrix * visible[:, None, :, None]
