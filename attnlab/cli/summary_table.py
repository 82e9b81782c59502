"""The heads of an analysis on the terminal, one row each; whole on one of 80 characters."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd
    from rich.table import Table

    from attnlab.studies.analysis.measuring import Analysis

# A longer table scrolls away; the file has every head.
MOST_HEADS = 48
# A label with what it was measured with stands on one line up to this length.
_LINE = 22
_WORDS = {"kept_band": "band", "rare_columns": "columns"}
LEGEND = {
    "function": "what it does: the labels that hold and that the same head of an untrained model does "
    "not carry.",
    "structure": "looks like: the family of the fewest bits per row; ~ the next is as good. columns: rare "
    "columns.",
    "nearest_family": "nearest: of diagonal, band and columns with the sparse error E, at most two entries "
    "per row; dist. its relative l1 distance, beside that of equal weights (uniform); a matrix of zeros has "
    "1.00. A band is never farther than a diagonal in its reach.",
    "ablation_loss_change": "loss: change when the head's output is set to zero, nats per target token; "
    "* beyond its 95 % interval.",
}


def summary_table(analysis: "Analysis") -> "Table":
    """One row per head; a model of many heads shows the first ones only."""
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    from attnlab.reporting.naming import VIEW_NAMES, head_names
    from attnlab.studies.analysis.columns import SUMMARY

    summary = analysis.summary
    heads = summary.head(MOST_HEADS)
    more = len(summary) - len(heads)
    table = Table(
        title=f"{len(summary)} heads, {VIEW_NAMES[analysis.views[0]]}",
        title_justify="left",
        caption=f"and {more} more heads in {SUMMARY.file}" if more > 0 else None,
        box=box.SIMPLE_HEAD,
        show_edge=False,
        padding=(0, 0, 0, 1),
        pad_edge=False,
    )
    table.add_column("head", no_wrap=True)
    cells = [head_names(heads)]
    for name, written in _WRITTEN.items():
        if name in heads:
            words = name in ("function", "structure", "nearest_family")
            table.add_column(
                SUMMARY[name].narrow, justify="left" if words else "right", no_wrap=True
            )
            cells.append([escape(written(name, row)) for _, row in heads.iterrows()])
    for row in zip(*cells, strict=True):
        table.add_row(*row)
    return table


def legend(summary: "pd.DataFrame") -> str:
    """What the columns of the table mean, a paragraph."""
    return " ".join(text for name, text in LEGEND.items() if name in summary)


def _function(_: str, row: "pd.Series") -> str:
    """The labels, a line each; the first with what it was measured with."""
    from attnlab.texts import shown

    first, *others = row["function"].split("; ")
    detail = shown(row["function_detail"])
    if detail:
        together = f"{first}, {detail}"
        first = together if len(together) <= _LINE else f"{first}\n {detail}"
    return "\n".join([first, *others])


def _structure(_: str, row: "pd.Series") -> str:
    tie = "~" if row["structure_tie"] else ""
    return f"{_WORDS.get(row['structure'], row['structure'])}{tie}"


def _family(name: str, row: "pd.Series") -> str:
    return _WORDS.get(row[name], row[name])


def _number(name: str, row: "pd.Series") -> str:
    from attnlab.studies.analysis.columns import SUMMARY

    return SUMMARY[name].shown(row[name])


def _loss(name: str, row: "pd.Series") -> str:
    from attnlab.studies.analysis.columns import SUMMARY

    beyond = row["ablation_low"] > 0 or row["ablation_high"] < 0
    return f"{SUMMARY[name].shown(row[name], signed=True)}{'*' if beyond else ' '}"


_WRITTEN = {
    "function": _function,
    "structure": _structure,
    "nearest_family": _family,
    "nearest_relative": _number,
    "uniform_relative": _number,
    "ablation_loss_change": _loss,
}
