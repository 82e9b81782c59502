"""The heads of an analysis in one table: the closest role, the structure, and the loss without each."""

import math
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import pandas as pd

from attnlab.core import HEAD_COLUMNS, KEYS, LOSS_CHANGE, Head
from attnlab.labels import (
    CONFIRMED,
    LINKS,
    NO_ROLE,
    NOT_COMPARED,
    SHUFFLED_WORDS,
    TIE_BITS_PER_ROW,
    UNTRAINED_TWIN,
    chosen_by_bits,
    known_labels,
)
from attnlab.matrices import CODED, NO_FAMILY
from attnlab.questions.analyze.question import ABLATION_CHANGE, PRUNED, SUMMARY
from attnlab.reading import View, rows_of_view
from attnlab.results import Result

MARK = "✓"
# Of a confirmed role where there is nothing to say whether an untrained head would have it too.
MARK_WITHOUT_CONTROLS = "(✓)"
_CONTROLS = ("control", "control_kind", "untrained_value", "shuffled_value")
WITHOUT_ROLE: dict[str, Any] = {
    "role": NO_ROLE, "detail": "", "statistic": "", "value": math.nan, "control": math.nan,
    "control_kind": "", "strength": math.nan, "confirmed": False, "significant": False,
}  # fmt: skip


def table_of(result: Result, name: str, keys: View | None = None) -> pd.DataFrame:
    """A table of an analysis, of one view where that is named; empty where it was not measured."""
    table = result.tables.get(name, pd.DataFrame())
    return table if keys is None else rows_of_view(table, keys)


def views_of(result: Result) -> tuple[View, ...]:
    """The views of the keys, in the order in which they are shown."""
    return tuple(result.details["views"])


def roles_of(result: Result, keys: View) -> pd.DataFrame:
    """The closest role of each head in a view; empty where heads were not labelled."""
    if keys == views_of(result)[0]:
        return result.table if "role" in result.table else pd.DataFrame()
    labels = table_of(result, "labels", keys)
    return labels if labels.empty else closest_roles(labels, table_of(result, "controls", keys))


def summarise_heads(
    heads: pd.DataFrame,
    *,
    structure: pd.DataFrame,
    labels: pd.DataFrame,
    controls: pd.DataFrame,
    closed: Collection[Head] = (),
    keys: View | None = None,
) -> pd.DataFrame:
    """One row per head with the columns of `SUMMARY` that were measured, in the order of `heads`.

    Every table, map and page shows these columns, so that they count alike.

    Args:
        heads: one row per head.
        structure: of one view, see `HeadStructure.families`; empty where that was not measured.
        labels: of the same view, see `closest_roles`; empty where heads were not labelled.
        controls: of the same view.
        closed: heads that are closed for good.
        keys: that view, where there are several, since which comes first depends on the heads.
    """
    heads = heads.reset_index(drop=True)
    of_view = keys is not None and not (labels.empty and structure.empty)
    table = heads[HEAD_COLUMNS].assign(**({KEYS.name: keys} if of_view else {}))
    parts = [] if labels.empty else [closest_roles(labels, controls)]
    if LOSS_CHANGE.name in labels:
        # Under another name than a change of `importance`, so that the two tables join on heads alone.
        names = dict(
            zip((c.name for c in LOSS_CHANGE), (c.name for c in ABLATION_CHANGE), strict=True)
        )
        parts.append(labels[[*HEAD_COLUMNS, *names]].rename(columns=names))
    if not structure.empty:
        parts.append(structure_of_heads(structure)[[*HEAD_COLUMNS, "structure", "structure_tie"]])
    for part in parts:
        table = table.merge(part, on=HEAD_COLUMNS, how="left", validate="one_to_one")
    table = table[[name for name in SUMMARY if name in table]]
    weightless = weightless_heads(heads)
    # A head whose matrices hold no weight looks like nothing and has no role.
    nothing = {"structure": "", "structure_tie": False} | WITHOUT_ROLE
    for name in nothing.keys() & set(table):
        is_known = table[name].notna() & ~weightless
        values = [
            value if is_valid else nothing[name]
            for value, is_valid in zip(table[name], is_known, strict=True)
        ]
        table = table.assign(**{name: pd.Series(values, table.index)})
    among = pd.Series(_among(heads, closed), heads.index, dtype=bool)
    output = pd.Series("", heads.index).mask(weightless, "none").mask(among, PRUNED)
    return table.assign(output=output) if (output != "").any() else table


def weightless_heads(heads: pd.DataFrame) -> "pd.Series[bool]":
    """Whether no row of a head sees any key, as where a plan leaves it out."""
    return (heads["rows"] > 0) & (heads["empty_rows"] == heads["rows"])


def _among(heads: pd.DataFrame, some: Collection[Head]) -> list[bool]:
    return [Head(*row) in some for row in heads[HEAD_COLUMNS].itertuples(index=False)]


def structure_of_heads(families: pd.DataFrame) -> pd.DataFrame:
    """One row per head: what `chosen_by_bits` says, whether that is a tie, and the bits of every family.

    Args:
        families: one row per head and family, see `HeadStructure.families`.
    """
    heads = families[HEAD_COLUMNS].drop_duplicates()
    finite = families[families["bits_per_row"].abs() < float("inf")]
    bits = finite.pivot(index=HEAD_COLUMNS, columns="family", values="bits_per_row")
    bits = bits.reindex(columns=[*CODED]).loc[[*heads.itertuples(index=False, name=None)]]
    table = pd.concat(
        [chosen_by_bits(bits), bits.add_prefix("bits_")], axis="columns"
    ).reset_index()
    return table.assign(structure_tie=table["structure_margin_bits_per_row"] < TIE_BITS_PER_ROW)


