"""How results are shown in a notebook: one line, with the sizes of tables instead of their rows.

A notebook that shows HTML gets tables and figures instead, from `attnlab.reporting.notebook`.
"""

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import fields
from typing import Any

_LONGEST = 60
# Set by the package itself, which alone knows what draws.
_draw: Callable[[object], str | None] | None = None


class ShortRepr:
    """A dataclass, declared with `repr=False`, whose representation is one line."""

    def __repr__(self) -> str:
        # A mixin of dataclasses, which mypy cannot express.
        own = fields(self)  # type: ignore[arg-type]
        shown = (f"{one.name}={summarised(getattr(self, one.name))}" for one in own if one.repr)
        return f"{type(self).__name__}({', '.join(shown)})"

    def _repr_html_(self) -> str | None:
        return None if _draw is None else _draw(self)


def draw_results_with(draw: Callable[[object], str | None]) -> None:
    """Lets `draw` say how results look in a notebook; None of it leaves a result its one line."""
    global _draw  # noqa: PLW0603 - what draws imports what computes, and not the other way round
    _draw = draw


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
