"""Plans written as `layer_types` and `sliding_window`, which transformers runs without attnlab."""

import copy
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from transformers import PreTrainedModel

from attnlab.attention.bridge.installing import note_in_configuration, plan_within, use
from attnlab.attention.bridge.sites import AttentionAt, attention_modules
from attnlab.attention.mechanisms.band import Band
from attnlab.attention.mechanisms.full import Full
from attnlab.attention.plan import AttentionPlan
from attnlab.attention.specification import sides
from attnlab.core import InputError, eval_mode, layer_name

FULL, SLIDING = "full_attention", "sliding_attention"
# Of the largest logit; rounding of another kernel is below it.
TOLERANCE = 1e-5
_EXACT = {torch.float32, torch.float64}
# Windows longer than that are tried on as many tokens as the model takes.
TRIED_TOKENS = 64
# So many of them are read one at a time.
CACHED_TOKENS = 4
SEED = 0


class LayerTypes(NamedTuple):
    """The types of layers that a configuration names.

    Attributes:
        types: of each layer.
        window: of the sliding ones: keys that a causal row sees, or those on each side of a row.
    """

    types: tuple[str, ...]
    window: int


def model_with_layer_types(model: PreTrainedModel, plan: AttentionPlan) -> PreTrainedModel:
    """A copy of a model whose own configuration says what a plan does; `save_pretrained` writes it.

    Its scores or states are compared with those of the plan installed in the model, on tokens drawn by
    seed, some of them padded, and of a decoder with the last tokens read one at a time behind its cache;
    of half precision in float32, since two kernels differ by its rounding.

    Args:
        model: of one stack; left as it is.
        plan: each layer has full attention, or one band that is the same in all layers that have one.

    Raises:
        InputError: the plan has another form, the family has no such configuration, or the copy computes
            something else.

    Cost: a copy of the model, of half precision two in float32, two forward passes and the last tokens.
    """
    modules = attention_modules(model)
    check_one_stack(modules)
    can_leave_layers_full(model)
    layer_types = layer_types_of(plan_within(plan, modules), modules)
    config = copy.deepcopy(model.config)
    _set(model, config, layer_types)
    try:
        made = _again(model, config)
    except Exception as error:  # any family checks its configuration in its own way
        msg = f"{type(model).__name__} cannot be made with the layer types of the plan: {error}"
        raise InputError(msg) from error
    if getattr(model, "generation_config", None) is not None:
        made.generation_config = copy.deepcopy(model.generation_config)
    note_in_configuration(made, None)
    exact = model if model.dtype in _EXACT else _again(model, copy.deepcopy(model.config))
    causal = modules[0].site == "decoder"
    _check_equal(exact, plan, made.to(exact.dtype), layer_types.window, causal=causal)
    like = model.state_dict()
    for name, part in made.state_dict(keep_vars=True).items():
        part.data = part.data.to(like[name].dtype)
    return made


def _again(model: PreTrainedModel, config: Any) -> PreTrainedModel:
    """A model of the same class with the same weights, in float32."""
    # New weights are drawn before they are overwritten.
    with torch.random.fork_rng(devices=[]):
        made = type(model)(config)
    made.load_state_dict(model.state_dict())
    return made.to(model.device).eval()


def layer_types_of(plan: AttentionPlan, modules: Sequence[AttentionAt]) -> LayerTypes:
    """The types of a model's layers under a plan, and the window of the sliding ones.

    Raises:
        InputError: the model has two stacks, the heads of a layer differ, or a layer has neither full
            attention nor the band of the others.
    """
    check_one_stack(modules)
    types: dict[int, str] = {}
    windows: dict[int, int] = {}
    for at in modules:
        for layer in at.layers:
            entries = [plan.at(at.site, layer, head) for head in range(at.heads)]
            name = layer_name(at.site, layer)
            if any(entry != entries[0] for entry in entries):
                msg = (
                    f"The heads of {name} have different mechanisms, and a layer has one type; search a plan "
                    "by the granularity layer-types."
                )
                raise InputError(msg)
            window = _window(entries[0], at.site, name)
            types[layer] = FULL if window is None else SLIDING
            if window is not None:
                windows[layer] = window
    if not windows:
        msg = (
            "No layer of the plan has a band, so there is nothing to write; the model is as it was."
        )
        raise InputError(msg)
    if len(set(windows.values())) > 1:
        listed = ", ".join(map(str, sorted(set(windows.values()))))
        msg = (
            f"A configuration has one sliding_window for all layers, and those of the plan are {listed}; "
            "search a plan by the granularity layer-types."
        )
        raise InputError(msg)
    return LayerTypes(tuple(types[layer] for layer in sorted(types)), next(iter(windows.values())))


