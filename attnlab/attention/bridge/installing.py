"""attnlab's mechanisms inside transformers models, put in and taken out again."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.masking_utils import eager_mask

from attnlab.attention.bridge.calls import (
    SITE,
    CallRecord,
    call_of,
    forget_calls,
    looks_at_tokens,
    record_calls,
    token_ids_of_keys,
    tokens_before,
    weights_wanted,
)
from attnlab.attention.bridge.card import write_cards, write_no_cards
from attnlab.attention.bridge.sites import (
    NAME,
    AttentionAt,
    ByLayer,
    attention_modules,
    hidden_below,
    installed_in,
    mechanism_of,
    mechanisms_of,
    rules_told,
    score_rules,
    without_scores,
)
from attnlab.attention.bridge.streaming import NO_GAP
from attnlab.attention.mechanism import Form, Mechanism, Scoring
from attnlab.attention.mechanisms.linformer import share_projections
from attnlab.attention.multihead import OwnAttention, attend_layer
from attnlab.attention.plan import AttentionPlan, plan_of, write_plan
from attnlab.attention.registry import MECHANISMS
from attnlab.attention.specification import Specification
from attnlab.core import (
    READ_WITH_PLAN,
    SITES,
    AttnlabError,
    InputError,
    ShortRepr,
    briefly,
    layer_name,
    write_tensors,
)
from attnlab.matrices.supports import offsets


@dataclass(frozen=True)
class Reading:
    """Padding, causality and further hidden pairs, as a mask has them.

    Attributes:
        visible: `[batch, key]`, True at real tokens; None when all are.
        first_query: position of the first query.
        allowed: `[batch, 1 or head, query, key]`, True at the pairs that the model lets through;
            None when padding and causality say the same.
        bias: finite numbers that the mask adds to scores; None when there are none.
    """

    visible: Tensor | None
    first_query: int
    allowed: Tensor | None = None
    bias: Tensor | None = None


def read_mask(
    mask: Tensor | None,
    queries: int,
    keys: int,
    *,
    causal: bool,
    past: int = 0,
    real: Tensor | None = None,
) -> Reading:
    """The mask of one call, told apart into padding, causality and the rest.

    Args:
        mask: True or 0 at pairs that count, `[batch, 1 or head, 1 or query, key]`; None hides nothing.
        queries: number of queries.
        keys: number of keys.
        causal: whether the mechanism hides the keys behind a query by itself.
        past: number of tokens before the first query, whose keys a cache holds.
        real: True at the keys that are known to be real tokens, `[batch, <= key]`; None reads them
            off the mask, where a cached query in a sliding window does not see all.

    Raises:
        AttnlabError: the mask shows a causal mechanism keys behind a query.
    """
    if mask is None:
        return Reading(None, keys - queries if causal else past)
    mask = mask[..., :keys]
    if mask.shape[-2] == 1:
        # One row for all queries, as LayoutLM and Switch have it.
        mask = mask.expand(-1, -1, queries, -1)
    seen = mask if mask.dtype == torch.bool else mask > hidden_below(mask)
    visible = seen.any(-2).any(1) if real is None else _padded_flags(keys, real)
    expected = visible[:, None, None, :].expand(-1, 1, queries, -1)
    rows = torch.ones_like(expected[..., :1])
    if causal:
        before = offsets(queries, keys, first_query=past, device=mask.device) <= 0
        expected = expected & before
        rows = visible[:, None, past : past + queries, None]
    shown = seen & rows
    if bool((shown & ~expected).any()):
        msg = (
            "This model's attention mask lets queries see tokens behind them, which attnlab's causal "
            "mechanisms never do; leave such a model its own attention."
        )
        raise AttnlabError(msg)
    same = torch.equal((expected & rows).expand_as(seen), shown)
    return Reading(visible, past, None if same else seen, _bias(mask, seen))


def _padded_flags(keys: int, real: Tensor) -> Tensor:
    return torch.nn.functional.pad(real[:, :keys], (0, max(keys - real.shape[1], 0)))


def _bias(mask: Tensor, seen: Tensor) -> Tensor | None:
    if mask.dtype == torch.bool:
        return None
    finite = mask.masked_fill(~seen, 0.0)
    return finite if bool(finite.any()) else None


def attention_function(  # noqa: PLR0917 - transformers' signature
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    position_bias: Tensor | None = None,
    **extra: Any,
) -> tuple[Tensor, Tensor | None]:
    """Attention that transformers calls instead of its own; returns `[batch, query, head, dim]`."""
    call = call_of(module)
    mechanism = _mechanism_of_call(mechanisms_of(module), module)
    groups, keys_of_call = query.shape[1] // key.shape[1], key.shape[2]
    past, real, gap = tokens_before(module), None, NO_GAP
    if mechanism.causal:
        key, value, attention_mask = _fill_gap(call.start_of(module), key, value, attention_mask)
        real, gap = call.real_keys(attention_mask, query.shape[2]), call.gap_of(module)
        real, attention_mask = gap.closed(real), gap.closed(attention_mask)
        past -= gap.skipped
    reading = read_mask(
        attention_mask,
        query.shape[2],
        key.shape[2],
        causal=mechanism.causal,
        past=past,
        real=real,
    )
    if scaling is not None:
        query = query * (scaling * query.shape[-1] ** 0.5)
    context: dict[str, Any] = {"first_query": reading.first_query}
    if gap.sums is not None:
        context["key_sums"] = gap.sums
    context |= _token_context(module, mechanism, key, reading.first_query + query.shape[2])
    context |= _score_context(mechanism, reading, position_bias, extra)
    for part in mechanism.modules():
        if isinstance(part, Mechanism):
            part.dropout = dropout  # the model decides at each call
    returns_weights = extra.get("output_attentions") or weights_wanted(module)
    out = attend_layer(mechanism, query, key, value, reading.visible, **context)
    if returns_weights or out is None:
        key, value = (x.repeat_interleave(groups, 1) if groups > 1 else x for x in (key, value))
    if out is None:
        out = mechanism(query, key, value, reading.visible, **context)
    weights = None
    if returns_weights:
        weights = mechanism.implied_matrix(query, key, reading.visible, **context)
        weights = weights[..., key.shape[2] - keys_of_call :]
    return out.transpose(1, 2).contiguous(), weights


def _mechanism_of_call(mechanisms: Sequence[Mechanism], module: nn.Module) -> Mechanism:
    """The only mechanism of a module, or that of the layer which calls it now."""
    if len(mechanisms) == 1:
        return mechanisms[0]
    turn = call_of(module).next_turn(module)
    if turn >= len(mechanisms):
        msg = (
            f"{type(module).__name__} is shared by {len(mechanisms)} layers with different mechanisms and "
            "was called once more in one pass; call the whole model, without computing layers again "
            "(gradient checkpointing)."
        )
        raise AttnlabError(msg)
    return mechanisms[turn]


def _fill_gap(
    start: int, key: Tensor, value: Tensor, mask: Tensor | None
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Keys and values with nothing at the positions that a cache of a sliding window let go."""
    if not start:
        return key, value, mask
    key, value = (F.pad(x, (0, 0, start, 0)) for x in (key, value))
    if mask is not None:
        hidden = False if mask.dtype == torch.bool else torch.finfo(mask.dtype).min
        mask = F.pad(mask, (start, 0), value=hidden)
    return key, value, mask


