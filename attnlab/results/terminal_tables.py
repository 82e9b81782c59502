"""A table of a result on a terminal: as its command prints it, and `Result.show`."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from attnlab.core import (
    HEAD_COLUMNS,
    Column,
    Estimate,
    counted,
    new_table,
    print_prose,
    print_table,
)
from attnlab.results.export import cell, columns_named, head_names, is_number

# A longer table scrolls away on a terminal and fills a notebook; the result holds every row.
MOST_ROWS = 48
MARK = "*"
_MARKED = f"{MARK} significant at 5 % after Holm's correction"


@dataclass(frozen=True)
class TerminalTable:
    """A table as text.

    Attributes:
        headings: of its columns.
        rows: cells.
        numbers: headings of the columns that are aligned right.
        prose: headings of the columns that may be wrapped.
        title: above it.
        caption: below it.
        legend: what the columns mean, below the caption.
        gap: spaces between columns.
        answers: what was found, a sentence each, above the title.
        columns: what is declared of its columns, where that is known.
        marked: what the mark behind a figure says; empty without marks.
    """

    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numbers: tuple[str, ...] = ()
    title: str | None = None
    caption: str | None = None
    legend: str | None = None
    gap: int = 2
    prose: tuple[str, ...] = ()
    answers: tuple[str, ...] = ()
    columns: tuple[Column, ...] = ()
    marked: str = ""


def rows_shown(
    frame: pd.DataFrame, columns: Sequence[Column], *, title: str | None = None, gap: int = 2
) -> TerminalTable:
    """These columns of all rows, with the headings and decimals that are declared."""
    cells = [[cell(value, column) for value in frame[column.name]] for column in columns]
    return TerminalTable(
        tuple(column.narrow for column in columns),
        tuple(zip(*cells, strict=True)),
        tuple(column.narrow for column in columns if is_number(frame[column.name])),
        title,
        gap=gap,
    )


def first_rows(
    frame: pd.DataFrame,
    columns: Sequence[Column],
    *,
    file: str,
    leading: str = "",
    most: int | None = None,
) -> TerminalTable:
    """Rows of a table as a first screen shows them: few columns, and a legend made of these.

    Figures have the decimals that their intervals carry, and a mark where they are significant.

    Args:
        frame: rows of the table.
        columns: those to show, `head` for the address of a head; left out is what is empty, or the same in
            all rows.
        file: the name of that which has all rows.
        leading: name of the figure that is shown with its interval.
        most: number of rows to show, those with the largest leading figure; None: all.
    """
    rows = frame
    if most is not None and len(frame) > most:
        rows = frame.nlargest(most, leading) if leading in frame else frame.head(most)
    texts: dict[str, list[str]] = {}
    numbers: list[str] = []
    explained: list[str] = []
    shown: list[Column] = []
    same = {
        column.name
        for column in columns[1:]
        if len(frame) > 1
        and Estimate(column).low not in frame
        and frame[column.name].nunique() == 1
    }
    for declared in columns:
        name = declared.name
        if name in same:
            continue
        if name == "head" and set(HEAD_COLUMNS) <= set(frame):
            texts["head"] = head_names(rows)
            shown += columns_named(["head_name"], [])
        elif frame[name].notna().any():
            column = readable(declared, frame) if Estimate(declared).low in frame else declared
            shown.append(column)
            texts[column.narrow] = _cells(column, rows, ends=name == leading)
            numbers += [column.narrow] * is_number(frame[name])
            explained += [column.brief] if column.digits is not None else []
    more = len(frame) - len(rows)
    if any(Estimate(column).significant in frame for column in columns):
        explained.append(_MARKED)
    return TerminalTable(
        tuple(texts),
        tuple(zip(*texts.values(), strict=True)),
        tuple(numbers),
        prose=tuple(heading for heading in texts if heading not in {"head", *numbers}),
        caption=f"and {counted(more, 'more row')} in {file}" if more else None,
        legend="; ".join(explained) + "." if explained else None,
        columns=tuple(shown),
        marked=_MARKED if _MARKED in explained else "",
    )


def readable(column: Column, rows: pd.DataFrame) -> Column:
    """The column with the decimals that its intervals carry, two digits of a usual one."""
    estimate = Estimate(column)
    width = math.nan
    if estimate.low in rows:
        width = (rows[estimate.high] - rows[estimate.low]).median()
    if not 0 < width < math.inf:
        width = rows[column.name].abs().max()
    if not 0 < width < math.inf:
        return column
    return replace(column, digits=max(0, 1 - math.floor(math.log10(width))))


def _cells(column: Column, rows: pd.DataFrame, *, ends: bool) -> list[str]:
    """Values of a column; of an estimate with a sign where it is a change, a mark, and ends of intervals."""
    estimate = Estimate(column)
    if estimate.low not in rows:
        return [cell(value, column) for value in rows[column.name]]
    return [_estimated(estimate, row, ends=ends) for row in rows.to_dict("records")]


def _estimated(estimate: Estimate, row: Mapping[Any, Any], *, ends: bool) -> str:
    if math.isnan(row[estimate.name]):
        return ""
    value, _, interval = estimate.shown(row, signed=estimate.column.signed).partition(" ")
    mark = MARK if row.get(estimate.significant) is True else " " * (estimate.significant in row)
    return f"{value}{mark} {interval}".rstrip(" " if interval else "") if ends else f"{value}{mark}"


def print_shown(table: TerminalTable) -> None:
    """A table of a result on standard output."""
    for answer in table.answers:
        print_prose(answer)
    drawn = new_table(
        *table.headings, numbers=table.numbers, prose=table.prose, title=table.title,
        caption=table.caption, gap=table.gap,
    )  # fmt: skip
    for row in table.rows:
        drawn.add_row(*row)
    if table.answers:
        print_prose("")
    print_table(drawn, table.legend)
