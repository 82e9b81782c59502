"""Sinks at several thresholds, since a count of sinks is a choice of threshold."""

from typing import Any

import pandas as pd

# The first is that of Gu et al. 2024.
SINK_THRESHOLDS = (0.3, 0.4, 0.5, 0.6)


def sink_counts(controls: pd.DataFrame) -> list[dict[str, Any]]:
    """How many heads put more than each share of their weight on their sink."""
    mass = controls[controls["label"] == "sink"]["value"]
    return [{"threshold": least, "heads": int((mass > least).sum())} for least in SINK_THRESHOLDS]


def sink_threshold(controls: pd.DataFrame) -> float:
    """The threshold by which the labels of this table were decided."""
    return float(controls[controls["label"] == "sink"]["threshold"].iloc[0])
