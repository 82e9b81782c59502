"""Attention rollout of one text, one share at a time; imports nothing of attnlab.

As samiraabnar/attention_flow has it: weights are averaged over heads, 1 is added on the diagonal, rows are
divided by their sums, and the matrices are multiplied, those of later layers from the left.
"""

Matrix = list[list[float]]


def mean_of_heads(heads: list[Matrix]) -> Matrix:
    queries, keys = range(len(heads[0])), range(len(heads[0][0]))
    return [[sum(head[i][j] for head in heads) / len(heads) for j in keys] for i in queries]


def with_residual(attention: Matrix) -> Matrix:
    found = [[w + (i == j) for j, w in enumerate(row)] for i, row in enumerate(attention)]
    return [[w / sum(row) for w in row] for row in found]


def rollout(layers: list[list[Matrix]]) -> Matrix:
    """The last layer's."""
    carried = with_residual(mean_of_heads(layers[0]))
    for heads in layers[1:]:
        attention = with_residual(mean_of_heads(heads))
        carried = [
            [sum(a * carried[k][j] for k, a in enumerate(row)) for j in range(len(row))]
            for row in attention
        ]
    return carried


def share(
    position: int, key: int, own: list[Matrix], cross: list[Matrix], encoder: Matrix
) -> float:
    """Of input `key` in a position of a decoder, by all ways back; rows of the (mean) weights sum to 1.

    Keys are the tokens of the source, then those of the target.
    """
    if not own:
        return float(key == len(encoder) + position)
    read = sum(
        weight * encoder[j][key] if key < len(encoder) else 0.0
        for j, weight in enumerate(cross[-1][position])
    )
    carried = sum(
        weight * share(j, key, own[:-1], cross[:-1], encoder)
        for j, weight in enumerate(own[-1][position])
    )
    kept = share(position, key, own[:-1], cross[:-1], encoder)
    return 0.5 * read + 0.25 * carried + 0.25 * kept
