"""Models that are loaded whole or refused: every tensor from the files, of the right shape, finite."""

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from huggingface_hub.errors import StrictDataclassError
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn
from transformers import GenerationConfig, PreTrainedModel

from attnlab.core import (
    InputError,
    opened_tensors,
    read_json,
    read_pretrained,
    reason,
    write_tensors,
)
from attnlab.models.run_folder import WEIGHTS

NAMES_SHOWN = 3
# What transformers raises for files that are damaged, depending on the file and on what is wrong.
# torch has no public name for what `torch.load` raises for a file that is none of its own.
UNREADABLE = (
    ArithmeticError, AssertionError, AttributeError, EOFError, ImportError, InputError, LookupError, OSError,
    RuntimeError, SafetensorError, StrictDataclassError, TypeError, ValueError,
    torch.serialization.pickle.UnpicklingError,  # type: ignore[attr-defined]
)  # fmt: skip


# A folder with a tokenizer holds one of these, whatever its kind.
TOKENIZER_FILES = (
    "tokenizer.json", "tokenizer_config.json", "vocab.txt", "vocab.json", "merges.txt", "*.model", "*.spm",
)  # fmt: skip


class DamagedModelError(InputError):
    """The files of a model do not hold what its configuration says."""


def load_whole(kind: Any, source: str | Path) -> Any:
    """The model of class `kind` at `source`, in eval mode, which holds exactly the tensors of its files.

    The global random state is not touched.

    Raises:
        DamagedModelError: tensors are missing, too many, of other shapes or not finite; it names them.
    """
    model, report = _loaded(kind, source)
    _refuse(
        missing=_missing(model, report),
        mismatched=report["mismatched_keys"],
        superfluous=report["unexpected_keys"],
        infinite=_not_finite(model, report),
    )
    return model


def load_body(kind: Any, source: str | Path, *, scores: bool) -> Any:
    """The model of class `kind` at `source`, in eval mode, whose attention and states are all from its files.

    Tensors of task heads may be in the files without being in the model. The pooler may be missing
    from them, and without `scores` the layer that scores next tokens: nothing is computed from them
    then. The global random state is not touched.

    Raises:
        DamagedModelError: other tensors are missing, or the layer that scores is, the files hold more
            layers than the configuration names, or tensors have other shapes or are not finite; it names
            them.
    """
    model, report = _loaded(kind, source)
    unused = _tensors_of(model, [getattr(model.base_model, "pooler", None)])
    scoring = _tensors_of(model, [model.get_output_embeddings()])
    if not scores:
        unused |= scoring
    missing = _missing(model, report) - unused
    saved_as = getattr(model.config, "architectures", None) or ()
    if missing and missing <= scoring and saved_as and type(model).__name__ not in saved_as:
        msg = (
            f"it was saved as {', '.join(saved_as)}, without the layer that scores tokens, which is "
            "needed here"
        )
        raise DamagedModelError(msg)
    _refuse(
        missing=missing,
        mismatched=report["mismatched_keys"],
        superfluous=[
            name for name in report["unexpected_keys"] if _is_of_further_layer(model, name)
        ],
        infinite=_not_finite(model, report),
    )
    return model


def check_generation_config(source: str | Path) -> None:
    """Refuses a `generation_config.json` of a folder that is no table of options of decoding.

    Raises:
        DamagedModelError: see above; whichever its entry that is wrong.
    """
    path = Path(source) / "generation_config.json"
    if not path.is_file():
        return
    try:
        values = read_json(path, dict[str, Any])
        GenerationConfig.from_dict(values).validate()
    except UNREADABLE as error:
        msg = f"generation_config.json holds what is no option of decoding ({reason(error)})"
        raise DamagedModelError(msg) from error


def check_has_tokenizer(source: str | Path) -> None:
    """Raises DamagedModelError for a folder that holds a model without a tokenizer."""
    folder = Path(source)
    if folder.is_dir() and not any(True for name in TOKENIZER_FILES for _ in folder.glob(name)):
        msg = "it holds no tokenizer; write one there with tokenizer.save_pretrained"
        raise DamagedModelError(msg)


def _loaded(kind: Any, source: str | Path) -> tuple[Any, dict[str, Any]]:
    # What is missing is drawn at random before it is refused.
    with torch.random.fork_rng(devices=[]):
        model, report = read_pretrained(
            kind, source,
            output_loading_info=True, ignore_mismatched_sizes=True, use_kernels=False,
        )  # fmt: skip
    return model.eval(), report


def _missing(model: PreTrainedModel, report: dict[str, Any]) -> set[str]:
    """The tensors that the files lack; of those that are tied, the one that files hold."""
    # transformers does not always report one that others are tied to: it is left without numbers.
    empty = {name for name, parameter in _parameters(model) if parameter.is_meta}
    names = empty | set(report["missing_keys"])
    return {name for name in names if model.all_tied_weights_keys.get(name) not in names}


