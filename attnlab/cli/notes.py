"""What a reader must know of a result, printed beneath its tables."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from attnlab.texts import shown

if TYPE_CHECKING:
    from rich.console import Console

    from attnlab.notes import Note


def print_notes(console: "Console", notes: Iterable["Note"]) -> None:
    """One paragraph per note."""
    from rich.markup import escape

    from attnlab.reporting.notes import describe_notes

    for text in describe_notes(notes):
        console.print(f"[yellow]Note:[/yellow] {escape(shown(text))}", highlight=False)
