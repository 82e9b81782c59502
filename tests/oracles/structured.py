"""All members of the structured families of one small matrix, by enumeration; imports nothing of attnlab."""

from collections.abc import Iterator
from itertools import accumulate, combinations, product

import numpy as np
from scipy.optimize import linprog

Matrix = list[list[float]]
# The key that each row attends, None for a row without one.
Columns = tuple[int | None, ...]


def diagonals(queries: int, keys: int, left: int, right: int) -> Iterator[Columns]:
    """Sigma1: every offset that has an entry."""
    for offset in range(-left, right + 1):
        columns = tuple(i + offset if 0 <= i + offset < keys else None for i in range(queries))
        if any(column is not None for column in columns):
            yield columns


def rare_columns(
    queries: int, keys: int, heights: list[int], num_pos: int, *, first: bool = False
) -> Iterator[Columns]:
    """Sigma3: every way to set up to num_pos disjoint blocks, each with every column of the block."""
    identity = tuple(i if i < keys else None for i in range(queries))

    def blocks_from(start: int, left: int, columns: Columns) -> Iterator[Columns]:
        if start >= queries:
            yield columns
            return
        yield from blocks_from(start + 1, left, columns)
        if left == 0:
            return
        for height in heights:
            if start + height > queries:
                continue
            for column in range(start, start + (1 if first else height)):
                if column < keys:
                    chosen = (*columns[:start], *[column] * height, *columns[start + height :])
                    yield from blocks_from(start + height, left - 1, chosen)

    yield from blocks_from(0, num_pos, identity)


def single_columns(queries: int, keys: int, *, causal: bool = False) -> Iterator[Columns]:
    for column in range(keys):
        columns = tuple(None if causal and column > i else column for i in range(queries))
        if any(value is not None for value in columns):
            yield columns


def column_distance(H: Matrix, columns: Columns, values: str) -> float:
    """The l1 distance of the matrix with one entry a row: h itself when free, else 1."""
    total = 0.0
    for row, column in zip(H, columns, strict=True):
        for j, h in enumerate(row):
            total += abs(h - ((h if values == "free" else 1.0) if j == column else 0.0))
    return total


def nearest(H: Matrix, members: Iterator[Columns], values: str) -> float:
    return min(column_distance(H, columns, values) for columns in members)


def best_binary_by_count(H: Matrix, positions: list[tuple[int, int]]) -> list[float]:
    """The smallest l1 distance of a 0/1 matrix with exactly 0, 1, .. ones on these positions.

    Every subset of either half of the positions is looked at, and every pair of counts.
    """
    weights = np.array([H[i][j] for i, j in positions])
    change = np.abs(weights - 1) - weights
    half = len(positions) // 2
    best = [_best_change_by_count(part) for part in (change[:half], change[half:])]
    empty = sum(map(sum, H))
    return [
        empty
        + min(
            best[0][a] + best[1][count - a]
            for a in range(len(best[0]))
            if 0 <= count - a < len(best[1])
        )
        for count in range(len(positions) + 1)
    ]


def _best_change_by_count(change: np.ndarray) -> list[float]:
    subsets = np.arange(2 ** len(change))[:, None] >> np.arange(len(change)) & 1
    totals, counts = subsets @ change, subsets.sum(1)
    return [float(totals[counts == count].min()) for count in range(len(change) + 1)]


def nearest_stochastic_row(row: list[float], support: list[int]) -> float:
    """The l1 distance of the nearest row that sums to 1 on `support`, by linear programming."""
    off = sum(value for j, value in enumerate(row) if j not in support)
    if not support:
        return off
    m = len(support)
    # Variables x and t with t >= |h - x|; the sum of t is minimised.
    upper, bounds = [], []
    for a, j in enumerate(support):
        for sign in (1.0, -1.0):
            constraint = [0.0] * (2 * m)
            constraint[a], constraint[m + a] = sign, -1.0
            upper.append(constraint)
            bounds.append(sign * row[j])
    cost, total = [0.0] * m + [1.0] * m, [[1.0] * m + [0.0] * m]
    return off + linprog(cost, upper, bounds, total, [1.0], bounds=(0, None)).fun