def _not_finite(model: PreTrainedModel, report: dict[str, Any]) -> list[str]:
    """The parameters from the files that hold NaN or infinity, and the buffers that hold NaN."""
    drawn = _missing(model, report) | {name for name, _, _ in report["mismatched_keys"]}
    kept = model.state_dict().keys() - drawn
    buffers = [(name, buffer) for name, buffer in model.named_buffers() if name in kept]
    parameters = [(name, parameter) for name, parameter in _parameters(model) if name in kept]
    return [
        *(name for name, parameter in parameters if not torch.isfinite(parameter).all()),
        *(name for name, buffer in buffers if torch.isnan(buffer).any()),
    ]


def _parameters(model: PreTrainedModel) -> list[tuple[str, nn.Parameter]]:
    """The parameters by the names that they have in files, those that others share once."""
    named = dict(model.named_parameters(remove_duplicate=False))
    return [(name, part) for name, part in named.items() if name not in model.all_tied_weights_keys]


def _tensors_of(model: nn.Module, modules: Iterable[nn.Module | None]) -> set[str]:
    """Names in `model` of the parameters of some of its modules."""
    chosen = {id(part) for module in modules if module is not None for part in module.parameters()}
    named = model.named_parameters(remove_duplicate=False)
    return {name for name, part in named if id(part) in chosen}


def _is_of_further_layer(model: PreTrainedModel, name: str) -> bool:
    """Whether a tensor of the files belongs to a layer behind the last one of the model."""
    module: Any = model
    prefix = f"{model.base_model_prefix}."
    if not hasattr(model, model.base_model_prefix):
        name = name.removeprefix(prefix)
    for part in name.split("."):
        if isinstance(module, nn.ModuleList) and part.isdigit() and int(part) >= len(module):
            return True
        module = getattr(module, part, None)
        if module is None:
            return False
    return False


def _refuse(
    *,
    missing: Iterable[str],
    mismatched: Iterable[tuple[str, Any, Any]],
    superfluous: Iterable[str],
    infinite: Iterable[str],
) -> None:
    shapes = [
        f"{name} ({list(shape)} in the file, {list(expected)} in config.json)"
        for name, shape, expected in mismatched
    ]
    faults = [
        (sorted(missing), "missing"),
        (sorted(shapes), "of another shape"),
        (sorted(superfluous), "not part of the model that config.json describes"),
        (sorted(infinite), "not finite"),
    ]
    messages = [_fault_of(names, fault) for names, fault in faults if names]
    if messages:
        raise DamagedModelError("; ".join(messages))


def _fault_of(names: list[str], fault: str) -> str:
    shown = ", ".join(names[:NAMES_SHOWN])
    if len(names) > NAMES_SHOWN:
        shown += f" and {len(names) - NAMES_SHOWN} more"
    count = "1 tensor is" if len(names) == 1 else f"{len(names)} tensors are"
    return f"{count} {fault}: {shown}"


_ENTRY = "sha256"


def save_with_checksum(model: Any, folder: str | Path) -> None:
    """Writes weights and configuration of a model into `folder`, with a checksum of the weights.

    Not atomic: `folder` takes the place of what was there, or its files do, when all are written.

    Raises:
        AttnlabError: the disk is full.
        OSError: the same, where transformers writes.
        SafetensorError: the same, where safetensors writes.
    """
    model.save_pretrained(folder)
    path = Path(folder) / WEIGHTS
    tensors = load_file(path)
    write_tensors(path, tensors, {"format": "pt", _ENTRY: tensors_checksum(tensors)})


def tensors_checksum(tensors: Mapping[str, Tensor]) -> str:
    """SHA-256 of named tensors, their types and shapes, in hexadecimal digits; their order is no matter."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        _add(digest, name, tensors[name])
    return digest.hexdigest()


def check_checksum(path: Path) -> None:
    """Raises where the tensors of a file are not those that it has the checksum of.

    Files that other programs wrote have none, and pass. Cost: SHA-256 of all numbers, about 15 times what
    reading them from memory takes.

    Raises:
        DamagedModelError: see above.
        Exception: what safetensors raises for a file that is none of its own.
    """
    with opened_tensors(path) as file:
        written = (file.metadata() or {}).get(_ENTRY)
        if written is None:
            return
        digest = hashlib.sha256()
        for name in sorted(file.keys()):
            _add(digest, name, file.get_tensor(name))
    if digest.hexdigest() != written:
        msg = f"the numbers in {path.name} are not those that were written: their checksum differs"
        raise DamagedModelError(msg)


def _add(digest: "hashlib._Hash", name: str, tensor: Tensor) -> None:
    digest.update(f"{name} {tensor.dtype} {list(tensor.shape)}\n".encode())
    # As bytes, since numpy lacks some of the types of torch.
    if not tensor.is_meta:  # as accelerate leaves what it keeps on the disk
        digest.update(tensor.cpu().contiguous().flatten().view(torch.uint8).numpy().data)
