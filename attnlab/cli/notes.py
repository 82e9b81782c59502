"""What a reader must know of a result, on standard error."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from attnlab.cli.output import messages
from attnlab.core.texts import shown

if TYPE_CHECKING:
    from attnlab.core.errors import Note


def print_notes(notes: Iterable["Note"]) -> None:
    """One paragraph per note; none with --quiet."""
    from rich.text import Text

    from attnlab.results.notes import describe_notes

    console = messages()
    for text in describe_notes(notes):
        console.print(Text.assemble(("Note:", "yellow"), " ", shown(text)))