def _token_context(
    module: nn.Module, mechanism: Mechanism, key: Tensor, tokens: int
) -> dict[str, Any]:
    """The arguments that say which tokens keys are, and which queries are real."""
    context: dict[str, Any] = {}
    if looks_at_tokens(mechanism):
        context["token_ids"] = token_ids_of_keys(module, key.shape[0], key.shape[2])
    if vars(module)[SITE] == "cross":
        context |= _query_context(mechanism, call_of(module), tokens)
    return context


def _query_context(mechanism: Mechanism, call: CallRecord, tokens: int) -> dict[str, Any]:
    """The argument that says which queries are real, where padding in front shifts their counts."""
    counts = any(
        part.positions in {"offsets", "pairs"}
        for part in mechanism.modules()
        if isinstance(part, Mechanism)
    )
    real = call.real
    if not counts or real is None or real.shape[1] < tokens or bool(real[:, 0].all()):
        return {}
    return {"real_queries": real[:, :tokens]}


def _score_context(
    mechanism: Mechanism, reading: Reading, position_bias: Tensor | None, extra: dict[str, Any]
) -> dict[str, Any]:
    """Arguments that say what the model does to its scores, for mechanisms that have some.

    Raises:
        AttnlabError: a mechanism has none, which `install` could not know beforehand, as where the mask
            of a call hides pairs.
    """
    context: dict[str, Any] = {}
    # T5's cross-attention adds zeros.
    if position_bias is not None and (position_bias.requires_grad or bool(position_bias.any())):
        context["bias"] = position_bias
    if reading.bias is not None:
        context["bias"] = reading.bias + context.get("bias", 0.0)
    softcap, sinks = extra.get("softcap"), extra.get("s_aux")
    if reading.allowed is not None or softcap is not None or sinks is not None:
        context["scoring"] = Scoring(reading.allowed, softcap, sinks)
    refusal = without_scores(mechanism, rules_told(context.get("bias"), context.get("scoring")))
    if refusal is not None:
        raise AttnlabError(refusal)
    return context


