"""How a mechanism is written down: `"band(window=3)"` is read into a frozen value and printed back.

One dataclass a mechanism; its fields are the options, checked here. Nothing is evaluated.
"""

import ast
import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar

from attnlab.errors import InputError

Window = tuple[int, int]


@dataclass(frozen=True)
class Specification:
    """A mechanism's name and options; `str()` prints what `parse` reads."""

    name: ClassVar[str]

    def __str__(self) -> str:
        options = ", ".join(
            f"{field.name}={getattr(self, field.name)!r}" for field in dataclasses.fields(self)
        )
        return f"{self.name}({options})" if options else self.name


@dataclass(frozen=True)
class Full(Specification):
    """Every query sees every key."""

    name: ClassVar[str] = "full"


@dataclass(frozen=True)
class Band(Specification):
    """A query sees the keys at offsets -left..right; one number stands for both sides."""

    name: ClassVar[str] = "band"
    window: int | tuple[int, ...]

    def __post_init__(self) -> None:
        left, right = sides(self.name, self.window)
        object.__setattr__(self, "window", left if left == right else (left, right))


SPECIFICATIONS: dict[str, type[Specification]] = {kind.name: kind for kind in (Full, Band)}


def parse(text: str) -> Specification:
    """The specification that `text` writes down.

    Raises:
        InputError: unknown mechanism, unknown or missing option, or a value out of range.

    >>> parse("band(window=3)")
    Band(window=3)
    >>> str(parse("band(window=(3, 0))"))
    'band(window=(3, 0))'
    """
    name, options = _name_and_options(text)
    if name not in SPECIFICATIONS:
        msg = f"There is no mechanism '{name}'; choose from: {', '.join(SPECIFICATIONS)}."
        raise InputError(msg)
    kind = SPECIFICATIONS[name]
    fields = {field.name: field for field in dataclasses.fields(kind)}
    choices = f"its options are: {', '.join(fields) or 'none'}"
    for option in options:
        if option not in fields:
            msg = f"The mechanism '{name}' has no option '{option}'; {choices}."
            raise InputError(msg)
    for option, field in fields.items():
        if option not in options and field.default is dataclasses.MISSING:
            msg = f"The mechanism '{name}' needs the option '{option}'; {choices}."
            raise InputError(msg)
    return kind(**options)


def _name_and_options(text: str) -> tuple[str, dict[str, Any]]:
    bad = f"'{text}' does not read as a mechanism; write it like: band(window=3)."
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except SyntaxError as error:
        raise InputError(bad) from error
    if isinstance(tree, ast.Name):
        return tree.id, {}
    if not isinstance(tree, ast.Call) or not isinstance(tree.func, ast.Name) or tree.args:
        raise InputError(bad)
    try:
        options = {word.arg: ast.literal_eval(word.value) for word in tree.keywords}
    except ValueError as error:
        raise InputError(bad) from error
    if None in options:
        raise InputError(bad)
    return tree.func.id, {str(name): value for name, value in options.items()}


def sides(name: str, window: int | tuple[int, ...]) -> Window:
    """The window as (left, right); one number stands for both sides.

    Raises:
        InputError: the window is no number or pair from 0 up; the message names the mechanism.
    """
    pair = (window, window) if isinstance(window, int) else window
    whole = isinstance(pair, tuple) and all(type(side) is int and side >= 0 for side in pair)
    if isinstance(window, bool) or not whole or len(pair) != 2:
        msg = (
            f"The window of '{name}' is a number or a pair (left, right) from 0 up, not {window!r}."
        )
        raise InputError(msg)
    return (pair[0], pair[1])
