"""The shape of a model, as a transformers configuration that saves to `config.json`."""

from typing import Any, ClassVar

import torch
from transformers import PretrainedConfig

from attnlab.attention import AttentionPlan, Longformer, check_has_scores, plan_of
from attnlab.core import SITES, InputError, Site, briefly, layer_name, option_fields
from attnlab.models.tokenizer import END, PAD, START
from attnlab.models.training_settings import (
    LANGUAGE_MODEL,
    LANGUAGE_TYPE,
    RECURRENT,
    RECURRENT_TYPE,
    TRANSFORMER,
    TRANSLATION,
    TRANSLATION_TYPE,
    ModelSettings,
)

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

    model_type = TRANSLATION_TYPE
    task: ClassVar[str] = TRANSLATION
    kind: ClassVar[str] = TRANSFORMER
    sites: ClassVar[tuple[Site, ...]] = SITES
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
        given = {name: kwargs.pop(name) for name in names}
        of_class = {"task": self.task, "kind": self.kind}
        chosen = ModelSettings(**(of_class | given))
        for name, expected in of_class.items():
            if getattr(chosen, name) != expected:
                msg = f"{name} must be {expected!r}, not {getattr(chosen, name)!r}."
                raise InputError(msg)
        for name, value in chosen.keywords().items():
            setattr(self, name, value)
        self.vocab_size = vocab_size
        self.source_vocab_size = source_vocab_size
        self.max_positions = max_positions
        self.attention = dict.fromkeys(self.sites, "full") | chosen.attention
        _check_possible(self)
        encodes = self.task == TRANSLATION
        fixed = {
            "is_encoder_decoder": encodes,
            "pad_token_id": PAD,
            "bos_token_id": START,
            "eos_token_id": END,
            "decoder_start_token_id": START if encodes else None,
        }
        for name, value in (fixed | {"model_type": self.model_type}).items():
            if kwargs.get(name, value) != value:
                msg = f"{name} must be {value!r}, not {kwargs[name]!r}."
                raise InputError(msg)
        super().__init__(tie_word_embeddings=chosen.tie_word_embeddings, **(kwargs | fixed))


class LanguageConfig(TranslationConfig):
    """Sizes and choices of a language model: a decoder alone, whose only attention looks back."""

    model_type = LANGUAGE_TYPE
    task: ClassVar[str] = LANGUAGE_MODEL
    sites: ClassVar[tuple[Site, ...]] = ("decoder",)

    # Written out: transformers makes a dataclass, with another __init__, of a class without one.
    def __init__(self, vocab_size: int = 8000, **kwargs: Any) -> None:
        super().__init__(vocab_size, **kwargs)


class RecurrentConfig(TranslationConfig):
    """Sizes and choices of a recurrent encoder-decoder, whose only attention is one head to the source."""

    model_type = RECURRENT_TYPE
    kind: ClassVar[str] = RECURRENT
    sites: ClassVar[tuple[Site, ...]] = ("cross",)

    def __init__(self, vocab_size: int = 8000, **kwargs: Any) -> None:
        super().__init__(vocab_size, **kwargs)


def _check_possible(config: TranslationConfig) -> None:
    for name in ("vocab_size", "max_positions", "source_vocab_size"):
        value = getattr(config, name)
        if value is None and name == "source_vocab_size":
            continue
        if type(value) is not int or value < 1:
            msg = f"{name} must be a whole number from 1 up, not {briefly(value)}."
            raise InputError(msg)
    _check_possible_attention(config)


def _check_possible_attention(config: TranslationConfig) -> None:
    plan = plan_of(config.attention)
    layers = layers_by_site(config)
    heads: int = config.heads
    numbers = {site: range(count) for site, count in layers.items()}
    plan.check_within(numbers, dict.fromkeys(layers, heads))
    # Mechanisms that learn draw their first weights; the caller's random state stays as it is.
    with torch.random.fork_rng(devices=[]):
        for site, count in layers.items():
            for layer in range(count):
                made = plan.mechanism(site, layer, config.heads, vocabulary=1)
                if has_additive_scores(config) or has_relative_bias(config, site):
                    check_has_scores(made, layer_name(site, layer))
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
        InputError: only some heads of the layer have global tokens.
    """
    if not config.global_projections:
        return False
    plan = plan_in(config)
    entries = {plan.at(site, layer, head) for head in range(config.heads)}
    apart = [entry for entry in entries if isinstance(entry, Longformer) and entry.global_tokens]
    if apart and len(apart) < len(entries):
        msg = (
            f"With global_projections all heads of {site}.{layer} have to be longformers with "
            f"global_tokens, not {', '.join(sorted(map(str, entries)))}."
        )
        raise InputError(msg)
    return bool(apart)


def has_additive_scores(config: TranslationConfig) -> bool:
    """Whether attention scores are no products of queries and keys."""
    return config.kind == RECURRENT and bool(config.score == "additive")


def has_relative_bias(config: TranslationConfig, site: str) -> bool:
    """Whether scores of a site have a learned part by offset."""
    return site == "encoder" and bool(config.positions == "relative")


def layers_by_site(config: TranslationConfig) -> dict[str, int]:
    """Number of attention layers by site; of a recurrent model one, however deep its cells are."""
    if config.kind == RECURRENT:
        return dict.fromkeys(config.sites, 1)
    return {
        site: config.encoder_layers if site == "encoder" else config.decoder_layers
        for site in config.sites
    }


def plan_in(config: TranslationConfig) -> AttentionPlan:
    """The attention plan that the configuration holds."""
    return plan_of(config.attention)
