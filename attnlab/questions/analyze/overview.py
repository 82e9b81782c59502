"""The first screen of a page: maps of roles and shapes, and the heads most worth a look."""

from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from attnlab.core import HEAD_COLUMNS, Head, counted
from attnlab.labels import (
    LABELS,
    NO_ROLE,
    NO_STRUCTURE,
    NO_STRUCTURE_MEANS,
    SINK_LABEL,
    known_labels,
)
from attnlab.matrices import FAMILIES, NO_FAMILY
from attnlab.questions.analyze.head_table import head_rows, legend
from attnlab.questions.analyze.question import ABLATION_CHANGE
from attnlab.questions.analyze.summary import (
    MARK,
    MARK_WITHOUT_CONTROLS,
    most_needed,
    roles_of,
    structure_of_heads,
    table_of,
    views_of,
)
from attnlab.reading import View
from attnlab.results import (
    VIEW_NAMES,
    Cell,
    HeadMap,
    Highlight,
    Overview,
    Result,
    family_words,
    head_map,
    readable,
    style_class,
)

# How much of what a cell names can be said: it fills the cell, frames it, or lies in it as a bar.
FILLED, DASHED, FRAMED, PARTIAL, EMPTY = "filled", "dashed", "framed", "partial", "empty"
# What was picked tells such heads apart: the offset, the relation, the token.
_DETAILED = ("positional", "syntactic", SINK_LABEL.name)
ROLE_STYLES = {
    FILLED: f"{MARK} confirmed against controls",
    DASHED: f"{MARK_WITHOUT_CONTROLS} confirmed, without a control",
    FRAMED: "above its threshold, not above a control",
    PARTIAL: "not confirmed; the bar is the strength",
}
SHAPE_STYLES = {
    FILLED: "fewest bits per row",
    FRAMED: "as few bits as the next family",
    EMPTY: f"{NO_STRUCTURE}: {NO_STRUCTURE_MEANS}",
}
_CONTROL = (
    "the same figure without the role: equal weights, the best offset, chance, the same head of an untrained "
    "model, or shuffled words; the largest counts, and the cell of a head names it"
)
# Marks of roles, the clearest first.
_CLEAREST = (MARK, MARK_WITHOUT_CONTROLS, "")


def overview_of(result: Result) -> Overview:
    """The maps of both views, the heads most worth a look, and what the words mean."""
    first, *others = views_of(result)
    return Overview(
        _maps(result, first),
        tuple((VIEW_NAMES[keys], maps) for keys in others if (maps := _maps(result, keys))),
        tuple(highlights_of(result).values()),
        words=tuple(pair for line in legend(head_rows(result.table)) for pair in line),
        definitions=tuple(_definitions(result)),
    )


def _maps(result: Result, keys: View) -> tuple[HeadMap, ...]:
    maps = []
    view = "" if len(views_of(result)) < 2 else f", {VIEW_NAMES[keys]}"
    roles, structure = roles_of(result, keys), table_of(result, "structure", keys)
    if not roles.empty:
        cells = [(_role_cell(row), row["role"]) for row in head_rows(roles).to_dict("records")]
        caption = f"Closest role of each head{view}, in these {_sentences_of(result)}"
        maps.append(head_map(caption, cells, ROLE_STYLES))
    if not structure.empty:
        rows = structure_of_heads(structure).to_dict("records")
        cells = [(_shape_cell(row), row["structure"]) for row in rows]
        maps.append(head_map(f"Shape of each head{view}", cells, SHAPE_STYLES))
    return tuple(maps)


def _definitions(result: Result) -> Iterator[tuple[str, str]]:
    """What controls are, and the roles and shapes that are on the maps."""
    if "role" in result.table:
        yield "control", _CONTROL
        labels, roles = known_labels(), set(result.table["role"])
        yield from (
            (name, role.meaning) for name, role in labels.items() if name in roles and role.meaning
        )
    structure = table_of(result, "structure", views_of(result)[0])
    shapes = set() if structure.empty else set(structure_of_heads(structure)["structure"])
    for family in FAMILIES.values():
        if family.name in shapes and family.name != NO_FAMILY:
            yield family_words(family.name), family.members


def _sentences_of(result: Result) -> str:
    """How many sentences were read, and how long they are: a role depends on both."""
    count = int(result.heads["sentences"].max())
    rows = result.heads["rows"].max() / max(1, count)
    return f"{counted(count, 'sentence')} of {rows:.0f} tokens on average"


