"""A table of a result on a terminal: as its command prints it, and `Result.show`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from attnlab.core import Column, new_table, print_table

if TYPE_CHECKING:
    import pandas as pd


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
    """

    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numbers: tuple[str, ...] = ()
    title: str | None = None
    caption: str | None = None
    legend: str | None = None
    gap: int = 2
    prose: tuple[str, ...] = ()


def rows_shown(
    frame: "pd.DataFrame", columns: Sequence[Column], *, title: str | None = None, gap: int = 2
) -> TerminalTable:
    """These columns of all rows, with the headings and decimals that are declared."""
    from attnlab.results.export import cell, is_number

    cells = [[cell(value, column) for value in frame[column.name]] for column in columns]
    return TerminalTable(
        tuple(column.narrow for column in columns),
        tuple(zip(*cells, strict=True)),
        tuple(column.narrow for column in columns if is_number(frame[column.name])),
        title,
        gap=gap,
    )


def print_shown(table: TerminalTable) -> None:
    """A table of a result on standard output."""
    drawn = new_table(
        *table.headings, numbers=table.numbers, prose=table.prose, title=table.title,
        caption=table.caption, gap=table.gap,
    )  # fmt: skip
    for row in table.rows:
        drawn.add_row(*row)
    print_table(drawn, table.legend)
