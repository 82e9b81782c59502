"""Models that were saved with mechanisms in them, brought back with their plan and what was learned."""

from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors import SafetensorError
from torch import Tensor
from transformers import AutoConfig, PreTrainedModel

from attnlab.attention.bridge.installing import (
    PLAN_ENTRY,
    PLAN_FILE,
    TENSOR_FILE,
    Installed,
    install,
    note_in_configuration,
)
from attnlab.attention.bridge.sites import NAME, installed_in
from attnlab.attention.plan import AttentionPlan, load_plan, read_plan
from attnlab.core import InputError, model_source, opened_tensors, read_pretrained

Tensors = dict[str, Tensor]


def load_with_plan(folder: str | Path, kind: Any = None, **options: Any) -> Installed:
    """The model in `folder` with the mechanisms it was saved with, in eval mode, as `.model`.

    The plan stands in `config.json`, where `save_pretrained` writes it while mechanisms are
    installed, or in the file that `Installed.write` leaves; what mechanisms learned stands with the
    model's weights or in the file beside them. (`from_pretrained` alone refuses the folder, since its
    configuration names this function as the code of its attention; with `attn_implementation="eager"` it
    gives plain full attention.)

    Args:
        folder: a folder that `save_pretrained` wrote.
        kind: class with `from_pretrained`, such as `AutoModelForCausalLM`; None for the saved class.
        options: handed on to `from_pretrained`.

    Raises:
        InputError: there is no model or no plan, or plan, tensors and model do not agree.
    """
    # A name would be looked for on the hub, for a minute where there is no network.
    folder = Path(model_source(folder))
    if saved_plan(folder) is None:
        msg = (
            f"{folder} holds no attention plan beside a model; load it with transformers, and put "
            "mechanisms in with attnlab.attention.install."
        )
        raise InputError(msg)
    model = read_pretrained(
        kind or _saved_class(folder), folder, use_kernels=False, **options
    ).eval()
    return install_saved(model, folder)


def install_saved(model: PreTrainedModel, folder: str | Path) -> Installed:
    """Puts the mechanisms that a model was saved with into that model, loaded from `folder` without them.

    Raises:
        InputError: there is no plan, or plan, tensors and model do not agree.
    """
    folder = Path(folder)
    plan = saved_plan(folder)
    if plan is None:
        msg = f"{folder} holds no attention plan beside a model."
        raise InputError(msg)
    note_in_configuration(model, None)  # until the mechanisms stand in it
    return _install_learned(model, plan, folder, _learned(folder))


def install_written(model: PreTrainedModel, folder: str | Path) -> Installed:
    """Puts in the mechanisms that `Installed.write` left in `folder`, with what they had learned.

    Raises:
        InputError: plan, tensors and model do not agree, or a file cannot be read.
    """
    folder = Path(folder)
    plan = load_plan(folder / PLAN_FILE)
    return _install_learned(model, plan, folder, _read(folder / TENSOR_FILE))


def saved_plan(folder: str | Path) -> AttentionPlan | None:
    """The plan that a model was saved with; None without one.

    Raises:
        InputError: `config.json` and the plan's own file name different ones, or neither can be read.
    """
    folder = Path(folder)
    try:
        entry = getattr(read_pretrained(AutoConfig, folder), PLAN_ENTRY, None)
    except (OSError, ValueError, KeyError) as error:
        msg = (
            f"There is no transformers model in {folder}; give a folder that save_pretrained wrote."
        )
        raise InputError(msg) from error
    noted = None if entry is None else read_plan(entry, f"{folder / 'config.json'}")
    if not (folder / PLAN_FILE).exists():
        return noted
    saved = load_plan(folder / PLAN_FILE)
    if noted is not None and noted != saved:
        msg = (
            f"{folder / PLAN_FILE} is not the plan that config.json beside it names; delete the one "
            "that does not belong to the model."
        )
        raise InputError(msg)
    return saved


