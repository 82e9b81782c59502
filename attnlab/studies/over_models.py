"""Measures of several models as one: their mean with an interval, and tests of contrasts over models."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float
from scipy import stats

from attnlab.attribution.significance import INTERVAL, holm_adjusted
from attnlab.errors import InputError

# Values that differ by no more of their size are equal.
ROUNDING = 1e-12

_CONTRAST = ("contrast", "models", "same_sign")
_DIFFERENCE = ("difference", "difference_low", "difference_high", "p_value")


def over_models(table: pd.DataFrame, keys: Sequence[str], measures: Sequence[str]) -> pd.DataFrame:
    """The mean of each measure over the models that share the keys.

    Models are the units: an interval says what another training would give on the same sentences, and
    with few models it is wide. Rows are estimates; `contrasts` tests the few that were named beforehand.

    Args:
        table: a row a model and set of keys.
        keys: columns that tell the rows of one model apart.
        measures: columns of numbers. A row that lacks a measure which other rows of its keys have is left
            out, so that all figures of a row are of the same models.

    Returns:
        A row a set of keys, in the order of the table: `models`, how many the figures are of, and for
        each measure its mean,
        `MEASURE_low` and `MEASURE_high`, the ends of the 95 % t interval. One model has no interval,
        nor have equal values other than 0, which tell nothing of how models differ.
    """
    rows: list[dict[str, Any]] = []
    for values, own in table.groupby(list(keys), sort=False, dropna=False):
        known = own[list(measures)].dropna(axis="columns", how="all").dropna()
        row: dict[str, Any] = dict(zip(keys, values, strict=True))
        row["models"] = len(known) if len(known.columns) else 0
        for name in measures:
            each = known[name] if name in known else pd.Series(dtype=float)
            row |= _described(name, each.to_numpy(dtype=float))
        rows.append(row)
    numbers = [f"{name}{end}" for name in measures for end in ("", "_low", "_high")]
    return pd.DataFrame(rows, columns=[*keys, "models", *numbers])


def contrasts(differences: Mapping[str, Sequence[float]]) -> pd.DataFrame:
    """Tests of the contrasts of a study, corrected among themselves.

    Args:
        differences: by the name of the contrast one difference a model; all that were named beforehand,
            and no other. Each takes part in the correction, so none may lack a figure.

    Returns:
        A row a contrast: `contrast`, `models`, `same_sign` (how many models differ in the direction of
        the mean), `difference` with `difference_low` and `difference_high`, the ends of the 95 % t
        interval over models, and `p_value` of the t-test after Holm's correction over the contrasts.
        Fewer than two models, or equal differences, have neither interval nor p-value.

    Raises:
        InputError: a difference is no finite number.
    """
    rows = []
    for name, each in differences.items():
        values = np.asarray(each, dtype=float)
        if not np.isfinite(values).all():
            bad = int((~np.isfinite(values)).sum())
            msg = (
                f"Contrast '{name}' has no finite difference for {bad} of {len(values)} models; give the "
                "models that have one, or leave the contrast out of the study."
            )
            raise InputError(msg)
        row: dict[str, Any] = {"contrast": name, "models": len(values)}
        row |= {"same_sign": int((np.sign(values) == np.sign(values.mean())).sum())}
        rows.append(row | _described("difference", values) | {"p_value": _p_value(values)})
    table = pd.DataFrame(rows, columns=[*_CONTRAST, *_DIFFERENCE])
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