def _role_cell(row: Mapping[Any, Any]) -> Cell:
    detail = str(row["detail"]) if row["role"] in _DETAILED else ""
    role = f"{row['role']}, " if row["detail"] and row["role"] != NO_ROLE else ""
    control = row["control_figure"] and f"; control: {row['control_figure']}"
    return Cell(
        row["head_name"],
        style_class(row["role"]),
        _role_style(row),
        "·" if row["role"] == NO_ROLE else row["role"],
        detail.removeprefix("offset ").partition(" head>")[0].partition(" dependent>")[0],
        f"{row['head_name']}: {role}{row['role_figure']}{control}",
        0.0 if pd.isna(row["strength"]) else float(row["strength"]),
        row["mark"],
    )


def _role_style(row: Mapping[Any, Any]) -> str:
    if row["role"] == NO_ROLE:
        return EMPTY
    if row["mark"]:
        return FILLED if row["mark"] == MARK else DASHED
    return FRAMED if row["confirmed"] else PARTIAL


def _shape_cell(row: Mapping[Any, Any]) -> Cell:
    shape, head = family_words(row["structure"]), _head(row)
    style = FRAMED if row["structure_tie"] else FILLED
    return Cell(
        str(head),
        style_class(shape),
        EMPTY if row["structure"] == NO_FAMILY else style,
        "·" if row["structure"] == NO_FAMILY else shape,
        "",
        f"{head}: {_shape_words(row)}",
    )


def _shape_words(row: Mapping[Any, Any]) -> str:
    """The shape of a head, such as `band; column needs 0.03 bits per row more`."""
    needs = f"{family_words(row['structure_runner_up'])} needs"
    if row["structure_runner_up"] == NO_FAMILY:
        needs = "equal weights need"
    margin = LABELS["structure_margin_bits_per_row"].shown(row["structure_margin_bits_per_row"])
    return f"{family_words(row['structure'])}; {needs} {margin} bits per row more"


def _head(row: Mapping[Any, Any]) -> Head:
    return Head(*(row[name] for name in HEAD_COLUMNS))


def highlights_of(result: Result) -> dict[Head, Highlight]:
    """The heads that are shown first: the most needed, and those with the clearest role and shape.

    A head is needed where the whole interval of its loss lies above 0, and its role is clear
    where it is confirmed; what no head shows is left out. Without labels the most confident head stands
    for the first two. A head is named once, with all reasons that are its own.
    """
    highlights: dict[Head, Highlight] = {}
    reasons: set[str] = set()
    for head, reason, phrase in [*_by_labels(result), *_by_shape(result)]:
        if reason in reasons:
            continue
        reasons.add(reason)
        before = highlights.get(head)
        highlights[head] = (
            Highlight(str(head), reason, phrase)
            if before is None
            else Highlight(
                str(head), f"{before.reason}, {reason.lower()}", f"{before.phrase}; {phrase}"
            )
        )
    return highlights


def _by_labels(result: Result) -> list[tuple[Head, str, str]]:
    if "role" not in result.table:
        heads = result.heads.sort_values("confidence", ascending=False, kind="stable")
        first = heads.iloc[0].to_dict()
        phrase = f"mean largest weight of a row {first['confidence']:.2f}"
        return [(_head(first), "Largest weights", phrase)]
    candidates = []
    needed = most_needed(result.table)
    if needed is not None:
        change = readable(ABLATION_CHANGE.column, result.table).shown(needed[1], signed=True)
        candidates.append((needed[0], "Most needed", f"loss {change} nats per token without it"))
    rows = head_rows(result.table)
    rows = rows.assign(clear=rows["mark"].map(_CLEAREST.index))[rows["confirmed"].astype(bool)]
    rows = rows.sort_values(["clear", "strength"], ascending=[True, False], kind="stable")
    clear = ((_head(row), "Clearest role", row["role_figure"]) for row in rows.to_dict("records"))
    return [*candidates, *clear]


def _by_shape(result: Result) -> list[tuple[Head, str, str]]:
    structure = table_of(result, "structure", views_of(result)[0])
    if structure.empty:
        return []
    rows = structure_of_heads(structure)
    rows = rows[rows["structure"] != NO_FAMILY]
    rows = rows.sort_values("structure_margin_bits_per_row", ascending=False, kind="stable")
    return [(_head(row), "Clearest shape", _shape_words(row)) for row in rows.to_dict("records")]
