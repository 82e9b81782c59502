"""The encoder-decoder of the thesis's equation (3), as a transformers model that trains and generates."""

from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from transformers import Cache, DynamicCache, EncoderDecoderCache, GenerationMixin, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput, CausalLMOutputWithPast, Seq2SeqLMOutput

from attnlab.attention import CallContext, OwnAttention, share_projections
from attnlab.core import InputError
from attnlab.models.configuration import (
    IGNORED_LABEL,
    LanguageConfig,
    RecurrentConfig,
    TranslationConfig,
    has_additive_scores,
    plan_in,
)
from attnlab.models.layers import (
    Decoder,
    Embedding,
    Encoder,
    first_uncached,
    real_tokens,
    without_padding_rows,
)
from attnlab.models.scoring import chunked_cross_entropy
from attnlab.models.tokenizer import PAD
from attnlab.models.training_settings import (
    LANGUAGE_MODEL,
    RECURRENT,
    TRANSFORMER,
    TRANSLATION,
    ModelSettings,
)


class OwnModel(PreTrainedModel, GenerationMixin):
    """A model whose every head can be looked at and replaced."""

    config_class: type[TranslationConfig] = TranslationConfig
    base_model_prefix = "model"
    main_input_name = "input_ids"

    def __init__(self, config: TranslationConfig) -> None:
        super().__init__(config)
        self.attention_plan = plan_in(config)
        self._tied_weights_keys: dict[str, str] = {}
        self.make_stacks(config)
        self.output = nn.Linear(config.dim, config.vocab_size, bias=False)
        nn.init.xavier_uniform_(self.output.weight)
        if config.tie_word_embeddings:
            self._tied_weights_keys["output.weight"] = "decoder.embedding.tokens.weight"
        self._tied_weights_keys |= share_projections(self)
        self.post_init()

    def make_stacks(self, config: TranslationConfig) -> None:
        """Makes the decoder, and what stands before it."""
        self.decoder = self.make_decoder(config)

    def make_decoder(self, config: TranslationConfig) -> Any:
        """The decoder, with the embedding of what is predicted."""
        return Decoder(config)

    def decodes_with_cache(self) -> bool:
        """Whether every mechanism of the decoder can decode with a cache of keys and values."""
        return first_uncached(self.decoder) is None

    def _init_weights(self, module: nn.Module) -> None:
        """Does nothing: every module draws its weights when it is made (transformers calls this again)."""

    def get_input_embeddings(self) -> nn.Embedding:
        """The embedding of what the model reads."""
        embedding: nn.Embedding = self.decoder.embedding.tokens
        return embedding

    def get_output_embeddings(self) -> nn.Linear:
        """The layer that scores the types of the next token."""
        return self.output

    def generate(self, inputs: Tensor | None = None, **kwargs: Any) -> Any:
        """Sequences of `GenerationMixin.generate`; without an attention mask, padding ids are hidden."""
        ids = kwargs.get("input_ids") if inputs is None else inputs
        if ids is not None and kwargs.get("attention_mask") is None:
            kwargs["attention_mask"] = (ids != PAD).long()
        if kwargs.get("use_cache") is None and not self.decodes_with_cache():
            kwargs["use_cache"] = False
        return super().generate(inputs, **kwargs)

    def save_pretrained(self, save_directory: Any, **kwargs: Any) -> None:
        """Writes the model with the attention that stands in it now.

        Raises:
            InputError: a mechanism object stands in it, which `config.json` cannot name.
        """
        whole = dict.fromkeys(self.config.sites, "full")
        self.config.attention = whole | self.attention_plan.as_dict()
        super().save_pretrained(save_directory, **kwargs)

    def loss_and_logits(
        self,
        hidden: Float[Tensor, "batch token dim"],
        labels: Int[Tensor, "batch token"] | None,
        num_items_in_batch: Tensor | int | None,
    ) -> tuple[Tensor | None, Tensor | None]:
        """Mean loss in nats over the labels that are not -100, and the scores of every type.

        Without labels there is no loss. Label smoothing applies in training mode only; with labels
        logits are None then: they are the largest tensor of all and nothing reads them.
        """
        if labels is None:
            return None, self.output(hidden)
        real = labels != IGNORED_LABEL
        smoothing = self.config.label_smoothing if self.training else 0.0
        total = chunked_cross_entropy(
            hidden[real], self.output.weight, labels[real], smoothing=smoothing
        )
        count = real.sum() if num_items_in_batch is None else num_items_in_batch
        return total / count, None if self.training else self.output(hidden)


