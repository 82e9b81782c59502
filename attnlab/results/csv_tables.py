"""Tables in CSV, read with the columns and types that are expected; what is wrong is named with its line."""

import csv
import io
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from attnlab.core import (
    HEAD_COLUMNS,
    LARGEST_NUMBER,
    MOST_FILE_BYTES,
    MOST_LAYERS,
    SITES,
    UNKNOWN_SITE,
    InputError,
    briefly,
    counted,
    open_regular,
    read_text_cell,
    reason,
)

Kind = Literal["text", "integer", "number", "boolean"]
# What the cells of a column are; all but text may be missing, which is an empty cell.
TEXT: Kind = "text"
INTEGER: Kind = "integer"
NUMBER: Kind = "number"
BOOLEAN: Kind = "boolean"
_WANTED: Mapping[str, str] = {
    INTEGER: "a whole number",
    NUMBER: "a number",
    BOOLEAN: "True or False",
}
_SITES = (*SITES, UNKNOWN_SITE)
AGAIN = "make the result again"


def read_table(
    path: str | Path,
    kinds: Mapping[str, Kind],
    *,
    keys: Sequence[str] = (),
    rows: int | None = None,
) -> pd.DataFrame:
    """The table of a file, with every digit and the types of its columns.

    Args:
        path: of the file.
        kinds: what the cells of each column are; there must be these columns, in any order.
        keys: columns in which no two rows are alike.
        rows: how many there must be; None: any number.

    Raises:
        InputError: the file cannot be read, or holds something else; the message names the line and the
            column, what was found and what is expected.
    """
    read = _cells_of(path, AGAIN)
    _check_columns(read, kinds)
    found = pd.DataFrame({name: _column(read, name, kinds[name]) for name in read.names})
    _check_head_addresses(read, found)
    _check_distinct_rows(read, found, list(keys))
    if rows is not None and rows != len(found):
        raise read.wrong(f"has {counted(len(found), 'row')}, and {rows:,} were written")
    return found


def read_any_table(path: str | Path, *, advice: str) -> pd.DataFrame:
    """The table of a file of any columns, whose types are guessed from their cells.

    Raises:
        InputError: the file cannot be read, names a column twice, or has a row of fewer or more cells.
    """
    read = _cells_of(path, advice)
    text = io.StringIO()
    csv.writer(text).writerows([read.names, *read.rows])
    return table_of(text.getvalue())


def table_of(text: str) -> pd.DataFrame:
    """The table that `attnlab.core.files.csv_of` wrote; types of columns are guessed from their cells."""
    found = pd.read_csv(io.StringIO(text), keep_default_na=False, na_values=[""])
    texts = list(found.select_dtypes(exclude=["number", "bool"]))
    plain = {str(name): found[name].map(read_text_cell, na_action="ignore") for name in texts}
    return found.assign(**plain)


@dataclass(frozen=True)
class _Cells:
    """The cells of a file.

    Attributes:
        path: of the file.
        advice: what can be done where it is wrong.
        names: of the columns.
        lines: of each row, in the file.
        rows: cells of each row.
    """

    path: str | Path
    advice: str
    names: Sequence[str]
    lines: Sequence[int] = ()
    rows: Sequence[Sequence[str]] = ()

    def column(self, name: str) -> list[str]:
        """The cells of a column."""
        at = self.names.index(name)
        return [row[at] for row in self.rows]

    def wrong(self, what: str) -> InputError:
        """The error that says what is wrong with the file."""
        return InputError(f"{self.path} {what}; {self.advice}.")

    def wrong_cell(self, row: int, name: str, wanted: str, found: object) -> InputError:
        """The error that says what is wrong with a cell."""
        line = f"{self.path}, line {self.lines[row]}"
        return InputError(f"{line}: {name} must be {wanted}, not {briefly(found)}; {self.advice}.")


