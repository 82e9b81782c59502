"""Specifications of mechanisms: `"band(window=3)"` is read into a frozen value and printed back.

One dataclass per mechanism, in the mechanism's own file; its fields are the options, which it checks
when it is made. Nothing is evaluated. Annotations of options are wide on purpose: a value that cannot
be used is refused with a sentence, not with a type error.
"""

import ast
import dataclasses
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from attnlab.core import LARGEST_SEED, LONGEST_TEXT, AttnlabError, InputError, briefly, shown

# Characters of a text that a message repeats.
_MOST_SHOWN = 200
Window = tuple[int, int]


@dataclass(frozen=True)
class Specification:
    """A mechanism's name and options; `str()` prints what `parse` reads.

    Attributes:
        choices: the values of options that take one of a few words.
    """

    name: ClassVar[str]
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {}

    def __str__(self) -> str:
        options = ", ".join(
            f"{field.name}={getattr(self, field.name)!r}"
            for field in dataclasses.fields(self)
            if field.default is dataclasses.MISSING or getattr(self, field.name) != field.default
        )
        return f"{self.name}({options})" if options else self.name

    def check_integer(self, option: str, least: int) -> None:
        """Refuses an option that is no whole number from `least` up."""
        value = getattr(self, option)
        if type(value) is not int or value < least:
            msg = (
                f"The option '{option}' of '{self.name}' is a whole number from {least} up, "
                f"not {briefly(value)}."
            )
            raise InputError(msg)
        if value > LARGEST_SEED:
            msg = f"The option '{option}' of '{self.name}' is at most {LARGEST_SEED}, not {value}."
            raise InputError(msg)

    def check_at_most(self, most: int, *options: str) -> None:
        """Refuses whole numbers that are larger than any sentence has use for."""
        for option in options:
            value = getattr(self, option)
            if isinstance(value, int) and value > most:
                msg = f"The option '{option}' of '{self.name}' is at most {most:,}, not {value:,}."
                raise InputError(msg)

    def check_chosen(self) -> None:
        """Refuses an option that is none of its choices."""
        for option, choices in self.choices.items():
            value = getattr(self, option)
            if value not in choices:
                listed = ", ".join(repr(choice) for choice in choices)
                msg = f"The option '{option}' of '{self.name}' is one of {listed}, not {briefly(value)}."
                raise InputError(msg)

    def check_distinct(self, option: str) -> None:
        """Refuses an option that is no list of different whole numbers; keeps it as a tuple."""
        numbers = getattr(self, option)
        whole = isinstance(numbers, list | tuple) and all(type(number) is int for number in numbers)
        if not whole or len(set(numbers)) < len(numbers):
            msg = (
                f"The option '{option}' of '{self.name}' is a list of different whole numbers such as "
                f"[0, 2], not {briefly(numbers)}."
            )
            raise InputError(msg)
        if any(abs(number) > LONGEST_TEXT for number in numbers):
            msg = (
                f"The numbers of '{option}' of '{self.name}' are at most {LONGEST_TEXT:,} in size."
            )
            raise InputError(msg)
        object.__setattr__(self, option, tuple(numbers))

    def check_length(self, tokens: int) -> None:
        """Refuses a sentence that is longer than the option `max_length`.

        Raises:
            AttnlabError: it is.
        """
        longest = getattr(self, "max_length")  # noqa: B009 - not every kind has one
        if tokens > longest:
            msg = (
                f"'{self}' was made for sentences of at most {longest} tokens and met one of {tokens}; "
                "choose a larger max_length."
            )
            raise AttnlabError(msg)

    def shorten_window(self) -> None:
        """Replaces the option `window` by its shortest form; one number stands for both sides."""
        left, right = sides(self.name, getattr(self, "window"))  # noqa: B009 - not every kind has one
        if max(left, right) > LONGEST_TEXT:
            msg = f"The window of '{self.name}' is at most {LONGEST_TEXT:,}, not {max(left, right):,}."
            raise InputError(msg)
        object.__setattr__(self, "window", left if left == right else (left, right))


def specified(kind: type[Specification], options: Mapping[str, Any]) -> Specification:
    """The specification of a kind with these options.

    Raises:
        InputError: unknown or missing option, or a value out of range.
    """
    name = kind.name
    fields = {field.name: field for field in dataclasses.fields(kind)}
    choices = f"its options are: {', '.join(fields) or 'none'}"
    for option in options:
        if option not in fields:
            msg = f"The mechanism '{name}' has no option {briefly(option)}; {choices}."
            raise InputError(msg)
    for option, field in fields.items():
        if option not in options and field.default is dataclasses.MISSING:
            msg = f"The mechanism '{name}' needs the option '{option}'; {choices}."
            raise InputError(msg)
    return kind(**options)


def name_and_options(text: str) -> tuple[str, dict[str, Any]]:
    """The name and the options that `text` writes down.

    Raises:
        InputError: it does not read as a mechanism.

    >>> name_and_options("fixed(pattern=next)")
    ('fixed', {'pattern': 'next'})
    """
    quoted = shown(text) if len(text) <= _MOST_SHOWN else briefly(text).strip("'\"")
    bad = f"'{quoted}' does not read as a mechanism; write it like: band(window=3)."
    try:
        with warnings.catch_warnings():
            # Of what a program would mean by it, which nobody runs.
            warnings.simplefilter("ignore")
            tree = ast.parse(text.strip(), mode="eval").body
    # The last two where thousands of brackets or signs stand within each other.
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        raise InputError(bad) from error
    if isinstance(tree, ast.Name):
        return tree.id, {}
    if not isinstance(tree, ast.Call) or not isinstance(tree.func, ast.Name) or tree.args:
        raise InputError(bad)
    try:
        options = {word.arg: _value(word.value) for word in tree.keywords}
    except (ValueError, TypeError, MemoryError, RecursionError) as error:
        raise InputError(bad) from error
    if None in options or len(options) < len(tree.keywords):
        raise InputError(bad)
    return tree.func.id, {str(name): value for name, value in options.items()}


def _value(expression: ast.expr) -> Any:
    """A literal; a word may stand without the quotes, which shells take away."""
    return expression.id if isinstance(expression, ast.Name) else ast.literal_eval(expression)


def sides(name: str, window: Any) -> Window:
    """The window as (left, right); one number stands for both sides.

    Raises:
        InputError: the window is no number or pair from 0 up; the message names the mechanism.
    """
    pair = (window, window) if isinstance(window, int) else window
    whole = isinstance(pair, tuple) and all(type(side) is int and side >= 0 for side in pair)
    if isinstance(window, bool) or not whole or len(pair) != 2:
        msg = f"The window of '{name}' is a number or a pair (left, right) from 0 up, not {briefly(window)}."
        raise InputError(msg)
    return (pair[0], pair[1])
