"""Rows as a terminal shows them."""

from dataclasses import dataclass

# A longer table scrolls away; the file has every row.
MOST_ROWS = 48


@dataclass(frozen=True)
class TerminalTable:
    """A table as text.

    Attributes:
        headings: of its columns.
        rows: cells.
        numbers: headings of the columns that are aligned right.
        title: above it.
        caption: below it.
        gap: spaces between columns.
    """

    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numbers: tuple[str, ...] = ()
    title: str | None = None
    caption: str | None = None
    gap: int = 2
