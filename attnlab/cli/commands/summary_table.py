"""The heads of an analysis on the terminal, one row each; whole on one of 80 characters."""

from typing import TYPE_CHECKING

from attnlab.cli.output import new_table

if TYPE_CHECKING:
    import pandas as pd
    from rich.table import Table

    from attnlab.studies.analysis.measuring import Analysis

# A longer table scrolls away; the file has every head.
MOST_HEADS = 48
# A label with what it was measured with stands on one line up to this length.
_LINE = 22
# Columns that hold no numbers.
_WORDS_IN = ("function", "structure", "nearest_family")
_WORDS = {"kept_band": "band", "rare_columns": "columns"}
# Beside the name of a head whose output is nothing.
_WITHOUT_OUTPUT = "x"
# What marks beside a cell mean; the columns say what they are themselves.
_MARKS = {
    "structure": "~: the next family is as good; columns: rare columns.",
    "ablation_loss_change": "*: beyond its 95 % interval.",
}


def summary_table(analysis: "Analysis") -> "Table":
    """One row per head; a model of many heads shows the first ones only."""
    from attnlab.reporting.naming import VIEW_NAMES, head_names
    from attnlab.studies.analysis.columns import SUMMARY
    from attnlab.texts import counted

    summary = analysis.summary
    heads = summary.head(MOST_HEADS)
    more = len(summary) - len(heads)
    names = [name for name in _WRITTEN if name in heads]
    table = new_table(
        "head",
        *(SUMMARY[name].narrow for name in names),
        numbers=[SUMMARY[name].narrow for name in names if name not in _WORDS_IN],
        title=f"{counted(len(summary), 'head')}, {VIEW_NAMES[analysis.views[0]]}",
        caption=f"and {more} more heads in {SUMMARY.file}" if more > 0 else None,
    )
    for name, (_, row) in zip(head_names(heads), heads.iterrows(), strict=True):
        head = f"{name} {_WITHOUT_OUTPUT}" if row.get("output") else name
        table.add_row(head, *(_WRITTEN[column](column, row) for column in names))
    return table


def legend(summary: "pd.DataFrame") -> str:
    """What the columns of the table mean, as they are declared, a paragraph."""
    from attnlab.studies.analysis.columns import SUMMARY

    columns = [SUMMARY[name] for name in _WRITTEN if name in summary]
    said = ((f"{one.narrow}: {one.meaning}", _MARKS.get(one.name, "")) for one in columns)
    without = f"{_WITHOUT_OUTPUT}: without output, see the notes." if "output" in summary else ""
    return " ".join(text for texts in (*said, (without,)) for text in texts if text)


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
