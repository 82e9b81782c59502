"""Which role every head is shown with, how close to it the head is, and whether it is confirmed."""

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from attnlab.addresses import HEAD_COLUMNS
from attnlab.functions.verdict import HOLDS, NOT_COMPARED

# Of a head that is no closer to any label than its control is.
NO_ROLE = "none"
WITHOUT_ROLE: dict[str, Any] = {
    "role": NO_ROLE, "detail": "", "statistic": "", "value": math.nan, "control": math.nan,
    "strength": 0.0, "confirmed": False, "significant": False,
}  # fmt: skip


def closest_roles(labels: pd.DataFrame, controls: pd.DataFrame) -> pd.DataFrame:
    """One row per head with its role and the figure behind it.

    All tables, maps and pages show these. The role is the strongest label, see
    `strongest_functions`; `none` where that is neither confirmed nor nearer to its threshold than the
    control. Its `strength` is between 0 and 1. It is `confirmed` where every figure of its rule lies
    above the threshold with its whole interval, and `significant` where it is also confirmed against
    the controls; that column is left out where these were.

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
    control = controls[[*HEAD_COLUMNS, "label", "control"]].rename(columns={"label": "function"})
    return labels.merge(control, on=[*HEAD_COLUMNS, "function"], how="left", validate="1:1")


def _role(row: Mapping[Any, Any]) -> dict[str, Any]:
    confirmed = row["status"] == HOLDS
    strength = row["strength"]
    strength = float(confirmed) if pd.isna(strength) else min(max(float(strength), 0.0), 1.0)
    if not confirmed and not strength > 0:
        return WITHOUT_ROLE
    figures = {
        name: row.get(name, math.nan) for name in ("detail", "statistic", "value", "control")
    }
    return {
        "role": row["function"],
        **figures,
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
