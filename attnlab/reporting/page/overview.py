"""What was found, in one screen: maps of functions and structures, and the heads most worth a look."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from attnlab.addresses import HEAD_COLUMNS, Head, layer_name
from attnlab.extraction.views import View, rows_of_view
from attnlab.functions.columns import LABELS
from attnlab.functions.label_tables import SEPARATOR
from attnlab.functions.thresholds import TIE_BITS_PER_ROW
from attnlab.functions.verdict import BORDERLINE, HOLDS, NOT_COMPARED, UNDECIDED, UNKNOWN
from attnlab.reporting.function_phrases import function_phrase, structure_phrase
from attnlab.reporting.naming import VIEW_NAMES
from attnlab.studies.analysis.description import structure_of_heads
from attnlab.studies.analysis.measuring import Analysis

# How much of what a cell names can be said: it fills the cell, frames it, or frames it with dashes.
FILLED, FRAMED, DASHED, EMPTY = "filled", "framed", "dashed", "empty"
_SHORT = {
    "positional": "pos",
    "syntactic": "syn",
    "alignment": "align",
    "monotone": "mono",
    "rare tokens": "rare",
    "rare columns": "cols",
    "diagonal": "diag",
    "diffuse": "even",
    UNKNOWN: "·",
    UNDECIDED: "?",
}
# The first word of what was picked tells such heads apart: the offset, the relation, the token.
_DETAILED = ("positional", "syntactic", "sink")
FUNCTION_STYLES = {FILLED: "stands", FRAMED: "holds, does not stand", DASHED: "borderline"}
STYLES_WITHOUT_CONTROLS = {
    FRAMED: "holds; whether it stands was not asked",
    DASHED: FUNCTION_STYLES[DASHED],
}
STRUCTURE_STYLES = {FILLED: "fewest bits", FRAMED: "tie with the next family"}


@dataclass(frozen=True)
class Cell:
    """A head in a map.

    Attributes:
        head: its name.
        kind: what it is, a class of the style sheet with hyphens.
        style: filled, framed, dashed or empty.
        short: in the cell.
        detail: below it, smaller.
        meaning: the whole, for a pointer and a reader of the screen.
    """

    head: str
    kind: str
    style: str
    short: str
    detail: str
    meaning: str


@dataclass(frozen=True)
class HeadMap:
    """Layers by heads.

    Attributes:
        caption: what the map shows.
        heads: numbers of the columns.
        rows: name of a layer and its cells, None where it has no such head.
        kinds: class, name and number of heads of every kind, most heads first.
        styles: the styles that there are, and what they mean.
    """

    caption: str
    heads: range
    rows: tuple[tuple[str, tuple[Cell | None, ...]], ...]
    kinds: tuple[tuple[str, str, int], ...]
    styles: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Highlight:
    """A head that is worth a look, and why."""

    head: str
    reason: str
    phrase: str


@dataclass(frozen=True)
class Overview:
    """The first screen of the page.

    Attributes:
        maps: of the view that comes first.
        other_maps: of the other view of the keys, and what it is called.
        highlights: at most three heads.
        facts: of model, corpus and scores.
        answers: what was found, a sentence each.
    """

    maps: tuple[HeadMap, ...] = ()
    other_maps: tuple[tuple[str, tuple[HeadMap, ...]], ...] = ()
    highlights: tuple[Highlight, ...] = ()
    facts: Mapping[str, str] = field(default_factory=dict)
    answers: tuple[str, ...] = ()


_FACTS = (
    "Model",
    "Trained on",
    "Best validation BLEU",
    "Best validation perplexity",
    "Layers",
    "Sentences",
    "Source",
)
_MOST_FACTS = 5


def overview_of(analysis: Analysis) -> Overview:
    """The maps of every view, the three heads most worth a look, and the facts beside them."""
    first, *others = analysis.views
    known = [name for name in _FACTS if name in analysis.about]
    return Overview(
        _maps(analysis, first),
        tuple((VIEW_NAMES[keys], maps) for keys in others if (maps := _maps(analysis, keys))),
        highlights_of(analysis),
        {name: analysis.about[name] for name in known[:_MOST_FACTS]},
    )


def _maps(analysis: Analysis, keys: View) -> tuple[HeadMap, ...]:
    maps = []
    if analysis.labelling is not None:
        labels = analysis.labelling.view(keys).labels
        cells = [(_function_cell(row), _function_kind(row)) for row in _rows(labels)]
        compared = (labels["standing"] != NOT_COMPARED).any()
        styles = FUNCTION_STYLES if compared else STYLES_WITHOUT_CONTROLS
        maps.append(_map("What each head does", cells, styles))
    if not analysis.structure.empty:
        found = structure_of_heads(rows_of_view(analysis.structure, keys))
        tie = found["structure_margin_bits_per_row"] < TIE_BITS_PER_ROW
        rows = _rows(found.assign(structure_tie=tie))
        cells = [(_structure_cell(row), row.structure.replace("_", " ")) for row in rows]
        maps.append(_map("What each head looks like", cells, STRUCTURE_STYLES))
    return tuple(maps)


def _rows(table: pd.DataFrame) -> list[Any]:
    return list(table.itertuples(index=False))


def _name(row: Any) -> Head:
    return Head(*(getattr(row, name) for name in HEAD_COLUMNS))


def _function_kind(row: Any) -> str:
    """The strongest function where it holds or is borderline, else the label."""
    holds = row.function in row.labels.split(SEPARATOR)
    return str(row.function if holds or row.status == BORDERLINE else row.label)


def _function_cell(row: Any) -> Cell:
    kind = _function_kind(row)
    detail = row.detail if kind == row.function and kind in _DETAILED else ""
    return Cell(
        str(_name(row)),
        kind.replace(" ", "-"),
        _function_style(row, kind),
        _SHORT.get(kind, kind),
        detail.removeprefix("offset ").partition(" ")[0],
        f"{_name(row)}: {row.labels}. Strongest: {function_phrase(row)}",
    )


def _function_style(row: Any, kind: str) -> str:
    if kind in {UNKNOWN, UNDECIDED}:
        return EMPTY
    if kind not in row.labels.split(SEPARATOR):
        return DASHED
    return FILLED if kind in row.standing.split(SEPARATOR) else FRAMED


def _structure_cell(row: Any) -> Cell:
    kind = row.structure.replace("_", " ")
    margin = LABELS["structure_margin_bits_per_row"].shown(row.structure_margin_bits_per_row)
    return Cell(
        str(_name(row)),
        kind.replace(" ", "-"),
        FRAMED if row.structure_tie else FILLED,
        _SHORT.get(kind, kind),
        f"+{margin}",
        f"{_name(row)}: {_structure_words(row)}",
    )


def _structure_words(row: Any) -> str:
    runner_up = row.structure_runner_up.replace("_", " ")
    margin = LABELS["structure_margin_bits_per_row"].shown(row.structure_margin_bits_per_row)
    return f"{structure_phrase(row)}; {runner_up} needs {margin} bits per row more"


def _map(caption: str, cells: Iterable[tuple[Cell, str]], styles: Mapping[str, str]) -> HeadMap:
    cells = list(cells)
    layers: dict[str, dict[int, Cell]] = {}
    for cell, _ in cells:
        site, layer, head = cell.head.rsplit(".", 2)
        layers.setdefault(layer_name(site, int(layer)), {})[int(head)] = cell
    heads = range(1 + max((max(row) for row in layers.values()), default=-1))
    counts = Counter(kind for _, kind in cells)
    used = {cell.style for cell, _ in cells}
    return HeadMap(
        caption,
        heads,
        tuple(
            (name.replace(".", " "), tuple(row.get(head) for head in heads))
            for name, row in layers.items()
        ),
        tuple((kind.replace(" ", "-"), kind, count) for kind, count in counts.most_common()),
        tuple((style, meaning) for style, meaning in styles.items() if style in used),
    )


def highlights_of(analysis: Analysis) -> tuple[Highlight, ...]:
    """The head that the loss rests on most, and those with the clearest function and structure.

    A head is needed where the whole interval of its loss lies above 0, and its function is clear
    where it holds; what no head shows is left out. Without labels the most confident head stands
    for the first two. A head is named once.
    """
    found: dict[Head, Highlight] = {}
    for head, reason, phrase in [*_by_labels(analysis), *_by_structure(analysis)]:
        if (
            head not in found
            and len(found) < 3
            and reason not in {h.reason for h in found.values()}
        ):
            found[head] = Highlight(str(head), reason, phrase)
    return tuple(found.values())


def _by_labels(analysis: Analysis) -> list[tuple[Head, str, str]]:
    if analysis.labelling is None:
        heads = analysis.heads.sort_values("confidence", ascending=False, kind="stable")
        return [
            (_name(row), "Largest weights", f"mean largest weight of a row {row.confidence:.2f}")
            for row in _rows(heads)[:1]
        ]
    labels = analysis.labelling.view(analysis.views[0]).labels
    found = []
    if "ablation_loss_change" in labels:
        change = LABELS["ablation_loss_change"]
        needed = labels[labels["ablation_low"] > 0]
        ranked = needed.sort_values(change.name, ascending=False, kind="stable")
        found += [
            (
                _name(row),
                "Most needed",
                f"loss {change.shown(row.ablation_loss_change, signed=True)} nats per token without it",
            )
            for row in _rows(ranked)[:1]
        ]
    labels = labels.assign(stands=labels["stands_status"] == HOLDS)
    clear = labels[labels["stands"] | (labels["status"] == HOLDS)].sort_values(
        ["stands", "strength"], ascending=False, kind="stable"
    )
    return [
        *found,
        *((_name(row), "Clearest function", function_phrase(row)) for row in _rows(clear)),
    ]


def _by_structure(analysis: Analysis) -> list[tuple[Head, str, str]]:
    if analysis.structure.empty:
        return []
    found = structure_of_heads(rows_of_view(analysis.structure, analysis.views[0]))
    margin = "structure_margin_bits_per_row"
    found = found.assign(structure_tie=found[margin] < TIE_BITS_PER_ROW)
    found = found.sort_values(margin, ascending=False, kind="stable")
    return [
        (
            _name(row),
            "Clearest structure",
            _structure_words(row),
        )
        for row in _rows(found)
    ]