OWN_PLAN = "attention_plan"
INSTALLED_PLAN = "attnlab_plan"
PLAN_FILE = "attention_plan.json"
TENSOR_FILE = "attention.safetensors"
# In a transformers model's config.json, so that a saved model says what stood in it.
PLAN_ENTRY = "attnlab_plan"

Entries = Mapping[str, str | Specification | Mechanism]
Planned = AttentionPlan | Mapping[str, str] | Entries | str | Specification | Mechanism


@dataclass(frozen=True, repr=False)
class Installed(ShortRepr):
    """Mechanisms that stand in a model.

    Attributes:
        model: the model.
        plan: which mechanism stands where.
        modules: the model's attention modules.
        before: the mechanisms of attnlab's own modules that made room.
        implementation: the name of the model's own attention.
        hooks: what notes the calls of the model.
        plan_before: the plan that attnlab's own model was made with.
        entry_before: the plan that a transformers model's configuration named.
        cache_before: whether `generate` takes a cache by default.
    """

    model: PreTrainedModel
    plan: AttentionPlan
    modules: list[AttentionAt]
    before: list[Mechanism | None]
    implementation: str
    hooks: list[Any]
    plan_before: AttentionPlan | None = None
    entry_before: Any = None
    cache_before: bool | None = None

    def remove(self) -> None:
        """Gives the model its own attention back, exactly as it was."""
        for at, mechanism in zip(self.modules, self.before, strict=True):
            if isinstance(at.module, OwnAttention) and mechanism is not None:
                at.module.mechanism = mechanism
            else:
                delattr(at.module, NAME)
                forget_calls(at.module)
        for hook in self.hooks:
            hook.remove()
        if self.plan_before is not None:
            setattr(self.model, OWN_PLAN, self.plan_before)
        else:
            note_in_configuration(self.model, self.entry_before)
            write_no_cards(self.model)
        vars(self.model).pop(INSTALLED_PLAN, None)
        generation = getattr(self.model, "generation_config", None)
        if generation is not None:
            generation.use_cache = self.cache_before
        _switch(self.model, self.modules, self.implementation)

    def write(self, folder: str | Path) -> None:
        """Writes the plan and what the mechanisms have learned into `folder`."""
        folder = Path(folder)
        write_plan(folder / PLAN_FILE, self.plan)
        # Tensors that layers share are written once for each, since safetensors knows no sharing.
        tensors = {
            f"{at.path}.{NAME}.{name}": tensor.clone()
            for at in self.modules
            for name, tensor in installed_in(at.module).state_dict().items()
        }
        write_tensors(folder / TENSOR_FILE, tensors)


