"""Attention modules of a model, by site and layer."""

import inspect
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING,
    MODEL_FOR_MASKED_LM_MAPPING,
)

from attnlab.attention.mechanism import Mechanism, Scoring
from attnlab.attention.multihead import OwnAttention
from attnlab.core import MECHANISM_NAME, AttnlabError, InputError

NAME = MECHANISM_NAME
# Scores at most this far below the others are hidden ones; no relative position takes off so much.
HIDDEN = -1e8
CROSS_NAMES = ("encoder_attn", "EncDecAttention", "crossattention", "cross_attn", "cross_attention")


@dataclass(frozen=True)
class AttentionAt:
    """One attention module of a model.

    Attributes:
        path: its name in the model.
        module: the module that calls the attention function.
        site: `encoder`, `decoder` or `cross`.
        layers: the layers that attend through it, by the model's own count from 0: one, or all that share it.
        heads: number of query heads.
    """

    path: str
    module: nn.Module
    site: str
    layers: tuple[int, ...]
    heads: int

    @property
    def layer(self) -> int:
        """The first of its layers."""
        return self.layers[0]

    @property
    def additive(self) -> bool:
        """Whether its scores are no products of queries and keys alone."""
        if isinstance(self.module, OwnAttention):
            return self.module.additive
        # T5's cross-attention adds zeros.
        return self.site != "cross" and hasattr(self.module, "has_relative_attention_bias")


def attention_modules(model: PreTrainedModel) -> list[AttentionAt]:
    """The modules of `model` whose attention can be replaced, in order.

    They are attnlab's own, or those that attend through transformers' AttentionInterface. A module
    that layers share is one of them, with the numbers of all its layers (ALBERT, arXiv 1909.11942).

    Raises:
        InputError: the model computes its attention itself, so it cannot be replaced.
    """
    attending_modules = [
        (path, part)
        for path, part in model.named_modules()
        if isinstance(part, OwnAttention) or asks_interface(part)
    ]
    attending = [part for part in model.modules() if _looks_attending(part)]
    if not attending_modules or any(not _holds(part, attending_modules) for part in attending):
        msg = (
            f"{type(model).__name__} computes its attention inside its own modules and not through "
            "transformers' AttentionInterface, so attnlab cannot replace it; models that can be used "
            "are, for example, BERT, DistilBERT, BART, Marian, T5 and Llama."
        )
        raise InputError(msg)
    shared = _shared_layers(model, [path for path, _ in attending_modules])
    sites = {part: _site(path, part, model.config) for path, part in attending_modules}
    numbers = {
        site: layer_numbers(model, [part for part, at in sites.items() if at == site])
        for site in set(sites.values())
    }
    counts: Counter[str] = Counter()
    modules = []
    for path, part in attending_modules:
        site = sites[part]
        layers = shared.get(path, numbers[site].get(part, (counts[site],)))
        counts[site] += len(layers)
        if layers:
            modules.append(AttentionAt(path, part, site, layers, _heads(part)))
    return modules


def layer_numbers(
    model: nn.Module, modules: Sequence[nn.Module]
) -> Mapping[nn.Module, tuple[int, ...]]:
    """The model's own numbers of the layers that attention modules of one site belong to.

    A number is the index in the outermost list of modules, so that layers without attention count too
    (Qwen3.5, LFM2, Jamba). Empty where these indices do not tell layers apart, as with two attention modules
    in a layer (LongCat Flash) or two stacks (HRM); then layers are counted in the order of their calls.

    Args:
        model: that they are part of.
        modules: of all layers of the site that attend.
    """
    numbers: dict[nn.Module, list[int]] = {module: [] for module in modules}
    for path, part in model.named_modules(remove_duplicate=False):
        if part in numbers:
            numbers[part] += [int(name) for name in path.split(".") if name.isdecimal()][:1]
    listed = [*chain.from_iterable(numbers.values())]
    if not all(numbers.values()) or len(set(listed)) < len(listed):
        return {}
    return {module: tuple(sorted(layers)) for module, layers in numbers.items()}


