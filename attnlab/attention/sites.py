"""Where a model attends: its attention modules, by site and layer."""

import inspect
from dataclasses import dataclass
from typing import Any

from torch import nn
from transformers import PreTrainedModel

from attnlab.attention.mechanism import Mechanism
from attnlab.attention.multihead import MultiHeadAttention
from attnlab.errors import AttnlabError, InputError

NAME = "attnlab"
CROSS_NAMES = ("encoder_attn", "EncDecAttention", "crossattention", "cross_attn", "cross_attention")


@dataclass(frozen=True)
class AttentionAt:
    """One attention module of a model.

    Attributes:
        path: its name in the model.
        module: the module that calls the attention function.
        site: `encoder`, `decoder` or `cross`.
        layer: its number among the modules of that site, from 0.
        heads: number of query heads.
    """

    path: str
    module: nn.Module
    site: str
    layer: int
    heads: int


def attention_modules(model: PreTrainedModel) -> list[AttentionAt]:
    """The modules of `model` whose attention can be replaced, in order.

    They are attnlab's own, or those that attend through transformers' AttentionInterface.

    Raises:
        InputError: the model computes its attention itself, so it cannot be replaced.
    """
    found = [
        (path, part)
        for path, part in model.named_modules()
        if isinstance(part, MultiHeadAttention) or _asks_interface(part)
    ]
    attending = [part for part in model.modules() if _looks_attending(part)]
    if not found or any(not _holds(part, found) for part in attending):
        msg = (
            f"{type(model).__name__} computes its attention inside its own modules and not through "
            "transformers' AttentionInterface, so attnlab cannot replace it; models that can be used "
            "are, for example, BERT, DistilBERT, BART, Marian, T5 and Llama."
        )
        raise InputError(msg)
    counts: dict[str, int] = {}
    modules = []
    for path, part in found:
        site = _site(path, part)
        layer = counts.get(site, 0)
        counts[site] = layer + 1
        modules.append(AttentionAt(path, part, site, layer, _heads(part)))
    return modules


def _asks_interface(module: nn.Module) -> bool:
    code = getattr(inspect.unwrap(type(module).forward), "__code__", None)
    return code is not None and "ALL_ATTENTION_FUNCTIONS" in code.co_names


def _looks_attending(module: nn.Module) -> bool:
    """A module named after attention that holds projections of its own."""
    named = "Attention" in type(module).__name__
    return named and sum(isinstance(child, nn.Linear) for child in module.children()) >= 3


def _holds(module: nn.Module, found: list[tuple[str, nn.Module]]) -> bool:
    return any(part is module for _, part in found)


def _site(path: str, module: nn.Module) -> str:
    if isinstance(module, MultiHeadAttention):
        if module.mechanism.causal:
            return "decoder"
        return "cross" if path.endswith(".cross") else "encoder"
    if any(name in path for name in CROSS_NAMES):
        return "cross"
    return "decoder" if getattr(module, "is_causal", False) else "encoder"


def _heads(module: Any) -> int:
    for name in ("num_heads", "num_attention_heads", "n_heads", "heads"):
        if isinstance(getattr(module, name, None), int):
            return int(getattr(module, name))
    return int(module.config.num_attention_heads)


def mechanism_of(module: nn.Module) -> Mechanism:
    """The mechanism that stands in an attention module."""
    mechanism = getattr(module, "mechanism" if isinstance(module, MultiHeadAttention) else NAME)
    if not isinstance(mechanism, Mechanism):
        msg = f"There is no mechanism in {type(module).__name__}."
        raise AttnlabError(msg)
    return mechanism