class TranslationModel(OwnModel):
    """Encoder-decoder translation model whose every head can be looked at and replaced.

    Called with `output_attentions=True` it returns, for each of the three sites, a tuple over
    layers of weights `[batch, head, query, key]` before dropout: rows of real tokens sum to 1 over
    real keys, everything at padding is exactly 0, and nothing stands above the decoder's diagonal.
    """

    def make_stacks(self, config: TranslationConfig) -> None:
        """Makes encoder and decoder, with one embedding where the vocabulary is shared."""
        self.encoder = self.make_encoder(config)
        super().make_stacks(config)
        if config.source_vocab_size is None:
            # Assigned rather than declared: transformers ties declared keys only when the output is tied.
            self.encoder.embedding.tokens = self.decoder.embedding.tokens
            self._tied_weights_keys["encoder.embedding.tokens.weight"] = (
                "decoder.embedding.tokens.weight"
            )

    def make_encoder(self, config: TranslationConfig) -> Any:
        """The encoder, with the embedding of the source."""
        return Encoder(config)

    def get_encoder(self, *_: Any, **__: Any) -> Any:
        """The encoder, which `generate` calls once a sentence."""
        return self.encoder

    def get_input_embeddings(self) -> nn.Embedding:
        """The source embedding."""
        embedding: nn.Embedding = self.encoder.embedding.tokens
        return embedding

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
        score_vocabulary: bool = True,
        **_: Any,
    ) -> Seq2SeqLMOutput | tuple[Any, ...]:
        """Scores of the next target token at each position, and the loss when there are labels.

        The loss is the mean over real target tokens (label -100 is left out), in nats; label
        smoothing applies in training mode only. In training mode with labels, logits are None:
        they are the largest tensor of all and nothing reads them. Without `score_vocabulary` there is
        neither.
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
        source_visible = real_tokens(input_ids, attention_mask, memory)
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
        hidden, states, self_weights, across = self.decoder(
            decoder_input_ids,
            memory,
            visible,
            source_visible,
            source_ids=source_ids,
            cache=cache,
            weights=weights,
        )
        loss, logits = None, None
        if score_vocabulary:
            loss, logits = self.loss_and_logits(hidden, labels, num_items_in_batch)
        output = Seq2SeqLMOutput(
            loss=loss,
            logits=logits,
            past_key_values=cache,
            decoder_hidden_states=tuple(states) if output_hidden_states else None,
            decoder_attentions=tuple(self_weights) if weights else None,
            cross_attentions=tuple(across) if weights else None,
            encoder_last_hidden_state=memory,
            encoder_hidden_states=encoded.hidden_states,
            encoder_attentions=encoded.attentions,
        )
        return output.to_tuple() if return_dict is False else output


class LanguageModel(OwnModel):
    """Probabilities of the next token, given the tokens up to it.

    ::

        p(x_(t+1) = v | x_1 .. x_t) = softmax_v(<e_v, h_t>),   h = decoder layers(e_x + positions)

    where e_v is the embedding of type v, the same at the input and, when tied, at the output; the
    decoder layers attend to themselves alone, causally, with scores divided by sqrt(head_dim) or not.
    Called with `output_attentions=True` it returns, by layer, weights `[batch, head, query, key]`
    before dropout: rows of real tokens sum to 1, everything at padding is exactly 0, and nothing
    stands above the diagonal.
    """

    config_class = LanguageConfig

    def generate(self, inputs: Tensor | None = None, **kwargs: Any) -> Any:
        """The prompts with what `GenerationMixin.generate` writes behind them.

        Raises:
            InputError: the prompts differ in length.
        """
        ids = kwargs.get("input_ids") if inputs is None else inputs
        mask = kwargs.get("attention_mask")
        if ids is not None and bool((mask == 0 if mask is not None else ids == PAD).any()):
            msg = (
                "Prompts of different lengths cannot be continued together; generate one at a time."
            )
            raise InputError(msg)
        return super().generate(inputs, **kwargs)

    def forward(  # noqa: PLR0917 - the order that transformers calls it in
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        past_key_values: Cache | None = None,
        labels: Tensor | None = None,
        use_cache: bool | None = None,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
        return_dict: bool | None = None,
        num_items_in_batch: Tensor | int | None = None,
        score_vocabulary: bool = True,
        **_: Any,
    ) -> CausalLMOutputWithPast | tuple[Any, ...]:
        """Scores of the next token at each position, and the loss when there are labels.

        As in other language models of transformers, `labels` are the ids themselves, with -100 where
        no loss is wanted: the label at a position is predicted from those before it, and the first
        one is predicted from nothing and left out. Padding must stand behind the text. Without
        `score_vocabulary` there is neither loss nor scores.
        """
        weights = bool(output_attentions)
        cache = past_key_values
        if use_cache and cache is None and labels is None:
            cache = DynamicCache()
        visible = None
        if attention_mask is not None:
            visible = attention_mask.bool()
        elif weights and cache is None:
            # Causality alone keeps real queries from padding behind them; only the weights need it said.
            visible = input_ids != PAD
        hidden, states, self_weights, _none = self.decoder(
            input_ids, None, visible, None, cache=cache, weights=weights
        )
        if labels is not None:
            labels = labels.roll(-1, dims=1)
            labels[:, -1] = IGNORED_LABEL
        loss, logits = None, None
        if score_vocabulary:
            loss, logits = self.loss_and_logits(hidden, labels, num_items_in_batch)
        output = CausalLMOutputWithPast(
            loss=loss,
            logits=logits,
            past_key_values=cache,
            hidden_states=tuple(states) if output_hidden_states else None,
            attentions=tuple(self_weights) if weights else None,
        )
        return output.to_tuple() if return_dict is False else output


CELLS: dict[str, type[nn.RNNBase]] = {"lstm": nn.LSTM, "gru": nn.GRU, "elman": nn.RNN}


class RecurrentEncoder(nn.Module):
    """Embedding and a bidirectional recurrent layer, half of `dim` in each direction."""

    main_input_name = "input_ids"

    def __init__(self, config: TranslationConfig) -> None:
        super().__init__()
        self.embedding = Embedding(config, config.source_vocab_size or config.vocab_size)
        self.cell = _cell(config, config.dim // 2, config.encoder_layers, both_ways=True)

    def forward(
        self,
        input_ids: Int[Tensor, "batch token"],
        attention_mask: Tensor | None = None,
        **_: Any,
    ) -> BaseModelOutput:
        """Source tokens in context, 0 at padding, which must stand behind the text and is not read."""
        visible = real_tokens(input_ids, attention_mask)
        packed = pack_padded_sequence(
            self.embedding(input_ids), visible.sum(1).cpu(), batch_first=True, enforce_sorted=False
        )
        tokens, _lengths = pad_packed_sequence(
            self.cell(packed)[0], batch_first=True, total_length=input_ids.shape[1]
        )
        encoded = BaseModelOutput(last_hidden_state=tokens)
        # Attention may choose its keys by token; beams repeat it too.
        encoded["token_ids"] = input_ids
        return encoded


class ScoredAttention(OwnAttention):
    """Attention of one head, by additive or dot-product scores of decoder states s and source tokens h.

    ::

        additive: e_tj = v . tanh(W s_t + U h_j)        dot: e_tj = (W s_t) . (U h_j) / sqrt(dim)
        a_t = softmax(e_t) over the real source tokens,  c_t = sum_j a_tj h_j,  out_t = O c_t

    The division is left out where the model is not `scaled`. Another mechanism takes a_t over fewer
    tokens, or from other scores where they are products.
    Source: Bahdanau et al. 2015, arXiv 1409.0473, appendix A.1.2; Luong et al. 2015, arXiv 1508.04025.
    """

    def __init__(self, config: TranslationConfig) -> None:
        mechanism = plan_in(config).mechanism(
            "cross",
            0,
            1,
            dropout=config.attention_dropout,
            vocabulary=config.source_vocab_size or config.vocab_size,
        )
        super().__init__(1, mechanism, additive=has_additive_scores(config))
        self.query_scale = 1.0 if config.scaled else config.dim**0.5
        self.query = nn.Linear(config.dim, config.dim, bias=self.additive)
        self.key = nn.Linear(config.dim, config.dim, bias=False)
        self.score = nn.Linear(config.dim, 1, bias=False) if self.additive else None
        self.output = nn.Linear(config.dim, config.dim, bias=False)
        for layer in self.children():
            if isinstance(layer, nn.Linear):
                nn.init.xavier_uniform_(layer.weight)

    def forward(
        self,
        states: Float[Tensor, "batch query dim"],
        memory: Float[Tensor, "batch key dim"],
        visible: Bool[Tensor, "batch key"],
        *,
        token_ids: Int[Tensor, "batch key"] | None = None,
        weights: bool = False,
    ) -> tuple[Float[Tensor, "batch query dim"], Float[Tensor, "batch 1 query key"] | None]:
        """The source as each decoder state reads it and, when `weights`, the weights before dropout."""
        # A weight of 0 does not keep NaN out of a sum.
        memory = memory.masked_fill(~visible[..., None], 0.0)
        queries, keys = self.query(states)[:, None], self.key(memory)[:, None]
        call_context: CallContext = {"token_ids": token_ids}
        if self.score is not None:
            pairs = torch.tanh(queries[..., :, None, :] + keys[..., None, :, :])
            call_context["bias"] = self.score(pairs).squeeze(-1)
            queries = torch.zeros_like(queries)
        elif self.query_scale != 1.0:
            queries = queries * self.query_scale
        mixed = self.mechanism(queries, keys, memory[:, None], visible, **call_context)
        matrix = None
        if weights:
            with torch.autocast(states.device.type, enabled=False):
                matrix = self.mechanism.implied_matrix(queries, keys, visible, **call_context)
        return self.output(mixed.squeeze(1)), matrix


class RecurrentDecoder(nn.Module):
    """Embedding, a recurrent layer over the target, and attention to the source.

    ::

        s_0 = tanh(B h_1),   s_t = cell(s_(t-1), y_(t-1)),   out_t = tanh(S s_t + O c_t)

    where h_1 is the encoder's first token, whose backward half has read the whole source, and c_t is
    read with s_t (Luong et al. 2015); the state itself does not read c_t, so all positions of a known
    target are computed at once.
    """

    def __init__(self, config: TranslationConfig) -> None:
        super().__init__()
        self.embedding = Embedding(config, config.vocab_size)
        self.begin = nn.Linear(config.dim, config.decoder_layers * config.dim)
        self.cell = _cell(config, config.dim, config.decoder_layers)
        self.cross = ScoredAttention(config)
        self.state = nn.Linear(config.dim, config.dim)
        self.dropout = nn.Dropout(config.dropout)
        for layer in (self.begin, self.state):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)

    def get_input_embeddings(self) -> nn.Embedding:
        """The embedding of what is predicted."""
        return self.embedding.tokens

    def forward(
        self,
        ids: Int[Tensor, "batch query"],
        memory: Float[Tensor, "batch source dim"],
        visible: Bool[Tensor, "batch key"] | None,
        source_visible: Bool[Tensor, "batch source"],
        *,
        source_ids: Int[Tensor, "batch source"] | None = None,
        cache: Cache | None = None,
        weights: bool = False,
    ) -> tuple[Tensor, list[Tensor], list[Tensor | None], list[Tensor | None]]:
        """Target tokens in context, states, no self-attention, and cross-attention on request.

        Raises:
            InputError: a cache is given, with which only the newest token comes.
        """
        if cache is not None:
            msg = (
                "A recurrent model reads the whole target for each token; call it with "
                "use_cache=False (generate does by itself when use_cache is not given)."
            )
            raise InputError(msg)
        tokens = self.embedding(ids)
        begin = torch.tanh(self.begin(memory[:, 0]))
        first = begin.unflatten(-1, (self.cell.num_layers, -1)).transpose(0, 1).contiguous()
        start = (first, torch.zeros_like(first)) if isinstance(self.cell, nn.LSTM) else first
        states, _last = self.cell(tokens, start)
        mixed, matrix = self.cross(
            states, memory, source_visible, token_ids=source_ids, weights=weights
        )
        out = self.dropout(torch.tanh(self.state(states) + mixed))
        return out, [tokens, states, out], [], [without_padding_rows(matrix, visible)]


def _cell(
    config: TranslationConfig, size: int, layers: int, *, both_ways: bool = False
) -> nn.RNNBase:
    return CELLS[config.cell](
        config.dim,
        size,
        layers,
        batch_first=True,
        dropout=config.dropout if layers > 1 else 0.0,
        bidirectional=both_ways,
    )


class RecurrentModel(TranslationModel):
    """Recurrent encoder-decoder with attention: an LSTM, GRU or Elman network, one head at the site `cross`.

    It is called, trained and generates as `TranslationModel` does; there are no self-attention weights.
    """

    config_class = RecurrentConfig

    def make_encoder(self, config: TranslationConfig) -> nn.Module:
        """The recurrent encoder."""
        return RecurrentEncoder(config)

    def make_decoder(self, config: TranslationConfig) -> nn.Module:
        """The recurrent decoder."""
        return RecurrentDecoder(config)

    def decodes_with_cache(self) -> bool:
        """False: the decoder reads the whole target again for each token."""
        return False


# By task and kind.
MODELS: dict[tuple[str, str], type[OwnModel]] = {
    (TRANSLATION, TRANSFORMER): TranslationModel,
    (TRANSLATION, RECURRENT): RecurrentModel,
    (LANGUAGE_MODEL, TRANSFORMER): LanguageModel,
}


def model_class(settings: ModelSettings) -> type[OwnModel]:
    """The class of the model; its `config_class` is that of the configuration."""
    return MODELS[settings.task, settings.kind]
