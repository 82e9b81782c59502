"""The heads of an analysis on the terminal, one row each; whole on one of 80 characters."""

from typing import TYPE_CHECKING

from attnlab.cli.output import new_table
from attnlab.results.terminal import MOST_ROWS

if TYPE_CHECKING:
    import pandas as pd
    from rich.table import Table

    from attnlab.studies.analysis.measuring import Analysis

# The mark stands behind the role, the interval behind the loss; the note says which heads have no output.
_ELSEWHERE = ("mark", "ablation_low", "ablation_high", "output")
_PROSE = ("evidence", "structure")
# Beside the name of a head whose output is nothing.
_WITHOUT_OUTPUT = "x"
# Behind a change of loss; a * says more elsewhere: that it is so with all heads taken together.
_BEYOND = "†"
_WIDTH = 80


def summary_table(analysis: "Analysis") -> "Table":
    """One row per head; a model of many heads shows the first ones only."""
    from attnlab.core.texts import counted
    from attnlab.reporting.heads_shown import heads_shown
    from attnlab.reporting.naming import VIEW_NAMES
    from attnlab.studies.analysis.columns import SUMMARY

    summary, shown = heads_shown(analysis.summary)
    columns = [column for column in shown if column.name not in _ELSEWHERE]
    heads = summary.head(MOST_ROWS)
    more = len(summary) - len(heads)
    table = new_table(
        *(column.narrow for column in columns),
        numbers=[column.narrow for column in columns if column.digits is not None],
        prose=[column.narrow for column in columns if column.name in _PROSE],
        title=f"{counted(len(summary), 'head')}, {VIEW_NAMES[analysis.views[0]]}",
        caption=f"and {more} more heads in {SUMMARY.file}" if more > 0 else None,
    )
    for _, row in heads.iterrows():
        table.add_row(*(_cell(column.name, row) for column in columns))
    return table


def legend(summary: "pd.DataFrame") -> str:
    """What the words and marks of the table mean, as many of them a line as have room."""
    from attnlab.core.texts import counted
    from attnlab.reporting.heads_shown import words_of_heads

    words = [f"{word}: {meaning}" for word, meaning in words_of_heads(summary)]
    if "ablation_loss_change" in summary:
        heads = counted(len(summary), "head")
        words.append(f"{_BEYOND}: 95 % interval without 0, not corrected for {heads}")
    if "output" in summary:
        words.append(f"{_WITHOUT_OUTPUT}: without output, see the notes")
    lines = [words[0]]
    for word in words[1:]:
        together = f"{lines[-1]}; {word}"
        lines[-1:] = [together] if len(together) <= _WIDTH else [lines[-1], word]
    return "\n".join(lines)


def _cell(name: str, row: "pd.Series") -> str:
    from attnlab.core.texts import shown
    from attnlab.studies.analysis.columns import SUMMARY

    if name == "head_name":
        return f"{row[name]} {_WITHOUT_OUTPUT}" if row.get("output") else row[name]
    if name == "role":
        return f"{shown(row[name])} {row['mark']}".strip()
    if name == "ablation_loss_change":
        beyond = row["ablation_low"] > 0 or row["ablation_high"] < 0
        return f"{SUMMARY[name].shown(row[name], signed=True)}{_BEYOND if beyond else ' '}"
    return SUMMARY[name].shown(row[name]) if name == "strength" else shown(row[name])
