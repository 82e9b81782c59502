"""Measures of several models as one: their mean, with an interval and a test over models."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float
from scipy import stats

from attnlab.attribution.significance import INTERVAL, holm_adjusted

# Values that differ by no more of their size are equal.
ROUNDING = 1e-12


def over_models(table: pd.DataFrame, keys: Sequence[str], measures: Sequence[str]) -> pd.DataFrame:
    """The mean of each measure over the models that share the keys.

    Models are the units: an interval says what another training would give on the same sentences, and
    with few models it is wide.

    Args:
        table: a row a model and set of keys.
        keys: columns that tell the rows of one model apart.
        measures: columns of numbers; rows without one are left out.

    Returns:
        A row a set of keys, in the order of the table: `models`, and for each measure its mean,
        `MEASURE_low` and `MEASURE_high`, the ends of the 95 % t interval, and `MEASURE_p_value` of the
        mean being 0, after Holm's correction over all rows. One model has neither interval nor p-value,
        nor have equal values other than 0, which tell nothing of how models differ.
    """
    rows: list[dict[str, Any]] = []
    for values, own in table.groupby(list(keys), sort=False, dropna=False):
        row: dict[str, Any] = dict(zip(keys, values, strict=True)) | {"models": len(own)}
        for name in measures:
            row |= _described(name, own[name].dropna().to_numpy(dtype=float))
        rows.append(row)
    numbers = [f"{name}{end}" for name in measures for end in ("", "_low", "_high", "_p_value")]
    found = pd.DataFrame(rows, columns=[*keys, "models", *numbers])
    for name in measures:
        known = found[f"{name}_p_value"].notna()
        p_values = found.loc[known, f"{name}_p_value"].to_numpy(dtype=float)
        found.loc[known, f"{name}_p_value"] = holm_adjusted(p_values)
    return found


def _described(name: str, values: Float[np.ndarray, " model"]) -> dict[str, float]:
    """Mean, interval and p-value, those that cannot be known NaN."""
    mean = float(values.mean()) if len(values) else np.nan
    low = high = p_value = np.nan
    if len(values) > 1 and not values.any():
        low, high, p_value = 0.0, 0.0, 1.0
    elif len(values) > 1 and not np.allclose(values, values[0], rtol=ROUNDING, atol=0):
        error, freedom = float(stats.sem(values)), len(values) - 1
        low, high = mean + error * stats.t.ppf(INTERVAL, freedom)
        p_value = 2 * stats.t.sf(abs(mean) / error, freedom)
    return {
        name: mean,
        f"{name}_low": float(low),
        f"{name}_high": float(high),
        f"{name}_p_value": float(p_value),
    }
