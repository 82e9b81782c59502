"""Settings that a user makes: frozen dataclasses whose fields say what they mean and what they may be.

A setting is declared once, as a field of a dataclass that extends `Settings`::

    seed: Annotated[int, Option("Seed of the bootstrap.", least=0)] = 0

From that line come its validation, the option on the command line (`attnlab.cli.command_options`), and the
keyword argument of the public function (`options_of`), with its type, default and documentation.
"""

import dataclasses
import functools
import inspect
import math
from collections import abc
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from pathlib import Path, PurePath
from types import UnionType
from typing import (
    Annotated,
    Any,
    Concatenate,
    Literal,
    ParamSpec,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from attnlab.core.errors import InputError
from attnlab.core.limits import LARGEST_NUMBER
from attnlab.core.texts import (
    briefly,
    check_characters,
    nearest,
    path_label,
)

# Sentences in one forward pass, where nothing else is said.
BATCH_SIZE = 32
# Called with (what is being done, done, in all).
Progress = Callable[[str, int, int], None]
Source = TypeVar("Source")
Chosen = TypeVar("Chosen")
Result = TypeVar("Result")
Keywords = ParamSpec("Keywords")

# Stands in docstrings where the options are listed.
SETTINGS_LINE = "    settings: as keyword arguments."
KIND_NAMES: dict[Any, tuple[str, Any]] = {
    bool: ("true or false", bool),
    int: ("a whole number", Integral),
    float: ("a number", Real),
    str: ("a text", str),
    Path: ("a path", PurePath),
    Callable[..., Any]: ("a function", Callable),
}


@dataclass(frozen=True)
class Option:
    """Help text, range and names on the command line of a field of `Settings`.

    Attributes:
        help: what is set, with its unit; it serves the command line and a notebook.
        flags: its names on the command line; without any, the name of the field.
        least: smallest number that is allowed.
        most: largest.
        above: all allowed numbers are larger.
        below: all allowed numbers are smaller.
        choices: the texts that are allowed.
        none: the word for a sequence without any of the choices, if there is one.
        shown: the default in words, where the value does not say it.
        read: reads the value from one word of the command line.
        argument: whether a command takes it as a word without a flag, behind its source; a sequence as all
            words that are left.
        example: how one of its values looks in Python, for the message that refuses another kind.
        listed: of a file, the option that takes what it holds as a list.
        names: what a text or a path names, which is looked for before any work.
    """

    help: str
    flags: tuple[str, ...] = ()
    least: int | float | None = None
    most: int | float | None = None
    above: int | float | None = None
    below: int | float | None = None
    choices: tuple[str, ...] = ()
    none: str | None = None
    shown: str | None = None
    read: Callable[[str], Any] | None = None
    argument: bool = False
    example: str | None = None
    listed: str | None = None
    names: Literal["model", "plan", "texts", "treebank", "corpus"] | None = None

    def refuse(self, name: str, value: Any) -> None:
        """Raises InputError for a value outside the range or the choices, or a sequence of such."""
        several = isinstance(value, Sequence) and not isinstance(value, str)
        for item in value if several else (value,):
            if isinstance(item, Real) and not self._holds(_plain(item)):
                msg = f"{name} must be {self._range()}, not {briefly(item)}."
                raise InputError(msg)
            if self.choices and isinstance(item, str) and item not in self.choices:
                chosen = "among" if several else "one of"
                choices = ", ".join(self.choices) + (f", or {self.none}" if self.none else "")
                msg = f"{name} must be {chosen} {choices}, not '{item}'."
                raise InputError(msg)

    def _bounds(self) -> list[tuple[str, int | float]]:
        bounds = (
            ("at least", self.least),
            ("above", self.above),
            ("at most", self.most),
            ("below", self.below),
        )
        return [(words, bound) for words, bound in bounds if bound is not None]

    def _range(self) -> str:
        written = [
            f"{words} {bound if isinstance(bound, int) else f'{bound:g}'}"
            for words, bound in self._bounds()
        ]
        bounds = " and ".join(written) or "a finite number of 64 bits"
        return f"a number {bounds}" if self.above is not None else bounds

    def _holds(self, number: int | float) -> bool:
        finite = isinstance(number, int) or math.isfinite(number)
        return (
            finite
            and abs(number) <= (LARGEST_NUMBER if isinstance(number, int) else math.inf)
            and (self.least is None or number >= self.least)
            and (self.most is None or number <= self.most)
            and (self.above is None or number > self.above)
            and (self.below is None or number < self.below)
        )


@dataclass(frozen=True)
class OptionField:
    """A field of settings with its option.

    Attributes:
        name: of the field, and of the keyword argument.
        kind: its type.
        default: its value where none is given; `dataclasses.MISSING` where one must be.
        option: what it says.
    """

    name: str
    kind: Any
    default: Any
    option: Option

    def kinds(self) -> list[Any]:
        """The type, or the types of a union."""
        several = get_origin(self.kind) in (Union, UnionType)
        return list(get_args(self.kind)) if several else [self.kind]

    def is_given(self, value: Any) -> bool:
        """Whether a value is another than the default."""
        # Of arrays `==` is no truth.
        return not (type(value) is type(self.default) and value == self.default)

    def labelled(self, value: Any) -> Any:
        """The value with paths as results name them, see `path_label`."""
        if isinstance(value, list | tuple):
            return [self.labelled(item) for item in value]
        inner = [part for kind in self.kinds() for part in (kind, *_inner_kinds(kind))]
        named = isinstance(value, Path) or (isinstance(value, str) and Path in inner)
        return path_label(value) if named else value

    def read(self, typed: Any) -> Any:
        """The value of what the command line has, where it is read from a word."""
        if typed == self.option.none:
            return ()
        return typed if self.option.read is None else self.option.read(typed)

    @property
    def takes_texts(self) -> bool:
        """Whether it can be a sequence of texts or of pairs, which a result names by number alone."""
        inner = [part for kind in self.kinds() for part in _inner_kinds(kind)]
        return tuple[str, str] in inner or tuple[Any, Any] in inner

    def several(self, value: Any) -> Any:
        """A value as a sequence, where one is wanted.

        One value alone, such as a number, text or model, is a sequence of one, or is read as on the command
        line, and None is an empty choice where the command line has a word for that.
        """
        if value is None:
            return () if self.option.none else None
        if isinstance(value, Real) and value is not True and value is not False:
            # NumPy's numbers go into no JSON, and torch takes none as a seed.
            value = _plain(value)
        kinds = [kind for kind in self.kinds() if _inner_kinds(kind)]
        if len(kinds) < len([kind for kind in self.kinds() if kind is not type(None)]):
            return value
        if isinstance(value, str) and self.option.read is not None:
            return self.read(value)
        single = isinstance(value, str) or not isinstance(value, Iterable)
        # A pair, where pairs are values.
        single |= isinstance(value, tuple) and not any(_is_kind(value, kind) for kind in kinds)
        alone = single and any(_is_kind((value,), kind) for kind in kinds)
        return (value,) if alone else value

    def refuse(self, value: Any, path: str | None = None) -> None:
        """Raises InputError for a value that the setting cannot have.

        Args:
            value: what was given.
            path: how the setting is called in the message; None: its name in words, which a notebook
                and the command line share.
        """
        name = path or self.name.replace("_", " ")
        kinds = self.kinds()
        if value is None and type(None) in kinds:
            return
        kinds = [kind for kind in kinds if kind is not type(None)]
        names = [_name_of(kind) for kind in kinds]
        if self.option.listed and isinstance(value, list | tuple):
            msg = (
                f"{name} must be the path of a file; a list is given as {self.option.listed}=[...]."
            )
            raise InputError(msg)
        if None not in names and not any(_is_kind(value, kind) for kind in kinds):
            kind_words = " or ".join(dict.fromkeys(map(str, names)))
            example = f", such as {self.option.example}" if self.option.example else ""
            msg = f"{name} must be {kind_words}{example}, not {briefly(value)}."
            raise InputError(msg)
        if get_origin(self.kind) is dict and not (
            isinstance(value, dict) and all(isinstance(text, str) for text in value.values())
        ):
            msg = f"{name} must be a table of texts, not {briefly(value)}."
            raise InputError(msg)
        if isinstance(value, str):
            check_characters(value, name)
        self.option.refuse(name, value)


def check_value(name: str, value: object, kind: Any = int, **bounds: int | float) -> None:
    """Raises InputError for an argument of another kind, or out of bounds, which are those of `Option`.

    >>> check_value("beams", "4", least=1)
    Traceback (most recent call last):
    attnlab.core.errors.InputError: beams must be a whole number, not '4'.
    """
    OptionField(name, kind, dataclasses.MISSING, Option("", **bounds)).refuse(value)  # type: ignore[arg-type]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings that refuse what they cannot be.

    Raises:
        InputError: a value of the wrong kind, out of range or no choice.
    """

    def __post_init__(self) -> None:
        for field in option_fields(type(self)):
            field.refuse(getattr(self, field.name))

    @classmethod
    def value_of(cls, field: OptionField, given: Any) -> Any:
        """The value that a field gets where a keyword argument is handed in."""
        return field.several(given)

    def check_source(self, source: object) -> None:
        """Raises InputError for options that a source has no use for, or that name what is not there."""

    def keywords(self) -> dict[str, Any]:
        """The fields by name, as the function takes them that the settings are for."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}


def option_fields(settings: type[Settings]) -> tuple[OptionField, ...]:
    """The fields of a class of settings that are options, in order."""
    return _read_fields(settings)  # type: ignore[arg-type]  # a class can be hashed


@functools.cache
def _read_fields(settings: type[Settings]) -> tuple[OptionField, ...]:
    kinds = get_type_hints(settings, include_extras=True)
    fields = []
    for field in dataclasses.fields(settings):
        kind, *metadata = get_args(kinds[field.name]) or (kinds[field.name],)
        options = [item for item in metadata if isinstance(item, Option)]
        if get_origin(kinds[field.name]) is Annotated and options:
            fields.append(OptionField(field.name, kind, field.default, options[0]))
    return tuple(fields)


def words_typed(settings: Settings) -> list[str] | None:
    """The words to type for the options that differ from their defaults; None where one is a list.

    Paths are `path_label`s. A list of texts can be handed in only in Python.
    """
    arguments: list[str] = []
    flags: list[str] = []
    for field in option_fields(type(settings)):
        value, option = getattr(settings, field.name), field.option
        if not field.is_given(value):
            continue
        several = isinstance(value, Sequence) and not isinstance(value, str)
        if several and field.takes_texts:
            return None
        if several and option.read is not None:
            value, several = ",".join(map(str, value)) or option.none, False
        words = [
            str(field.labelled(one)) for one in (value if several else (value,)) if one is not None
        ]
        flag = (*option.flags, f"--{field.name.replace('_', '-')}")[0]
        if option.argument:
            arguments += words
        elif isinstance(value, bool):
            flags.append(flag.split("/")[0 if value else -1])
        else:
            flags += [word for one in words for word in (flag, one)]
    return [*arguments, *flags]


def options_of(
    settings: Callable[Keywords, Chosen],
) -> Callable[
    [Callable[[Source, Chosen], Result]], Callable[Concatenate[Source, Keywords], Result]
]:
    """Lets a function of a source and settings take the fields of the settings as keyword arguments.

    Type checkers see the fields through the parameter specification of the class; `help()` shows
    them with their types, defaults and texts.

    Args:
        settings: a class that extends `Settings`.
    """

    def decorate(
        study: Callable[[Source, Chosen], Result],
    ) -> Callable[Concatenate[Source, Keywords], Result]:
        def call(source: Source, /, *args: Keywords.args, **keywords: Keywords.kwargs) -> Result:
            check_keywords(study.__name__, keywords, settings)
            values = _positions(study.__name__, args, keywords, settings)
            given = inspect.signature(settings).bind(*values, **keywords).arguments
            for field in option_fields(settings):  # type: ignore[arg-type]
                if field.name in given:
                    given[field.name] = settings.value_of(field, given[field.name])  # type: ignore[attr-defined]
            made = settings(**given)  # type: ignore[call-arg]  # the same fields, by name
            made.check_source(source)  # type: ignore[attr-defined]
            result = study(source, made)
            # A `Result` keeps how it was asked for.
            remember = getattr(result, "remembering", None)
            return result if remember is None else remember(study.__name__, source, made)

        functools.update_wrapper(call, study)
        study_signature = inspect.signature(study)
        first = next(iter(study_signature.parameters.values())).replace(
            kind=inspect.Parameter.POSITIONAL_ONLY
        )
        kinds = get_type_hints(settings)
        fields = [
            parameter.replace(annotation=kinds[parameter.name])
            for parameter in inspect.signature(settings).parameters.values()
        ]
        signature = study_signature.replace(parameters=[first, *fields])
        call.__signature__ = signature  # type: ignore[attr-defined]
        call.__doc__ = _documented(inspect.getdoc(study) or "", settings)
        return call

    return decorate


def _positions(
    name: str, values: Sequence[Any], keywords: Collection[str], settings: Any
) -> Sequence[Any]:
    """The values behind the source; those that a command takes as all words that are left become one list.

    Raises:
        TypeError: values are given in two ways, or must be named.
    """
    fields = [field for field in option_fields(settings) if field.option.argument]
    inner = _inner_kinds(fields[-1].kind) if fields else ()
    if inner:
        *before, rest = *values[: len(fields) - 1], values[len(fields) - 1 :]
        has_list = any(isinstance(value, list) for value in rest)
        if rest and (fields[-1].name in keywords or (has_list and len(rest) > 1)):
            msg = (
                f"{name}() takes {fields[-1].name} one by one behind its source, or all in one list; write "
                "everything else by name."
            )
            raise TypeError(msg)
        # A model can be a pair, which is no list of two.
        if len(rest) > 1 or (rest and Any in inner and not has_list):
            return [*before, list(rest)]
    _check_positions(name, values, settings)
    return values


def _check_positions(name: str, values: Sequence[Any], settings: Any) -> None:
    """Raises TypeError for a value behind the source that must be named, saying how to write it."""
    parameters = inspect.signature(settings).parameters.values()
    positional = [one for one in parameters if one.kind is one.POSITIONAL_OR_KEYWORD]
    if len(values) > len(positional):
        given = values[len(positional)]
        names = [parameter.name for parameter in parameters]
        texts = isinstance(given, list | tuple | str) and "sentences" in names
        hint = "sentences=[...]" if texts else f"NAME=..., such as {names[len(positional)]}=...,"
        if hasattr(given, "convert_ids_to_tokens"):
            hint = "(model, tokenizer), a pair, where it belongs to the model,"
        msg = f"{name}() takes options by name; write {hint} for {briefly(given)}."
        raise TypeError(msg)


def arguments_told(
    function: Callable[Keywords, Result], name: str = ""
) -> Callable[Keywords, Result]:
    """Lets a function name its arguments, and itself as `name`, where it is called with others."""
    signature = inspect.signature(function)

    @functools.wraps(function)
    def call(*args: Keywords.args, **keywords: Keywords.kwargs) -> Result:
        try:
            signature.bind(*args, **keywords)
        except TypeError as error:
            takes = ", ".join(map(_argument_told, signature.parameters.values()))
            msg = f"{name or function.__name__}(): {error}; its arguments are: {takes}."
            raise TypeError(msg) from None
        return function(*args, **keywords)

    return call


def _argument_told(parameter: inspect.Parameter) -> str:
    """An argument by its name, with the class where that is one of settings."""
    kinds = get_args(parameter.annotation) or (parameter.annotation,)
    classes = [
        kind.__name__ for kind in kinds if isinstance(kind, type) and dataclasses.is_dataclass(kind)
    ]
    return f"settings={classes[0]}(...)" if parameter.name == "settings" else parameter.name


def check_progress(progress: object) -> None:
    """Raises InputError for what cannot be called as a `Progress`, such as True."""
    if progress is not None and not callable(progress):
        msg = (
            f"progress is a function that is called with (what is being done, done, in all), not {progress}; "
            "leave it out to be told nothing."
        )
        raise InputError(msg)


# Options of commands that in Python belong to what a function returns.
_OF_SAVING = ("out", "overwrite")
_OF_CAPTURE = ("layers", "heads", "rows")


def check_keywords(name: str, keywords: Collection[str], settings: Any) -> None:
    """Raises TypeError for a keyword that is no field of the settings, with the nearest that is.

    >>> @dataclass(frozen=True, kw_only=True)
    ... class Seeded(Settings):
    ...     seed: int = 0
    >>> check_keywords("analyze", ["sed"], Seeded)
    Traceback (most recent call last):
    TypeError: analyze() has no option 'sed'; did you mean 'seed'?
    """
    names = [field.name for field in dataclasses.fields(settings)]
    unknown = next((keyword for keyword in keywords if keyword not in names), None)
    if unknown is not None:
        near = nearest(unknown, names)
        hint = f"did you mean {near!r}?" if near else f"its options are: {', '.join(names)}."
        if unknown in _OF_SAVING:
            hint = "a result is written with its own save(folder, overwrite=...)."
        if unknown in _OF_CAPTURE:
            hint = f"all are taken; attnlab.capture(..., {unknown}=[...]) reads some."
        msg = f"{name}() has no option {unknown!r}; {hint}"
        raise TypeError(msg)


def _documented(text: str, settings: Any) -> str:
    """The docstring with a line for each option instead of `SETTINGS_LINE`."""
    lines = [
        f"    {field.name}: {field.option.help}"
        + (" Or a list of them, or the path of a file of them." if _counts_or_lists(field) else "")
        + (f" None: {field.option.shown}." if field.option.shown else "")
        for field in option_fields(settings)
    ]
    return text.replace(SETTINGS_LINE, "\n".join(lines))


def _counts_or_lists(field: OptionField) -> bool:
    """Whether an option is a number of things or these themselves."""
    kinds = field.kinds()
    return int in kinds and any(map(_inner_kinds, kinds))


def _plain(number: Real) -> int | float:
    # Not as a float where it is whole: that cannot hold every whole number.
    return int(number) if isinstance(number, Integral) else float(number)


def _name_of(kind: Any) -> str | None:
    """The words for values of a kind; None for a kind that has none."""
    if kind in KIND_NAMES:
        return KIND_NAMES[kind][0]
    if get_origin(kind) is tuple:
        return f"{len(get_args(kind))} values"
    if Any in _inner_kinds(kind):
        return "a list"
    # In a list a class is called by its own name.
    inner = [
        _name_of(inner_kind) or getattr(inner_kind, "__name__", None)
        for inner_kind in _inner_kinds(kind)
    ]
    return (
        None
        if None in inner or not inner
        else "a list, each of it " + " or ".join(dict.fromkeys(map(str, inner)))
    )


def _inner_kinds(kind: Any) -> tuple[Any, ...]:
    """The types of the values of a sequence; empty for other kinds."""
    if get_origin(kind) is not abc.Sequence:
        return ()
    inner = get_args(kind)[0]
    return get_args(inner) if get_origin(inner) in (Union, UnionType) else (inner,)


# Not by pydantic: with validators for NumPy's numbers, arrays as lists and sentences of our own it takes more
# lines than this, and 0.2 s of processor time before the first settings are made, in place of 0.001 s.
def _is_kind(value: Any, kind: Any) -> bool:
    if kind is Any:
        return True
    inner = _inner_kinds(kind)
    if inner:
        # Arrays are lists too, of numbers.
        listed = not isinstance(value, str | dict | Real | None)
        return listed and (
            not isinstance(value, Sequence)
            or all(any(_is_kind(item, kind) for kind in inner) for item in value)
        )
    if get_origin(kind) is tuple:
        kinds = get_args(kind)
        return (
            isinstance(value, tuple | list)
            and len(value) == len(kinds)
            and all(map(_is_kind, value, kinds))
        )
    if isinstance(value, bool):
        return kind is bool
    return isinstance(value, KIND_NAMES.get(kind, ("", kind))[1])
