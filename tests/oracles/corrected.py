"""Structure and sparse error together, by enumerating what E may touch; imports nothing of attnlab."""

import math
from collections.abc import Iterable
from itertools import combinations

from scipy.optimize import linprog

Matrix = list[list[float]]
Columns = tuple[int | None, ...]


def stochastic_row(
    row: list[float], support: list[int], touched: Iterable[int], bound: float
) -> float:
    """The smallest |h - p - e| of one row: p sums to 1 on the support, e lives on `touched`.

    A linear program in p, e and t >= |h - p - e|; without support p is 0.
    """
    n, touched = len(row), set(touched)
    limit = min(bound, 1 + sum(row))  # a larger correction never helps
    inequalities, sides = [], []
    for j, h in enumerate(row):
        for sign in (1.0, -1.0):
            line = [0.0] * (3 * n)
            line[j] = line[n + j] = sign
            line[2 * n + j] = -1.0
            inequalities.append(line)
            sides.append(sign * h)
    ranges = [(0.0, math.inf) if j in support else (0.0, 0.0) for j in range(n)]
    ranges += [(-limit, limit) if j in touched else (0.0, 0.0) for j in range(n)]
    ranges += [(0.0, math.inf)] * n
    equality = {"A_eq": [[1.0] * n + [0.0] * 2 * n], "b_eq": [1.0]} if support else {}
    return linprog([0.0] * 2 * n + [1.0] * n, inequalities, sides, bounds=ranges, **equality).fun


def stochastic_row_by_count(row: list[float], support: list[int], bound: float) -> list[float]:
    """The smallest loss of a row with at most 0, 1, .. corrections."""
    losses = [
        min(
            stochastic_row(row, support, touched, bound)
            for touched in combinations(range(len(row)), k)
        )
        for k in range(len(row) + 1)
    ]
    return [min(losses[: k + 1]) for k in range(len(losses))]


def shared(by_count: list[list[float]], nonzeros: int) -> float:
    """The smallest sum when rows share the corrections: every way to split them is tried."""
    if not by_count:
        return 0.0
    first, rest = by_count[0], by_count[1:]
    return min(
        first[k] + shared(rest, nonzeros - k) for k in range(min(nonzeros, len(first) - 1) + 1)
    )


def stochastic(H: Matrix, supports: list[list[int]], nonzeros: int, bound: float) -> float:
    """The smallest l1 distance of P + E, rows of P summing to 1 on the supports."""
    rows = [
        stochastic_row_by_count(row, support, bound)
        for row, support in zip(H, supports, strict=True)
    ]
    return shared(rows, nonzeros)


def of_residual(residual: Iterable[float], nonzeros: int, bound: float) -> float:
    """What is left of the sizes in a residual when any `nonzeros` of them are corrected."""
    sizes = [abs(r) for r in residual]
    savings = sorted((min(r, bound) for r in sizes), reverse=True)
    return sum(sizes) - sum(savings[:nonzeros])


def columns(
    H: Matrix, members: Iterable[Columns], values: str, nonzeros: int, bound: float
) -> float:
    """The smallest l1 distance of P + E over members with one entry a row."""
    best = math.inf
    for member in members:
        residual = []
        for row, column in zip(H, member, strict=True):
            for j, h in enumerate(row):
                attended = h if values == "free" else 1.0
                residual.append(h - (attended if j == column else 0.0))
        best = min(best, of_residual(residual, nonzeros, bound))
    return best


def column_band(
    H: Matrix,
    window: tuple[int, int],
    values: str,
    nonzeros: int,
    bound: float,
    *,
    causal: bool,
) -> float:
    """The smallest l1 distance of P + E over every column beside the band of offsets -left..right."""
    queries, keys = len(H), len(H[0])
    right = 0 if causal else window[1]
    best = math.inf
    for t in range(keys):
        supports = [
            [
                j
                for j in range(keys)
                if -window[0] <= j - i <= right or (j == t and not (causal and j > i))
            ]
            for i in range(queries)
        ]
        if causal and t >= queries:
            continue
        if values == "stochastic":
            best = min(best, stochastic(H, supports, nonzeros, bound))
            continue
        residual = [
            h - ((h if values == "free" else 1.0) if j in supports[i] else 0.0)
            for i, row in enumerate(H)
            for j, h in enumerate(row)
        ]
        best = min(best, of_residual(residual, nonzeros, bound))
    return best


def kept_entries(
    H: Matrix, positions: list[tuple[int, int]], keep: int, values: str, nonzeros: int, bound: float
) -> float:
    """The smallest l1 distance of P + E over all choices of `keep` entries, free or binary."""
    best = math.inf
    for chosen in map(set, combinations(positions, keep)):
        residual = [
            h - ((h if values == "free" else 1.0) if (i, j) in chosen else 0.0)
            for i, row in enumerate(H)
            for j, h in enumerate(row)
        ]
        best = min(best, of_residual(residual, nonzeros, bound))
    return best