@contextmanager
def use(model: PreTrainedModel, planned: Planned, *, form: Form = "auto") -> Iterator[Installed]:
    """The model with attnlab's mechanisms inside the `with` block, and as it was after it.

    Args:
        model: any transformers model that attends through AttentionInterface.
        planned: a plan, a mapping such as `{"encoder": "band(window=3)"}`, or one mechanism for
            every attention of the model. The plan in a file is read by `load_plan`.
        form: how mechanisms are computed, see `make`. With `"flex"` each layer is one call of PyTorch's
            FlexAttention with a mask of blocks for all its heads, and key-value heads are not repeated.

    Raises:
        InputError: the model hard-codes its attention, a mechanism cannot stand where it should (as one
            without scores behind a sliding window), or mechanisms that were installed before were not
            taken out.
    """
    installed = install(model, planned, form=form)
    try:
        yield installed
    finally:
        installed.remove()


def install(model: PreTrainedModel, planned: Planned, *, form: Form = "auto") -> Installed:
    """Puts mechanisms into the model, until `remove` is called on what comes back.

    Each attention module gets its mechanism as a submodule named `attnlab`, so that what it learns
    is trained, moved and saved with the model. The configuration names the plan meanwhile, so that
    `save_pretrained` writes both; `load_with_plan` brings them back.

    Raises:
        InputError: as of `use`.
    """
    if holds_installed(model):
        msg = f"{type(model).__name__} has attnlab's mechanisms already; take those out first."
        raise InputError(msg)
    modules = attention_modules(model)
    plan = plan_within(planned, modules)
    plan_before = getattr(model, OWN_PLAN, None)
    made = [_made(plan, at, model, form) for at in modules]
    share_projections(nn.ModuleList(made))
    implementation = model.config._attn_implementation  # noqa: SLF001 - it has no public name
    before: list[Mechanism | None] = []
    for at, mechanism in zip(modules, made, strict=True):
        if isinstance(at.module, OwnAttention) and isinstance(mechanism, Mechanism):
            before.append(at.module.mechanism)
            at.module.mechanism = mechanism
        else:
            before.append(None)
            at.module.add_module(NAME, mechanism)
    AttentionInterface.register(NAME, attention_function)
    AttentionMaskInterface.register(NAME, eager_mask)
    _switch(model, modules, NAME)
    hooks = record_calls(model, modules)
    entry_before = getattr(model.config, PLAN_ENTRY, None)
    if plan_before is not None:
        # attnlab's own model writes the plan that stands in it into its configuration.
        setattr(model, OWN_PLAN, plan)
    else:
        note_in_configuration(model, plan.as_written())
        write_cards(model, plan)
    vars(model)[INSTALLED_PLAN] = plan
    return Installed(
        model,
        plan,
        modules,
        before,
        implementation,
        hooks,
        plan_before,
        entry_before,
        _disable_cache(model, modules),
    )


def _disable_cache(model: PreTrainedModel, modules: list[AttentionAt]) -> bool | None:
    """Lets `generate` do without a cache where a decoder chooses keys by token; what it did before.

    A cache keeps no token ids. attnlab's own models see to it themselves.
    """
    generation = getattr(model, "generation_config", None)
    if generation is None:
        return None
    before: bool | None = generation.use_cache
    by_token = (
        at.site == "decoder" and looks_at_tokens(installed_in(at.module))
        for at in modules
        if not isinstance(at.module, OwnAttention)
    )
    if any(by_token):
        generation.use_cache = False
    return before


def note_in_configuration(model: PreTrainedModel, entry: Any) -> None:
    """Lets the model's configuration, which is saved with it, name a plan; None for none.

    A folder with a plan also names the function that reads it as the code of its attention, so that plain
    `from_pretrained` refuses it.
    """
    entries = {PLAN_ENTRY: entry, "attn_implementation": READ_WITH_PLAN}
    for name, value in entries.items():
        if entry is not None:
            setattr(model.config, name, value)
        elif name in vars(model.config):
            delattr(model.config, name)


