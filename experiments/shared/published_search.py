"""The thesis's random search as it is published: one matrix after the other, in Python loops.

Here only to be timed and compared with `attnlab.matrices.random_search`, which draws from the same
distributions in batches. It builds its noise with `scipy.sparse.random`, as the thesis does.
"""

import time

import numpy as np
import scipy.sparse

COEFFICIENTS = 11
ATTEMPTS = 30


def draw(
    family: str, n: int, *, window: int, num_pos: int, coefficient: float, rng: np.random.Generator
) -> np.ndarray:
    """One member of a family with noise, rows normalised; a row of zeros becomes NaN."""
    noise = 0.5 if family == "rare_columns" else coefficient
    if family == "diagonal":
        matrix = np.diag(1 - 0.1 * rng.random(n))
    elif family == "band":
        matrix = _band(n, window, rng)
    else:
        matrix = _rare_columns(n, window, num_pos, coefficient, rng)
    sparse = scipy.sparse.random(n, n, density=1 / n, random_state=rng) * noise
    sparse.setdiag(0)
    matrix = matrix + sparse.toarray()
    with np.errstate(invalid="ignore"):
        return matrix / matrix.sum(axis=1)[:, None]


def _band(n: int, window: int, rng: np.random.Generator) -> np.ndarray:
    matrix = np.zeros((n, n))
    for i in range(n):
        for j in range(max(0, i - window), min(i + window + 1, n)):
            if rng.random() > 0.4:
                matrix[i, j] = rng.uniform(0.7, 1)
    return matrix


def _rare_columns(
    n: int, window: int, num_pos: int, coefficient: float, rng: np.random.Generator
) -> np.ndarray:
    weights = coefficient * rng.uniform(0.7, 1, n)
    starts: list[int] = []
    while len(starts) < num_pos:
        start = int(rng.integers(0, n - window + 1))
        if all(abs(start - other) >= window for other in starts):
            starts.append(start)
    column = np.arange(n)
    for start in starts:
        column[start : start + window] = start
    matrix = np.zeros((n, n))
    matrix[np.arange(n), column] = weights
    return matrix


def seconds_per_head(
    H: np.ndarray, window: int, num_pos: int, combinations: int, rng: np.random.Generator
) -> float:
    """Seconds that the whole search of one head would take, from a sample of its coefficients.

    Every combination of coefficients costs the same: 30 draws of each family, their distances and a
    comparison. The shortest time of one is multiplied up to all 1,331: the longer ones measure what
    else the machine was doing.
    """
    taken = []
    for coefficient in rng.integers(0, COEFFICIENTS, combinations) / 10:
        best = np.inf
        start = time.process_time()
        for family in ("diagonal", "band", "rare_columns"):
            for _ in range(ATTEMPTS):
                drawn = draw(
                    family,
                    len(H),
                    window=window,
                    num_pos=num_pos,
                    coefficient=coefficient,
                    rng=rng,
                )
                distance = np.abs(H - drawn).sum()
                best = min(best, distance)
        taken.append(time.process_time() - start)
    return min(taken) * COEFFICIENTS**3
