"""What each key contributes to the output of a head, one number at a time; imports nothing of attnlab."""

from math import sqrt

Matrix = list[list[float]]


def contributions(weights: Matrix, values: Matrix, projection: Matrix) -> Matrix:
    """The length of each key's weighted value behind the head's part of the output projection.

    Args:
        weights: of a head, a row for each query.
        values: of the head, a row for each key.
        projection: the head's rows of the output projection, one for each dimension of a value.
    """
    return [
        [
            sqrt(
                sum(
                    sum(
                        weight * value * row[out]
                        for value, row in zip(of_key, projection, strict=True)
                    )
                    ** 2
                    for out in range(len(projection[0]))
                )
            )
            for weight, of_key in zip(row_of_query, values, strict=True)
        ]
        for row_of_query in weights
    ]


def shares(rows: Matrix) -> Matrix:
    """Each row divided by its sum, rows of zeros as they are."""
    return [[entry / sum(row) if sum(row) else 0.0 for entry in row] for row in rows]
