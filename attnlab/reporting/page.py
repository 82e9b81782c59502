"""One self-contained page: tables, figures and a viewer inside, works offline, bounded in size."""

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from typing import Any

import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from attnlab.columns import Column, rounded
from attnlab.reporting.canvas import INK
from attnlab.reporting.overview import Overview
from attnlab.reporting.payload import ViewerData
from attnlab.texts import shown

MOST_BYTES = 4 * 2**20
# In the order in which they need each other.
SCRIPTS = (
    "matrix",
    "weights",
    "colours",
    "elements",
    "address",
    "canvas",
    "lines",
    "grid",
    "budget",
    "head_matrix",
    "evidence",
    "tables",
    "saving",
    "keyboard",
    "picker",
    "head_view",
    "main",
)
_IMPORT = re.compile(r"^import [^;]*;\n", re.MULTILINE)
_EXPORT = re.compile(r"^export ", re.MULTILINE)


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
    kinds = [chosen.dtypes.iloc[index] for index in range(len(columns))]
    return PageTable(
        tuple(columns),
        tuple(
            tuple(_cell(value, of.digits) for value, of in zip(row, columns, strict=True))
            for row in chosen.itertuples(index=False)
        ),
        caption,
        tuple(
            pd.api.types.is_numeric_dtype(kind) and not pd.api.types.is_bool_dtype(kind)
            for kind in kinds
        ),
    )


def render_page(
    title: str,
    about: Mapping[str, str],
    notes: Sequence[str],
    sections: Sequence[Section],
    *,
    overview: Overview | None = None,
    viewer: ViewerData | None = None,
    start: str = "",
    most_bytes: int = MOST_BYTES,
) -> str:
    """The page as HTML; figures that would take it over `most_bytes` are left out and named.

    Figures are drawn in one ink; here it becomes the colour of the page's text. The weights of
    `viewer` have limits of their own and do not count.

    Args:
        title: of the page.
        about: what was studied, in words.
        notes: what a reader must know before trusting a number.
        sections: tables and figures, in their order.
        overview: the first screen.
        viewer: what the interactive part shows.
        start: what it shows first where the page has no address of its own, as behind # in one.
        most_bytes: of figures, tables and text.
    """
    kept, left_out = _within(sections, most_bytes)
    environment = Environment(
        loader=PackageLoader("attnlab.reporting", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_visible,
    )
    return environment.get_template("report.html.j2").render(
        title=title,
        about=about,
        notes=notes,
        sections=kept,
        left_out=left_out,
        overview=overview,
        viewer=viewer,
        start=start,
        addressed=_first_with_heads(kept),
        style=Markup(_read("page.css")),  # noqa: S704 - a file of this package
        script=Markup(bundled_script()),  # noqa: S704 - likewise
        script_hash=_hash(bundled_script()),
        budget=f"{most_bytes / 2**20:g} MiB",
    )


@cache
def bundled_script() -> str:
    """All modules of viewer/ as one script, without the lines that join them."""
    modules = (_read(f"{name}.js") for name in SCRIPTS)
    return "\n".join(_EXPORT.sub("", _IMPORT.sub("", module)) for module in modules)


@cache
def _read(name: str) -> str:
    return files("attnlab.reporting").joinpath("viewer", name).read_text(encoding="utf-8")


def _hash(script: str) -> str:
    """What a browser compares an inline script with before it runs it."""
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _visible(value: Any) -> Any:
    """Text of ours or of a user without characters that HTML forbids or that disturb its lines."""
    return shown(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _first_with_heads(sections: Sequence[Section]) -> PageTable | None:
    """The table whose rows links to heads lead to where there is no JavaScript: a row per head."""
    tables = (table for section in sections for table in section.tables)
    return next((table for table in tables if table.columns[0].name == "head_name"), None)


def _within(sections: Sequence[Section], most_bytes: int) -> tuple[list[Section], list[str]]:
    # Tables and text come first: what is left is for figures.
    room = most_bytes - 2**15 - sum(len(repr(section.tables)) * 2 for section in sections)
    kept: list[Section] = []
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
