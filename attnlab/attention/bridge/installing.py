"""attnlab's mechanisms inside transformers models, put in and taken out again."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.masking_utils import eager_mask

from attnlab.addresses import SITES, layer_name
from attnlab.attention.bridge.calls import forget_calls, record_calls
from attnlab.attention.bridge.replacement import attention_function
from attnlab.attention.bridge.sites import NAME, AttentionAt, attention_modules, mechanism_of
from attnlab.attention.mechanism import Mechanism
from attnlab.attention.mechanisms.linformer import share_projections
from attnlab.attention.multihead import MultiHeadAttention
from attnlab.attention.plan import AttentionPlan, plan_of, write_plan
from attnlab.attention.specification import Specification
from attnlab.errors import InputError
from attnlab.files import write_tensors

OWN_PLAN = "attention_plan"
INSTALLED_PLAN = "attnlab_plan"
PLAN_FILE = "attention_plan.json"
TENSOR_FILE = "attention.safetensors"
# In a transformers model's config.json, so that a saved model says what stood in it.
PLAN_ENTRY = "attnlab_plan"

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
        entry_before: the plan that a transformers model's configuration named.
    """

    model: PreTrainedModel
    plan: AttentionPlan
    places: list[AttentionAt]
    before: list[Mechanism | None]
    implementation: str
    hooks: list[Any]
    plan_before: AttentionPlan | None = None
    entry_before: Any = None

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
        else:
            note_in_configuration(self.model, self.entry_before)
        vars(self.model).pop(INSTALLED_PLAN, None)
        _switch(self.model, self.places, self.implementation)

    def write(self, folder: str | Path) -> None:
        """Writes the plan and what the mechanisms have learned into `folder`."""
        folder = Path(folder)
        write_plan(folder / PLAN_FILE, self.plan)
        # Tensors that layers share are written once for each, since safetensors knows no sharing.
        tensors = {
            f"{place.path}.{NAME}.{name}": tensor.clone()
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
    is trained, moved and saved with the model. The configuration names the plan meanwhile, so that
    `save_pretrained` writes both; `load_with_plan` brings them back.
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
    entry_before = getattr(model.config, PLAN_ENTRY, None)
    if plan_before is not None:
        # attnlab's own model writes the plan that stands in it into its configuration.
        setattr(model, OWN_PLAN, plan)
    else:
        note_in_configuration(model, plan.as_written())
    vars(model)[INSTALLED_PLAN] = plan
    return Installed(model, plan, places, before, implementation, hooks, plan_before, entry_before)


def note_in_configuration(model: PreTrainedModel, entry: Any) -> None:
    """Lets the model's configuration, which is saved with it, name a plan; None for none."""
    if entry is not None:
        setattr(model.config, PLAN_ENTRY, entry)
    elif hasattr(model.config, PLAN_ENTRY):
        delattr(model.config, PLAN_ENTRY)


def _switch(model: PreTrainedModel, places: list[AttentionAt], implementation: str) -> None:
    if not all(isinstance(place.module, MultiHeadAttention) for place in places):
        model.set_attn_implementation(implementation)


def installed_plan(model: nn.Module) -> AttentionPlan | None:
    """The plan of the mechanisms that were installed in `model`; None where it is as it was made."""
    plans = (vars(part).get(INSTALLED_PLAN) for part in model.modules())
    return next((plan for plan in plans if isinstance(plan, AttentionPlan)), None)


def mechanisms_in(model: PreTrainedModel) -> list[tuple[AttentionAt, Mechanism]]:
    """Attnlab's mechanisms that stand in `model`, in order; none in a model with its own attention."""
    if not any(isinstance(part, Mechanism) for part in model.modules()):
        return []
    return [(place, mechanism_of(place.module)) for place in attention_modules(model)]


def _plan(planned: Planned, places: list[AttentionAt]) -> AttentionPlan:
    heads = {place.site: place.heads for place in places}
    layers: dict[str, int] = {
        site: sum(len(place.layers) for place in places if place.site == site)
        for site in SITES
        if site in heads
    }
    if isinstance(planned, str | Specification | Mechanism):
        return plan_of(dict.fromkeys(layers, planned))
    plan = planned if isinstance(planned, AttentionPlan) else plan_of(planned)
    plan.refuse_outside(layers, heads)
    for place in places:
        plan.refuse_unequal(place.site, place.layers, place.heads)
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
        place.module.global_rows.refuse_without_globals(
            mechanism, layer_name(place.site, place.layer)
        )
    like = next(place.module.parameters())
    return mechanism.to(device=like.device, dtype=like.dtype).train(place.module.training)
