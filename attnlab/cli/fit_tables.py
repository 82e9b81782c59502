"""The families of matrices on the terminal: at equal budget, and in bits per row; 80 characters."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd
    from rich.table import Table

    from attnlab.columns import Column
    from attnlab.studies.analysis.measuring import Analysis

_MOST_ROWS = 24


def fit_tables(analysis: "Analysis") -> list["Table"]:
    """Relative distances at equal budget and description lengths, one row per head each."""
    from attnlab.extraction.views import rows_of_view
    from attnlab.functions.columns import STRUCTURE_OF_HEAD
    from attnlab.reporting.columns import columns_named
    from attnlab.reporting.naming import VIEW_NAMES
    from attnlab.studies.analysis.columns import BITS, EQUAL_BUDGET, REFERENCES, RELATIVE
    from attnlab.studies.analysis.description import structure_of_heads
    from attnlab.studies.analysis.fits import summarise

    tables = []
    if not analysis.structure.empty:
        keys = analysis.views[0]
        found = structure_of_heads(rows_of_view(analysis.structure, keys))
        for name in ("structure", "structure_runner_up"):
            found[name] = found[name].str.replace("_", " ")
        words = columns_named(("structure", "structure_runner_up"), STRUCTURE_OF_HEAD)
        margin = columns_named(["structure_margin_bits_per_row"], STRUCTURE_OF_HEAD)
        title = f"description length, bits per row ({VIEW_NAMES[keys]})"
        table = _table(found, title, words, (*margin, *BITS))
        tables.append(table)
    if not analysis.fits.empty:
        title = "relative l1 distance at equal budget"
        tables.append(
            _table(
                summarise(analysis.fits),
                title,
                (),
                columns_named((*EQUAL_BUDGET, *REFERENCES), RELATIVE),
            )
        )
    return tables


def _table(
    frame: "pd.DataFrame",
    title: str,
    words: Sequence["Column"],
    figures: Sequence["Column"],
) -> "Table":
    from rich import box
    from rich.table import Table

    from attnlab.columns import rounded
    from attnlab.reporting.naming import head_names

    more = len(frame) - _MOST_ROWS
    caption = f"and {more} more heads in report.html" if more > 0 else None
    table = Table(
        title=title,
        title_justify="left",
        caption=caption,
        box=box.SIMPLE_HEAD,
        padding=(0, 0, 0, 1),
    )
    frame = frame.head(_MOST_ROWS)
    table.add_column("head", no_wrap=True)
    cells = [head_names(frame)]
    for column in words:
        table.add_column(column.narrow)
        cells.append(frame[column.name].tolist())
    for column in figures:
        if column.name in frame:
            table.add_column(column.narrow, justify="right", overflow="fold")
            cells.append([rounded(value, column.digits or 0) for value in frame[column.name]])
    for row in zip(*cells, strict=True):
        table.add_row(*row)
    return table
