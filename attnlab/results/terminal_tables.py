"""A table of a result on a terminal: as its command prints it, and `Result.show`."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd
from rich.table import Table as Drawn

from attnlab.core import (
    HEAD_COLUMNS,
    Column,
    Estimate,
    Terminal,
    counted,
    fold_headings,
    is_terminal,
    new_table,
    print_prose,
    print_table,
)
from attnlab.results.export import HEAD_NAME, cell, head_names, is_number

# A longer table scrolls away on a terminal and fills a notebook; the result holds every row.
MOST_ROWS = 48
MARK = "*"
# More than a reader takes in at once; files and pages have all of them.
MOST_COLUMNS = 8
# Characters of a cell that is never wrapped, such as `word offset -1`.
_FEW_WORDS = 16
# What a mark says, by the column that gives it: that of a figure with this ending.
_MARKED = {
    "significant": f"{MARK} significant at 5 % after Holm's correction",
    "above_controls": f"{MARK} above controls, by however little",
    "above_bar": f"{MARK} above controls, by 0.1 or more",
}


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
        words: what else is said of the cells, as the last part of the legend.
        leading: heading of the figure with its interval.
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
    words: str = ""
    leading: str = ""


def rows_shown(
    frame: pd.DataFrame, columns: Sequence[Column], *, title: str | None = None, gap: int = 2
) -> TerminalTable:
    """These columns of all rows, with the headings and decimals that are declared."""
    cells = [_cells(column, frame, ends=False) for column in columns]
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
    legend: Sequence[str] = (),
) -> TerminalTable:
    """Rows of a table as a first screen shows them: few columns, and a legend made of these.

    Figures have the decimals that their intervals carry, and a mark where they are significant.

    Args:
        frame: rows of the table.
        columns: those to show, the first `MOST_COLUMNS` of them, `head` for the address of a head; what is
            empty, or the same in all rows, is left out.
        file: the name of that which has all rows.
        leading: name of the figure that is shown with its interval; the first one that there is where it has
            no value.
        most: number of rows to show, the first ones; None: all.
        legend: what else there is to say of the cells.
    """
    figures = [one for one in columns if _is_estimate(one, frame) and frame[one.name].notna().any()]
    if leading not in {figure.name for figure in figures}:
        leading = figures[0].name if figures else ""
    rows = frame if most is None else frame.head(most)
    same = [one.name for one in columns[1:] if one not in figures and _is_constant(frame, one)]
    shown: list[tuple[Column, list[str], bool]] = []
    for declared in columns:
        if declared.name == "head" and set(HEAD_COLUMNS) <= set(frame):
            shown.append((HEAD_NAME, head_names(rows), False))
        elif declared.name not in same and (frame.empty or frame[declared.name].notna().any()):
            column = readable(declared, frame) if declared in figures else declared
            cells = _cells(column, rows, ends=column.name == leading)
            shown.append((column, cells, is_number(frame[column.name])))
    shown = shown[:MOST_COLUMNS]
    tested = {
        _MARKED[ending]
        for one in figures
        for ending in _MARKED
        if (name := f"{one.name}_{ending}") in frame and frame[name].notna().any()
    }
    marked = "; ".join(sorted(tested))
    more = len(frame) - len(rows)
    return TerminalTable(
        tuple(_heading(column) for column, _, _ in shown),
        tuple(zip(*(cells for _, cells, _ in shown), strict=True)),
        tuple(_heading(column) for column, _, numeric in shown if numeric),
        # A single word would be cut where it is too wide, and a few words stacked.
        prose=tuple(
            _heading(column)
            for column, cells, numeric in shown
            if not numeric and any(" " in cell and len(cell) > _FEW_WORDS for cell in cells)
        ),
        caption=f"and {counted(more, 'more row')} in {file}" if more else None,
        legend=_legend([column for column, _, _ in shown], "; ".join(legend), marked),
        columns=tuple(column for column, _, _ in shown),
        marked=marked,
        words="; ".join(legend),
        leading=next((_heading(column) for column, _, _ in shown if column.name == leading), ""),
    )


def _legend(columns: Iterable[Column], words: str, marked: str) -> str | None:
    """What the figures of a table mean, and what else there is to say of it."""
    explained = [column.brief for column in columns if column.digits is not None]
    parts = [part for part in (*explained, words, marked) if part]
    return f"{'; '.join(parts)}." if parts else None


def _heading(column: Column) -> str:
    return "head" if column == HEAD_NAME else column.narrow


def _is_estimate(column: Column, frame: pd.DataFrame) -> bool:
    return Estimate(column).low in frame


def _is_constant(frame: pd.DataFrame, column: Column) -> bool:
    """Whether all of several rows have the same value; the address of a head is never left out."""
    return (
        column.name != "head" and len(frame) > 1 and frame[column.name].nunique(dropna=False) == 1
    )


def readable(column: Column, rows: pd.DataFrame) -> Column:
    """The column with the decimals that its intervals carry, two digits of a usual one."""
    estimate = Estimate(column)
    width = math.nan
    if estimate.low in rows:
        # The oldest pandas warns of a median of missing values alone.
        width = (rows[estimate.high] - rows[estimate.low]).dropna().median()
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
    if pd.isna(row[estimate.name]):
        return ""
    value, _, interval = estimate.shown(row, signed=estimate.column.signed).partition(" ")
    marks = [row[name] for end in _MARKED if (name := f"{estimate.name}_{end}") in row]
    mark = MARK if any(one is True for one in marks) else " " * len(marks)
    return f"{value}{mark} {interval}".rstrip(" " if interval else "") if ends else f"{value}{mark}"


def print_shown(table: TerminalTable) -> None:
    """A table of a result on standard output; on a terminal without the columns that it is too narrow for."""
    for answer in table.answers:
        print_prose(answer)
    if table.answers:
        print_prose("")
    if is_terminal():
        table = narrowed(table, Terminal().width)
    print_table(_drawn(table), table.legend)


def narrowed(table: TerminalTable, width: int) -> TerminalTable:
    """The table without its last columns that do not fit, but for the first one and the leading figure.

    The caption names them.
    """
    left_out: list[str] = []
    while len(table.headings) > 2 and fold_headings(_drawn(table)) > width:
        at = max(n for n, name in enumerate(table.headings) if n and name != table.leading)
        left_out.insert(0, table.headings[at].replace("\n", " "))
        table = _without(table, at)
    if not left_out:
        return table
    notice = f"left out at this width: {', '.join(left_out)}; a file or a pipe gets all"
    return replace(table, caption="\n".join(filter(None, (table.caption, notice))))


def _without(table: TerminalTable, at: int) -> TerminalTable:
    columns = table.columns[:at] + table.columns[at + 1 :]
    return replace(
        table,
        headings=table.headings[:at] + table.headings[at + 1 :],
        rows=tuple(row[:at] + row[at + 1 :] for row in table.rows),
        columns=columns,
        legend=_legend(columns, table.words, table.marked) if columns else table.legend,
    )


def _drawn(table: TerminalTable) -> Drawn:
    drawn = new_table(
        *table.headings, numbers=table.numbers, prose=table.prose, title=table.title,
        caption=table.caption, gap=table.gap,
    )  # fmt: skip
    for row in table.rows:
        drawn.add_row(*row)
    return drawn
