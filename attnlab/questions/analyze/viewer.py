"""What the viewer of the page of an analysis is given: its kept sentences, and facts of every head."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from attnlab.core import (
    HEAD_COLUMNS,
    Head,
    Site,
    rounded,
)
from attnlab.labels import (
    BORDERLINE,
    CONFIRMED,
    CONTROLS,
)
from attnlab.matrices import FAMILIES
from attnlab.questions.analyze.head_table import SHOWN, head_rows, named_label
from attnlab.questions.analyze.kept_facts import MEASURES, offset_profiles
from attnlab.questions.analyze.question import ABLATION_CHANGE, SUMMARY
from attnlab.questions.analyze.summary import roles_of, structure_of_heads, table_of, views_of
from attnlab.reading import HEADS, OFFSETS, View
from attnlab.results import (
    MOST_PAGE_BYTES,
    MOST_SENTENCE_BYTES,
    VIEW_NAMES,
    Result,
    ViewerData,
    columns_named,
    family_words,
    kept_viewer,
    readable,
)

# Of the best sentences of a head.
_MOST_NAMED = 3
_STATISTICS = ("normalised_entropy", "confidence", "mean_offset", "mass_on_special")
_LINES = ("role_figure", "control_figure", "shape")
_CONTROLS = ("label", "value", "threshold", "untrained_value", "shuffled_value", "significance")
_NEAR = (CONFIRMED, BORDERLINE)

Facts = dict[str, Any]


def viewer_data(
    result: Result,
    title: str,
    *,
    most_sentence_bytes: int = MOST_SENTENCE_BYTES,
    most_page_bytes: int = MOST_PAGE_BYTES,
) -> ViewerData | None:
    """The sentences of which matrices were kept, with what is known of every head; None without any.

    Args:
        result: of an analysis.
        title: of the page.
        most_sentence_bytes: see `kept_viewer`.
        most_page_bytes: likewise.
    """
    return kept_viewer(
        result.matrices,
        title,
        partial(head_facts, result),
        outlined=partial(_outlined, result),
        most_sentence_bytes=most_sentence_bytes,
        most_page_bytes=most_page_bytes,
    )


def _outlined(result: Result, number: int, site: Site) -> dict[str, list[list[dict[str, Any]]]]:
    """Outlines of every head of a sentence in words, by layer; none for sentences of many tokens."""
    outlined = {}
    for address, heads in result.details["outlines"].items():
        layer = address.removeprefix(f"{number}.{site}.")
        if layer != address:
            outlined[layer] = [
                [
                    {
                        **fit,
                        "words": FAMILIES[fit["name"]].outlined,
                        "relative": rounded(fit["relative"], 2),
                    }
                    for fit in fits
                ]
                for fits in heads
            ]
    return outlined


def head_facts(result: Result, sentences: Sequence[int]) -> list[Facts]:
    """One dictionary per head, see `HeadFacts` of viewer/weights.js.

    Args:
        result: of an analysis.
        sentences: those whose matrices the page holds.
    """
    rows = {_head(row): row for row in head_rows(result.table).to_dict("records")}
    lines, controls, bits = _lines(result), _controls(result), _bits(result)
    profiles = offset_profiles(result.heads, views_of(result)[0])
    best, nearest = result.details["best_sentences"], result.details["nearest_heads"]
    facts = []
    for index, row in enumerate(result.heads.to_dict("records")):
        head = _head(row)
        ranked = best.get(str(head), {"by": "", "sentences": []})
        numbers = [pair for pair in ranked["sentences"] if pair[0] in sentences]
        facts.append(
            {
                **head._asdict(),
                "name": str(head),
                "short": _short(rows[head]),
                "phrase": str(rows[head].get("role_figure", "")),
                "lines": [*lines.get(head, []), *_statistics(row)],
                "controls": controls.get(head, {"columns": [], "rows": []}),
                "bits": bits.get(head, []),
                "offsets": _offsets(profiles[index]),
                "nearest": [(name, rounded(cosine, 3)) for name, cosine in nearest[str(head)]],
                "best": [(number, rounded(figure, 2)) for number, figure in numbers[:_MOST_NAMED]],
                "bestBy": MEASURES[ranked["by"]][0] if numbers else "",
            }
        )
    return facts


def _short(row: Mapping[Any, Any]) -> str:
    """The closest role of a head with its mark."""
    return f"{row.get('role', '')} {row.get('mark', '')}".strip()


def _lines(result: Result) -> dict[Head, list[tuple[str, str, str]]]:
    """Heading, value and meaning of the cells of the first table by head, those of a second view behind."""
    lines: dict[Head, list[tuple[str, str, str]]] = {}
    columns = columns_named(_LINES, (*SUMMARY.columns, *SHOWN))
    first: dict[Head, Mapping[Any, Any]] = {}
    for keys in views_of(result):
        for row in _rows_of_view(result, keys).to_dict("records"):
            head = _head(row)
            view = f" ({VIEW_NAMES[keys]})" if head in first else ""
            before = first.setdefault(head, {})
            lines.setdefault(head, []).extend(
                (column.heading + view, row[column.name], column.meaning)
                for column in columns
                if row.get(column.name) and row[column.name] != before.get(column.name)
            )
            if not view and not pd.isna(row.get(ABLATION_CHANGE.name, math.nan)):
                change = replace(
                    ABLATION_CHANGE, column=readable(ABLATION_CHANGE.column, result.table)
                )
                words = f"{change.shown(row, signed=True)} nats per token"
                lines[head].append((change.column.heading, words, change.column.meaning))
            first[head] = before or row
    return lines


def _rows_of_view(result: Result, keys: View) -> pd.DataFrame:
    """The rows of the first table in a view of the keys; of the second one roles and shapes alone."""
    if keys == views_of(result)[0]:
        return head_rows(result.table)
    roles, structure = roles_of(result, keys), table_of(result, "structure", keys)
    if structure.empty:
        return head_rows(roles) if len(roles) else roles
    shapes = structure_of_heads(structure)[[*HEAD_COLUMNS, "structure"]]
    return head_rows(shapes if roles.empty else roles.merge(shapes, on=HEAD_COLUMNS, how="left"))


def _statistics(row: Mapping[Any, Any]) -> list[tuple[str, str, str]]:
    columns = [HEADS[name] for name in _STATISTICS if name in row]
    return [
        (column.heading, column.shown(row[column.name]), column.meaning)
        for column in columns
        if not pd.isna(row[column.name])
    ]


def _controls(result: Result) -> dict[Head, Facts]:
    """The role of each head and the labels near it beside their controls, without empty columns."""
    controls = table_of(result, "controls", views_of(result)[0])
    tables: dict[Head, Facts] = {}
    if controls.empty:
        return tables
    roles = {_head(row): row["role"] for row in head_rows(result.table).to_dict("records")}
    for _, of_head in controls.groupby(HEAD_COLUMNS, sort=False):
        address = _head(of_head.iloc[0].to_dict())
        near = of_head["status"].isin(_NEAR) | (of_head["label"] == roles[address])
        rows = [_control_cells(row) for row in of_head[near].to_dict("records")]
        filled = [name for name in _CONTROLS if any(row[name] for row in rows)]
        tables[address] = {
            "columns": [(CONTROLS[name].heading, CONTROLS[name].meaning) for name in filled],
            "rows": [
                {"cells": [row[name] for name in filled], "status": row["status"]} for row in rows
            ],
        }
    return tables


def _control_cells(row: Mapping[Any, Any]) -> dict[str, str]:
    """A label of a head as text: its figure with the interval, the threshold and what its controls reach."""
    figures = ("value", "value_low", "value_high", "threshold", "untrained_value", "shuffled_value")
    cells = {name: "" if pd.isna(row[name]) else rounded(row[name], 2) for name in figures}
    value, low, high = (cells[name] for name in figures[:3])
    return {
        **cells,
        "label": named_label(row["label"], row["detail"]),
        "value": f"{value} [{low}, {high}]" if value else "",
        "significance": row["significance"],
        "status": row["status"],
    }


def _bits(result: Result) -> dict[Head, list[tuple[str, float, str, bool]]]:
    """Family, bits per row, its best member, and whether these are the fewest bits."""
    lines: dict[Head, list[tuple[str, float, str, bool]]] = {}
    for row in table_of(result, "structure", views_of(result)[0]).to_dict("records"):
        if np.isfinite(row["bits_per_row"]):
            family = family_words(row["family"])
            line = (family, round(row["bits_per_row"], 3), row["member"] or "", bool(row["chosen"]))
            lines.setdefault(_head(row), []).append(line)
    return lines


def _offsets(profile: np.ndarray[Any, np.dtype[np.float64]]) -> list[tuple[int, float]]:
    pairs = zip(OFFSETS, profile.tolist(), strict=True)
    return [(offset, round(mass, 3)) for offset, mass in pairs if np.isfinite(mass)]


def _head(row: Mapping[Any, Any]) -> Head:
    return Head(*(row[name] for name in HEAD_COLUMNS))