def _switch(model: PreTrainedModel, modules: list[AttentionAt], implementation: str) -> None:
    if all(isinstance(at.module, OwnAttention) for at in modules):
        return
    model.set_attn_implementation(implementation)
    for at in modules:
        # An EncoderDecoderModel gives its encoder another configuration than the modules in it keep.
        config: Any = getattr(at.module, "config", None)
        if getattr(config, "_attn_implementation", implementation) != implementation:
            config._attn_implementation = implementation  # noqa: SLF001 - it has no public name


def holds_installed(model: PreTrainedModel) -> bool:
    """Whether mechanisms were installed in the model or in one that it is part of, and not taken out."""
    modules = attention_modules(model)
    return installed_plan(model) is not None or any(hasattr(at.module, NAME) for at in modules)


def installed_plan(model: nn.Module) -> AttentionPlan | None:
    """The plan of the mechanisms that were installed in `model`; None where it is as it was made."""
    plans = (vars(part).get(INSTALLED_PLAN) for part in model.modules())
    return next((plan for plan in plans if isinstance(plan, AttentionPlan)), None)


def plan_within(planned: Planned, modules: list[AttentionAt]) -> AttentionPlan:
    """The plan of a model with these modules; refused where it names a head that is not there."""
    _check_no_plan_file(planned)
    heads = {at.site: at.heads for at in modules}
    layers: dict[str, list[int]] = {
        site: sorted(layer for at in modules if at.site == site for layer in at.layers)
        for site in SITES
        if site in heads
    }
    if isinstance(planned, str | Specification | Mechanism):
        return plan_of(dict.fromkeys(layers, planned))
    plan = planned if isinstance(planned, AttentionPlan) else plan_of(planned)
    plan.check_within(layers, heads)
    return plan


def _check_no_plan_file(planned: Any) -> None:
    """Raises InputError where the file of a plan is given in the stead of the plan in it."""
    if isinstance(planned, Path) or (isinstance(planned, str) and _names_file(planned)):
        msg = (
            f"{briefly(str(planned))} names a file and no mechanism; give the plan that "
            "attnlab.attention.load_plan reads from it."
        )
        raise InputError(msg)


def _names_file(text: str) -> bool:
    # A mechanism stays one where a file happens to have its name.
    if text in MECHANISMS:
        return False
    try:
        return text.endswith(".json") or Path(text).is_file()
    except (OSError, ValueError):  # longer than a path, or with a character that none has
        return False


def _made(
    plan: AttentionPlan, at: AttentionAt, model: PreTrainedModel, form: Form
) -> Mechanism | ByLayer:
    """The mechanisms to put into an attention module; layers that share it share an equal mechanism."""
    make = partial(_made_for, plan=plan, at=at, model=model, form=form)
    if plan.has_equal_layers(at.site, at.layers, at.heads):
        return make(at.layer)
    return ByLayer([make(layer) for layer in at.layers])


def _made_for(
    layer: int, *, plan: AttentionPlan, at: AttentionAt, model: PreTrainedModel, form: Form
) -> Mechanism:
    config = model.config.get_text_config()
    special = "decoder_vocab_size" if at.site == "decoder" else "source_vocab_size"
    is_ours = isinstance(at.module, OwnAttention)
    mechanism = plan.mechanism(
        at.site,
        layer,
        at.heads,
        # Other models say at each call how much they drop.
        dropout=mechanism_of(at.module).dropout if is_ours else 0.0,
        vocabulary=getattr(config, special, None) or config.vocab_size,
        form=form,
    )
    if isinstance(at.module, OwnAttention):
        at.module.check_fits(mechanism, layer_name(at.site, layer))
    else:
        refusal = without_scores(mechanism, score_rules(at, config))
        if refusal is not None:
            raise InputError(refusal)
    like = next(at.module.parameters())
    return mechanism.to(device=_device_of(at.module), dtype=like.dtype).train(at.module.training)


def _device_of(module: nn.Module) -> torch.device:
    """The device on which a module computes; accelerate may keep its weights elsewhere meanwhile."""
    device = next(module.parameters()).device
    hooks = (getattr(part, "_hf_hook", None) for part in module.modules())
    computing = (getattr(hook, "execution_device", None) for hook in hooks)
    if device.type == "meta":
        return torch.device(next((place for place in computing if place is not None), "cpu"))
    return device
