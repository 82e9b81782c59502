"""attnlab's mechanisms inside transformers models, put in and taken out again."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.masking_utils import eager_mask

from attnlab.attention.calls import (
    forget_calls,
    looks_at_tokens,
    record_calls,
    token_ids_of_keys,
    weights_wanted,
)
from attnlab.attention.linformer import share_projections
from attnlab.attention.mechanism import Mechanism
from attnlab.attention.multihead import MultiHeadAttention
from attnlab.attention.plan import SITES, AttentionPlan, load_plan, plan_of, write_plan
from attnlab.attention.sites import AttentionAt, attention_modules
from attnlab.attention.specification import Specification
from attnlab.errors import AttnlabError, InputError
from attnlab.files import write_tensors
from attnlab.matrices.supports import offsets

NAME = "attnlab"
OWN_PLAN = "attention_plan"
PLAN_FILE = "attention_plan.json"
TENSOR_FILE = "attention.safetensors"

Entries = Mapping[str, str | Specification | Mechanism]
Planned = AttentionPlan | Mapping[str, str] | Entries | str | Specification | Mechanism


@dataclass(frozen=True)
class Installed:
    """Mechanisms that stand in a model.

    Attributes:
        model: the model.
        plan: which mechanism stands where.
        places: the model's attention modules.
        before: the mechanisms of attnlab's own modules that made room.
        implementation: the name of the model's own attention.
        hooks: what notes the calls of the model.
        plan_before: the plan that attnlab's own model was made with.
    """

    model: PreTrainedModel
    plan: AttentionPlan
    places: list[AttentionAt]
    before: list[Mechanism | None]
    implementation: str
    hooks: list[Any]
    plan_before: AttentionPlan | None = None

    def remove(self) -> None:
        """Gives the model its own attention back, exactly as it was."""
        for place, mechanism in zip(self.places, self.before, strict=True):
            if isinstance(place.module, MultiHeadAttention) and mechanism is not None:
                place.module.mechanism = mechanism
            else:
                delattr(place.module, NAME)
                forget_calls(place.module)
        for hook in self.hooks:
            hook.remove()
        if self.plan_before is not None:
            setattr(self.model, OWN_PLAN, self.plan_before)
        _switch(self.model, self.places, self.implementation)

    def write(self, folder: Path) -> None:
        """Writes the plan and what the mechanisms have learned into `folder`."""
        write_plan(folder / PLAN_FILE, self.plan)
        # Tensors that layers share are written once for each, since safetensors knows no sharing.
        tensors = {
            f"{place.path}.{name}": tensor.clone()
            for place in self.places
            for name, tensor in mechanism_of(place.module).state_dict().items()
        }
        write_tensors(folder / TENSOR_FILE, tensors)


@contextmanager
def use(model: PreTrainedModel, planned: Planned) -> Iterator[Installed]:
    """The model with attnlab's mechanisms inside the `with` block, and as it was after it.

    Args:
        model: any transformers model that attends through AttentionInterface.
        planned: a plan, a mapping such as `{"encoder": "band(window=3)"}`, or one mechanism for
            every attention of the model.

    Raises:
        InputError: the model hard-codes its attention, or a mechanism cannot stand where it should.
    """
    installed = install(model, planned)
    try:
        yield installed
    finally:
        installed.remove()


def install(model: PreTrainedModel, planned: Planned) -> Installed:
    """Puts mechanisms into the model, until `remove` is called on what comes back.

    Each attention module gets its mechanism as a submodule named `attnlab`, so that what it learns
    is trained, moved and saved with the model.
    """
    places = attention_modules(model)
    if any(hasattr(place.module, NAME) for place in places):
        msg = f"{type(model).__name__} has attnlab's mechanisms already; take those out first."
        raise InputError(msg)
    plan = _plan(planned, places)
    plan_before = getattr(model, OWN_PLAN, None)
    made = [_made(plan, place, model) for place in places]
    share_projections(nn.ModuleList(made))
    implementation = model.config._attn_implementation  # noqa: SLF001 - it has no public name
    before: list[Mechanism | None] = []
    for place, mechanism in zip(places, made, strict=True):
        if isinstance(place.module, MultiHeadAttention):
            before.append(place.module.mechanism)
            place.module.mechanism = mechanism
        else:
            before.append(None)
            place.module.add_module(NAME, mechanism)
    AttentionInterface.register(NAME, attention_function)
    AttentionMaskInterface.register(NAME, eager_mask)
    _switch(model, places, NAME)
    hooks = record_calls(model, places)
    if plan_before is not None:
        # attnlab's own model writes the plan that stands in it into its configuration.
        setattr(model, OWN_PLAN, plan)
    return Installed(model, plan, places, before, implementation, hooks, plan_before)


def _switch(model: PreTrainedModel, places: list[AttentionAt], implementation: str) -> None:
    if not all(isinstance(place.module, MultiHeadAttention) for place in places):
        model.set_attn_implementation(implementation)


def install_written(model: PreTrainedModel, folder: Path) -> Installed:
    """Puts in the mechanisms that `Installed.write` left in `folder`, with what they had learned."""
    installed = install(model, load_plan(folder / PLAN_FILE))
    tensors = load_file(folder / TENSOR_FILE)
    for place in installed.places:
        start = f"{place.path}."
        own = {
            name.removeprefix(start): tensor
            for name, tensor in tensors.items()
            if name.startswith(start)
        }
        mechanism_of(place.module).load_state_dict(own)
    return installed


def mechanism_of(module: nn.Module) -> Mechanism:
    """The mechanism that stands in an attention module."""
    mechanism = getattr(module, "mechanism" if isinstance(module, MultiHeadAttention) else NAME)
    if not isinstance(mechanism, Mechanism):
        msg = f"There is no mechanism in {type(module).__name__}."
        raise AttnlabError(msg)
    return mechanism


def _plan(planned: Planned, places: list[AttentionAt]) -> AttentionPlan:
    heads = {place.site: place.heads for place in places}
    layers = {site: sum(place.site == site for place in places) for site in SITES if site in heads}
    if isinstance(planned, str | Specification | Mechanism):
        return plan_of(dict.fromkeys(layers, planned))
    plan = planned if isinstance(planned, AttentionPlan) else plan_of(planned)
    plan.refuse_outside(layers, heads)
    return plan


def _made(plan: AttentionPlan, place: AttentionAt, model: PreTrainedModel) -> Mechanism:
    config = model.config.get_text_config()
    special = "decoder_vocab_size" if place.site == "decoder" else "source_vocab_size"
    own = isinstance(place.module, MultiHeadAttention)
    mechanism = plan.mechanism(
        place.site,
        place.layer,
        place.heads,
        # Other models say at each call how much they drop.
        dropout=mechanism_of(place.module).dropout if own else 0.0,
        vocabulary=getattr(config, special, None) or config.vocab_size,
    )
    if isinstance(place.module, MultiHeadAttention) and place.module.global_rows is not None:
        place.module.global_rows.refuse_without_globals(mechanism, f"{place.site}.{place.layer}")
    like = next(place.module.parameters())
    return mechanism.to(device=like.device, dtype=like.dtype).train(place.module.training)


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
    """What transformers calls in place of its own attention: `[batch, query, head, dim]` comes back."""
    mechanism = mechanism_of(module)
    for name in ("softcap", "s_aux"):
        if extra.get(name) is not None:
            msg = f"This model's attention uses '{name}', which attnlab's mechanisms do not know."
            raise AttnlabError(msg)
    groups = query.shape[1] // key.shape[1]
    key, value = (x.repeat_interleave(groups, 1) if groups > 1 else x for x in (key, value))
    visible, first_query = read_mask(
        attention_mask, query.shape[2], key.shape[2], causal=mechanism.causal
    )
    if scaling is not None:
        query = query * (scaling * query.shape[-1] ** 0.5)
    context: dict[str, Any] = {"first_query": first_query}
    if looks_at_tokens(mechanism):
        site = "decoder" if mechanism.causal else "encoder"
        context["token_ids"] = token_ids_of_keys(module, site, key.shape[0], key.shape[2])
    if position_bias is not None:
        context["bias"] = _bias(mechanism, position_bias)
    for part in mechanism.modules():
        if isinstance(part, Mechanism):
            part.dropout = dropout  # the model decides at each call
    out = mechanism(query, key, value, visible, **context)
    weights = None
    if extra.get("output_attentions") or weights_wanted(module):
        weights = mechanism.implied_matrix(query, key, visible, **context)
    return out.transpose(1, 2).contiguous(), weights


def _bias(mechanism: Mechanism, bias: Tensor) -> Tensor:
    for part in mechanism.modules():
        if isinstance(part, Mechanism) and not part.traits.bias:
            msg = (
                f"This model adds relative positions to its scores, and '{part.name}' has no scores "
                "to add them to; choose a mechanism with a softmax over keys."
            )
            raise AttnlabError(msg)
    return bias


def read_mask(
    mask: Tensor | None, queries: int, keys: int, *, causal: bool
) -> tuple[Tensor | None, int]:
    """Which keys are real, and the position of the first query, from transformers' mask of pairs.

    Raises:
        AttnlabError: the mask says more than padding and causality, such as a window of the model.
    """
    if mask is None:
        return None, keys - queries if causal else 0
    seen = mask[..., :keys] if mask.dtype == torch.bool else mask[..., :keys] == 0
    visible = seen.any(-2).any(1)
    first_query = 0
    if causal and queries < keys:
        used = int(visible.any(0).nonzero().max()) + 1 if bool(visible.any()) else keys
        first_query = used - queries
    expected = visible[:, None, None, :].expand(-1, 1, queries, -1)
    real = torch.ones_like(expected[..., :1])
    if causal:
        expected = expected & (
            offsets(queries, keys, first_query=first_query, device=mask.device) <= 0
        )
        real = visible[:, None, first_query : first_query + queries, None]
    if not torch.equal((expected & real).expand_as(seen), seen & real):
        msg = (
            "This model's attention mask says more than padding and causality (a window of its own, "
            "packed sentences, or different masks by head), which attnlab would ignore."
        )
        raise AttnlabError(msg)
    return visible, first_query
