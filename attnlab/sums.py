"""Values by key that add up, in any order."""

from collections.abc import Mapping
from operator import add
from typing import Any, TypeVar

from torch import Tensor

from attnlab.errors import InputError

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
