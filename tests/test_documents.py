"""JSON and TOML of files: what is read, and what is told of everything else."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pytest
from annotated_types import Ge

from attnlab.core.documents import MOST_DEPTH, fitting, parse_json, read_json, read_toml
from attnlab.core.errors import InputError


@dataclass(frozen=True)
class Part:
    count: Annotated[int, Ge(0)]


@dataclass(frozen=True)
class Whole:
    name: str
    share: float = 1.0
    words: tuple[str, ...] = ()
    part: Part | None = None
    counts: Mapping[str, int] | None = None


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


def test_a_document_is_read_as_its_schema_has_it(tmp_path: Path) -> None:
    path = tmp_path / "one.json"
    path.write_text('{"name": "é", "share": 2, "words": ["a"], "part": {"count": 3}, "newer": 1}')
    assert read_json(path, Whole) == Whole("é", 2.0, ("a",), Part(3))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "it is not JSON: Expecting value"),
        ("{", "it is not JSON"),
        ("null", "it must be a table, not None"),
        ("{}", "name is missing"),
        ('{"name": 3}', "name must be a text, not 3"),
        ('{"name": "x", "name": "y"}', "it has the key 'name' twice"),
        ('{"name": "x", "share": "1"}', "share must be a number, not '1'"),
        ('{"name": "x", "share": true}', "share must be a number, not True"),
        ('{"name": "x", "share": NaN}', "share must be a finite number, not nan"),
        ('{"name": "x", "share": 1e999}', "share must be a finite number, not inf"),
        ('{"name": "x", "words": "ab"}', "words must be a list, not 'ab'"),
        ('{"name": "x", "words": ["a", 1]}', r"words\.1 must be a text, not 1"),
        ('{"name": "x", "part": 3}', "part must be a table, not 3"),
        ('{"name": "x", "part": {"count": -1}}', r"part\.count must be at least 0, not -1"),
        ('{"name": "x", "part": {"count": 1.5}}', r"part\.count must be a whole number, not 1\.5"),
        ('{"name": "x", "part": {"count": 1' + "0" * 30 + "}}", "a number beyond 64 bits"),
        ('{"name": "x", "part": {"count": 1' + "0" * 9000 + "}}", "a number beyond 64 bits"),
        ('{"name": "x", "counts": {"a": "b"}}', r"counts\.a must be a whole number, not 'b'"),
        ('{"name": "\\ud800"}', r"name holds '\\ud800', in which half a character stands"),
        (f'{{"name": {nested(MOST_DEPTH)}}}', f"nested more than {MOST_DEPTH} deep"),
        (nested(100_000), f"nested more than {MOST_DEPTH} deep"),
        ("[" * 100_000, f"nested more than {MOST_DEPTH} deep"),
    ],
)
def test_what_does_not_fit_is_named_in_one_sentence(
    tmp_path: Path, text: str, message: str
) -> None:
    path = tmp_path / "one.json"
    path.write_text(text)
    with pytest.raises(InputError, match=message) as told:
        read_json(path, Whole, advice="make it again")
    assert str(told.value).startswith(f"{path} is damaged (")
    assert str(told.value).endswith("); make it again.")
    assert len(str(told.value)) < 400


def test_long_values_are_told_briefly() -> None:
    with pytest.raises(InputError) as told:
        fitting(Whole, {"name": ["x" * 100] * 1000})
    assert len(str(told.value)) < 300


def test_nan_is_read_where_it_is_allowed() -> None:
    assert math.isnan(parse_json("[NaN]", finite=False)[0])
    assert math.isnan(fitting(Whole, {"name": "x", "share": math.nan}).share)


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    for path in (tmp_path / "none.json", tmp_path):
        with pytest.raises(InputError, match="cannot be read|is a folder and no regular file"):
            read_json(path, dict[str, Any])
    path = tmp_path / "bytes.json"
    path.write_bytes(b'{"a": "\xff"}')
    with pytest.raises(InputError, match="line 1, is not valid UTF-8"):
        read_json(path, dict[str, Any])


def test_files_that_are_too_large_are_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("attnlab.core.documents.MOST_FILE_BYTES", 10)
    (tmp_path / "one.json").write_text('"0123456789"')
    with pytest.raises(InputError, match="has 12 bytes, more than the 10 that are read"):
        read_json(tmp_path / "one.json", str)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a", "Expected '='"),
        ("a = 1\na = 2", "Cannot overwrite a value"),
        ("a = " + nested(100_000), f"nested more than {MOST_DEPTH} deep"),
        ("a = " + nested(MOST_DEPTH), f"nested more than {MOST_DEPTH} deep"),
        (".".join(["a"] * 100) + " = 1", f"nested more than {MOST_DEPTH} deep"),
        ("a = 1" + "0" * 9000, "digits"),
        ("a = 1" + "0" * 30, "a is a number beyond 64 bits"),
        ("[a]\nb = nan", r"a\.b must be a finite number, not nan"),
    ],
)
def test_toml_that_cannot_be_used_is_told(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "one.toml"
    path.write_text(text)
    with pytest.raises(InputError, match=message) as told:
        read_toml(path)
    assert str(told.value).startswith(f"{path} is not a TOML file that can be read (")
    path.write_text("[a]\nb = 1.5\n")
    assert read_toml(path) == {"a": {"b": 1.5}}
