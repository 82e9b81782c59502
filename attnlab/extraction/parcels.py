"""Plain values and tensors as bytes and back, for sending between processes; nothing is pickled."""

import dataclasses
import json
from collections.abc import Sequence
from typing import Any

from safetensors.torch import load, save
from torch import Tensor

# What a parcel may hold: None, bool, int, float, str, tensors, dataclasses that are named when it
# is opened, and tuples, lists, sets and dictionaries of these.
Plain = Any
_PLAIN = "plain"


def wrapped(value: Plain) -> bytes:
    """The value as one safetensors file; tensors keep type and shape and come back on the CPU.

    Raises:
        TypeError: something that a parcel cannot hold.
    """
    tensors: dict[str, Tensor] = {}
    text = json.dumps(_described(value, tensors))
    return save(tensors, {_PLAIN: text})


def unwrapped(data: bytes, types: Sequence[type] = ()) -> Plain:
    """The value that `wrapped` was given.

    Args:
        data: from `wrapped`.
        types: the dataclasses that may stand in it.
    """
    # safetensors puts a length of 8 bytes and a JSON header in front, where the metadata stands.
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    described = json.loads(header["__metadata__"][_PLAIN])
    return _restored(described, load(data), {one.__name__: one for one in types})


def _described(value: Plain, tensors: dict[str, Tensor]) -> Any:
    """JSON in which everything but scalars is a pair (kind, content)."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Tensor):
        name = str(len(tensors))
        # A clone, since safetensors refuses tensors that share memory.
        tensors[name] = value.detach().cpu().contiguous().clone()
        return ["tensor", name]
    if isinstance(value, dict):
        pairs = [[_described(part, tensors) for part in pair] for pair in value.items()]
        return ["dict", pairs]
    if isinstance(value, tuple | list | frozenset | set):
        return [type(value).__name__, [_described(part, tensors) for part in value]]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {
            field.name: _described(getattr(value, field.name), tensors)
            for field in dataclasses.fields(value)
        }
        return ["dataclass", [type(value).__name__, fields]]
    msg = f"A {type(value).__name__} cannot be sent between processes."
    raise TypeError(msg)


def _restored(described: Any, tensors: dict[str, Tensor], types: dict[str, type]) -> Plain:
    if not isinstance(described, list):
        return described
    kind, content = described
    if kind == "tensor":
        return tensors[content]
    if kind == "dataclass":
        name, fields = content
        return types[name](
            **{field: _restored(part, tensors, types) for field, part in fields.items()}
        )
    if kind == "dict":
        pairs = [[_restored(part, tensors, types) for part in pair] for pair in content]
        return dict(pairs)
    kinds = {"tuple": tuple, "list": list, "frozenset": frozenset, "set": set}
    return kinds[kind](_restored(part, tensors, types) for part in content)
