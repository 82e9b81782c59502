"""What attnlab's own models share: a decoder, the layer that scores types, saving, generation."""

from typing import Any

from jaxtyping import Float, Int
from torch import Tensor, nn
from transformers import GenerationMixin, PreTrainedModel

from attnlab.attention.mechanisms.linformer import share_projections
from attnlab.translation.configuration import IGNORED_LABEL, TranslationConfig, plan_in
from attnlab.translation.layers import first_uncached
from attnlab.translation.loss import chunked_cross_entropy
from attnlab.translation.stacks import Decoder
from attnlab.translation.tokenizer import PAD


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
        """Nothing: every module draws its weights when it is made (transformers calls this again)."""

    def get_input_embeddings(self) -> nn.Embedding:
        """The embedding of what the model reads."""
        embedding: nn.Embedding = self.decoder.embedding.tokens
        return embedding

    def get_output_embeddings(self) -> nn.Linear:
        """The layer that scores the types of the next token."""
        return self.output

    def generate(self, inputs: Tensor | None = None, **kwargs: Any) -> Any:
        """What `GenerationMixin.generate` writes; without an attention mask, padding ids are unseen."""
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
