"""Rows as a terminal shows them."""

from dataclasses import dataclass


@dataclass(frozen=True)
class TerminalTable:
    """A table as text.

    Attributes:
        headings: of its columns.
        rows: cells.
        numbers: headings of the columns that are aligned right.
        title: above it.
    """

    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numbers: tuple[str, ...] = ()
    title: str | None = None
