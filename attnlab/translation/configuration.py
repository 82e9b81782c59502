"""The shape of a translation model, as a transformers configuration that saves to `config.json`."""

from typing import Any

import torch
from transformers import PretrainedConfig

from attnlab.addresses import SITES
from attnlab.attention.mechanisms.longformer import Longformer
from attnlab.attention.plan import AttentionPlan, plan_of
from attnlab.errors import InputError
from attnlab.translation.tokenizer import END, PAD, START

IGNORED_LABEL = -100
WHOLE = ("vocab_size", "dim", "encoder_layers", "decoder_layers", "feed_forward", "max_positions")
SHARES = ("dropout", "attention_dropout", "label_smoothing")
CHOICES = {
    "norm": ("post", "pre"),
    "positions": ("sinusoidal", "learned"),
    "init": ("default", "identity"),
}


class TranslationConfig(PretrainedConfig):
    """Sizes and choices of an encoder-decoder (thesis eq. 3; Vaswani et al. 2017).

    Args:
        vocab_size: target types (source types too when embeddings are shared).
        source_vocab_size: source types; None when source and target share one embedding.
        dim: size of the token vectors, a multiple of `heads`.
        heads: 1 to 16 heads in every attention.
        encoder_layers: number of encoder layers, 1 and up.
        decoder_layers: number of decoder layers, 1 and up.
        feed_forward: inner size of the ReLU feed-forward part.
        dropout: dropout on embeddings and on the output of every sub-layer.
        attention_dropout: dropout on attention weights (the thesis: 0.1).
        norm: LayerNorm after the residual sum (`"post"`, as in the thesis) or before the sub-layer.
        positions: `"sinusoidal"` or `"learned"`.
        max_positions: longest text in tokens that learned positions can take.
        tie_word_embeddings: the output layer uses the target embedding's weights.
        init: `"identity"` starts W_Q, W_K, W_V as identity matrices, which the thesis also tries.
        label_smoothing: share of probability spread evenly over all types while training.
        attention: mechanism by site, layer or head, such as `{"encoder": "band(window=3)",
            "encoder.0.3": "topk(k=4)"}`; the longest address that fits a head decides, and what none
            fits is `full`.
        global_projections: the rows of Longformer's global tokens have queries, keys and values of
            their own, which start as copies of the others (Beltagy et al. 2020, section 3.1).

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
        dim: int = 128,
        heads: int = 8,
        encoder_layers: int = 1,
        decoder_layers: int = 1,
        feed_forward: int = 512,
        dropout: float = 0.1,
        attention_dropout: float = 0.0,
        norm: str = "post",
        positions: str = "sinusoidal",
        max_positions: int = 512,
        tie_word_embeddings: bool = True,
        init: str = "default",
        label_smoothing: float = 0.1,
        attention: dict[str, str] | None = None,
        global_projections: bool = False,
        **kwargs: Any,
    ) -> None:
        self.vocab_size = vocab_size
        self.source_vocab_size = source_vocab_size
        self.dim = dim
        self.heads = heads
        self.encoder_layers = encoder_layers
        self.decoder_layers = decoder_layers
        self.feed_forward = feed_forward
        self.dropout = dropout
        self.attention_dropout = attention_dropout
        self.norm = norm
        self.positions = positions
        self.max_positions = max_positions
        self.init = init
        self.label_smoothing = label_smoothing
        self.attention = dict.fromkeys(SITES, "full") | (attention or {})
        self.global_projections = global_projections
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
        super().__init__(tie_word_embeddings=tie_word_embeddings, **(kwargs | fixed))


def _refuse_impossible(config: TranslationConfig) -> None:
    for name in WHOLE:
        if getattr(config, name) < 1:
            msg = f"{name} must be 1 or more, not {getattr(config, name)}."
            raise InputError(msg)
    if not 1 <= config.heads <= 16:
        msg = f"A model has 1 to 16 heads, not {config.heads}."
        raise InputError(msg)
    if config.dim % config.heads:
        msg = f"{config.heads} heads do not divide a model of size {config.dim}; {_near(config)}."
        raise InputError(msg)
    for name in SHARES:
        if not 0 <= getattr(config, name) < 1:
            msg = f"{name} lies from 0 up to, not including, 1; it is {getattr(config, name)}."
            raise InputError(msg)
    for name, allowed in CHOICES.items():
        if getattr(config, name) not in allowed:
            msg = f"{name} is one of {', '.join(allowed)}, not '{getattr(config, name)}'."
            raise InputError(msg)
    _refuse_impossible_attention(config)


def _refuse_impossible_attention(config: TranslationConfig) -> None:
    plan = plan_of(config.attention)
    layers = layers_by_site(config)
    plan.refuse_outside(layers, dict.fromkeys(SITES, config.heads))
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


def _near(config: TranslationConfig) -> str:
    fitting = [heads for heads in range(1, 17) if config.dim % heads == 0]
    return f"with that size there can be {', '.join(map(str, fitting))} heads"
