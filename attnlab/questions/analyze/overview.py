"""What was found, in one screen: maps of roles and structures, and the heads most worth a look."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from attnlab.core import HEAD_COLUMNS, LOSS_CHANGE, Head, layer_name
from attnlab.figures import marks_of_names
from attnlab.labels import LABELS, NO_STRUCTURE, NO_STRUCTURE_MEANS
from attnlab.matrices import NO_FAMILY
from attnlab.questions.analyze.head_phrases import evidence_phrase, structure_phrase
from attnlab.questions.analyze.question import SUMMARY
from attnlab.questions.analyze.summary import (
    MARK,
    MARK_WITHOUT_CONTROLS,
    NO_ROLE,
    marks_of,
    most_needed,
    roles_of,
    structure_of_heads,
    table_of,
    views_of,
)
from attnlab.reading import View
from attnlab.results import VIEW_NAMES, Cell, HeadMap, Highlight, Overview, Result, family_words

# How much of what a cell names can be said: it fills the cell, frames it, or lies in it as a bar.
FILLED, DASHED, FRAMED, PARTIAL, EMPTY = "filled", "dashed", "framed", "partial", "empty"
_SHORT = {
    "positional": "pos",
    "syntactic": "syn",
    "alignment": "align",
    "monotone": "mono",
    "rare tokens": "rare",
    "rare columns": "cols",
    "diagonal": "diag",
    "column": "col",
    "column + band": "col+b",
    NO_ROLE: "·",
}
# The first word of what was picked tells such heads apart: the offset, the relation, the token.
_DETAILED = ("positional", "syntactic", "sink")
# As evidence names them, in the room of a cell.
_SHORT_SINKS = {"opening": "start", "closing": "end", "punctuation": "punct"}
ROLE_STYLES = {
    FILLED: f"{MARK} confirmed and significant against controls",
    DASHED: f"{MARK_WITHOUT_CONTROLS} confirmed; no control is compared with it",
    FRAMED: "confirmed, not significant against controls",
    PARTIAL: "not confirmed; the bar is the strength",
}
STYLES_WITHOUT_CONTROLS = {
    FILLED: f"{MARK_WITHOUT_CONTROLS} confirmed; controls were left out",
    PARTIAL: ROLE_STYLES[PARTIAL],
}
STRUCTURE_STYLES = {
    FILLED: "fewest bits",
    FRAMED: "tie with the next family",
    EMPTY: f"{NO_STRUCTURE}: {NO_STRUCTURE_MEANS}",
}
# Marks of roles, the clearest first.
_CLEAREST = (MARK, MARK_WITHOUT_CONTROLS, "")
# Columns of `SUMMARY` whose meaning the first screen gives in a line each.
_WORDS = (
    "role",
    "strength",
    "confirmed",
    "significant",
    "structure",
    LOSS_CHANGE.name,
)


def overview_of(result: Result) -> Overview:
    """The maps of every view, the three heads most worth a look, and what the words of the maps mean."""
    first, *others = views_of(result)
    return Overview(
        _maps(result, first),
        tuple((VIEW_NAMES[keys], maps) for keys in others if (maps := _maps(result, keys))),
        tuple(highlights_of(result).values()),
        words=tuple(
            (SUMMARY[name].narrow, SUMMARY[name].meaning) for name in _WORDS if name in result.table
        ),
    )


def _maps(result: Result, keys: View) -> tuple[HeadMap, ...]:
    maps = []
    roles, structure = roles_of(result, keys), table_of(result, "structure", keys)
    if not roles.empty:
        table = roles.assign(mark=marks_of(roles))
        compared = "significant" in roles
        cells = [_role_cell(row, compared=compared) for row in _rows(table)]
        styles = ROLE_STYLES if compared else STYLES_WITHOUT_CONTROLS
        maps.append(_map("Closest role of each head", cells, styles))
    if not structure.empty:
        cells = [_structure_cell(row) for row in _rows(structure_of_heads(structure))]
        maps.append(_map("What each head looks like", cells, STRUCTURE_STYLES))
    return tuple(maps)


def _rows(table: pd.DataFrame) -> list[Any]:
    return list(table.itertuples(index=False))


def _name(row: Any) -> Head:
    return Head(*(getattr(row, name) for name in HEAD_COLUMNS))


def _role_cell(row: Any, *, compared: bool) -> tuple[Cell, str]:
    evidence = evidence_phrase(row)
    said = f"{row.role} {row.mark}".strip()
    detail = str(row.detail or "") if row.role in _DETAILED else ""
    named = detail.removeprefix("offset ").partition(" ")[0]
    cell = Cell(
        str(_name(row)),
        _style_class(row.role),
        _role_style(row, compared=compared),
        _SHORT.get(row.role, row.role),
        _SHORT_SINKS.get(named, named) if row.role == "sink" else named,
        f"{_name(row)}: {said}, {_strength(row.strength)}" + (f"; {evidence}" if evidence else ""),
        0.0 if math.isnan(row.strength) else float(row.strength),
        row.mark,
    )
    return cell, row.role


def _strength(strength: float) -> str:
    return f"strength {SUMMARY['strength'].shown(strength) or 'not measured'}"


def _role_style(row: Any, *, compared: bool) -> str:
    if row.role == NO_ROLE:
        return EMPTY
    if row.mark:
        return DASHED if compared and row.mark == MARK_WITHOUT_CONTROLS else FILLED
    return FRAMED if row.confirmed else PARTIAL


def _structure_cell(row: Any) -> tuple[Cell, str]:
    kind = family_words(row.structure)
    margin = LABELS["structure_margin_bits_per_row"].shown(row.structure_margin_bits_per_row)
    cell = Cell(
        str(_name(row)),
        _style_class(kind),
        _structure_style(row),
        _SHORT.get(kind, kind),
        f"+{margin}",
        f"{_name(row)}: {_structure_words(row)}",
    )
    return cell, row.structure


def _structure_style(row: Any) -> str:
    if row.structure == NO_FAMILY:
        return EMPTY
    return FRAMED if row.structure_tie else FILLED


def _structure_words(row: Any) -> str:
    next_needs = f"{family_words(row.structure_runner_up)} needs"
    if row.structure_runner_up == NO_FAMILY:
        next_needs = "equal weights need"
    margin = LABELS["structure_margin_bits_per_row"].shown(row.structure_margin_bits_per_row)
    return f"{structure_phrase(row)}; {next_needs} {margin} bits per row more"


def _style_class(kind: str) -> str:
    return kind.replace(" + ", "-").replace(" ", "-")


def _map(caption: str, cells: Iterable[tuple[Cell, str]], styles: Mapping[str, str]) -> HeadMap:
    cells = list(cells)
    layers: dict[str, dict[int, Cell]] = {}
    for cell, _ in cells:
        site, layer, head = cell.head.rsplit(".", 2)
        layers.setdefault(layer_name(site, int(layer)), {})[int(head)] = cell
    heads = range(1 + max((max(row) for row in layers.values()), default=-1))
    counts = Counter(kind for _, kind in cells)
    shown = marks_of_names(counts)
    marks = Counter((kind, cell.mark) for cell, kind in cells if cell.mark)
    used = {cell.style for cell, _ in cells}
    return HeadMap(
        caption,
        heads,
        tuple(
            (name.replace(".", " "), tuple(row.get(head) for head in heads))
            for name, row in layers.items()
        ),
        tuple(
            (
                _style_class(family_words(kind)),
                family_words(kind),
                shown[kind].letter,
                count,
                _marked(kind, marks),
            )
            for kind, count in counts.most_common()
        ),
        tuple((style, meaning) for style, meaning in styles.items() if style in used),
    )


def _marked(kind: str, marks: Mapping[tuple[str, str], int]) -> str:
    """How many heads of this kind have a mark, such as `2 ✓`; empty where none has."""
    return ", ".join(f"{count} {mark}" for (name, mark), count in marks.items() if name == kind)


def highlights_of(result: Result) -> dict[Head, Highlight]:
    """The heads that are shown first: the most needed, and those with the clearest function and structure.

    A head is needed where the whole interval of its loss lies above 0, and its role is clear
    where it is confirmed; what no head shows is left out. Without labels the most confident head stands
    for the first two. A head is named once.
    """
    found: dict[Head, Highlight] = {}
    for head, reason, phrase in [*_by_labels(result), *_by_structure(result)]:
        if (
            head not in found
            and len(found) < 3
            and reason not in {h.reason for h in found.values()}
        ):
            found[head] = Highlight(str(head), reason, phrase)
    return found


def _by_labels(result: Result) -> list[tuple[Head, str, str]]:
    summary = result.table
    if "role" not in summary:
        heads = result.heads.sort_values("confidence", ascending=False, kind="stable")
        return [
            (_name(row), "Largest weights", f"mean largest weight of a row {row.confidence:.2f}")
            for row in _rows(heads)[:1]
        ]
    found = []
    needed = most_needed(summary)
    if needed is not None:
        head, change = needed
        said = LOSS_CHANGE.column.shown(change, signed=True)
        found.append((head, "Most needed", f"loss {said} nats per token without it"))
    clear = summary.assign(mark=marks_of(summary).map(_CLEAREST.index))
    clear = clear[summary["confirmed"].astype(bool)]
    clear = clear.sort_values(["mark", "strength"], ascending=[True, False], kind="stable")
    return [
        *found,
        *(
            (_name(row), "Clearest role", f"{row.role}: {evidence_phrase(row)}")
            for row in _rows(clear)
        ),
    ]


def _by_structure(result: Result) -> list[tuple[Head, str, str]]:
    structure = table_of(result, "structure", views_of(result)[0])
    if structure.empty:
        return []
    found = structure_of_heads(structure)
    found = found[found["structure"] != NO_FAMILY]
    found = found.sort_values("structure_margin_bits_per_row", ascending=False, kind="stable")
    return [
        (
            _name(row),
            "Clearest structure",
            _structure_words(row),
        )
        for row in _rows(found)
    ]
