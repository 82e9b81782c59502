"""Results as HTML in the cell of a notebook: a figure where there is one, and the table that matters."""

from collections.abc import Sequence

import pandas as pd
from markupsafe import Markup, escape
from matplotlib.figure import Figure

from attnlab.core import Column, Note
from attnlab.figures import INK, svg
from attnlab.results.export import declared_columns
from attnlab.results.terminal_tables import MOST_ROWS, TerminalTable, rows_shown

_CELL = "padding:1px 8px;text-align:{};white-space:nowrap"


def table_html(frame: pd.DataFrame, file: str = "") -> Markup:
    """The first rows of a table with the headings and decimals that are declared.

    Args:
        frame: any table.
        file: name of the file that it is written to.
    """
    return frame_html(frame, declared_columns(frame, file))


def first_screen(table: TerminalTable, notes: Sequence[Note]) -> str:
    """The answers of a result, its rows as a terminal shows them, what the columns mean, and the notes."""
    answers = Markup().join(Markup("<p>{}</p>").format(answer) for answer in table.answers)
    lines = [*(table.caption or "").splitlines(), *(table.legend or "").splitlines()]
    legend = Markup().join(Markup("<p><small>{}</small></p>").format(line) for line in lines)
    return together(answers, _html(table), legend, notes=notes)


def frame_html(frame: pd.DataFrame, columns: Sequence[Column]) -> Markup:
    """These columns of the first rows."""
    return _html(rows_shown(frame, columns))


def _html(table: TerminalTable) -> Markup:
    """The first rows of a table."""
    sides = ["right" if heading in table.numbers else "left" for heading in table.headings]
    rows = [_row("td", row, sides) for row in table.rows[:MOST_ROWS]]
    headings = _row("th", table.headings, sides)
    more = len(table.rows) - len(rows)
    left = Markup("<p>and {} more rows</p>").format(more) if more > 0 else Markup()
    return (
        Markup('<div style="overflow-x:auto"><table><thead>{}</thead><tbody>{}</tbody></table></div>{}')
        .format(headings, Markup().join(rows), left)
    )  # fmt: skip


def _row(tag: str, texts: tuple[str, ...], sides: list[str]) -> Markup:
    made = (
        Markup('<{0} style="{1}">{2}</{0}>').format(Markup(tag), _CELL.format(side), text)  # noqa: S704 - th or td
        for text, side in zip(texts, sides, strict=True)
    )
    return Markup("<tr>{}</tr>").format(Markup().join(made))


def drawn_html(figure: Figure, name: str) -> Markup:
    """A figure in the colour of the text around it; `name` tells its elements from those of others."""
    # The SVG comes from matplotlib, which escapes the text it is given.
    return Markup(svg(figure, name).replace(INK, "currentColor"))  # noqa: S704


def together(*parts: Markup, notes: Sequence[Note] = ()) -> str:
    """Pieces of HTML and notes as the cell of a notebook."""
    remarks = Markup().join(Markup("<p>Note: {}</p>").format(escape(str(note))) for note in notes)
    return str(Markup('<div class="attnlab">{}{}</div>').format(Markup().join(parts), remarks))
