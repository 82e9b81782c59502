"""A check in words: which properties of a model are not as its configuration says."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pandas as pd

from attnlab.core import Column, layer_name
from attnlab.questions.check.question import ABILITIES, KEYS, MISMATCH, NOT_APPLICABLE, PROPERTIES
from attnlab.results import Contents, Result, TerminalTable, rows_shown

# What a terminal shows in place of property, site and layer.
_WHAT = Column(
    "what",
    "keys read / property",
    "Layers, or a property of the whole model.",
    short="layer or property",
)


def contents(_: Result) -> Contents:
    """What the page of a check shows."""
    return Contents()


def rows(result: Result) -> pd.DataFrame:
    """The properties, those that are not as expected first."""
    expected = result.properties["outcome"] != MISMATCH
    return result.properties.loc[expected.sort_values(kind="stable").index]


def terminal(result: Result) -> Iterator[TerminalTable]:
    """The properties, layers that are alike in one row, then what can be done with the layers."""
    first = ["what", "expected", "found", "distance", "outcome", "change"]
    shown = _shown(result.properties, first, PROPERTIES.columns, None)
    yield replace(shown, caption="\n".join(_legend(result.properties)) or None)
    if len(result.abilities):
        names = ["what", *(name for name in ABILITIES if name not in {"site", "layer", "reason"})]
        shown = _shown(result.abilities, names, ABILITIES.columns, "\nLayers")
        yield replace(shown, caption=_reasons(result.abilities))


def _shown(
    frame: pd.DataFrame, names: list[str], declared: tuple[Column, ...], title: str | None
) -> TerminalTable:
    columns = {column.name: column for column in (*declared, _WHAT)}
    same = ["site", *(name for name in frame if name not in {"site", "layer", "change"})]
    rows = [
        {**rows.iloc[0].to_dict(), "what": _what(rows), "change": _change(rows)}
        for _, rows in frame.groupby(same, sort=False, dropna=False)
    ]
    shown = rows_shown(pd.DataFrame(rows), [columns[name] for name in names], title=title, gap=1)
    return replace(shown, prose=("expected", "found"))


def _reasons(abilities: pd.DataFrame) -> str | None:
    """Why layers cannot do all of it, a line for those that are alike: as a column it would be narrow."""
    lines = [
        f"{_what(rows)}: {reason}"
        for (_, reason), rows in abilities.groupby(["site", "reason"], sort=False)
        if reason
    ]
    return "\n".join(lines) or None


def _change(rows: pd.DataFrame) -> str:
    largest = rows["change"].max() if "change" in rows else float("nan")
    return "" if pd.isna(largest) else f"{largest:.1g}"


def _what(rows: pd.DataFrame) -> str:
    """The property of the whole model, or layers such as 'decoder.0, 2-4'."""
    layers = sorted(int(layer) for layer in rows["layer"].dropna())
    if not layers:
        return str(rows["property"].iloc[0])
    ends = [layer for layer in layers if layer + 1 not in layers]
    starts = [layer for layer in layers if layer - 1 not in layers]
    runs = (f"{a}" if a == b else f"{a}-{b}" for a, b in zip(starts, ends, strict=True))
    return f"{rows['site'].iloc[0]}.{', '.join(runs)}"


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


def answers(result: Result) -> list[str]:
    """Whether all is as expected, and what is not."""
    outcomes = result.properties["outcome"]
    wrong, checked = mismatches(result), int((outcomes != NOT_APPLICABLE).sum())
    left = len(outcomes) - checked
    layers = int(((result.properties["property"] == KEYS) & (outcomes != NOT_APPLICABLE)).sum())
    of = f", {layers} of them the keys of a layer," if layers else ""
    summary = f"{checked - len(wrong)} of {checked} properties{of} are as the configuration says"
    return [f"{summary}; {left} {'does' if left == 1 else 'do'} not apply.", *wrong]


def _legend(properties: pd.DataFrame) -> list[str]:
    """What distances and changes are, where there are some."""
    columns = (PROPERTIES["distance"], PROPERTIES["change"])
    return [column.explained for column in columns if properties[column.name].notna().any()]
