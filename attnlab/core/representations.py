"""Representations of results: one line, with the sizes of tables instead of their rows."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import fields
from typing import Any

_LONGEST = 60


class ShortRepr:
    """A dataclass, declared with `repr=False`, whose representation is one line."""

    def __repr__(self) -> str:
        # A mixin of dataclasses, which mypy cannot express.
        shown = [field.name for field in fields(self) if field.repr]  # type: ignore[arg-type]
        values = (f"{name}={summarised(getattr(self, name))}" for name in shown)
        return f"{type(self).__name__}({', '.join(values)})"


def summarised(value: Any) -> str:
    """A value in a few words: its type and size where it is a table, a tensor or a collection."""
    name = type(value).__name__
    if value is None or isinstance(value, ShortRepr | bool | int | float):
        return repr(value)
    if isinstance(value, str):
        return repr(value if len(value) <= _LONGEST else f"{value[: _LONGEST - 3]}...")
    if hasattr(value, "shape"):
        return f"{name}[{', '.join(map(str, value.shape))}]"
    if isinstance(value, Mapping | Sequence | Set):
        return f"{name} of {len(value)}"
    return name
