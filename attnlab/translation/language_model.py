"""A next-token language model: the decoder alone, as a transformers model that trains and generates."""

from typing import Any

from torch import Tensor
from transformers import Cache, DynamicCache
from transformers.modeling_outputs import CausalLMOutputWithPast

from attnlab.errors import InputError
from attnlab.translation.base import OwnModel
from attnlab.translation.configuration import IGNORED_LABEL, LanguageConfig
from attnlab.translation.tokenizer import PAD


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
        **_: Any,
    ) -> CausalLMOutputWithPast | tuple[Any, ...]:
        """Scores of the next token at each position, and the loss when there are labels.

        As in other language models of transformers, `labels` are the ids themselves, with -100 where
        no loss is wanted: the label at a position is predicted from those before it, and the first
        one is predicted from nothing and left out. Padding must stand behind the text.
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
        hidden, states, own, _none = self.decoder(
            input_ids, None, visible, None, cache=cache, weights=weights
        )
        if labels is not None:
            labels = labels.roll(-1, dims=1)
            labels[:, -1] = IGNORED_LABEL
        loss, logits = self.loss_and_logits(hidden, labels, num_items_in_batch)
        output = CausalLMOutputWithPast(
            loss=loss,
            logits=logits,
            past_key_values=cache,
            hidden_states=tuple(states) if output_hidden_states else None,
            attentions=tuple(own) if weights else None,
        )
        return output.to_tuple() if return_dict is False else output
