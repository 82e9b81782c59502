"""Tables on a terminal, in the one style of all commands."""

import sys
import textwrap
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table as Drawn
from rich.text import Text

from attnlab.core.texts import printable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import JustifyMethod, RenderableType

# Characters: wider than any table.
_ENDLESS = 100_000


class Terminal(Console):
    """Prints every text as it is: no markup, no names of emoji, and nothing that a terminal would obey."""

    def render_str(self, text: str, **how: Any) -> Text:
        """A text in messages, in tables and when widths are measured."""
        return super().render_str(printable(text), **how | {"markup": False, "emoji": False})


def new_table(
    *headings: str,
    numbers: Collection[str] = (),
    prose: Collection[str] = (),
    title: str | None = None,
    caption: str | None = None,
    gap: int = 2,
) -> Drawn:
    """An empty table in the one style of all commands.

    Args:
        headings: of its columns.
        numbers: headings of the columns that are aligned right.
        prose: headings of the columns that may be wrapped; the others are not, see `print_table`.
        title: above the table.
        caption: below it.
        gap: spaces between columns.
    """
    table = Drawn(
        title=title, caption=caption,
        box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 0, 0, gap - 1),
    )  # fmt: skip
    for heading in headings:
        side: JustifyMethod = "right" if heading in numbers else "left"
        table.add_column(heading, justify=side, no_wrap=heading not in prose)
    return table


def is_terminal() -> bool:
    """Whether standard output is read as it is written, not kept in a file."""
    return sys.stdout.isatty()


def print_prose(text: str) -> None:
    """A paragraph on standard output, broken between words."""
    Terminal().print(text, highlight=False)


def print_table(table: Drawn, legend: str | None = None) -> None:
    """The table on standard output, its cells whole even where the terminal is narrower.

    Args:
        table: with its title and caption.
        legend: what its columns mean, below the caption.
    """
    console = Terminal()
    if _width(table) > console.width:
        fold_headings(table)
    # Beside a narrow table, text would be wrapped to its width.
    title, caption = table.title, table.caption
    table.title = table.caption = None
    if title is not None:
        console.print(title, style="table.title", highlight=False)
    console.width = max(console.width, _width(table))
    console.print(table)
    if caption is not None:
        Terminal().print(caption, style="table.caption", highlight=False)
    if legend is not None:
        Terminal().print(f"\n{legend}", style="dim", highlight=False)


def fold_headings(table: Drawn) -> int:
    """Breaks headings between words so that they are no wider than their cells; the width that is left."""
    for column in table.columns:
        if column.no_wrap:
            words = str(column.header).split()
            widest = _widest((*words, *column.cells))
            column.header = "\n".join(textwrap.wrap(str(column.header), widest))
    return _width(table)


def _width(table: Drawn) -> int:
    """The width in which no column is cut or wrapped that must be whole."""
    for column in table.columns:
        if column.no_wrap:
            column.min_width = _widest((column.header, *column.cells))
    return Terminal(width=_ENDLESS).measure(table).minimum


def _widest(cells: "Iterable[RenderableType]") -> int:
    endless = Terminal(width=_ENDLESS)
    return max(endless.measure(cell).maximum for cell in cells)
