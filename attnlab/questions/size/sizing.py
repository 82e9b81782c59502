"""Parameters by part of a model, and the work of attention beside the rest against the number of tokens."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
from torch import nn
from transformers import PreTrainedModel

from attnlab.attention import AttentionAt, OwnAttention, attention_modules, make, parse
from attnlab.budget import FULL
from attnlab.core import InputError, options_of
from attnlab.models import Source, skeleton_of
from attnlab.questions.size.question import SizeSettings
from attnlab.results import Result

EMBEDDINGS, ATTENTION, FEED_FORWARD = "embeddings", "attention", "feed-forward"
NORMALISATION, OUTPUT, OTHER = "normalisation", "output", "other"
PARTS = (EMBEDDINGS, ATTENTION, FEED_FORWARD, NORMALISATION, OUTPUT, OTHER)
BETWEEN = "scores and mixing"
_ATTENTION = re.compile(r"att(e)?n|^cross$", re.IGNORECASE)
# No text is longer.
LONGEST = 2**24


@options_of(SizeSettings)
def size(source: Source, settings: SizeSettings) -> Result:
    """Parameters of a model by part, and multiply-adds and memory of attention against the number of tokens.

    Weights of matrices count as one multiply-add a token, of experts those that a token passes; attention
    between tokens as its mechanism says (`Mechanism.cost`): 2 n^2 d a layer for full attention of d
    dimensions. Normalisation, activations, poolers and what is added are left out.

    Args:
        source: a run or its folder, a transformers folder, in which a config.json is enough, the name of
            a model on the hub, or a pair (model, tokenizer).
        settings: as keyword arguments.

    Returns:
        The tables `size` (a row per part) and `growth` (a row per mechanism and number of tokens); in
        `about` from how many tokens on each mechanism takes more than the rest of the model.

    Raises:
        InputError: no such source, attention whose heads are not known, or a mechanism without a form there.
    """
    for name in settings.mechanisms:
        # What is misspelt is refused before a model is looked for.
        parse(name)
    model = skeleton_of(source)
    modules = replaceable_attention(model)
    parts = _attention_in(model, modules)
    weights = dict(_work_per_token(model, modules))
    per_token = sum(weights.values())
    names = list(dict.fromkeys((FULL, *settings.mechanisms)))
    tokens = settings.tokens
    parameters = {
        part: count for part, count in _parameters(model).items() if count or weights[part]
    }
    work = {part: tokens * weights[part] for part in parameters}
    work[BETWEEN] = _between(parts, FULL, tokens)[0]
    crossings = {name: _crossing(parts, name, per_token) for name in names}
    return Result(
        question="size",
        title=f"Size of {type(model).__name__}",
        tables={
            "size": _size_table(parameters | {BETWEEN: 0}, work),
            "growth": pd.DataFrame(_growth(parts, names, per_token, tokens)),
        },
        about={
            "Model": type(model).__name__,
            "Parameters": f"{sum(parameters.values()):,}",
            **{
                f"More than half of the work by {name}": "at no length"
                if start is None
                else f"from {start:,} tokens on"
                for name, start in crossings.items()
            },
        },
        details={
            "parameters": sum(parameters.values()), "tokens": tokens, "crossings": crossings,
        },
    )  # fmt: skip


def _parameters(model: PreTrainedModel) -> dict[str, int]:
    """Number of parameters of each part."""
    counts = dict.fromkeys(PARTS, 0)
    modules, output = dict(model.named_modules()), model.get_output_embeddings()
    for path, parameter in model.named_parameters():
        owner = path.rpartition(".")[0]
        counts[part_of(owner, modules[owner], output)] += parameter.numel()
    return counts


def part_of(path: str, module: nn.Module, output: nn.Module | None) -> str:
    """The part of the model that a module's own parameters belong to."""
    if module is output:
        return OUTPUT
    if isinstance(module, nn.Embedding):
        return EMBEDDINGS
    if "norm" in type(module).__name__.lower():
        return NORMALISATION
    names = path.split(".")
    if any(map(_ATTENTION.search, names)):
        return ATTENTION
    return FEED_FORWARD if any(name.isdecimal() for name in names) else OTHER


def _work_per_token(
    model: PreTrainedModel, modules: Sequence[AttentionAt]
) -> Iterator[tuple[str, int]]:
    """Multiply-adds of a token in each part: the numbers of the matrices that it is multiplied by."""
    output, counts = model.get_output_embeddings(), dict.fromkeys(PARTS, 0)
    # Of a module that layers share, beside it too: how many pass it.
    shared = {f"{at.path.rpartition('.')[0]}.": len(at.layers) for at in modules}
    for path, module in model.named_modules():
        # A pooler reads one token.
        if isinstance(module, nn.Embedding) or "pooler" in path:
            continue
        times = max((count for start, count in shared.items() if path.startswith(start)), default=1)
        parameters = module.named_parameters(recurse=False)
        work = sum(_multiplied(model, module, parameter) for _, parameter in parameters)
        counts[part_of(path, module, output)] += times * work
    yield from counts.items()