def nearest_column_band(H: Matrix, window: tuple[int, int], values: str, *, causal: bool) -> float:
    """The l1 distance of the nearest band and column: every column, row by row."""
    queries, keys = len(H), len(H[0])
    best = sum(map(sum, H)) + queries * keys
    for column in range(min(keys, queries) if causal else keys):
        total = 0.0
        for i, row in enumerate(H):
            near = {j for j in range(keys) if -window[0] <= j - i <= window[1]} | {column}
            support = sorted(j for j in near if not (causal and j > i))
            if values == "stochastic":
                total += nearest_stochastic_row(row, support)
            else:
                inside = sum(abs(row[j] - 1) for j in support) if values == "binary" else 0.0
                total += inside + sum(h for j, h in enumerate(row) if j not in support)
        best = min(best, total)
    return best


def additive_distances(
    H: Matrix, window: tuple[int, int], num_pos: int, error_nnz: int, bound: float, *, causal: bool
) -> list[float]:
    """The l1 distance of the nearest band + columns + E for every budget from 0 to all entries.

    Every band up to the window and none at all, every set of columns, and every set of entries to
    correct, wherever they stand.
    """
    queries, keys = len(H), len(H[0])
    every = [(i, j) for i in range(queries) for j in range(keys)]
    nearest_by_budget = [sum(map(sum, H))] * (len(every) + 1)
    for support in _bands_and_columns(every, keys, window, num_pos, causal=causal):
        off = sum(H[i][j] for i, j in every if (i, j) not in support)
        for count in range(min(error_nnz, len(every)) + 1):
            for corrected in combinations(every, count):
                gain = sum(min(H[i][j], bound) for i, j in corrected if (i, j) not in support)
                used = len(support) + count
                if used <= len(every):
                    nearest_by_budget[used] = min(nearest_by_budget[used], off - gain)
    return list(accumulate(nearest_by_budget, min))


def additive_distance(
    H: Matrix,
    window: tuple[int, int],
    num_pos: int,
    budget: int,
    error_nnz: int,
    bound: float,
    *,
    causal: bool,
) -> float:
    """The l1 distance of the nearest band + columns + E of one budget; E takes the largest entries left."""
    queries, keys = len(H), len(H[0])
    every = [(i, j) for i in range(queries) for j in range(keys)]
    nearest = sum(map(sum, H))
    for support in _bands_and_columns(every, keys, window, num_pos, causal=causal):
        left = budget - len(support)
        if left < 0:
            continue
        rest = sorted((H[i][j] for i, j in every if (i, j) not in support), reverse=True)
        corrected = sum(min(h, bound) for h in rest[: min(error_nnz, left)])
        nearest = min(nearest, sum(rest) - corrected)
    return nearest


def _bands_and_columns(
    every: list[tuple[int, int]],
    keys: int,
    window: tuple[int, int],
    num_pos: int,
    *,
    causal: bool,
) -> set[frozenset[tuple[int, int]]]:
    """Every band up to the window and none at all, with every set of columns."""
    right = 0 if causal else window[1]
    bands: list[set[tuple[int, int]]] = [set()]
    for a, b in product(range(window[0] + 1), range(right + 1)):
        bands.append({(i, j) for i, j in every if -a <= j - i <= b})
    columns = [
        {(i, j) for i, j in every if j in chosen and not (causal and j > i)}
        for count in range(num_pos + 1)
        for chosen in combinations(range(keys), count)
    ]
    return {frozenset(band | held) for band, held in product(bands, columns)}


def stochastic_rows(
    H: Matrix, support: list[list[bool]], nonzeros: int, bound: float
) -> tuple[Matrix, Matrix]:
    """Rows that sum to 1 on a support, and E: one correction after the other, each where it saves most."""
    error = [[0.0] * len(row) for row in H]
    missing = [
        1 - sum(h for h, s in zip(*rows, strict=True) if s) for rows in zip(H, support, strict=True)
    ]
    for _ in range(nonzeros):
        best, entry = 0.0, None
        for i, row in enumerate(H):
            for j, h in enumerate(row):
                if error[i][j]:
                    continue
                saved = min(h, bound)
                if support[i][j]:
                    saved = min(bound if missing[i] >= 0 else saved, abs(missing[i]))
                if saved > best:
                    best, entry = saved, (i, j)
        if entry is None:
            break
        i, j = entry
        error[i][j] = -best if support[i][j] and missing[i] >= 0 else best
        if support[i][j]:
            missing[i] += error[i][j]
    structure = []
    for row, inside, e in zip(H, support, error, strict=True):
        kept = [h - c if s else 0.0 for h, s, c in zip(row, inside, e, strict=True)]
        total, keys = sum(kept), sum(inside)
        structure.append(
            [
                k / total if total > 0 else float(s) / max(keys, 1)
                for k, s in zip(kept, inside, strict=True)
            ]
        )
    return structure, error
