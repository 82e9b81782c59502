"""What the page says of one head beside its matrix, as text and numbers."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from attnlab.core.addresses import HEAD_COLUMNS, Head
from attnlab.core.columns import rounded
from attnlab.labels.label_columns import CONTROLS, LABELS
from attnlab.reading.statistics_columns import CONTENT_OFFSET_PREFIX, HEADS, OFFSET_PREFIX, OFFSETS
from attnlab.reading.weights import CONTENT, rows_of_view
from attnlab.reporting.columns import columns_named
from attnlab.reporting.heads_shown import mark_of
from attnlab.reporting.naming import VIEW_NAMES, family_words
from attnlab.reporting.page.label_section import STATUS_WORDS, with_phrases
from attnlab.reporting.page.showing import best_sentences
from attnlab.studies.analysis.columns import SUMMARY
from attnlab.studies.analysis.measuring import Analysis
from attnlab.studies.analysis.roles import NO_ROLE, marked

_NEAREST = 5
_STATISTICS = ("normalised_entropy", "confidence", "mean_offset", "mass_on_special")
_LABELS = ("phrase", "labels", "standing", "borderline", "undecided", "structure_phrase")
_CONTROLS = ("label", "value", "threshold", "untrained_value", "shuffled_value", "stands_status")
CONTROL_COLUMNS = [
    (column.heading, column.meaning) for column in map(CONTROLS.__getitem__, _CONTROLS)
]

Facts = dict[str, Any]


def head_facts(analysis: Analysis, sentences: Sequence[int]) -> list[Facts]:
    """One dictionary per head, see `HeadFacts` of viewer/weights.js.

    Args:
        analysis: what was measured.
        sentences: those whose matrices the page holds.
    """
    labels, shorts = _labels(analysis), _shorts(analysis.summary)
    profiles = _profiles(analysis)
    controls, bits = _controls(analysis), _bits(analysis)
    best = best_sentences(analysis, sentences)
    found = []
    for index, row in enumerate(analysis.heads.to_dict("records")):
        head = Head(row["site"], row["layer"], row["head"])
        mine = labels.get(head, [])
        measure, numbers = best.get(head, ("", []))
        found.append(
            {
                **head._asdict(),
                "name": str(head),
                "short": shorts.get(head, ""),
                "phrase": mine[0][1] if mine else "",
                "lines": [*mine, *_statistics(row)],
                "controls": controls.get(head, []),
                "bits": bits.get(head, []),
                "offsets": _offsets(profiles[index]),
                "nearest": _nearest(analysis.heads, profiles, index),
                "best": numbers,
                "bestBy": measure,
            }
        )
    return found


def _shorts(summary: pd.DataFrame) -> dict[Head, str]:
    """The closest role of each head with its mark, or else with its strength."""
    if "role" not in summary:
        return {}
    marks = marked(summary).map({True: mark_of(summary), False: ""})
    rows = summary.assign(mark=marks).to_dict("records")
    return {_head(row): _short(row) for row in rows}


def _short(row: Mapping[Any, Any]) -> str:
    if row["mark"] or row["role"] == NO_ROLE:
        return f"{row['role']} {row['mark']}".strip()
    return f"{row['role']} {SUMMARY['strength'].shown(row['strength'])}"


def _labels(analysis: Analysis) -> dict[Head, list[tuple[str, str, str]]]:
    """Heading, value and meaning of what the labels say, view by view."""
    found: dict[Head, list[tuple[str, str, str]]] = {}
    if analysis.labelling is None:
        return found
    first: dict[Head, Mapping[Any, Any]] = {}
    for keys in analysis.labelling.views:
        labels = with_phrases(analysis.labelling.view(keys).labels)
        columns = columns_named([name for name in _LABELS if name in labels], LABELS.columns)
        for row in labels.to_dict("records"):
            head = _head(row)
            before, view = first.get(head), ""
            if before is None:
                first[head], found[head] = row, []
            else:
                view = f" ({VIEW_NAMES[keys]})"
            found[head] += [
                (column.heading + view, str(row[column.name]), column.meaning)
                for column in columns
                if row[column.name] and (before is None or row[column.name] != before[column.name])
            ]
            if before is None and "ablation_loss_change" in row:
                found[head].append(_ablation(row))
    return found


def _ablation(row: Mapping[Any, Any]) -> tuple[str, str, str]:
    column = LABELS["ablation_loss_change"]
    change, low, high = (
        column.shown(row[name], signed=True)
        for name in ("ablation_loss_change", "ablation_low", "ablation_high")
    )
    return (column.heading, f"{change} [{low}, {high}] nats per token", column.meaning)


def _statistics(row: Mapping[Any, Any]) -> list[tuple[str, str, str]]:
    columns = [HEADS[name] for name in _STATISTICS if name in row]
    return [
        (column.heading, column.shown(row[column.name]), column.meaning)
        for column in columns
        if not pd.isna(row[column.name])
    ]


def _controls(analysis: Analysis) -> dict[Head, list[Facts]]:
    """A line per label: its figure beside those of its controls."""
    found: dict[Head, list[Facts]] = {}
    if analysis.labelling is None:
        return found
    view = analysis.labelling.view(analysis.labelling.views[0])
    for row in view.controls.to_dict("records"):
        value, low, high, threshold, untrained, shuffled = (
            "" if pd.isna(row[name]) else rounded(row[name], 2)
            for name in ("value", "low", "high", "threshold", "untrained_value", "shuffled_value")
        )
        label = f"{row['label']}, {row['detail']}" if row["detail"] else row["label"]
        interval = f"{value} [{low}, {high}]" if value else ""
        cells = [
            label,
            interval,
            threshold,
            untrained,
            shuffled,
            STATUS_WORDS.get(row["stands_status"], row["stands_status"]),
        ]
        found.setdefault(_head(row), []).append({"cells": cells, "status": row["status"]})
    return found


def _bits(analysis: Analysis) -> dict[Head, list[tuple[str, float, str, bool]]]:
    """Family, bits per row, its best member, and whether these are the fewest bits."""
    found: dict[Head, list[tuple[str, float, str, bool]]] = {}
    if analysis.structure.empty:
        return found
    for row in rows_of_view(analysis.structure, analysis.views[0]).to_dict("records"):
        if np.isfinite(row["bits_per_row"]):
            family = family_words(row["family"])
            member = str(row["member"] or "").replace("_", " ")
            line = (family, round(row["bits_per_row"], 3), member, bool(row["chosen"]))
            found.setdefault(_head(row), []).append(line)
    return found


def _profiles(analysis: Analysis) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Mean weight by offset, a row per head; NaN where no row sees such a key."""
    prefix = CONTENT_OFFSET_PREFIX if analysis.views[0] == CONTENT else OFFSET_PREFIX
    table = analysis.heads[[f"{prefix}{offset}" for offset in OFFSETS]]
    return table.to_numpy(dtype=np.float64, na_value=np.nan)


