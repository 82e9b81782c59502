"""Tables in CSV, read with the columns and types that are expected; what is wrong is named with its line."""

import csv
import io
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
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
    texts = _texts_of(path, AGAIN)
    _check_columns(path, texts, kinds)
    # The index is the line, until nothing more can be wrong.
    frame = pd.DataFrame({name: _column(path, texts[name], kinds[name]) for name in kinds})[
        [*texts]
    ]
    _check_head_addresses(path, frame)
    _check_distinct_rows(path, frame, list(keys))
    if rows is not None and rows != len(frame):
        raise _fault(path, f"has {counted(len(frame), 'row')}, and {rows:,} were written")
    return frame.reset_index(drop=True)


def read_any_table(path: str | Path, *, advice: str) -> pd.DataFrame:
    """The table of a file of any columns, whose types are guessed from their cells.

    Raises:
        InputError: the file cannot be read, names a column twice, or has a row of fewer or more cells.
    """
    return table_of(_texts_of(path, advice).to_csv(index=False, lineterminator="\n"))


def table_of(text: str) -> pd.DataFrame:
    """The table that `attnlab.core.files.csv_of` wrote; types of columns are guessed from their cells."""
    table = pd.read_csv(io.StringIO(text), keep_default_na=False, na_values=[""])
    texts = list(table.select_dtypes(exclude=["number", "bool"]))
    plain = {str(name): table[name].map(read_text_cell, na_action="ignore") for name in texts}
    return table.assign(**plain)


def _fault(path: str | Path, what: str, advice: str = AGAIN) -> InputError:
    return InputError(f"{path} {what}; {advice}.")


def _cell_fault(
    path: str | Path, cell: tuple[int, str], expected: str, value: object
) -> InputError:
    """The error that says what is wrong with the cell of a line and a column."""
    line, name = cell
    what = f"{name} must be {expected}, not {briefly(value)}"
    return InputError(f"{path}, line {line}: {what}; {AGAIN}.")


def _texts_of(path: str | Path, advice: str) -> pd.DataFrame:
    """The cells of a file as they stand there; the index is the line at which a row ends."""
    try:
        lines = list(_lines(Path(path)))
    except (OSError, ValueError, csv.Error) as error:
        why = error.strerror if isinstance(error, OSError) else reason(error)
        raise _fault(path, f"cannot be read as a table in CSV ({why})", advice) from error
    if not lines:
        raise _fault(path, "is empty, without even the names of columns", advice)
    (_, names), *rows = lines
    for line, row in rows:
        if len(row) != len(names):
            cells, columns = counted(len(row), "cell"), counted(len(names), "column")
            raise _fault(path, f"has {cells} in line {line}, and {columns}", advice)
    if len(set(names)) < len(names):
        (twice, _), *_ = Counter(names).most_common(1)
        raise _fault(path, f"has the column {briefly(twice)} twice", advice)
    return pd.DataFrame([row for _, row in rows], [line for line, _ in rows], names, dtype=object)


def _lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    # Line ends stand in cells too, where they are quoted.
    with (
        open_regular(path, most_bytes=MOST_FILE_BYTES) as binary,
        io.TextIOWrapper(binary, encoding="utf-8-sig", newline="") as file,
    ):
        reader = csv.reader(file, strict=True)
        for row in reader:
            if row:
                yield reader.line_num, row


def _check_columns(path: str | Path, texts: pd.DataFrame, kinds: Mapping[str, Kind]) -> None:
    for name in kinds:
        if name not in texts:
            raise _fault(path, f"lacks the column {briefly(name)}")
    for name in map(str, texts):
        if name not in kinds:
            raise _fault(path, f"has the column {briefly(name)}, which was not written")


def _column(path: str | Path, texts: "pd.Series[Any]", kind: Kind) -> "pd.Series[Any]":
    if kind == TEXT:
        return pd.Series(map(read_text_cell, texts), texts.index, dtype=object)
    expected, value_of, dtype = _READ[kind]
    values = []
    for line, text in zip(texts.index.tolist(), texts, strict=True):
        try:
            values.append(None if text == "" else value_of(text))
        except (ValueError, KeyError) as error:
            raise _cell_fault(path, (line, str(texts.name)), expected, text) from error
    is_whole = kind == NUMBER or None not in values
    return pd.Series(values, texts.index, dtype=dtype if is_whole else object)


def _number(text: str) -> float:
    # Python reads every digit, which the parser of CSV does not by default.
    if "_" in text:
        raise ValueError
    return float(text)


def _whole_number(text: str) -> int:
    if "_" in text or abs(number := int(text)) > LARGEST_NUMBER:
        raise ValueError
    return number


# What the cells must be, how they are read, and the type of a column without empty ones.
_READ: Mapping[Kind, tuple[str, Callable[[str], Any], str]] = {
    INTEGER: ("a whole number", _whole_number, "int64"),
    NUMBER: ("a number", _number, "float64"),
    BOOLEAN: ("True or False", {"True": True, "False": False}.__getitem__, "bool"),
}


def _check_head_addresses(path: str | Path, frame: pd.DataFrame) -> None:
    """Raises InputError where a table of heads has a site, a layer or a head that no model has."""
    if not set(frame) >= set(HEAD_COLUMNS):
        return
    sites, numbers = (*SITES, UNKNOWN_SITE), range(MOST_LAYERS)
    for name in HEAD_COLUMNS:
        allowed: Any = sites if name == "site" else numbers
        expected = (
            f"one of {', '.join(sites)}"
            if name == "site"
            else f"a number from 0 to {MOST_LAYERS - 1:,}"
        )
        wrong = frame.loc[~frame[name].isin(allowed), name]
        if len(wrong):
            raise _cell_fault(path, (wrong.index.tolist()[0], name), expected, wrong.tolist()[0])


def _check_distinct_rows(path: str | Path, frame: pd.DataFrame, keys: list[str]) -> None:
    """Raises InputError where two rows are alike in the columns `keys`."""
    if not keys or not (again := frame.duplicated(keys)).any():
        return
    groups = frame.groupby(keys, dropna=False, sort=False).ngroup()
    second = int(again.to_numpy().argmax())
    first = int(groups.eq(groups.iloc[second]).to_numpy().argmax())
    row = ", ".join(f"{name} {briefly(frame[name].astype(object).iloc[second])}" for name in keys)
    lines = f"{frame.index[first]} and {frame.index[second]}"
    raise _fault(path, f"has two rows of {row}, in lines {lines}")
