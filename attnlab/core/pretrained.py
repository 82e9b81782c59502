"""Reading what `save_pretrained` wrote: nothing that comes with the files of a model is executed."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from attnlab.core.arrays import opened_tensors
from attnlab.core.documents import read_json
from attnlab.core.errors import InputError
from attnlab.core.files import check_files_in, check_regular
from attnlab.core.hub import downloaded_folder
from attnlab.core.limits import MOST_POSITION_ENTRIES, SIZES, TOKEN_IDS, check_memory
from attnlab.core.texts import briefly

# So config.json names the attention of a model that was saved with a plan: plain transformers refuses it by
# this name, which says what reads it instead of giving full attention without a word.
READ_WITH_PLAN = "attnlab.attention.load_with_plan"
# The name of a mechanism within the attention module that it stands in, and so in names of tensors.
MECHANISM_NAME = "attnlab"
# All others are code of further packages, or fetched from the hub.
KNOWN_IMPLEMENTATIONS = {None, "eager", "sdpa", "flex_attention"}
# How the names of shares from 0 to 1 end.
_SHARES = ("dropout", "dropout_prob", "dropout_rate", "drop_rate", "layerdrop", "pdrop")
# Models whose tables of sinusoidal positions transformers fills number by number, and names of their width.
SINUSOIDAL = {"distilbert", "flaubert", "marian", "pegasus", "roformer", "xlm"}
_WIDTHS = ("d_model", "hidden_size", "embedding_size", "dim", "emb_dim")
_USUAL_WIDTH = 1024


def read_pretrained(kind: Any, source: str | Path, **options: Any) -> Any:
    """The object that `kind.from_pretrained` reads from a folder or the hub, without foreign code.

    Args:
        kind: a class of transformers: of configurations, tokenizers or models.
        source: the folder or the name.
        options: handed on; `trust_remote_code` is none of them.

    Raises:
        InputError: something in the folder that is no regular file, weights that are to be read from
            elsewhere, a configuration that names code for its attention, or sizes that no model has, or a
            model that does not fit the free memory.
        Exception: what transformers raises; a ValueError for files that need code of their own.
    """
    check_files_in(source)
    # Of a name on the hub the configuration is read first, and once.
    if kind is AutoConfig or (
        Path(source).is_dir() and not issubclass(kind, PreTrainedTokenizerBase)
    ):
        configuration = _configuration(source)
        _check_plausible_values(configuration, source)
        _check_weight_files(configuration, Path(source))
    silent: AbstractContextManager[None] = nullcontext()
    if Path(source).is_dir() and _makes_models(kind):
        model = _model_on_meta(kind, source)
        _check_model_size(model, source)
        if _has_plan(source):
            options = {"attn_implementation": None, **options}
            silent = nullcontext() if model is None else _mechanisms_expected(type(model))
    with silent:
        loaded = kind.from_pretrained(str(source), trust_remote_code=False, **options)
    if isinstance(loaded, PreTrainedConfig):
        if loaded._attn_implementation == READ_WITH_PLAN:  # noqa: SLF001 - it has no public name
            loaded._attn_implementation = None  # noqa: SLF001
        _check_attention_code(loaded)
    elif _makes_models(kind):
        model = loaded[0] if isinstance(loaded, tuple) else loaded
        for config in _configurations(model.config):
            # What is read by name here has no name in a tuple.
            config.return_dict = True
        _check_floating(model, source)
    return loaded


def _has_plan(source: str | Path) -> bool:
    """Whether a folder holds a model that was saved with a plan."""
    configuration, _ = PreTrainedConfig.get_config_dict(str(source))
    return configuration.get("attn_implementation") == READ_WITH_PLAN


@contextmanager
def _mechanisms_expected(kind: Any) -> Iterator[None]:
    """Inside the block transformers reports no tensors of mechanisms, which are read later.

    Args:
        kind: the class that is loaded; its list of names that are ignored is as it was afterwards.
    """
    name, attributes = "_keys_to_ignore_on_load_unexpected", vars(kind)
    before = {name: attributes[name]} if name in attributes else {}
    setattr(kind, name, [*(getattr(kind, name, None) or ()), rf"\.{MECHANISM_NAME}\."])
    try:
        yield
    finally:
        delattr(kind, name)
        for same, value in before.items():
            setattr(kind, same, value)


def _configuration(source: str | Path) -> Mapping[str, Any]:
    try:
        configuration, _ = PreTrainedConfig.get_config_dict(str(source))
    except Exception:  # noqa: BLE001 - what reads it next says what is wrong with it
        return {}
    return configuration


def _check_plausible_values(configuration: Mapping[str, Any], source: str | Path) -> None:
    """Raises InputError for a size, a share or a token id in a configuration that no model has.

    transformers makes labels and layers one by one before it looks at any tensor.
    """
    for path, name, value in _values(configuration):
        allowed = SIZES.get(name, TOKEN_IDS if name.endswith("_token_id") else None)
        if allowed is not None and (type(value) not in (int, float) or value not in allowed):
            kind = "an odd" if allowed.step == 2 else "a whole"
            expected = f"{kind} number from {allowed[0]} to {allowed[-1]:,}"
        elif name.endswith(_SHARES) and not (isinstance(value, int | float) and 0 <= value <= 1):
            expected = "a number from 0 to 1"
        else:
            continue
        msg = f"{source}/config.json: {path} must be {expected}, not {briefly(value)}; restore the file."
        raise InputError(msg)
    if configuration.get("model_type") not in SINUSOIDAL:
        return
    positions = configuration.get("max_position_embeddings") or 0
    width = max(configuration.get(name) or 0 for name in _WIDTHS) or _USUAL_WIDTH
    if positions * width > MOST_POSITION_ENTRIES:
        msg = (
            f"{source}/config.json: max_position_embeddings is {positions:,}, of {width:,} numbers each, and "
            f"{MOST_POSITION_ENTRIES:,} numbers is the limit of this kind of model; restore the file."
        )
        raise InputError(msg)


def _values(configuration: Mapping[str, Any], within: str = "") -> Iterator[tuple[str, str, Any]]:
    """The values of a configuration and of those inside it that are given: path, name and value."""
    for name, value in configuration.items():
        if isinstance(value, Mapping):
            yield from _values(value, f"{within}{name}.")
        else:
            # Models for images have a list, with a size for each stage.
            values = value if isinstance(value, list) else [value]
            yield from ((f"{within}{name}", name, entry) for entry in values if entry is not None)


def _check_weight_files(configuration: Mapping[str, Any], folder: Path) -> None:
    """Raises InputError where weights would be read from outside of a folder, or from no regular file."""
    named = configuration.get("transformers_weights")
    files = [*folder.glob("*.safetensors.index.json"), *folder.glob("*.bin.index.json")]
    if isinstance(named, str):
        _check_inside(folder, "config.json", [named])
        files += [folder / named] if named.endswith(".index.json") else []
    for path in files:
        _check_inside(folder, path.name, sorted(_named_in(path)))


@dataclass(frozen=True)
class _Index:
    """The part of an index that says which file holds each tensor."""

    weight_map: Mapping[str, str]


def _named_in(index: Path) -> set[str]:
    """The files of weights that an index names."""
    return set(read_json(index, _Index, advice="download the model again").weight_map.values())


def _check_inside(folder: Path, where: str, names: Iterable[str]) -> None:
    for name in names:
        if Path(name).is_absolute() or ".." in Path(name).parts:
            msg = f"{folder / where} names {briefly(name)}, outside its folder; move that file into it."
            raise InputError(msg)
        check_regular(folder / name)


def _makes_models(kind: Any) -> bool:
    return hasattr(kind, "from_config") or issubclass(kind, torch.nn.Module)


def model_on_meta(kind: Any, config: PreTrainedConfig) -> Any:
    """The model of a configuration without memory for its numbers.

    Args:
        kind: a class of models of transformers.
        config: read by `read_pretrained`.
    """
    with torch.device("meta"), torch.random.fork_rng(devices=[]):
        automatic = hasattr(kind, "from_config")
        return kind.from_config(config, trust_remote_code=False) if automatic else kind(config)


def _model_on_meta(kind: Any, source: str | Path) -> Any:
    """The model in a folder without memory for its numbers; None where it cannot be made."""
    try:
        automatic = hasattr(kind, "from_config")
        config = read_pretrained(AutoConfig if automatic else kind.config_class, source)
        return model_on_meta(kind, config)
    except InputError:
        raise
    except Exception:  # noqa: BLE001 - what reads it next says what is wrong with it
        return None


def _check_model_size(model: Any, source: str | Path) -> None:
    """Raises InputError where the parameters that a configuration asks for do not fit the free memory.

    Args:
        model: what `_model_on_meta` gives.
        source: its folder.
    """
    if model is None:
        return
    count = sum(parameter.numel() for parameter in model.parameters())
    size = getattr(model.config.dtype, "itemsize", torch.float32.itemsize)
    what = f"The model of {count:,} parameters that {source}/config.json describes"
    check_memory(count * size, what, "check its sizes, or use a machine with more")


def _check_floating(model: PreTrainedModel, source: str | Path) -> None:
    """Raises InputError where a file of weights holds whole numbers for a parameter that has others.

    transformers converts them without a word. Buffers, such as positions, may be whole numbers.
    """
    folder = source if Path(source).is_dir() else downloaded_folder(str(source))
    if folder is None:
        return
    prefix = f"{model.base_model_prefix}."
    parameters = model.named_parameters(remove_duplicate=False)
    floating = {
        name.removeprefix(prefix) for name, weight in parameters if weight.is_floating_point()
    }
    for path in _files_of_weights(Path(folder)):
        whole = [name for name in _whole_numbers(path) if name.removeprefix(prefix) in floating]
        if whole:
            more = f" and {len(whole) - 1} more" if whole[1:] else ""
            msg = f"{path} holds whole numbers for {whole[0]}{more}; save weights as floating numbers."
            raise InputError(msg)


def _files_of_weights(folder: Path) -> list[Path]:
    """Files of safetensors in a folder, those that an index names too, or where there are none of torch."""
    for form in ("model*.safetensors", "pytorch_model*.bin"):
        files = {*folder.glob(form)}
        for index in folder.glob(f"{form}.index.json"):
            files |= {folder / name for name in _named_in(index)}
        if files:
            return sorted(files)
    return []


def _whole_numbers(path: Path) -> list[str]:
    """The names of the tensors of a file that hold whole numbers or truth values; no tensor is read."""
    if path.suffix == ".bin":
        saved = torch.load(path, map_location="meta", weights_only=True)
        tensors = {name: value for name, value in saved.items() if isinstance(value, torch.Tensor)}
        return [name for name, tensor in tensors.items() if not tensor.is_floating_point()]
    with opened_tensors(path, copies=0) as file:
        kinds = {name: file.get_slice(name).get_dtype() for name in file.keys()}  # noqa: SIM118
    return [name for name, kind in kinds.items() if "F" not in kind]


def _configurations(config: PreTrainedConfig) -> list[PreTrainedConfig]:
    """A configuration and those inside it."""
    parts = [getattr(config, name, None) for name in config.sub_configs]
    return [config, *(part for part in parts if isinstance(part, PreTrainedConfig))]


def _check_attention_code(config: PreTrainedConfig) -> None:
    for part in _configurations(config):
        name = getattr(part, "_attn_implementation", None)
        if name not in KNOWN_IMPLEMENTATIONS:
            msg = (
                f"config.json names {name!r} as the code of its attention, which attnlab does not run; "
                "delete that entry"
            )
            raise InputError(msg)
