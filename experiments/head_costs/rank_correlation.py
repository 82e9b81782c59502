"""Rank correlation along the last axis of arrays."""

import numpy as np
from jaxtyping import Float
from scipy.stats import rankdata


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
