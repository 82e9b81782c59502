"""What a page is made of: a first screen, sections with tables and figures, and tables as text."""

from collections.abc import Mapping, Sequence
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


@dataclass(frozen=True)
class Cell:
    """A head in a map.

    Attributes:
        head: its name.
        kind: what it is, a class of the style sheet with hyphens.
        style: filled, framed, partial or empty.
        short: in the cell.
        detail: below it, smaller.
        meaning: the whole, for a pointer and a reader of the screen.
        strength: of a role, from 0 to 1.
    """

    head: str
    kind: str
    style: str
    short: str
    detail: str
    meaning: str
    strength: float = 1.0


@dataclass(frozen=True)
class HeadMap:
    """Layers by heads.

    Attributes:
        caption: what the map shows.
        heads: numbers of the columns.
        rows: name of a layer and its cells, None where it has no such head.
        kinds: class, name, number of heads, and number of filled cells of every kind, most heads first.
        styles: the styles that there are, and what they mean.
        mark: of filled cells, in the legend; empty where they have none.
    """

    caption: str
    heads: range
    rows: tuple[tuple[str, tuple[Cell | None, ...]], ...]
    kinds: tuple[tuple[str, str, int, int], ...]
    styles: tuple[tuple[str, str], ...]
    mark: str = ""


@dataclass(frozen=True)
class Highlight:
    """A head that is worth a look, and why."""

    head: str
    reason: str
    phrase: str


@dataclass(frozen=True)
class Overview:
    """The first screen of the page.

    Attributes:
        maps: of the view that comes first.
        other_maps: of the other view of the keys, and what it is called.
        highlights: at most three heads.
        facts: of model, corpus and scores.
        answers: what was found, a sentence each.
        words: the words of the maps, each with what it means.
    """

    maps: tuple[HeadMap, ...] = ()
    other_maps: tuple[tuple[str, tuple[HeadMap, ...]], ...] = ()
    highlights: tuple[Highlight, ...] = ()
    facts: Mapping[str, str] = field(default_factory=dict)
    answers: tuple[str, ...] = ()
    words: tuple[tuple[str, str], ...] = ()


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
