"""How well cheap figures of a replaced head rank the loss that the replacement costs."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float
from scipy.stats import rankdata

from attnlab.ablation import INTERVAL

DRAWS = 10_000
# Fewer things agree in rank by chance too often, and fewer heads give too few different draws.
FEWEST_RANKED, FEWEST_HEADS = 5, 5
PREDICTORS = ("missing_mass", "output_error")

# Of heads and mechanisms, behind any batch.
Matrix = np.ndarray


def prediction(heads: pd.DataFrame, *, seed: int) -> pd.DataFrame:
    """Rank correlations of the change of loss with captured mass and with output error.

    Only mechanisms with a support count, for which both predictors exist, and that every head of a
    group can have, so that they are compared on the same pairs; the intervals draw heads with
    replacement, since the mechanisms of one head are no independent observations.

    Args:
        heads: rows of scope `head` of the study: `replaced`, `site`, `budget`,
            `mechanism`, `mass_fraction`, `output_error`, `loss_change`.
        seed: of the bootstrap.

    Returns:
        One row per site (and `all`), predictor and `across`: `pairs` ranks all pairs of a head and a
        mechanism together, `mechanisms` the mechanisms of each head, `heads` the heads under each
        mechanism, both averaged; NaN where fewer than `FEWEST_RANKED` would be ranked.
    """
    known = heads.dropna(subset=["mass_fraction", "output_error", "loss_change"])
    known = known.assign(missing_mass=1 - known["mass_fraction"])
    sites = list(dict.fromkeys(known["site"]))
    groups = [(site, known[known["site"] == site]) for site in sites]
    if len(sites) > 1:
        groups.append(("all", known))
    rows: list[dict[str, Any]] = []
    for site, table in groups:
        loss, *values = (_matrix(table, name) for name in ("loss_change", *PREDICTORS))
        draws = np.random.default_rng(seed).integers(0, len(loss), (DRAWS, len(loss)))
        for predictor, value in zip(PREDICTORS, values, strict=True):
            for across, correlate in _KINDS.items():
                found = low = high = np.nan
                if _ranked(across, *loss.shape) >= FEWEST_RANKED:
                    found = float(correlate(value, loss))
                    if len(loss) >= FEWEST_HEADS:
                        low, high = _interval(correlate(value[draws], loss[draws]))
                rows.append(
                    {
                        "site": site, "predictor": predictor, "across": across,
                        "spearman": found, "low": low, "high": high,
                        "heads": loss.shape[0], "mechanisms": loss.shape[1],
                    }
                )  # fmt: skip
    columns = ["site", "predictor", "across", "spearman", "low", "high", "heads", "mechanisms"]
    return pd.DataFrame(rows, columns=columns)


def _ranked(across: str, heads: int, mechanisms: int) -> int:
    """How many things one correlation ranks."""
    return {"pairs": heads * mechanisms, "mechanisms": mechanisms, "heads": heads}[across]


def _interval(found: Float[np.ndarray, " draw"]) -> tuple[float, float]:
    """NaN where no two draws have different correlations, so that nothing is known of their spread."""
    known = found[~np.isnan(found)]
    if np.unique(known.round(12)).size < 2:
        return np.nan, np.nan
    low, high = np.quantile(known, INTERVAL)
    return float(low), float(high)


def spearman(
    one: Float[np.ndarray, "*batch pair"], other: Float[np.ndarray, "*batch pair"]
) -> Float[np.ndarray, "*batch"]:
    """Spearman's rank correlation along the last axis, ties at their mean rank; NaN where one does not vary.

    >>> spearman(np.array([1.0, 2.0, 4.0]), np.array([10.0, 20.0, 30.0])).item()
    1.0
    """
    first, second = (rankdata(values, axis=-1) for values in (one, other))
    first, second = (ranks - ranks.mean(-1, keepdims=True) for ranks in (first, second))
    spread = np.sqrt((first**2).sum(-1) * (second**2).sum(-1))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray((first * second).sum(-1) / spread)


def _matrix(table: pd.DataFrame, name: str) -> Matrix:
    """A row a head, a column a mechanism and budget that all heads have."""
    wide = table.pivot(index="replaced", columns=["budget", "mechanism"], values=name)
    return wide.dropna(axis=1).to_numpy()


def _pairs(values: Matrix, loss: Matrix) -> Matrix:
    flat = (*values.shape[:-2], -1)
    return spearman(values.reshape(flat), loss.reshape(flat))


def _mechanisms(values: Matrix, loss: Matrix) -> Matrix:
    return _mean(spearman(values, loss))


def _heads(values: Matrix, loss: Matrix) -> Matrix:
    return _mechanisms(values.swapaxes(-1, -2), loss.swapaxes(-1, -2))


def _mean(found: Matrix) -> Matrix:
    """Over the last axis, without those that do not vary."""
    known = ~np.isnan(found)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.where(known, found, 0).sum(-1) / known.sum(-1))


_KINDS: dict[str, Callable[[Matrix, Matrix], Matrix]] = {
    "pairs": _pairs,
    "mechanisms": _mechanisms,
    "heads": _heads,
}
