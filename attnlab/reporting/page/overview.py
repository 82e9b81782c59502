"""What was found, in one screen: maps of roles and structures, and the heads most worth a look."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from attnlab.core.addresses import HEAD_COLUMNS, Head, layer_name
from attnlab.families import NO_FAMILY
from attnlab.labels.label_columns import LABELS, NO_STRUCTURE, NO_STRUCTURE_MEANS, TIE_BITS_PER_ROW
from attnlab.reading.weights import View, rows_of_view
from attnlab.reporting.function_phrases import evidence_phrase, structure_phrase
from attnlab.reporting.heads_shown import MARK, MARK_WITHOUT_CONTROLS, describe_roles, mark_of
from attnlab.reporting.naming import VIEW_NAMES, family_words
from attnlab.studies.analysis.columns import SUMMARY
from attnlab.studies.analysis.description import structure_of_heads
from attnlab.studies.analysis.measuring import Analysis
from attnlab.studies.analysis.roles import NO_ROLE, closest_roles, marked

# How much of what a cell names can be said: it fills the cell, frames it, or lies in it as a bar.
FILLED, FRAMED, PARTIAL, EMPTY = "filled", "framed", "partial", "empty"
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
ROLE_STYLES = {
    FILLED: f"{MARK} confirmed and significant against controls",
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


@dataclass(frozen=True)
class Cell:
    """A head in a map.

    Attributes:
        head: its name.
        kind: what it is, a class of the style sheet with hyphens.
        style: filled, framed, partial or empty.
        short: in the cell.
        detail: below it, smaller.
        meaning: the whole, for a pointer and a reader of the screen.
        strength: of a role, from 0 to 1.
    """

    head: str
    kind: str
    style: str
    short: str
    detail: str
    meaning: str
    strength: float = 1.0


@dataclass(frozen=True)
class HeadMap:
    """Layers by heads.

    Attributes:
        caption: what the map shows.
        heads: numbers of the columns.
        rows: name of a layer and its cells, None where it has no such head.
        kinds: class, name, number of heads, and number of filled cells of every kind, most heads first.
        styles: the styles that there are, and what they mean.
        mark: of filled cells, in the legend; empty where they have none.
    """

    caption: str
    heads: range
    rows: tuple[tuple[str, tuple[Cell | None, ...]], ...]
    kinds: tuple[tuple[str, str, int, int], ...]
    styles: tuple[tuple[str, str], ...]
    mark: str = ""


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
        words: the words of the maps, each with what it means.
    """

    maps: tuple[HeadMap, ...] = ()
    other_maps: tuple[tuple[str, tuple[HeadMap, ...]], ...] = ()
    highlights: tuple[Highlight, ...] = ()
    facts: Mapping[str, str] = field(default_factory=dict)
    answers: tuple[str, ...] = ()
    words: tuple[tuple[str, str], ...] = ()


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
# Columns of `SUMMARY` whose meaning the first screen gives in a line each.
_WORDS = (
    "role",
    "strength",
    "confirmed",
    "significant",
    "structure",
    "ablation_loss_change",
)


def overview_of(analysis: Analysis) -> Overview:
    """The maps of every view, the three heads most worth a look, and the facts beside them."""
    first, *others = analysis.views
    known = [name for name in _FACTS if name in analysis.about]
    return Overview(
        _maps(analysis, first),
        tuple((VIEW_NAMES[keys], maps) for keys in others if (maps := _maps(analysis, keys))),
        highlights_of(analysis),
        {name: analysis.about[name] for name in known[:_MOST_FACTS]},
        () if analysis.labelling is None else (describe_roles(analysis.summary),),
        tuple(
            (SUMMARY[name].narrow, SUMMARY[name].meaning)
            for name in _WORDS
            if name in analysis.summary
        ),
    )