def _shared_layers(model: nn.Module, paths: list[str]) -> dict[str, tuple[int, ...]]:
    """The layers that each attention module of an ALBERT serves, which may be in another model."""
    shared: dict[str, tuple[int, ...]] = {}
    for name, part in model.named_modules():
        if isinstance(part, PreTrainedModel) and hasattr(part.config, "num_hidden_groups"):
            paths_within = [path for path in paths if not name or path.startswith(f"{name}.")]
            served = _layers_of_groups(part.config)
            if len(paths_within) == len(served):
                shared |= dict(zip(paths_within, served, strict=True))
    return shared


def _layers_of_groups(config: Any) -> list[tuple[int, ...]]:
    """The layers that each attention module of ALBERT serves, group by group, maybe none.

    A group of `inner_group_num` modules is passed as often in a row as there are hidden layers for
    each group, and every module that is passed counts as a layer.
    """
    groups, inner, repeats = (
        config.num_hidden_groups,
        config.inner_group_num,
        config.num_hidden_layers,
    )
    # With the rounding of the model itself.
    group_at = [int(repeat / (repeats / groups)) for repeat in range(repeats)]
    return [
        tuple(repeat * inner + member for repeat, at in enumerate(group_at) if at == group)
        for group in range(groups)
        for member in range(inner)
    ]


def asks_interface(module: nn.Module) -> bool:
    """Whether a module attends through transformers' AttentionInterface."""
    code = getattr(inspect.unwrap(type(module).forward), "__code__", None)
    return code is not None and "ALL_ATTENTION_FUNCTIONS" in code.co_names


def _looks_attending(module: nn.Module) -> bool:
    """A module named after attention that holds projections of its own."""
    named = "Attention" in type(module).__name__
    return named and sum(isinstance(child, nn.Linear) for child in module.children()) >= 3


def _holds(module: nn.Module, attending_modules: list[tuple[str, nn.Module]]) -> bool:
    return any(part is module for _, part in attending_modules)


def only_scores_next(config: Any) -> bool:
    """Whether models of this configuration can be nothing but decoders.

    What can be either says so by `is_decoder`, which other decoders have and do not heed.
    """
    text = config.get_text_config()
    return (
        not config.is_encoder_decoder
        and type(text) in MODEL_FOR_CAUSAL_LM_MAPPING
        and type(text) not in MODEL_FOR_MASKED_LM_MAPPING
        and not hasattr(text, "is_decoder")
    )


def _site(path: str, module: nn.Module, config: Any) -> str:
    if isinstance(module, OwnAttention):
        if module.mechanism.causal:
            return "decoder"
        return "cross" if path.endswith(".cross") else "encoder"
    if any(name in path for name in CROSS_NAMES):
        return "cross"
    # The decoder of NLLB-MoE says the one without the other, Doge neither.
    flags = [getattr(module, name) for name in ("is_causal", "is_decoder") if hasattr(module, name)]
    causal = any(flags) if flags else only_scores_next(config)
    return "decoder" if causal else "encoder"


def _heads(module: Any) -> int:
    for name in ("num_heads", "num_attention_heads", "n_heads", "heads"):
        if isinstance(getattr(module, name, None), int):
            return int(getattr(module, name))
    return int(module.config.num_attention_heads)


class ByLayer(nn.ModuleList):
    """Mechanisms of layers that share one attention module, in the order in which they call it."""


def installed_in(module: nn.Module) -> nn.Module:
    """The mechanism that was put into an attention module, or those of the layers that share it.

    Raises:
        AttnlabError: nothing was.
    """
    mechanism = getattr(module, "mechanism" if isinstance(module, OwnAttention) else NAME, None)
    if not isinstance(mechanism, Mechanism | ByLayer):
        msg = f"There is no mechanism in {type(module).__name__}."
        raise AttnlabError(msg)
    return mechanism


def mechanisms_of(module: nn.Module) -> tuple[Mechanism, ...]:
    """The mechanisms in an attention module: one, or one for each of the layers that share it."""
    mechanism = installed_in(module)
    members = mechanism if isinstance(mechanism, ByLayer) else [mechanism]
    return tuple(member for member in members if isinstance(member, Mechanism))


def mechanism_of(module: nn.Module) -> Mechanism:
    """The mechanism in an attention module that has one alone."""
    (mechanism,) = mechanisms_of(module)
    return mechanism


