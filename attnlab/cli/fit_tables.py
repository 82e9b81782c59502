"""The families of matrices on the terminal: at equal budget, and in bits per row; 80 characters."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd
    from rich.table import Table

    from attnlab.studies.analysis.analysis import Analysis

_MOST_ROWS = 24
_FITS = {
    "diagonal": "diagonal",
    "kept_band": "band",
    "rare_columns": "rare columns",
    "additive": "additive",
    "top": "top",
    "zero": "zero",
    "uniform": "uniform",
    "mean_by_offset": "mean by offset",
}
_BITS = {
    "bits_diffuse": "diffuse",
    "bits_diagonal": "diagonal",
    "bits_band": "band",
    "bits_rare_columns": "rare columns",
    "bits_sink": "sink",
}


def fit_tables(analysis: "Analysis") -> list["Table"]:
    """Relative distances at equal budget and description lengths, one row per head each."""
    from attnlab.extraction.views import rows_of_view
    from attnlab.reporting.naming import VIEW_NAMES
    from attnlab.studies.analysis.description import structure_of_heads
    from attnlab.studies.analysis.fits import summarise

    tables = []
    if not analysis.structure.empty:
        keys = analysis.views[0]
        found = structure_of_heads(rows_of_view(analysis.structure, keys))
        for name in ("structure", "structure_runner_up"):
            found[name] = found[name].str.replace("_", " ")
        words = {"structure": "family", "structure_runner_up": "next"}
        figures = {"structure_margin_bits_per_row": "margin"} | _BITS
        title = f"description length, bits per row ({VIEW_NAMES[keys]})"
        table = _table(found, title, words, figures)
        tables.append(table)
    if not analysis.fits.empty:
        title = "relative l1 distance at equal budget"
        tables.append(_table(summarise(analysis.fits), title, {}, _FITS))
    return tables


def _table(
    frame: "pd.DataFrame", title: str, words: dict[str, str], figures: dict[str, str]
) -> "Table":
    from rich import box
    from rich.table import Table

    from attnlab.reporting.columns import rounded
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
    for name, heading in words.items():
        table.add_column(heading)
        cells.append(frame[name].tolist())
    for name, heading in figures.items():
        if name in frame:
            table.add_column(heading, justify="right", overflow="fold")
            cells.append([rounded(value, 2) for value in frame[name]])
    for row in zip(*cells, strict=True):
        table.add_row(*row)
    return table
