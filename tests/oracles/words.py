"""Attention between words, one entry at a time."""

from collections.abc import Sequence


def merged_by_loops(
    weights: list[list[float]],
    query_unit: Sequence[int | None],
    key_unit: Sequence[int | None],
) -> list[list[float]]:
    """Word by word: over the tokens of the key the sum, over those of the query the mean."""
    rows = 1 + max(unit for unit in query_unit if unit is not None)
    columns = 1 + max(unit for unit in key_unit if unit is not None)
    result = [[0.0] * columns for _ in range(rows)]
    for row in range(rows):
        mine = [i for i, unit in enumerate(query_unit) if unit == row]
        for i in mine:
            for j, unit in enumerate(key_unit):
                if unit is not None:
                    result[row][unit] += weights[i][j] / len(mine)
    return result
