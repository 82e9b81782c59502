"""Results as HTML in the cell of a notebook: a figure where there is one, and the table that matters."""

from collections.abc import Sequence

import pandas as pd
from markupsafe import Markup, escape
from matplotlib.figure import Figure

from attnlab.core.columns import Column
from attnlab.reporting.canvas import INK, svg
from attnlab.reporting.drawing.head_map import draw_heads
from attnlab.reporting.export import cell, declared_columns, is_number
from attnlab.reporting.heads_shown import heads_shown, words_of_heads
from attnlab.reporting.notes import describe_notes
from attnlab.studies.analysis.measuring import Analysis
from attnlab.studies.approximation.approximation import Approximation
from attnlab.studies.planning.planning import Planning
from attnlab.studies.running import Collected

# A longer table fills the notebook; the result holds every row.
MOST_ROWS = 24
# The table that a notebook shows of each result.
_TABLES: dict[type, str] = {
    Analysis: "summary",
    Approximation: "table",
    Collected: "cells",
    Planning: "scores",
}
_CELL = "padding:1px 8px;text-align:{};white-space:nowrap"


def html_of(found: object) -> str | None:
    """A result as a self-contained piece of HTML; None for what is shown by its one line."""
    attribute = _TABLES.get(type(found))
    if attribute is None:
        return None
    notes = describe_notes(getattr(found, "notes", ()))
    if isinstance(found, Analysis):
        shown = heads_shown(found.summary)
        return _together(*_maps(found.summary), _table(*shown), _words(found.summary), notes=notes)
    return _together(table_html(getattr(found, attribute)), notes=notes)


def _maps(summary: pd.DataFrame) -> list[Markup]:
    names = [name for name in ("role", "structure") if name in summary]
    return [_drawn(draw_heads(summary, name), f"heads-{name}") for name in names]


def _words(summary: pd.DataFrame) -> Markup:
    lines = (Markup("<dt>{}</dt><dd>{}</dd>").format(*pair) for pair in words_of_heads(summary))
    return Markup("<dl>{}</dl>").format(Markup().join(lines))


def table_html(frame: pd.DataFrame, file: str = "") -> Markup:
    """The first rows of a table with the headings and decimals that are declared.

    Args:
        frame: any table.
        file: name of the file that it is written to.
    """
    return _table(frame, declared_columns(frame, file))


def table_with_notes(frame: pd.DataFrame, columns: Sequence[Column], notes: Sequence[str]) -> str:
    """The first rows of a table, these columns of it, and the notes."""
    return _together(_table(frame, columns), notes=list(notes))


def _table(frame: pd.DataFrame, columns: Sequence[Column]) -> Markup:
    """These columns of the first rows."""
    sides = ["right" if is_number(frame[column.name]) else "left" for column in columns]
    first = frame.head(MOST_ROWS)
    cells = zip(*([cell(value, of) for value in first[of.name]] for of in columns), strict=True)
    rows = [_row("td", row, sides) for row in cells]
    headings = _row("th", [column.narrow for column in columns], sides)
    more = len(frame) - len(first)
    left = Markup("<p>and {} more rows</p>").format(more) if more > 0 else Markup()
    return (
        Markup('<div style="overflow-x:auto"><table><thead>{}</thead><tbody>{}</tbody></table></div>{}')
        .format(headings, Markup().join(rows), left)
    )  # fmt: skip


def _row(tag: str, texts: "list[str] | tuple[str, ...]", sides: list[str]) -> Markup:
    made = (
        Markup('<{0} style="{1}">{2}</{0}>').format(Markup(tag), _CELL.format(side), text)  # noqa: S704 - th or td
        for text, side in zip(texts, sides, strict=True)
    )
    return Markup("<tr>{}</tr>").format(Markup().join(made))


def _drawn(figure: Figure, name: str) -> Markup:
    # The SVG comes from matplotlib, which escapes the text it is given.
    return Markup(svg(figure, name).replace(INK, "currentColor"))  # noqa: S704


def _together(*parts: Markup, notes: "list[str] | tuple[str, ...]" = ()) -> str:
    said = Markup().join(Markup("<p>Note: {}</p>").format(escape(note)) for note in notes)
    return str(Markup('<div class="attnlab">{}{}</div>').format(Markup().join(parts), said))
