"""The table of heads on the terminal; whole on one of 80 characters."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

    from attnlab.studies.analysis import Analysis

_FIGURES = {
    "entropy_nats": "entropy",
    "confidence": "confidence",
    "mean_offset": "offset",
    "mass_on_special": "special",
    "mass_on_punctuation": "punct.",
}
_LABELS = {
    "phrase": "strongest function",
    "standing": "stands",
    "structure_phrase": "structure",
}
_MOST_ROWS = 48


def head_table(analysis: "Analysis") -> "Table":
    """One row a head; a model of many heads shows the first ones only."""
    from rich.table import Table

    from attnlab.reporting.columns import rounded
    from attnlab.reporting.label_section import with_phrases
    from attnlab.reporting.naming import head_names

    heads = analysis.heads.head(_MOST_ROWS)
    more = len(analysis.heads) - len(heads)
    table = Table(caption=f"and {more} more heads in heads.csv" if more > 0 else None)
    table.add_column("head", no_wrap=True)
    cells = [head_names(heads)]
    figures = _FIGURES
    if analysis.labelling is not None:
        figures = {}
        labels = with_phrases(analysis.labelling.labels)
        labels = heads[["site", "layer", "head"]].merge(labels, how="left")
        for name, heading in _LABELS.items():
            if name in labels:
                table.add_column(heading)
                cells.append(labels[name].tolist())
        if "ablation_loss_change" in labels:
            table.add_column("loss", justify="right", no_wrap=True)
            cells.append([rounded(v, 3, signed=True) for v in labels["ablation_loss_change"]])
    for name, heading in figures.items():
        if heads[name].notna().any():
            table.add_column(heading, justify="right", no_wrap=True)
            cells.append([rounded(value, 2) for value in heads[name]])
    for row in zip(*cells, strict=True):
        table.add_row(*row)
    return table