def _offsets(profile: np.ndarray[Any, np.dtype[np.float64]]) -> list[tuple[int, float]]:
    pairs = zip(OFFSETS, profile.tolist(), strict=True)
    return [(offset, round(mass, 3)) for offset, mass in pairs if np.isfinite(mass)]


def _nearest(
    heads: pd.DataFrame, profiles: np.ndarray[Any, np.dtype[np.float64]], index: int
) -> list[tuple[str, str]]:
    """The heads of the same site whose profiles have the largest cosine with this head's."""
    known = np.nan_to_num(profiles)
    lengths = np.linalg.norm(known, axis=1) * np.linalg.norm(known[index])
    cosine = np.divide(known @ known[index], lengths, out=np.zeros(len(known)), where=lengths > 0)
    same = (heads["site"] == heads["site"].iloc[index]).to_numpy()
    others = [
        other for other in np.argsort(-cosine, kind="stable") if same[other] and other != index
    ]
    rows = heads[HEAD_COLUMNS].iloc[others[:_NEAREST]].itertuples(index=False, name=None)
    figures = cosine[others[:_NEAREST]]
    return [
        (str(Head(*row)), rounded(figure, 3)) for row, figure in zip(rows, figures, strict=True)
    ]


def _head(row: Mapping[Any, Any]) -> Head:
    return Head(*(row[name] for name in HEAD_COLUMNS))
