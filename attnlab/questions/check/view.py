"""A check in words: which properties of a model are not as its configuration says."""

from collections.abc import Iterator
from typing import Any

import pandas as pd

from attnlab.core import Column, layer_name
from attnlab.questions.check.question import ABILITIES, KEYS, MISMATCH, NOT_APPLICABLE, PROPERTIES
from attnlab.results import Contents, Result, ShownTable, TerminalTable, rows_shown

# What a terminal shows in place of two columns.
_WHERE = Column("where", "layer", "Site and layer.")


def contents(result: Result) -> Contents:
    """What the page of a check shows."""
    tables = (
        ShownTable(PROPERTIES.file, "What it attends to"),
        ShownTable(ABILITIES.file, "What can be done with its layers"),
    )
    facts = {name: str(value) for name, value in result.about.items()}
    return Contents(_answers(result), facts, (), tables)


def terminal(result: Result) -> Iterator[TerminalTable]:
    """The properties without layers and the layers that are alike in one row, then what can be done."""
    yield _shown(
        result.properties,
        ["property", "where", "expected", "found", "outcome", "change"],
        PROPERTIES.columns,
        None,
    )
    if len(result.abilities):
        names = [name for name in ABILITIES if name not in {"site", "layer"}]
        yield _shown(result.abilities, ["where", *names], ABILITIES.columns, "\nLayers")


def _shown(
    frame: pd.DataFrame, names: list[str], declared: tuple[Column, ...], title: str | None
) -> TerminalTable:
    columns = {column.name: column for column in (*declared, _WHERE)}
    others = [name for name in names if name not in {"where", "change"}]
    rows = [
        {**rows[others].iloc[0].to_dict(), "where": _where(rows), "change": _change(rows)}
        for _, rows in frame.groupby(["site", *others], sort=False, dropna=False)
    ]
    return rows_shown(pd.DataFrame(rows), [columns[name] for name in names], title=title)


def _change(rows: pd.DataFrame) -> str:
    largest = rows["change"].max() if "change" in rows else float("nan")
    return "" if pd.isna(largest) else f"{largest:.1g}"


def _where(rows: pd.DataFrame) -> str:
    """Such as 'decoder.0, 2-4'."""
    layers = sorted(int(layer) for layer in rows["layer"].dropna())
    if not layers:
        return ""
    runs: list[list[int]] = []
    for layer in layers:
        if runs and layer == runs[-1][-1] + 1:
            runs[-1].append(layer)
        else:
            runs.append([layer])
    shown = (str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
    return f"{rows['site'].iloc[0]}.{', '.join(shown)}"


def mismatches(result: Result) -> list[str]:
    """A sentence for each property that is not as expected."""
    wrong = result.properties[result.properties["outcome"] == MISMATCH]
    return [_sentence(row) for row in wrong.to_dict("records")]


def _sentence(row: dict[Any, Any]) -> str:
    change = "" if pd.isna(row["change"]) else f" (change {row['change']:.2g})"
    if row["property"] == KEYS:
        at = layer_name(row["site"], row["layer"])
        return f"{at} reads {row['found']}, and its configuration says {row['expected']}{change}."
    return f"{row['property'].capitalize()}: {row['found']}, where {row['expected']} is expected{change}."


def _answers(result: Result) -> list[str]:
    """Whether all is as expected, and what is not."""
    outcomes = result.properties["outcome"]
    wrong, checked = mismatches(result), int((outcomes != NOT_APPLICABLE).sum())
    left = len(outcomes) - checked
    said = f"{checked - len(wrong)} of {checked} properties are as the configuration says"
    return [f"{said}; {left} do not apply.", *wrong]