def mechanisms_in(model: PreTrainedModel) -> list[tuple[AttentionAt, Mechanism]]:
    """Attnlab's mechanisms that stand in `model`, in order; none in a model with its own attention."""
    if not any(isinstance(part, Mechanism) for part in model.modules()):
        return []
    return [
        (at, mechanism) for at in attention_modules(model) for mechanism in mechanisms_of(at.module)
    ]


ScoreRule = Literal["bias", "allowed", "softcap", "sinks"]
# What a model with such a rule does.
RULES_IN_WORDS: Mapping[ScoreRule, str] = {
    "bias": "adds relative positions to its scores",
    "allowed": "hides pairs by a mask of its own",
    "softcap": "caps its scores",
    "sinks": "has attention sinks",
}
# Of `layer_types` in a configuration: sliding_attention, hybrid_sliding, chunked_attention.
_NARROW = ("sliding", "chunked")


def score_rules(at: AttentionAt, config: Any) -> set[ScoreRule]:
    """Rules by which the model changes scores of an attention module, as far as it says so beforehand.

    Args:
        at: the module.
        config: the configuration of the text model.
    """
    rules: set[ScoreRule] = set()
    if at.additive:
        rules.add("bias")
    # Queries and keys of two sentences have no windows, whatever a configuration says of a layer.
    window = None if at.site == "cross" else _window(at.module, config)
    if window is not None and window < getattr(config, "max_position_embeddings", window + 1):
        rules.add("allowed")
    if getattr(at.module, "attn_logit_softcapping", None) is not None:
        rules.add("softcap")
    if getattr(at.module, "sinks", None) is not None:
        rules.add("sinks")
    return rules


def layer_rules(model: PreTrainedModel) -> dict[tuple[str, int], frozenset[ScoreRule]]:
    """Rules by which the model changes the scores of each layer, by site and layer, see `score_rules`."""
    config = model.config.get_text_config()
    return {
        (at.site, layer): frozenset(score_rules(at, config))
        for at in attention_modules(model)
        for layer in at.layers
    }


def rules_told(bias: Tensor | None, scoring: Scoring | None) -> set[ScoreRule]:
    """The rules that are among what a mechanism is told at a call, see `CallContext`."""
    scoring = scoring or Scoring()
    given: dict[ScoreRule, Any] = {
        "bias": bias, "allowed": scoring.allowed, "softcap": scoring.softcap, "sinks": scoring.sinks
    }  # fmt: skip
    return {rule for rule, value in given.items() if value is not None}


def _window(module: nn.Module, config: Any) -> int | None:
    """Number of keys in a sliding window or a chunk of the model; None where all are visible."""
    if hasattr(module, "sliding_window"):
        return _whole(module.sliding_window)
    kinds, layer = getattr(config, "layer_types", None), getattr(module, "layer_idx", None)
    if kinds is not None and isinstance(layer, int) and layer < len(kinds):
        if not any(word in kinds[layer] for word in _NARROW):
            return None
        name = "attention_chunk_size" if "chunked" in kinds[layer] else "sliding_window"
        return _whole(getattr(config, name, None))
    # Mistral's modules ask the configuration at each call.
    constants = inspect.unwrap(type(module).forward).__code__.co_consts
    reads = "sliding_window" in constants
    return _whole(getattr(config, "sliding_window", None)) if reads else None


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) else None


def without_scores(mechanism: Mechanism, rules: Collection[ScoreRule]) -> str | None:
    """Why a mechanism, or that of one of its heads, cannot follow the rules; None where all can."""
    for part in mechanism.modules():
        if not isinstance(part, Mechanism):
            continue
        rule = rule_against(part, rules)
        if rule is not None:
            return (
                f"This model {RULES_IN_WORDS[rule]}, and '{part.name}' has no scores of single keys for "
                "that; choose a mechanism with a softmax over keys, such as full, band or topk."
            )
    return None


def rule_against(
    mechanism: Mechanism | type[Mechanism], rules: Collection[ScoreRule]
) -> ScoreRule | None:
    """The first of the rules that a mechanism cannot follow; None where it can follow all."""
    for rule in RULES_IN_WORDS:
        able = mechanism.traits.takes_scores if rule == "bias" else mechanism.scored
        if rule in rules and not able:
            return rule
    return None


def hidden_below(mask: Tensor) -> float:
    """Pairs where a mask that is added to scores is at most this are hidden."""
    return max(HIDDEN, torch.finfo(mask.dtype).min / 2)
