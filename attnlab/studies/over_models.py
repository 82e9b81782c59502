"""Measures of several models as one: their mean with an interval, and tests of contrasts over models."""

from collections.abc import Mapping, Sequence
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
    with few models it is wide. Rows are estimates; `contrasts` tests the few that were named beforehand.

    Args:
        table: a row a model and set of keys.
        keys: columns that tell the rows of one model apart.
        measures: columns of numbers; rows without one are left out.

    Returns:
        A row a set of keys, in the order of the table: `models`, and for each measure its mean,
        `MEASURE_low` and `MEASURE_high`, the ends of the 95 % t interval. One model has no interval,
        nor have equal values other than 0, which tell nothing of how models differ.
    """
    rows: list[dict[str, Any]] = []
    for values, own in table.groupby(list(keys), sort=False, dropna=False):
        row: dict[str, Any] = dict(zip(keys, values, strict=True)) | {"models": len(own)}
        for name in measures:
            row |= _described(name, own[name].dropna().to_numpy(dtype=float))
        rows.append(row)
    numbers = [f"{name}{end}" for name in measures for end in ("", "_low", "_high")]
    return pd.DataFrame(rows, columns=[*keys, "models", *numbers])


def contrasts(differences: Mapping[str, Sequence[float]]) -> pd.DataFrame:
    """Tests of the contrasts of a study, corrected among themselves.

    Args:
        differences: by the name of the contrast one difference a model; all that were named beforehand,
            and no other.

    Returns:
        A row a contrast: `contrast`, `models`, `same_sign` (how many models differ in the direction of
        the mean), `difference` with `difference_low` and `difference_high`, the ends of the 95 % t
        interval over models, and `p_value` of the t-test after Holm's correction over the contrasts.
        Fewer than two models, or equal differences, have neither interval nor p-value.
    """
    rows = []
    for name, each in differences.items():
        values = np.asarray(each, dtype=float)
        row: dict[str, Any] = {"contrast": name, "models": len(values)}
        row |= {"same_sign": int((np.sign(values) == np.sign(values.mean())).sum())}
        rows.append(row | _described("difference", values) | {"p_value": _p_value(values)})
    table = pd.DataFrame(rows)
    known = table["p_value"].notna()
    table.loc[known, "p_value"] = holm_adjusted(table.loc[known, "p_value"].to_numpy(dtype=float))
    return table


def _described(name: str, values: Float[np.ndarray, " model"]) -> dict[str, float]:
    """Mean and interval, what cannot be known NaN."""
    mean = float(values.mean()) if len(values) else np.nan
    low = high = np.nan
    if len(values) > 1 and not values.any():
        low, high = 0.0, 0.0
    elif _varying(values):
        low, high = mean + stats.sem(values) * stats.t.ppf(INTERVAL, len(values) - 1)
    return {name: mean, f"{name}_low": float(low), f"{name}_high": float(high)}


def _p_value(values: Float[np.ndarray, " model"]) -> float:
    return float(stats.ttest_1samp(values, 0).pvalue) if _varying(values) else np.nan


def _varying(values: Float[np.ndarray, " model"]) -> bool:
    return len(values) > 1 and not np.allclose(values, values[0], rtol=ROUNDING, atol=0)
