"""The encoder-decoder of the thesis's equation (3), as a transformers model that trains and generates."""

from typing import Any

import torch
from torch import Tensor, nn
from transformers import DynamicCache, EncoderDecoderCache
from transformers.modeling_outputs import BaseModelOutput, Seq2SeqLMOutput

from attnlab.translation.base import OwnModel
from attnlab.translation.configuration import IGNORED_LABEL, TranslationConfig
from attnlab.translation.stacks import Encoder, real_tokens
from attnlab.translation.tokenizer import PAD


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
        hidden, states, own, across = self.decoder(
            decoder_input_ids,
            memory,
            visible,
            source_visible,
            source_ids=source_ids,
            cache=cache,
            weights=weights,
        )
        loss, logits = self.loss_and_logits(hidden, labels, num_items_in_batch)
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
