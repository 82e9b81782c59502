"""Distances, bands and offsets of one matrix as loops over single numbers; imports nothing of attnlab."""

import math
from collections.abc import Iterator
from itertools import product

Matrix = list[list[float]]


def entries(H: Matrix) -> Iterator[tuple[int, int, float]]:
    """Row, column, value of every entry."""
    for i, row in enumerate(H):
        for j, value in enumerate(row):
            yield i, j, value


def l1(H: Matrix, X: Matrix) -> float:
    return sum(abs(value - X[i][j]) for i, j, value in entries(H))


def mean_error(H: Matrix, X: Matrix) -> float:
    return l1(H, X) / (len(H) * len(H[0]))


def relative(H: Matrix, X: Matrix) -> float:
    return l1(H, X) / sum(value for _, _, value in entries(H))


def frobenius(H: Matrix, X: Matrix) -> float:
    off = sum((value - X[i][j]) ** 2 for i, j, value in entries(H))
    return math.sqrt(off / sum(value**2 for _, _, value in entries(H)))


def kl(H: Matrix, X: Matrix) -> float:
    total = 0.0
    for i, j, value in entries(H):
        if value > 0:
            total += math.inf if X[i][j] == 0 else value * math.log(value / X[i][j])
    return total / len(H)


def band(queries: int, keys: int, left: int, right: int) -> list[tuple[int, int]]:
    """All positions whose offset lies in -left..right."""
    return [(i, j) for i, j in product(range(queries), range(keys)) if -left <= j - i <= right]


def mass_at_offset(H: Matrix, offset: int) -> float:
    return sum(value for i, j, value in entries(H) if j - i == offset)