def check_one_stack(modules: Sequence[AttentionAt]) -> None:
    """Raises InputError where a model has two stacks, so that no layer types can be said of it."""
    if len({at.site for at in modules}) > 1:
        msg = "Layer types are those of one stack; an encoder-decoder has none."
        raise InputError(msg)


def _window(entry: Any, site: str, name: str) -> int | None:
    """The window of a layer as configurations count it; None for full attention."""
    if isinstance(entry, Full):
        return None
    if not isinstance(entry, Band):
        msg = f"{name} has {entry}; layers can be written with full attention or a band alone."
        raise InputError(msg)
    left, right = sides(entry.name, entry.window)
    if site == "decoder":
        return left + 1
    if left != right:
        msg = f"{name} has {entry}; the window of an encoder is as wide on both sides."
        raise InputError(msg)
    return left


def can_leave_layers_full(model: PreTrainedModel) -> bool:
    """Whether the configuration of a model can say of each layer alone that it is full or has a window.

    Raises:
        InputError: it knows no windows, or some of its layers have one already.
    """
    config, name = model.config, type(model).__name__
    if not hasattr(config, "sliding_window"):
        msg = f"The configuration of {name} has no sliding_window, so transformers cannot run a plan alone."
        raise InputError(msg)
    before = getattr(config, "layer_types", None)
    if before is not None and any(kind != FULL for kind in before):
        msg = (
            f"Some layers of {name} have windows of their own, and layer types are written for a model "
            "whose layers are all full; save it with the plan installed (save_pretrained), which "
            "load_with_plan opens."
        )
        raise InputError(msg)
    return before is not None


def _set(model: PreTrainedModel, config: Any, layer_types: LayerTypes) -> None:
    """Writes the types of layers into a configuration of a model."""
    name, types = type(model).__name__, can_leave_layers_full(model)
    if not types and FULL in layer_types.types:
        msg = (
            f"The configuration of {name} has no layer_types: its window is that of all layers, and the plan "
            "leaves some full."
        )
        raise InputError(msg)
    if types:
        config.layer_types = list(layer_types.types)
    if hasattr(config, "use_sliding_window"):
        config.use_sliding_window = True
    config.sliding_window = layer_types.window
    positions = getattr(config, "rope_parameters", None)
    if isinstance(positions, dict) and isinstance(positions.get(FULL), dict):
        # Layers keep the positions that they were trained with.
        config.rope_parameters = {**positions, SLIDING: dict(positions[FULL])}


@torch.inference_mode()
def _check_equal(
    model: PreTrainedModel,
    plan: AttentionPlan,
    made: PreTrainedModel,
    window: int,
    *,
    causal: bool,
) -> None:
    """Raises InputError where the two do not give the same."""
    most = getattr(model.config, "max_position_embeddings", None) or TRIED_TOKENS
    tokens = min(most, max(TRIED_TOKENS, 2 * window + 8))
    generator = torch.Generator().manual_seed(SEED)
    ids = torch.randint(
        model.get_input_embeddings().num_embeddings, (2, tokens), generator=generator
    )
    mask = torch.ones_like(ids)
    mask[1, -tokens // 4 :] = 0
    given = {"input_ids": ids.to(model.device), "attention_mask": mask.to(model.device)}
    with eval_mode(model), use(model, plan):
        expected = model(**given, return_dict=True)[0]
    # Scores of whole texts are not one a token.
    by_token = expected.shape[:2] == mask.shape
    real = mask.bool().to(expected.device) if by_token else ...
    largest = float(expected[real].abs().max())
    compared = [(False, made(**given, return_dict=True)[0][real] - expected[real])]
    if by_token and causal:
        last = _outputs_with_cache(made, given["input_ids"][:1], tokens - CACHED_TOKENS)
        if last is not None:
            compared.append((True, last - expected[:1, -CACHED_TOKENS:]))
    for behind_cache, difference in compared:
        apart = float(difference.abs().max())
        if not apart <= TOLERANCE * largest:
            where = " behind its cache" if behind_cache else ""
            msg = (
                f"{type(model).__name__} with layer types, whose window is {window}, gives something else"
                f"{where} than the plan does (by {apart:.2g} of {largest:.2g}), so they are not written."
            )
            raise InputError(msg)


def _outputs_with_cache(
    model: PreTrainedModel, ids: Int[Tensor, "1 token"], first: int
) -> Float[Tensor, "1 last dim"] | None:
    """Outputs of a model for the tokens from the `first` on, read one at a time; None without a cache."""
    given = model(input_ids=ids[:, :first], use_cache=True, return_dict=True)
    cache = getattr(given, "past_key_values", None)
    if cache is None:
        return None
    last = (
        model(input_ids=token, past_key_values=cache, return_dict=True)[0]
        for token in ids[:, first:].split(1, dim=1)
    )
    return torch.cat([*last], dim=1)
