"""Writes an importance study: tables, the figure, and what they say."""

from pathlib import Path

from attnlab.files import write_table, write_text
from attnlab.reporting.canvas import write_figure
from attnlab.reporting.importance_figure import draw_importance
from attnlab.reporting.notes import describe_notes
from attnlab.reporting.result_folder import IMPORTANCE, IMPORTANCE_FIGURE
from attnlab.studies.importance.columns import (
    AGREEMENT_OF_MEASURES,
    CUMULATIVE,
    IMPORTANCE_OF_HEADS,
    TABLES,
)
from attnlab.studies.importance.importance import Importance


def write_importance(found: Importance, folder: str | Path, *, title: str) -> Path:
    """Writes tables, the figure and, last, `importance.md`, which explains them; returns `folder`.

    The older `importance.md` goes first, so that a folder that has one is always one whole study.

    Raises:
        AttnlabError: something could not be written.
    """
    folder = Path(folder)
    figure = draw_importance(found.heads, found.cumulative)
    (folder / IMPORTANCE.last).unlink(missing_ok=True)
    write_table(folder / IMPORTANCE_OF_HEADS.file, found.heads)
    write_table(folder / CUMULATIVE.file, found.cumulative)
    write_table(folder / AGREEMENT_OF_MEASURES.file, found.agreement)
    write_figure(figure, folder, IMPORTANCE_FIGURE)
    write_text(folder / IMPORTANCE.last, _explanation(found, title))
    return folder


def _explanation(found: Importance, title: str) -> str:
    facts = "\n".join(f"- {name}: {value}" for name, value in found.about.items())
    notes = "".join(f"\nNote: {note}\n" for note in describe_notes(found.notes))
    columns = "\n".join(table.explained() for table in TABLES)
    drawn = f"![Importance of each head]({IMPORTANCE_FIGURE}.svg)"
    return f"# {title}\n\n{facts}\n{notes}\n{drawn}\n\n{columns}"
