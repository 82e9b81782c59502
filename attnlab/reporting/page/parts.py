"""What a page is made of: sections with tables and figures, and tables as text."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import pandas as pd

from attnlab.core.columns import Column
from attnlab.reporting.export import cell, is_number


@dataclass(frozen=True)
class PageFigure:
    """A drawn figure: its `<svg>` element, the file it also stands in, and what it shows.

    One that a viewer shows better is left to readers without JavaScript: `fallback`.
    """

    name: str
    svg: str
    caption: str
    fallback: bool = False


@dataclass(frozen=True)
class PageTable:
    """A table ready to be shown: every cell is text; the caption says what tells it from others.

    Attributes:
        columns: what stands above.
        rows: text.
        caption: empty where the heading of the section will do.
        numeric: which columns are numbers, and aligned at the right.
    """

    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    caption: str = ""
    numeric: tuple[bool, ...] = ()


@dataclass(frozen=True)
class Section:
    """A heading with a text, tables and figures."""

    anchor: str
    heading: str
    text: str
    tables: tuple[PageTable, ...] = ()
    figures: tuple[PageFigure, ...] = field(default_factory=tuple)


def page_table(frame: pd.DataFrame, columns: Sequence[Column], caption: str = "") -> PageTable:
    """These columns of a frame as text, rounded; a missing number is an empty cell."""
    chosen = frame[[column.name for column in columns]]
    return PageTable(
        tuple(columns),
        tuple(
            tuple(cell(value, of) for value, of in zip(row, columns, strict=True))
            for row in chosen.itertuples(index=False)
        ),
        caption,
        tuple(map(is_number, (chosen.iloc[:, index] for index in range(len(columns))))),
    )
