"""Which role every head is shown with, how close to it the head is, and whether it is confirmed."""

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from attnlab.core.addresses import HEAD_COLUMNS
from attnlab.labels.label_tables import with_strength
from attnlab.labels.verdict import HOLDS, NOT_COMPARED

# Of a head that is no closer to any label than its control is.
NO_ROLE = "none"
_SECOND = ("second_statistic", "second_value", "second_control")
# Beside the columns of the same names, which every head with such a rule has.
_SECOND_OF = {name: f"deciding_{name}" for name in _SECOND}
# Of sums in double precision.
_ROUNDING = 1e-9
WITHOUT_ROLE: dict[str, Any] = {
    "role": NO_ROLE, "detail": "", "statistic": "", "value": math.nan, "control": math.nan,
    "second_statistic": "", "second_value": math.nan, "second_control": math.nan,
    "strength": 0.0, "confirmed": False, "significant": False,
}  # fmt: skip


def closest_roles(labels: pd.DataFrame, controls: pd.DataFrame) -> pd.DataFrame:
    """One row per head with its role and the figure behind it.

    All tables, maps and pages show these. The role is the strongest label, see
    `strongest_functions`; `none` where that is neither confirmed nor nearer to its threshold than the
    control. Its `strength` is between 0 and 1. It is `confirmed` where every figure of its rule lies
    above the threshold with its whole interval, and `significant` where it is also confirmed against
    the controls; that column is left out where these were. `second_statistic`, `second_value` and
    `second_control` are those of the other figure of a rule of two, of heads whose strength it decides.

    Args:
        labels: of one view, see `Labelling.labels`.
        controls: of the same view, see `Labelling.controls`; may be empty.
    """
    rows = [_role(row) for row in _with_control(labels, controls).to_dict("records")]
    roles = pd.DataFrame(rows, index=labels.index)
    table = pd.concat([labels[HEAD_COLUMNS], roles], axis="columns").reset_index(drop=True)
    compared = (labels["stands_status"] != NOT_COMPARED).any()
    return table if compared else table.drop(columns="significant")


def _with_control(labels: pd.DataFrame, controls: pd.DataFrame) -> pd.DataFrame:
    """The labels, with the figure that the strongest one is compared with."""
    if "control" in labels or "control" not in controls:
        return labels
    deciding = controls.reindex(columns=[*_SECOND])
    deciding = deciding.rename(columns=_SECOND_OF).astype(object)
    deciding.loc[~_second_decides(controls)] = math.nan
    control = controls[[*HEAD_COLUMNS, "label", "control"]].rename(columns={"label": "function"})
    control = pd.concat([control, deciding], axis="columns")
    return labels.merge(control, on=[*HEAD_COLUMNS, "function"], how="left", validate="1:1")


def _second_decides(controls: pd.DataFrame) -> "pd.Series[bool]":
    """Whether the first figure alone would give more strength."""
    if not {"second_threshold", "strength"} <= set(controls):
        return pd.Series(False, controls.index)
    alone = with_strength(controls.assign(second_threshold=math.nan))["strength"]
    return alone > controls["strength"] + _ROUNDING


def _role(row: Mapping[Any, Any]) -> dict[str, Any]:
    confirmed = row["status"] == HOLDS
    strength = row["strength"]
    strength = float(confirmed) if pd.isna(strength) else min(max(float(strength), 0.0), 1.0)
    if not confirmed and not strength > 0:
        return WITHOUT_ROLE
    figures = {
        name: row.get(name, math.nan) for name in ("detail", "statistic", "value", "control")
    }
    second = {name: row.get(of, math.nan) for name, of in _SECOND_OF.items()}
    if pd.isna(second["second_statistic"]):
        second["second_statistic"] = ""
    return {
        "role": row["function"],
        **figures,
        **second,
        "strength": strength,
        "confirmed": confirmed,
        "significant": confirmed and row["stands_status"] == HOLDS,
    }


def marked(summary: pd.DataFrame) -> "pd.Series[bool]":
    """Which heads have a role that is confirmed and, where there were controls, significant against them.

    Args:
        summary: with the columns of `closest_roles`, such as `Analysis.summary`.
    """
    name = "significant" if "significant" in summary else "confirmed"
    return summary[name].astype(bool)