def _multiplied(model: PreTrainedModel, module: nn.Module, parameter: nn.Parameter) -> int:
    """Numbers of a parameter that a token is multiplied by; experts stand in three dimensions."""
    if parameter.ndim == 3 and not isinstance(module, nn.Conv1d):
        passed = _passed(model)
        return parameter.numel() * (passed or parameter.shape[0]) // parameter.shape[0]
    return parameter.numel() if parameter.ndim > 1 else 0


def _passed(model: PreTrainedModel) -> int | None:
    """How many experts a token passes, as the configuration says."""
    passed = getattr(model.config.get_text_config(), "num_experts_per_tok", None)
    return passed if isinstance(passed, int) else None


@dataclass(frozen=True)
class _Attention:
    """Attention of one shape: its site, its heads in all layers, and their dimensions."""

    site: str
    heads: int
    dim: int


def replaceable_attention(model: PreTrainedModel) -> list[AttentionAt]:
    """The attention modules of a model; none where attnlab cannot tell them."""
    try:
        return attention_modules(model)
    except InputError:
        return []


def _attention_in(model: PreTrainedModel, modules: Sequence[AttentionAt]) -> list[_Attention]:
    """The attention of a model by module; without any as its configuration says."""
    if modules:
        return [_Attention(at.site, at.heads * len(at.layers), _head_dim(at)) for at in modules]
    config: Any = model.config.get_text_config()
    names = ("num_attention_heads", "num_hidden_layers", "hidden_size")
    if config.is_encoder_decoder or not all(hasattr(config, name) for name in names):
        msg = (
            f"The heads of {type(model).__name__} cannot be counted; give a model that attends through "
            "transformers' AttentionInterface."
        )
        raise InputError(msg)
    heads, layers, dim = (getattr(config, name) for name in names)
    return [_Attention("encoder", heads * layers, dim // heads)]


def _head_dim(at: AttentionAt) -> int:
    """Dimensions of a head's queries."""
    module: Any = at.module
    for name in ("head_dim", "attention_head_size", "key_value_proj_dim"):
        if isinstance(getattr(module, name, None), int):
            return int(getattr(module, name))
    if isinstance(at.module, OwnAttention):
        return int(module.query.out_features) // at.heads
    return int(module.dim if hasattr(module, "dim") else module.embed_dim) // at.heads


def _between(parts: Sequence[_Attention], name: str, tokens: int) -> tuple[int, int]:
    """Multiply-adds and bytes of attention between the tokens of a text, over all layers."""
    work = memory = 0
    for part in parts:
        mechanism = make(
            name, causal=part.site == "decoder", cross=part.site == "cross", heads=part.heads
        )
        cost = mechanism.cost(tokens, tokens, part.dim)
        work, memory = work + part.heads * cost.multiply_adds, memory + part.heads * cost.bytes
    return work, memory


def _crossing(parts: Sequence[_Attention], name: str, per_token: int) -> int | None:
    """The least number of tokens at which attention between them is more work than all the rest."""
    high = 1
    while _between(parts, name, high)[0] <= high * per_token:
        if high >= LONGEST:
            return None
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        more = _between(parts, name, middle)[0] > middle * per_token
        low, high = (low, middle) if more else (middle, high)
    return high


def _size_table(parameters: dict[str, int], work: dict[str, int]) -> pd.DataFrame:
    table = pd.DataFrame({"part": [*parameters], "parameters": [*parameters.values()]})
    table["parameter_share"] = table["parameters"] / table["parameters"].sum()
    table["work"] = [work[part] for part in table["part"]]
    table["work_share"] = table["work"] / table["work"].sum()
    return table


def _growth(
    parts: Sequence[_Attention], names: Sequence[str], per_token: int, tokens: int
) -> Iterator[dict[str, Any]]:
    """A row per mechanism and length: powers of 4, and the length asked for."""
    lengths = sorted({4**power for power in range(2, 10)} | {tokens})
    for name in names:
        for length in lengths:
            work, memory = _between(parts, name, length)
            yield {
                "mechanism": name, "text_length": length, "between_tokens": work,
                "elsewhere": length * per_token,
                "work_share": work / (work + length * per_token), "memory": memory,
            }  # fmt: skip
