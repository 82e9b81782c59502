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
from attnlab.attention.bridge.calls import forget_calls, looks_at_tokens, record_calls
from attnlab.attention.bridge.replacement import attention_function
from attnlab.attention.bridge.scores import score_rules, without_scores
from attnlab.attention.bridge.sites import NAME, AttentionAt, attention_modules, mechanism_of
from attnlab.attention.mechanism import Mechanism
from attnlab.attention.mechanisms.linformer import share_projections
from attnlab.attention.multihead import OwnAttention
from attnlab.attention.plan import AttentionPlan, plan_of, write_plan
from attnlab.attention.registry import MECHANISMS
from attnlab.attention.specification import Specification
from attnlab.errors import InputError
from attnlab.files import write_tensors
from attnlab.representations import OneLine
from attnlab.texts import briefly

OWN_PLAN = "attention_plan"
INSTALLED_PLAN = "attnlab_plan"
PLAN_FILE = "attention_plan.json"
TENSOR_FILE = "attention.safetensors"
# In a transformers model's config.json, so that a saved model says what stood in it.
PLAN_ENTRY = "attnlab_plan"

Entries = Mapping[str, str | Specification | Mechanism]
Planned = AttentionPlan | Mapping[str, str] | Entries | str | Specification | Mechanism


@dataclass(frozen=True, repr=False)
class Installed(OneLine):
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
            for name, tensor in mechanism_of(at.module).state_dict().items()
        }
        write_tensors(folder / TENSOR_FILE, tensors)


@contextmanager
def use(model: PreTrainedModel, planned: Planned) -> Iterator[Installed]:
    """The model with attnlab's mechanisms inside the `with` block, and as it was after it.

    Args:
        model: any transformers model that attends through AttentionInterface.
        planned: a plan, a mapping such as `{"encoder": "band(window=3)"}`, or one mechanism for
            every attention of the model. The plan in a file is read by `load_plan`.

    Raises:
        InputError: the model hard-codes its attention, a mechanism cannot stand where it should (as one
            without scores behind a sliding window), or mechanisms that were installed before were not
            taken out.
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

    Raises:
        InputError: as of `use`.
    """
    if holds_installed(model):
        msg = f"{type(model).__name__} has attnlab's mechanisms already; take those out first."
        raise InputError(msg)
    modules = attention_modules(model)
    plan = _plan(planned, modules)
    plan_before = getattr(model, OWN_PLAN, None)
    made = [_made(plan, at, model) for at in modules]
    share_projections(nn.ModuleList(made))
    implementation = model.config._attn_implementation  # noqa: SLF001 - it has no public name
    before: list[Mechanism | None] = []
    for at, mechanism in zip(modules, made, strict=True):
        if isinstance(at.module, OwnAttention):
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
        _without_cache(model, modules),
    )


def _without_cache(model: PreTrainedModel, modules: list[AttentionAt]) -> bool | None:
    """Lets `generate` do without a cache where a decoder chooses keys by token; what it did before.

    A cache keeps no token ids. attnlab's own models see to it themselves.
    """
    generation = getattr(model, "generation_config", None)
    if generation is None:
        return None
    before: bool | None = generation.use_cache
    by_token = (
        at.site == "decoder" and looks_at_tokens(mechanism_of(at.module))
        for at in modules
        if not isinstance(at.module, OwnAttention)
    )
    if any(by_token):
        generation.use_cache = False
    return before


def note_in_configuration(model: PreTrainedModel, entry: Any) -> None:
    """Lets the model's configuration, which is saved with it, name a plan; None for none."""
    if entry is not None:
        setattr(model.config, PLAN_ENTRY, entry)
    elif hasattr(model.config, PLAN_ENTRY):
        delattr(model.config, PLAN_ENTRY)


def _switch(model: PreTrainedModel, modules: list[AttentionAt], implementation: str) -> None:
    if not all(isinstance(at.module, OwnAttention) for at in modules):
        model.set_attn_implementation(implementation)


def holds_installed(model: PreTrainedModel) -> bool:
    """Whether mechanisms were installed in the model or in one that it is part of, and not taken out."""
    modules = attention_modules(model)
    return installed_plan(model) is not None or any(hasattr(at.module, NAME) for at in modules)


def installed_plan(model: nn.Module) -> AttentionPlan | None:
    """The plan of the mechanisms that were installed in `model`; None where it is as it was made."""
    plans = (vars(part).get(INSTALLED_PLAN) for part in model.modules())
    return next((plan for plan in plans if isinstance(plan, AttentionPlan)), None)


def mechanisms_in(model: PreTrainedModel) -> list[tuple[AttentionAt, Mechanism]]:
    """Attnlab's mechanisms that stand in `model`, in order; none in a model with its own attention."""
    if not any(isinstance(part, Mechanism) for part in model.modules()):
        return []
    return [(at, mechanism_of(at.module)) for at in attention_modules(model)]


def _plan(planned: Planned, modules: list[AttentionAt]) -> AttentionPlan:
    _refuse_plan_file(planned)
    heads = {at.site: at.heads for at in modules}
    layers: dict[str, int] = {
        site: sum(len(at.layers) for at in modules if at.site == site)
        for site in SITES
        if site in heads
    }
    if isinstance(planned, str | Specification | Mechanism):
        return plan_of(dict.fromkeys(layers, planned))
    plan = planned if isinstance(planned, AttentionPlan) else plan_of(planned)
    plan.refuse_outside(layers, heads)
    for at in modules:
        plan.refuse_unequal(at.site, at.layers, at.heads)
    return plan


def _refuse_plan_file(planned: Any) -> None:
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


def _made(plan: AttentionPlan, at: AttentionAt, model: PreTrainedModel) -> Mechanism:
    config = model.config.get_text_config()
    special = "decoder_vocab_size" if at.site == "decoder" else "source_vocab_size"
    own = isinstance(at.module, OwnAttention)
    mechanism = plan.mechanism(
        at.site,
        at.layer,
        at.heads,
        # Other models say at each call how much they drop.
        dropout=mechanism_of(at.module).dropout if own else 0.0,
        vocabulary=getattr(config, special, None) or config.vocab_size,
    )
    if isinstance(at.module, OwnAttention):
        at.module.refuse_unfit(mechanism, layer_name(at.site, at.layer))
    else:
        refusal = without_scores(mechanism, score_rules(at, config))
        if refusal is not None:
            raise InputError(refusal)
    like = next(at.module.parameters())
    return mechanism.to(device=like.device, dtype=like.dtype).train(at.module.training)