def closest_roles(labels: pd.DataFrame, controls: pd.DataFrame) -> pd.DataFrame:
    """One row per head with its role and the figure behind it.

    All tables, maps and pages show these. The role is the strongest label, see
    `strongest_functions`; `none` where that is neither confirmed nor nearer to its threshold than the
    control. Where controls were left out, it is `none` too for a head of diffuse structure whose figure is
    not above a control of its own. Its `strength` is between 0 and 1, NaN where no label could be measured.
    It is `confirmed` where every figure of its rule lies above the threshold with its whole interval, and
    `significant` where it is also confirmed against the controls, which no role is that none is compared
    with; that column is left out where the controls were.
    `control` is the largest figure that comes without the function, and `control_kind` what gives it.

    Args:
        labels: of one view, columns as in `attnlab.labels.label_columns.LABELS`.
        controls: of the same view, see `compare_controls`; may be empty.
    """
    rows = [_role(row) for row in _with_control(labels, controls).to_dict("records")]
    roles = pd.DataFrame(rows, index=labels.index)
    table = pd.concat([labels[HEAD_COLUMNS], roles], axis="columns").reset_index(drop=True)
    compared = (labels["significant_labels"] != NOT_COMPARED).any()
    return table if compared else table.drop(columns="significant")


def _with_control(labels: pd.DataFrame, controls: pd.DataFrame) -> pd.DataFrame:
    """The labels, with the figures that the strongest one is compared with."""
    if "control" in labels or "control" not in controls:
        return labels
    names = [*HEAD_COLUMNS, "label", *(name for name in _CONTROLS if name in controls)]
    control = controls[names].rename(columns={"label": "function"})
    return labels.merge(control, on=[*HEAD_COLUMNS, "function"], how="left", validate="1:1")


def _role(row: Mapping[Any, Any]) -> dict[str, Any]:
    confirmed = row["status"] == CONFIRMED
    unknown = confirmed and pd.isna(row["strength"])
    strength = 1.0 if unknown else float(np.clip(row["strength"], 0, 1))
    # Where no other head is compared, the largest weights of nearly equal ones say nothing.
    alone = row.get("structure") == NO_FAMILY and row["significance"] == NOT_COMPARED
    above = strength > 0 and (not alone or row["value"] > row.get("control", math.nan))
    if not confirmed and not above:
        return WITHOUT_ROLE | {"strength": 0 * strength}
    control, kind = _largest_control(row)
    return {
        "role": row["function"],
        **{name: row.get(name, math.nan) for name in ("detail", "statistic", "value")},
        "control": control,
        "control_kind": kind,
        "strength": strength,
        "confirmed": confirmed,
        "significant": row["significance"] == CONFIRMED,
    }


def _largest_control(row: Mapping[Any, Any]) -> tuple[float, str]:
    """The largest figure that comes without the function of a head, and what gives it; NaN without any.

    A relation alone is compared with shuffled words too: one back is one back whatever stands there.
    """
    figures = {row.get("control_kind", ""): row.get("control", math.nan)}
    if _compared(row["function"]):
        figures[UNTRAINED_TWIN] = row.get("untrained_value", math.nan)
    if row.get("unit") == LINKS.unit:
        figures[SHUFFLED_WORDS] = row.get("shuffled_value", math.nan)
    measured = [(float(figure), kind) for kind, figure in figures.items() if not pd.isna(figure)]
    return max(measured, default=(math.nan, ""))


def _compared(role: str) -> bool:
    """Whether the role is compared with that of an untrained head, where there is one."""
    label = known_labels().get(role)
    return label is None or label.against_untrained


def most_needed(summary: pd.DataFrame) -> tuple[Head, float] | None:
    """The head without which the loss rises most, and by how much; None where no interval lies above 0."""
    if ABLATION_CHANGE.name not in summary:
        return None
    needed = summary[summary[ABLATION_CHANGE.low] > 0]
    ranked = needed.sort_values(ABLATION_CHANGE.name, ascending=False, kind="stable")
    rows = ranked[[*HEAD_COLUMNS, ABLATION_CHANGE.name]].itertuples(index=False, name=None)
    return next(((Head(*head), change) for *head, change in rows), None)


def marks_of(summary: pd.DataFrame) -> "pd.Series[str]":
    """The mark of each head's role; empty where the role is not confirmed or not significant.

    It is `MARK` where the role is confirmed and significant against controls, and `MARK_WITHOUT_CONTROLS`
    where it is confirmed and compared with no control.

    Args:
        summary: with the columns of `closest_roles`, such as `analyze(...).summary`.
    """
    alone = summary["confirmed"].astype(bool)
    if "significant" not in summary:
        return alone.map({True: MARK_WITHOUT_CONTROLS, False: ""})
    alone &= ~summary["role"].map(_compared).astype(bool)
    marks = summary["significant"].astype(bool).map({True: MARK, False: ""})
    return marks.mask(alone, MARK_WITHOUT_CONTROLS)


def marked(summary: pd.DataFrame) -> "pd.Series[bool]":
    """Which heads have a role that is confirmed and, where there were controls, significant against them."""
    return marks_of(summary) == (MARK if "significant" in summary else MARK_WITHOUT_CONTROLS)
