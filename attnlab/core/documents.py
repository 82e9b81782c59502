"""JSON and TOML of files: parsed within limits, and checked against the types that a schema declares.

A schema is a type: a frozen dataclass, or what the standard library has. Keys that a dataclass does not
name are allowed, as newer versions may write them.
"""

import json
import math
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from attnlab.core.errors import InputError, reason
from attnlab.core.limits import LARGEST_NUMBER
from attnlab.core.texts import briefly, has_half_character, read_text

Document = TypeVar("Document")
MOST_FILE_BYTES = 200_000_000
MOST_DEPTH = 40
_NO_TOML, _TOML_ADVICE = "is not a TOML file that can be read", "the README shows one"
_MOST_DIGITS = 40
# What a value must be, by the name that pydantic gives to a fault.
_EXPECTED = {
    "int_type": "a whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "string_type": "a text",
    "bool_type": "true or false",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "a table",
    "mapping_type": "a table",
    "dataclass_type": "a table",
    "literal_error": "{expected}",
    "greater_than_equal": "at least {ge}",
    "greater_than": "above {gt}",
    "less_than_equal": "at most {le}",
    "too_short": "of {min_length} items or more, not {actual_length}",
    "too_long": "of {max_length} items or fewer, not {actual_length}",
    "none_required": "null",
}


def read_json(
    path: str | Path,
    schema: Callable[..., Document],
    *,
    fault: str = "is damaged",
    advice: str = "restore it",
    finite: bool = True,
) -> Document:
    """The content of a JSON file, in the type of the schema.

    Args:
        path: of the file.
        schema: the type that its content must have, such as a dataclass.
        fault: what is said of a file that holds something else.
        advice: what can be done then.
        finite: whether NaN and infinity, which Python writes without being asked, are refused, and whole
            numbers beyond 64 bits.

    Raises:
        InputError: the file cannot be read, or holds something else; the message names the field, what
            was found and what is expected.
    """
    text = document_text(path)
    try:
        return fitting(schema, parse_json(text, finite=finite))
    except InputError as error:
        raise _refused(path, fault, error, advice) from error


def read_toml(path: str | Path) -> dict[str, Any]:
    """The tables that a TOML file holds.

    Raises:
        InputError: see `read_json`.
    """
    text = document_text(path)
    try:
        tables = tomllib.loads(text)
        _check_finite(tables, finite=True)
    except RecursionError as error:
        raise _refused(path, _NO_TOML, _too_deep(), _TOML_ADVICE) from error
    except (ValueError, InputError) as error:
        raise _refused(path, _NO_TOML, error, _TOML_ADVICE) from error
    return tables


def parse_json(text: str, *, finite: bool = True) -> Any:
    """The value that `text` holds.

    Raises:
        InputError: it is not JSON, names a key twice, is nested more than `MOST_DEPTH` deep, or holds half
            a character or, where `finite`, a number beyond 64 bits; without a word of where it comes from.
    """
    try:
        value = json.loads(text, object_pairs_hook=_distinct, parse_int=_whole)
    except ValueError as error:
        msg = f"it is not JSON: {error}"
        raise InputError(msg) from error
    except RecursionError as error:
        raise _too_deep() from error
    _check_finite(value, finite=finite)
    return value


def fitting(schema: Callable[..., Document], value: Any) -> Document:
    """The value, read from JSON, in the type of the schema.

    Raises:
        InputError: a field is missing, of another type or out of range; it is named with its path.
    """
    from pydantic import ValidationError

    try:
        # As text, since only then are lists tuples and tables dataclasses where nothing else is converted.
        document: Document = _adapter(schema).validate_json(json.dumps(value), strict=True)
    except ValidationError as error:
        raise InputError(_message_of(error.errors(include_url=False)[0])) from error
    return document


@cache
def _adapter(schema: Any) -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(schema)


def _message_of(fault: Any) -> str:
    """A fault that pydantic found: field, what is expected, what was found."""
    # Names of types stand in the path where several are allowed.
    field = ".".join(str(part) for part in fault["loc"] if not _names_type(part)) or "it"
    if fault["type"] in {"missing", "missing_argument"}:
        return f"{field} is missing"
    template = _EXPECTED.get(fault["type"])
    if template is None:
        expected = fault["msg"].removeprefix("Input should be ").removeprefix("Value error, ")
    else:
        expected = template.format(**fault.get("ctx", {}))
    return f"{field} must be {expected}, not {briefly(fault['input'])}"


def _names_type(part: object) -> bool:
    return part in {"int", "float", "str", "bool", "none"} or "[" in str(part)


def document_text(path: str | Path) -> str:
    """The text of a file that is parsed as a whole, of `MOST_FILE_BYTES` at most.

    Raises:
        InputError: it cannot be read, is no regular file, or is larger.
    """
    return read_text(path, most_bytes=MOST_FILE_BYTES)


def _refused(path: str | Path, fault: str, error: Exception, advice: str) -> InputError:
    return InputError(f"{path} {fault} ({reason(error)}); {advice}.")


def _too_deep() -> InputError:
    return InputError(f"it is nested more than {MOST_DEPTH} deep")


def _whole(digits: str) -> int:
    if len(digits) > _MOST_DIGITS:
        raise _too_large("it holds")
    return int(digits)


def _too_large(where: str) -> InputError:
    return InputError(f"{where} a number beyond 64 bits")


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        names = [name for name, _ in pairs]
        (twice, _), *_ = Counter(names).most_common(1)
        msg = f"it has the key {briefly(twice)} twice"
        raise InputError(msg)
    return table


def _check_finite(value: Any, *, finite: bool) -> None:
    for path, item in _parts(value):
        if isinstance(item, str) and has_half_character(item):
            msg = f"{path} holds {briefly(item)}, in which half a character stands"
            raise InputError(msg)
        if isinstance(item, int) and finite and abs(item) > LARGEST_NUMBER:
            raise _too_large(f"{path} is")
        if isinstance(item, float) and finite and not math.isfinite(item):
            msg = f"{path} must be a finite number, not {item}"
            raise InputError(msg)


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    """Every value in nested tables and lists, keys among them, with its path."""
    left: list[tuple[tuple[Any, ...], Any]] = [((), value)]
    while left:
        path, item = left.pop()
        if isinstance(item, dict | list):
            if len(path) >= MOST_DEPTH:
                raise _too_deep()
            inner = item.items() if isinstance(item, dict) else enumerate(item)
            left += [((*path, name), part) for name, part in inner]
            if isinstance(item, dict):
                for name in item:
                    yield "a key", name
        else:
            yield ".".join(map(str, path)) or "it", item
