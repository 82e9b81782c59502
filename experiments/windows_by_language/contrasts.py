"""Whether source languages differ: models are the units, target languages the blocks."""

from collections.abc import Callable

import numpy as np
import pandas as pd
from jaxtyping import Float

DRAWS = 10_000
# Fixed before a model was read: German against the mean of the others, in w90 of trained heads, in words.
LANGUAGE, MEASURE = "de", "w90"
# A row a target, a column a source; NaN where there is no model.
Grid = Float[np.ndarray, "*draw target source"]


def grid_of(models: pd.DataFrame, measure: str = MEASURE, language: str = LANGUAGE) -> Grid:
    """A measure by target and source, the language in the first column."""
    grid = models.pivot_table(index="target", columns="source", values=measure)
    others = [name for name in grid.columns if name != language]
    return grid.reindex(columns=[language, *others]).to_numpy()


def differences(grid: Grid) -> Float[np.ndarray, "*draw target"]:
    """By target the first source minus the mean of the others; NaN where either has no model."""
    return grid[..., 0] - _mean(grid[..., 1:], -1)


def contrast(grid: Grid) -> Float[np.ndarray, "*draw"]:
    """The mean of `differences` over targets."""
    return _mean(differences(grid), -1)


def between_sources(grid: Grid) -> Float[np.ndarray, "*draw"]:
    """The sum of squares of sources, what the models of a target have in common taken off."""
    rest = grid - _mean(grid, -1)[..., None]
    squares = np.isfinite(grid).sum(-2) * _mean(rest, -2) ** 2
    return np.nansum(squares, -1)


def permutation_p(
    grid: Grid, statistic: Callable[[Grid], np.ndarray], *, seed: int = 0, draws: int = DRAWS
) -> float:
    """How often a statistic is at least as large where sources are drawn anew within targets.

    The order that was observed counts as one draw, so no p-value is 0.
    """
    generator = np.random.default_rng(seed)
    drawn = np.repeat(grid[None], draws, axis=0)
    for target in range(len(grid)):
        known = np.isfinite(grid[target])
        drawn[:, target, known] = generator.permuted(drawn[:, target, known], axis=1)
    # Sums in another order differ by rounding.
    least = abs(statistic(grid)) * (1 - 1e-9)
    return float((1 + (abs(statistic(drawn)) >= least).sum()) / (draws + 1))


def least_p(grid: Grid) -> float:
    """The share of orders in which the first source is where it was, in every target that has it."""
    return float((1 / np.isfinite(grid[np.isfinite(grid[:, 0])]).sum(-1)).prod())


def _mean(values: np.ndarray, axis: int) -> np.ndarray:
    """Over what is known; NaN where nothing is."""
    known = np.isfinite(values)
    count = known.sum(axis)
    total = np.where(known, values, 0.0).sum(axis)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)
