"""The shape of a translation model, as a transformers configuration that saves to `config.json`."""

from typing import Any

import torch
from transformers import PretrainedConfig

from attnlab.addresses import SITES
from attnlab.attention.mechanisms.longformer import Longformer
from attnlab.attention.plan import AttentionPlan, plan_of
from attnlab.errors import InputError
from attnlab.options import option_fields
from attnlab.translation.settings import ModelSettings
from attnlab.translation.tokenizer import END, PAD, START

IGNORED_LABEL = -100


class TranslationConfig(PretrainedConfig):
    """Sizes and choices of an encoder-decoder: those of `ModelSettings`, its vocabularies and lengths.

    Args:
        vocab_size: target types (source types too when embeddings are shared).
        source_vocab_size: source types; None when source and target share one embedding.
        max_positions: longest text in tokens that learned positions can take.
        kwargs: fields of `ModelSettings`, and what transformers takes.

    Raises:
        InputError: a size or choice that no model can have.
    """

    model_type = "attnlab-translation"
    attribute_map = {  # noqa: RUF012 - transformers declares it so
        "hidden_size": "dim",
        "num_attention_heads": "heads",
        "num_hidden_layers": "decoder_layers",
    }

    def __init__(
        self,
        vocab_size: int = 8000,
        source_vocab_size: int | None = None,
        *,
        max_positions: int = 512,
        **kwargs: Any,
    ) -> None:
        names = {field.name for field in option_fields(ModelSettings)} & kwargs.keys()
        chosen = ModelSettings(**{name: kwargs.pop(name) for name in names})
        for name, value in chosen.keywords().items():
            setattr(self, name, value)
        self.vocab_size = vocab_size
        self.source_vocab_size = source_vocab_size
        self.max_positions = max_positions
        self.attention = dict.fromkeys(SITES, "full") | chosen.attention
        _refuse_impossible(self)
        fixed = {
            "is_encoder_decoder": True,
            "pad_token_id": PAD,
            "bos_token_id": START,
            "eos_token_id": END,
            "decoder_start_token_id": START,
        }
        for name, value in (fixed | {"model_type": self.model_type}).items():
            if kwargs.get(name, value) != value:
                msg = f"{name} must be {value!r}, not {kwargs[name]!r}."
                raise InputError(msg)
        super().__init__(tie_word_embeddings=chosen.tie_word_embeddings, **(kwargs | fixed))


def _refuse_impossible(config: TranslationConfig) -> None:
    for name in ("vocab_size", "max_positions"):
        if getattr(config, name) < 1:
            msg = f"{name} must be at least 1, not {getattr(config, name)}."
            raise InputError(msg)
    _refuse_impossible_attention(config)


def _refuse_impossible_attention(config: TranslationConfig) -> None:
    plan = plan_of(config.attention)
    layers = layers_by_site(config)
    heads: int = config.heads
    plan.refuse_outside(layers, dict.fromkeys(SITES, heads))
    # Mechanisms that learn draw their first weights; the caller's random state stays as it is.
    with torch.random.fork_rng(devices=[]):
        for site, count in layers.items():
            for layer in range(count):
                plan.mechanism(site, layer, config.heads, vocabulary=1)
    if config.global_projections and not any(
        projects_apart(config, site, layer)
        for site, count in layers.items()
        for layer in range(count)
    ):
        msg = (
            "global_projections are for longformer's global tokens, and no head has any; choose for "
            'example attention {"encoder": "longformer(window=4, global_tokens=[0])"}.'
        )
        raise InputError(msg)


def projects_apart(config: TranslationConfig, site: str, layer: int) -> bool:
    """Whether an attention has second projections, for the rows of global tokens.

    Raises:
        InputError: only some heads of the layer have global tokens, or not all the same.
    """
    if not config.global_projections:
        return False
    plan = plan_in(config)
    entries = {plan.at(site, layer, head) for head in range(config.heads)}
    found = [entry for entry in entries if isinstance(entry, Longformer) and entry.global_tokens]
    if found and len(entries) > 1:
        msg = (
            f"With global_projections all heads of {site}.{layer} have to be one longformer, not "
            f"{', '.join(sorted(map(str, entries)))}."
        )
        raise InputError(msg)
    return bool(found)


def layers_by_site(config: TranslationConfig) -> dict[str, int]:
    """How many attention layers each site has."""
    return {
        "encoder": config.encoder_layers,
        "decoder": config.decoder_layers,
        "cross": config.decoder_layers,
    }


def plan_in(config: TranslationConfig) -> AttentionPlan:
    """The attention plan that the configuration holds."""
    return plan_of(config.attention)
