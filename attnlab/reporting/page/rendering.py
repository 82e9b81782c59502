"""One self-contained page: tables, figures and a viewer inside, works offline, bounded in size."""

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from attnlab.core.texts import shown
from attnlab.reporting.canvas import INK
from attnlab.reporting.drawing.palette import FUNCTIONS, OTHERS, STRUCTURES, Mark
from attnlab.reporting.page.parts import Overview, PageTable, Section
from attnlab.reporting.page.payload import ViewerData

MOST_PAGE_BYTES = 4 * 2**20
# Of a light page and of a dark one.
BACKGROUNDS = ("#ffffff", "#14171b")
# In the order in which they need each other.
SCRIPTS = (
    "matrix",
    "weights",
    "colours",
    "elements",
    "address",
    "theme",
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


def render_page(
    title: str,
    about: Mapping[str, str],
    notes: Sequence[str],
    sections: Sequence[Section],
    *,
    overview: Overview | None = None,
    viewer: ViewerData | None = None,
    start: str = "",
    most_bytes: int = MOST_PAGE_BYTES,
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
        loader=PackageLoader("attnlab.reporting.page", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_visible,
    )
    environment.globals["letters_of"] = letters_of
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
        style=Markup(f"{_read('page.css')}\n{kind_styles()}"),  # noqa: S704 - of this package
        script=Markup(bundled_script()),  # noqa: S704 - likewise
        script_hash=_hash(bundled_script()),
        budget=f"{most_bytes / 2**20:g} MiB",
    )


def letters_of(kinds: Sequence[tuple[str, str, int, int]]) -> dict[str, str]:
    """The shortest beginning of each kind's name that no other name has, for narrow cells.

    Names joined by + have the first letters of both.

    >>> letters_of([("a", "sink", 3, 1), ("b", "syntactic", 1, 0), ("c", "column", 1, 0)])
    {'a': 'Si', 'b': 'Sy', 'c': 'C'}
    >>> letters_of([("a", "column", 3, 1), ("b", "column + band", 1, 0)])
    {'a': 'C', 'b': 'C+B'}
    """
    plain = [name for _, name, *_ in kinds if _JOINED not in name]
    return {kind: _beginning(name, plain) for kind, name, *_ in kinds}


_JOINED = " + "


def _beginning(name: str, names: Sequence[str]) -> str:
    if _JOINED in name:
        return "+".join(part[0].upper() for part in name.split(_JOINED))
    lengths = range(1, len(name))
    alone = (
        name[:n].capitalize()
        for n in lengths
        if sum(other.startswith(name[:n]) for other in names) == 1
    )
    return next(alone, name)


@cache
def bundled_script() -> str:
    """All modules of viewer/ as one script, without the lines that join them."""
    modules = (_read(f"{name}.js") for name in SCRIPTS)
    return "\n".join(_EXPORT.sub("", _IMPORT.sub("", module)) for module in modules)


@cache
def kind_styles() -> str:
    """The colours of labels and families as rules of the page: those of the figures."""
    marks = {**STRUCTURES, **FUNCTIONS}
    rules = [_rule(".cell, .swatch", Mark(OTHERS[0]))]
    rules += [
        _rule(f".k-{name.replace('_', '-').replace(' ', '-')}", mark)
        for name, mark in marks.items()
    ]
    return "\n".join(rules)


def _rule(selector: str, mark: Mark) -> str:
    light, dark = (mark.edge(background) for background in BACKGROUNDS)
    return (
        f"{selector} {{ --kind: {mark.colour}; --on-kind: {mark.ink}; "
        f"--edge: light-dark({light}, {dark}); }}"
    )


@cache
def _read(name: str) -> str:
    return files("attnlab.reporting.page").joinpath("viewer", name).read_text(encoding="utf-8")


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
