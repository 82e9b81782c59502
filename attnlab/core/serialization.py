"""Plain values and tensors as bytes and back, for sending between processes; nothing is pickled."""

import dataclasses
import json
import sys
from collections.abc import Mapping
from operator import add
from typing import Any, TypeVar

from safetensors.torch import load, save
from torch import Tensor

from attnlab.core.errors import InputError

Key = TypeVar("Key")
Value = TypeVar("Value")


class Sums(dict[Key, Value]):
    """Values by key; `+` adds the values of a key that both sides have and keeps the others."""

    def __add__(self, other: Mapping[Key, Value]) -> "Sums[Key, Value]":
        result = Sums(self)
        for key, value in other.items():
            result[key] = _added(self[key], value) if key in self else value
        return result


def _added(one: Any, other: Any) -> Any:
    if isinstance(one, Tensor) and one.shape != other.shape:
        msg = (
            f"Sums of different models do not add up: one has shape {tuple(one.shape)}, the "
            f"other {tuple(other.shape)}."
        )
        raise InputError(msg)
    return add(one, other)


# What a parcel may hold: None, bool, int, float, str, tensors, dataclasses, and tuples, lists, sets,
# dictionaries and `Sums` of these.
Plain = Any
CONTAINERS = {one.__name__: one for one in (tuple, list, frozenset, set)}
MAPPINGS = {one.__name__: one for one in (dict, Sums)}
_PLAIN = "plain"


def wrapped(value: Plain) -> bytes:
    """The value as one safetensors file; tensors keep type and shape and come back on the CPU.

    Raises:
        TypeError: something that a parcel cannot hold.
    """
    tensors: dict[str, Tensor] = {}
    text = json.dumps(_described(value, tensors))
    return save(tensors, {_PLAIN: text})


def unwrapped(data: bytes) -> Plain:
    """The value that `wrapped` was given.

    Raises:
        TypeError: it holds a dataclass that this process has not imported.
    """
    # safetensors puts a length of 8 bytes and a JSON header in front, where the metadata stands.
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    described = json.loads(header["__metadata__"][_PLAIN])
    return _restored(described, load(data))


def _described(value: Plain, tensors: dict[str, Tensor]) -> Any:
    """JSON in which everything but scalars is a pair (kind, content)."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Tensor):
        name = str(len(tensors))
        # A clone, since safetensors refuses tensors that share memory.
        tensors[name] = value.detach().cpu().contiguous().clone()
        return ["tensor", name]
    if type(value) in MAPPINGS.values():
        pairs = [[_described(part, tensors) for part in pair] for pair in value.items()]
        return [type(value).__name__, pairs]
    if type(value) in CONTAINERS.values():
        return [type(value).__name__, [_described(part, tensors) for part in value]]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {
            field.name: _described(getattr(value, field.name), tensors)
            for field in dataclasses.fields(value)
        }
        return ["dataclass", [type(value).__module__, type(value).__name__, fields]]
    msg = f"A {type(value).__name__} cannot be sent between processes."
    raise TypeError(msg)


def _restored(described: Any, tensors: dict[str, Tensor]) -> Plain:
    if not isinstance(described, list):
        return described
    kind, content = described
    if kind == "tensor":
        return tensors[content]
    if kind == "dataclass":
        module, name, fields = content
        return _dataclass(module, name)(
            **{field: _restored(part, tensors) for field, part in fields.items()}
        )
    if kind in MAPPINGS:
        return MAPPINGS[kind]([_restored(part, tensors) for part in pair] for pair in content)
    return CONTAINERS[kind](_restored(part, tensors) for part in content)


def _dataclass(module: str, name: str) -> type:
    # Nothing is imported and nothing but a dataclass is called: what is sent is data, no program.
    found = getattr(sys.modules.get(module), name, None)
    if not isinstance(found, type) or not dataclasses.is_dataclass(found):
        msg = f"{module}.{name} cannot be received from another process."
        raise TypeError(msg)
    return found
