"""One self-contained report page: figures inside, works offline, light and dark, bounded in size."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from attnlab.columns import Column, rounded
from attnlab.reporting.canvas import INK
from attnlab.texts import shown

MOST_BYTES = 4 * 2**20


@dataclass(frozen=True)
class PageFigure:
    """A drawn figure: its `<svg>` element, the file it also stands in, and what it shows."""

    name: str
    svg: str
    caption: str


@dataclass(frozen=True)
class PageTable:
    """A table ready to be shown: every cell is text; the caption says what tells it from others."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    caption: str = ""


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
    rows = frame[[column.name for column in columns]].itertuples(index=False)
    return PageTable(
        tuple(columns),
        tuple(
            tuple(_cell(value, of.digits) for value, of in zip(row, columns, strict=True))
            for row in rows
        ),
        caption,
    )


def render_page(
    title: str,
    about: Mapping[str, str],
    notes: Sequence[str],
    sections: Sequence[Section],
    *,
    most_bytes: int = MOST_BYTES,
) -> str:
    """The page as HTML; figures that would take it over `most_bytes` are left out and named.

    Figures are drawn in one ink; here it becomes the colour of the page's text.
    """
    kept, left_out = _within(sections, most_bytes)
    environment = Environment(
        loader=PackageLoader("attnlab.reporting", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        finalize=_visible,
    )
    return environment.get_template("report.html.j2").render(
        title=title,
        about=about,
        notes=notes,
        sections=kept,
        left_out=left_out,
        budget=f"{most_bytes / 2**20:g} MiB",
    )


def _visible(value: Any) -> Any:
    """Text of ours or of a user without characters that HTML forbids or that disturb its lines."""
    return shown(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _within(
    sections: Sequence[Section], most_bytes: int
) -> tuple[list[dict[str, Any] | Section], list[str]]:
    # Tables and text come first: what is left is for figures.
    room = most_bytes - 2**15 - sum(len(repr(section.tables)) * 2 for section in sections)
    kept: list[dict[str, Any] | Section] = []
    left_out = []
    for section in sections:
        figures = []
        for figure in section.figures:
            size = len(figure.svg.encode())
            if size > room:
                left_out.append(figure.name)
                continue
            room -= size
            # The SVG comes from matplotlib, which escapes the text it is given.
            themed = Markup(figure.svg.replace(INK, "currentColor"))  # noqa: S704
            figures.append(replace(figure, svg=themed))
        kept.append(replace(section, figures=tuple(figures)))
    return kept, left_out


def _cell(value: Any, digits: int | None) -> str:
    if pd.isna(value):
        return ""
    return str(value) if digits is None else rounded(value, digits)