def _maps(analysis: Analysis, keys: View) -> tuple[HeadMap, ...]:
    maps = []
    if analysis.labelling is not None:
        view = analysis.labelling.view(keys)
        roles = closest_roles(view.labels, view.controls)
        if keys == analysis.views[0]:
            roles = analysis.summary
        mark = mark_of(roles)
        table = roles.assign(mark=marked(roles).map({True: mark, False: ""}))
        styles = ROLE_STYLES if "significant" in roles else STYLES_WITHOUT_CONTROLS
        cells = map(_role_cell, _rows(table))
        maps.append(_map("Closest role of each head", cells, styles, mark))
    if not analysis.structure.empty:
        found = structure_of_heads(rows_of_view(analysis.structure, keys))
        tie = found["structure_margin_bits_per_row"] < TIE_BITS_PER_ROW
        rows = _rows(found.assign(structure_tie=tie))
        cells = map(_structure_cell, rows)
        maps.append(_map("What each head looks like", cells, STRUCTURE_STYLES))
    return tuple(maps)


def _rows(table: pd.DataFrame) -> list[Any]:
    return list(table.itertuples(index=False))


def _name(row: Any) -> Head:
    return Head(*(getattr(row, name) for name in HEAD_COLUMNS))


def _role_cell(row: Any) -> tuple[Cell, str]:
    evidence = evidence_phrase(row)
    said = f"{row.role} {row.mark}".strip()
    detail = str(row.detail or "") if row.role in _DETAILED else ""
    cell = Cell(
        str(_name(row)),
        _style_class(row.role),
        _role_style(row),
        _SHORT.get(row.role, row.role),
        detail.removeprefix("offset ").partition(" ")[0],
        f"{_name(row)}: {said}, strength {row.strength:.2f}"
        + (f"; {evidence}" if evidence else ""),
        float(row.strength),
    )
    return cell, row.role


def _role_style(row: Any) -> str:
    if row.role == NO_ROLE:
        return EMPTY
    if row.mark:
        return FILLED
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
    return cell, kind


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


def _map(
    caption: str, cells: Iterable[tuple[Cell, str]], styles: Mapping[str, str], mark: str = ""
) -> HeadMap:
    cells = list(cells)
    layers: dict[str, dict[int, Cell]] = {}
    for cell, _ in cells:
        site, layer, head = cell.head.rsplit(".", 2)
        layers.setdefault(layer_name(site, int(layer)), {})[int(head)] = cell
    heads = range(1 + max((max(row) for row in layers.values()), default=-1))
    counts = Counter(kind for _, kind in cells)
    sure = Counter(kind for cell, kind in cells if cell.style == FILLED)
    used = {cell.style for cell, _ in cells}
    return HeadMap(
        caption,
        heads,
        tuple(
            (name.replace(".", " "), tuple(row.get(head) for head in heads))
            for name, row in layers.items()
        ),
        tuple(
            (_style_class(kind), kind, count, sure[kind]) for kind, count in counts.most_common()
        ),
        tuple((style, meaning) for style, meaning in styles.items() if style in used),
        mark,
    )


def highlights_of(analysis: Analysis) -> tuple[Highlight, ...]:
    """The head that the loss rests on most, and those with the clearest function and structure.

    A head is needed where the whole interval of its loss lies above 0, and its role is clear
    where it is confirmed; what no head shows is left out. Without labels the most confident head stands
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
    summary = analysis.summary
    found = []
    if "ablation_loss_change" in summary:
        change = SUMMARY["ablation_loss_change"]
        needed = summary[summary["ablation_low"] > 0]
        ranked = needed.sort_values(change.name, ascending=False, kind="stable")
        found += [
            (
                _name(row),
                "Most needed",
                f"loss {change.shown(row.ablation_loss_change, signed=True)} nats per token without it",
            )
            for row in _rows(ranked)[:1]
        ]
    clear = summary.assign(mark=marked(summary))[summary["confirmed"].astype(bool)]
    clear = clear.sort_values(["mark", "strength"], ascending=False, kind="stable")
    return [
        *found,
        *(
            (_name(row), "Clearest role", f"{row.role}: {evidence_phrase(row)}")
            for row in _rows(clear)
        ),
    ]


def _by_structure(analysis: Analysis) -> list[tuple[Head, str, str]]:
    if analysis.structure.empty:
        return []
    found = structure_of_heads(rows_of_view(analysis.structure, analysis.views[0]))
    margin = "structure_margin_bits_per_row"
    found = found.assign(structure_tie=found[margin] < TIE_BITS_PER_ROW)
    found = found[found["structure"] != NO_FAMILY]
    found = found.sort_values(margin, ascending=False, kind="stable")
    return [
        (
            _name(row),
            "Clearest structure",
            _structure_words(row),
        )
        for row in _rows(found)
    ]