def _cells_of(path: str | Path, advice: str) -> _Cells:
    nothing = _Cells(path, advice, ())
    try:
        found = list(_rows(Path(path)))
    except (OSError, ValueError, csv.Error) as error:
        expected = error.strerror if isinstance(error, OSError) else reason(error)
        raise nothing.wrong(f"cannot be read as a table in CSV ({expected})") from error
    if not found:
        raise nothing.wrong("is empty, without even the names of columns")
    (_, names), *others = found
    read = _Cells(path, advice, names, [line for line, _ in others], [row for _, row in others])
    for line, row in others:
        if len(row) != len(names):
            raise read.wrong(
                f"has {counted(len(row), 'cell')} in line {line}, and {counted(len(names), 'column')}"
            )
    if len(set(names)) < len(names):
        (twice, _), *_ = Counter(names).most_common(1)
        raise read.wrong(f"has the column {briefly(twice)} twice")
    return read


def _rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    # Line ends stand in cells too, where they are quoted.
    with (
        open_regular(path, most_bytes=MOST_FILE_BYTES) as binary,
        io.TextIOWrapper(binary, encoding="utf-8-sig", newline="") as file,
    ):
        reader = csv.reader(file, strict=True)
        for row in reader:
            if row:
                yield reader.line_num, row


def _check_columns(read: _Cells, kinds: Mapping[str, Kind]) -> None:
    missing = next((name for name in kinds if name not in read.names), None)
    if missing is not None:
        raise read.wrong(f"lacks the column {briefly(missing)}")
    further = next((name for name in read.names if name not in kinds), None)
    if further is not None:
        raise read.wrong(f"has the column {briefly(further)}, which was not written")


def _column(read: _Cells, name: str, kind: Kind) -> "pd.Series[Any]":
    texts = read.column(name)
    if kind == TEXT:
        return pd.Series([read_text_cell(text) for text in texts], dtype=object)
    values = []
    for row, text in enumerate(texts):
        try:
            values.append(_value(text, kind))
        except (ValueError, KeyError, OverflowError) as error:
            raise read.wrong_cell(row, name, _WANTED[kind], text) from error
    if kind == NUMBER:
        return pd.Series(values, dtype="float64")
    whole = {INTEGER: "int64", BOOLEAN: "bool"}[kind]
    return pd.Series(values, dtype=object if None in values else whole)


def _value(text: str, kind: Kind) -> Any:
    if "_" in text:  # Python reads it in numbers
        raise ValueError
    if kind == NUMBER:
        # Python reads every digit, which the parser of CSV does not by default.
        return math.nan if text == "" else float(text)
    if text == "":
        return None
    if kind == BOOLEAN:
        return {"True": True, "False": False}[text]
    number = int(text)
    if abs(number) > LARGEST_NUMBER:
        raise OverflowError
    return number


def _check_head_addresses(read: _Cells, frame: pd.DataFrame) -> None:
    """Raises InputError where a table of heads has a site, a layer or a head that no model has."""
    if not set(frame) >= set(HEAD_COLUMNS):
        return
    counted = (range(MOST_LAYERS), f"a number from 0 to {MOST_LAYERS - 1:,}")
    sites = (frozenset(_SITES), f"one of {', '.join(_SITES)}")
    for name in HEAD_COLUMNS:
        allowed, expected = sites if name == "site" else counted
        values = frame[name].tolist()
        wrong = [one for one in frame[name].unique().tolist() if one not in allowed]
        if wrong:
            raise read.wrong_cell(values.index(wrong[0]), name, expected, wrong[0])


def _check_distinct_rows(read: _Cells, frame: pd.DataFrame, keys: list[str]) -> None:
    """Raises InputError where two rows are alike in the columns `keys`."""
    if not keys or not (again := frame.duplicated(keys)).any():
        return
    groups = frame.groupby(keys, dropna=False, sort=False).ngroup().tolist()
    second = again.tolist().index(True)
    lines = [read.lines[row] for row in (groups.index(groups[second]), second)]
    row = ", ".join(f"{name} {briefly(frame[name].tolist()[second])}" for name in keys)
    raise read.wrong(f"has two rows of {row}, in lines {lines[0]} and {lines[1]}")