def _saved_class(folder: Path) -> Any:
    names = read_pretrained(AutoConfig, folder).architectures or ["of unknown class"]
    kind = getattr(transformers, names[0], None)
    if kind is None:
        msg = (
            f"{folder} holds a model {names[0]}, which is no class of transformers; say which with "
            "load_with_plan(folder, kind=...)."
        )
        raise InputError(msg)
    return kind


def _install_learned(
    model: PreTrainedModel, plan: AttentionPlan, folder: Path, learned: Tensors
) -> Installed:
    """The mechanisms of the plan with their tensors; if these do not fit, the model is left as it was."""
    try:
        installed = install(model, plan)
    except InputError as error:
        msg = f"The plan in {folder} does not fit the model: {error}"
        raise InputError(msg) from error
    tensors = {
        f"{at.path}.{NAME}.{name}": tensor
        for at in installed.modules
        for name, tensor in installed_in(at.module).state_dict(keep_vars=True).items()
    }
    try:
        _fill(tensors, learned, folder)
    except InputError:
        installed.remove()
        raise
    return installed


def _fill(tensors: Tensors, learned: Tensors, folder: Path) -> None:
    """Copies what was learned into the tensors of the model.

    Raises:
        InputError: a tensor is missing, has another shape, or belongs to no mechanism.
    """
    # The same module has a longer name within a larger model.
    names = {name: next((key for key in tensors if _same_end(key, name)), name) for name in learned}
    extra = [name for name, key in names.items() if key not in tensors]
    unlike = [
        name
        for name, key in names.items()
        if key in tensors
        and (
            tensors[key].shape != learned[name].shape
            or tensors[key].is_floating_point() != learned[name].is_floating_point()
        )
    ]
    with torch.no_grad():
        for name, key in names.items():
            if key in tensors and name not in unlike:
                tensors[key].copy_(learned[name])
    # What layers share stands in a file once.
    filled = {id(tensors[key]) for key in names.values() if key in tensors}
    missing = [key for key, tensor in tensors.items() if id(tensor) not in filled]
    for wrong, what in (
        (unlike, "has another shape or kind of numbers"),
        (extra, "is in no mechanism"),
        (missing, "is missing"),
    ):
        if wrong:
            msg = (
                f"The plan in {folder} and what its mechanisms learned do not agree: '{wrong[0]}' {what}; "
                "use the plan and the tensors that were written together."
            )
            raise InputError(msg)


def _same_end(name: str, other: str) -> bool:
    return name == other or name.endswith(f".{other}") or other.endswith(f".{name}")


def _learned(folder: Path) -> Tensors:
    """Tensors that mechanisms learned: in the model's weights, or in the file that `Installed.write` leaves.

    Raises:
        InputError: they stand in both, and differ.
    """
    inside: Tensors = {}
    for path in sorted(folder.glob("model*.safetensors")):
        inside |= {name: part for name, part in _read(path).items() if f".{NAME}." in name}
    if not (folder / TENSOR_FILE).exists():
        return inside
    written = _read(folder / TENSOR_FILE)
    stale = [name for name in inside if name in written and not _equal(inside[name], written[name])]
    if stale:
        msg = (
            f"{folder / TENSOR_FILE} and the model's weights beside it hold different numbers for "
            f"'{stale[0]}'; delete that file if the weights are newer."
        )
        raise InputError(msg)
    return written


def _equal(a: Tensor, b: Tensor) -> bool:
    """Whether two tensors hold the same numbers; what is not learned yet is NaN."""
    return a.shape == b.shape and bool(((a == b) | (a.isnan() & b.isnan())).all())


def _read(path: Path) -> Tensors:
    try:
        with opened_tensors(path) as file:
            return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no dictionary
    except (OSError, SafetensorError) as error:
        msg = f"{path} cannot be read ({error}); write the model and its plan again."
        raise InputError(msg) from error
