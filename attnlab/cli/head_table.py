"""The table of heads on the terminal; whole on one of 80 characters."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from attnlab.addresses import HEAD_COLUMNS

if TYPE_CHECKING:
    from rich.table import Table

    from attnlab.studies.analysis.measuring import Analysis

_FIGURES = {
    "all": (
        "entropy_nats",
        "confidence",
        "mean_offset",
        "mass_on_special",
        "mass_on_punctuation",
    ),
    "content": (
        "content_entropy_nats",
        "content_confidence",
        "mean_offset",
        "mass_on_special",
        "content_mass_on_punctuation",
    ),
}
_LABELS = ("phrase", "standing", "structure_phrase")
# A longer table scrolls away; the file has every head.
MOST_HEADS = 48


def head_table(analysis: "Analysis") -> "Table":
    """One row per head in the view that comes first; a model of many heads shows the first ones only."""
    from rich.table import Table

    from attnlab.columns import rounded
    from attnlab.extraction.columns import HEADS
    from attnlab.extraction.views import CONTENT
    from attnlab.functions.columns import LABELS
    from attnlab.reporting.columns import columns_named
    from attnlab.reporting.label_section import with_phrases
    from attnlab.reporting.naming import VIEW_NAMES, head_names

    keys = analysis.views[0]
    heads = analysis.heads.head(MOST_HEADS)
    more = len(analysis.heads) - len(heads)
    table = Table(
        title=VIEW_NAMES[keys].capitalize() if analysis.labelling or keys == CONTENT else None,
        caption=f"and {more} more heads in {_files(analysis)}" if more > 0 else None,
    )
    table.add_column("head", no_wrap=True)
    cells = [head_names(heads)]
    figures: Sequence[str] = _FIGURES[keys]
    if analysis.labelling is not None:
        figures = ("mass_on_special",)
        labels = with_phrases(analysis.labelling.view(keys).labels)
        labels = heads[HEAD_COLUMNS].merge(labels, how="left")
        for column in columns_named(_LABELS, LABELS.columns):
            if column.name in labels:
                table.add_column(column.narrow)
                cells.append(labels[column.name].tolist())
        if "ablation_loss_change" in labels:
            loss = LABELS["ablation_loss_change"]
            table.add_column(loss.narrow, justify="right", no_wrap=True)
            cells.append([rounded(v, loss.digits or 0, signed=True) for v in labels[loss.name]])
    for name in figures:
        if heads[name].notna().any():
            table.add_column(HEADS[name].narrow, justify="right", no_wrap=True)
            cells.append([rounded(value, 2) for value in heads[name]])
    for row in zip(*cells, strict=True):
        table.add_row(*row)
    return table


def _files(analysis: "Analysis") -> str:
    """Where the rows stand that are not shown."""
    return "heads.csv" if analysis.labelling is None else "labels.csv and heads.csv"
