"""Reading what `save_pretrained` wrote: nothing that comes with the files of a model is executed."""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, PreTrainedConfig, PreTrainedTokenizerBase

from attnlab.core.errors import InputError
from attnlab.core.files import check_files_in
from attnlab.core.limits import SIZES, check_memory
from attnlab.core.texts import briefly

# So config.json names the attention of a model that was saved with a plan: plain transformers refuses it by
# this name, which says what reads it instead of giving full attention without a word.
READ_WITH_PLAN = "attnlab.attention.load_with_plan"
# The name of a mechanism within the attention module that it stands in, and so in names of tensors.
MECHANISM_NAME = "attnlab"
# All others are code of further packages, or fetched from the hub.
KNOWN_IMPLEMENTATIONS = {None, "eager", "sdpa", "flex_attention"}


def read_pretrained(kind: Any, source: str | Path, **options: Any) -> Any:
    """What `kind.from_pretrained` reads from a folder, or from the hub by name, without foreign code.

    Args:
        kind: a class of transformers: of configurations, tokenizers or models.
        source: the folder or the name.
        options: handed on; `trust_remote_code` is none of them.

    Raises:
        InputError: something in the folder that is no regular file, a configuration that names code for
            its attention, or sizes that no model has, or a model that does not fit the free memory.
        Exception: what transformers raises; a ValueError for files that need code of their own.
    """
    check_files_in(source)
    # Of a name on the hub the configuration is read first, and once.
    if kind is AutoConfig or (Path(source).is_dir() and _reads_configuration(kind)):
        _check_plausible_sizes(source)
    silent: AbstractContextManager[None] = nullcontext()
    if Path(source).is_dir() and _makes_models(kind):
        model = _without_numbers(kind, source)
        _check_model_size(model, source)
        if _has_plan(source):
            options = {"attn_implementation": None, **options}
            silent = nullcontext() if model is None else _mechanisms_expected(type(model))
    with silent:
        found = kind.from_pretrained(str(source), trust_remote_code=False, **options)
    if isinstance(found, PreTrainedConfig):
        if found._attn_implementation == READ_WITH_PLAN:  # noqa: SLF001 - it has no public name
            found._attn_implementation = None  # noqa: SLF001
        _check_own_attention(found)
    return found


def _has_plan(source: str | Path) -> bool:
    """Whether a folder holds a model that was saved with a plan."""
    found, _ = PreTrainedConfig.get_config_dict(str(source))
    return found.get("attn_implementation") == READ_WITH_PLAN


@contextmanager
def _mechanisms_expected(kind: Any) -> Iterator[None]:
    """No report of tensors of mechanisms by transformers: they are read when these are put in again.

    Args:
        kind: the class that is loaded; its list of names that are ignored is as it was afterwards.
    """
    name, own = "_keys_to_ignore_on_load_unexpected", vars(kind)
    before = {name: own[name]} if name in own else {}
    setattr(kind, name, [*(getattr(kind, name, None) or ()), rf"\.{MECHANISM_NAME}\."])
    try:
        yield
    finally:
        delattr(kind, name)
        for same, value in before.items():
            setattr(kind, same, value)


def _check_plausible_sizes(source: str | Path) -> None:
    """Raises InputError for a size in a configuration that is none, or that no model has.

    transformers makes labels and layers one by one before it looks at any tensor.
    """
    try:
        found, _ = PreTrainedConfig.get_config_dict(str(source))
    except Exception:  # noqa: BLE001 - what reads it next says what is wrong with it
        return
    for path, name, value in _sizes(found):
        allowed = SIZES[name]
        if type(value) is not int or value not in allowed:
            msg = (
                f"{source}/config.json: {path} must be a whole number from {allowed[0]} to "
                f"{allowed[-1]:,}, not {briefly(value)}; restore the file."
            )
            raise InputError(msg)


def _sizes(configuration: Mapping[str, Any], within: str = "") -> Iterator[tuple[str, str, Any]]:
    """The sizes of a configuration and of those inside it: path, name and value."""
    for name, value in configuration.items():
        if isinstance(value, Mapping):
            yield from _sizes(value, f"{within}{name}.")
        elif name in SIZES:
            # Models for images have a list, with a size for each stage.
            values = value if isinstance(value, list) else [value]
            yield from ((f"{within}{name}", name, one) for one in values if one is not None)


def _reads_configuration(kind: Any) -> bool:
    return not issubclass(kind, PreTrainedTokenizerBase)


def _makes_models(kind: Any) -> bool:
    return hasattr(kind, "from_config") or issubclass(kind, torch.nn.Module)


def _without_numbers(kind: Any, source: str | Path) -> Any:
    """The model in a folder without memory for its numbers; None where it cannot be made."""
    is_automatic = hasattr(kind, "from_config")
    try:
        config = read_pretrained(AutoConfig if is_automatic else kind.config_class, source)
        with torch.device("meta"), torch.random.fork_rng(devices=[]):
            return (
                kind.from_config(config, trust_remote_code=False) if is_automatic else kind(config)
            )
    except InputError:
        raise
    except Exception:  # noqa: BLE001 - what reads it next says what is wrong with it
        return None


def _check_model_size(model: Any, source: str | Path) -> None:
    """Raises InputError where the parameters that a configuration asks for do not fit the free memory.

    Args:
        model: what `_without_numbers` gives.
        source: its folder.
    """
    if model is None:
        return
    count = sum(one.numel() for one in model.parameters())
    size = getattr(model.config.dtype, "itemsize", torch.float32.itemsize)
    what = f"The model of {count:,} parameters that {source}/config.json describes"
    check_memory(count * size, what, "check its sizes, or use a machine with more")


def _check_own_attention(config: PreTrainedConfig) -> None:
    parts = [getattr(config, name, None) for name in config.sub_configs]
    for one in (config, *parts):
        name = getattr(one, "_attn_implementation", None)
        if name not in KNOWN_IMPLEMENTATIONS:
            msg = (
                f"config.json names {name!r} as the code of its attention, which attnlab does not run; "
                "delete that entry"
            )
            raise InputError(msg)
