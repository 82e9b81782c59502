"""Running sums of the plan search: static weights beside those that made the attention, and plain loops."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attnlab.reading.observing import Observed
from attnlab.studies.planning.statistics import LayerSums

LONGEST = 9


def rows_of(lengths: list[tuple[int, int]], weights: dict[int, float]) -> torch.Tensor:
    """Weights by offset, normalised over the keys of each sentence; the padding is 0."""
    matrices = torch.zeros(len(lengths), LONGEST, LONGEST, dtype=torch.float64)
    for matrix, (queries, keys) in zip(matrices, lengths, strict=True):
        for i in range(queries):
            reached = {i + d: w for d, w in weights.items() if 0 <= i + d < keys}
            for j, weight in reached.items():
                matrix[i, j] = weight / sum(reached.values())
    return matrices


def observed(lengths: list[tuple[int, int]], matrices: torch.Tensor) -> Observed:
    position = torch.arange(LONGEST)
    queries, keys = (torch.tensor(side) for side in zip(*lengths, strict=True))
    zero = torch.zeros(len(lengths), 1, LONGEST, 2, dtype=torch.float64)
    ids = torch.full((len(lengths), LONGEST), 5)
    return Observed(
        "cross", 0, zero, zero, zero, position < keys[:, None], position < queries[:, None], ids,
        matrices[:, None], tuple(range(len(lengths))),
    )  # fmt: skip


length = st.integers(1, LONGEST)


@given(
    lengths=st.lists(st.tuples(length, length), min_size=20, max_size=30),
    weights=st.dictionaries(st.integers(-4, 4), st.floats(0.05, 1.0), min_size=1, max_size=3),
)
def test_static_weights_are_those_that_made_the_attention(
    lengths: list[tuple[int, int]], weights: dict[int, float]
) -> None:
    # One sentence in which every offset is reached by some row, together with others.
    lengths = [*lengths, *[(LONGEST, LONGEST)] * 5]
    sums = LayerSums(causal=False, tokens=False)
    sums.add(observed(lengths, rows_of(lengths, weights)))
    total = sum(weights.values())
    expected = [weight / total for weight in weights.values()]
    assert sums.static_weights(0, list(weights)) == pytest.approx(expected, abs=1e-3)


def test_each_offset_gets_its_share_where_sentences_have_different_lengths() -> None:
    lengths, taken = [(9, 4), (7, 9), (3, 3), (8, 2)], [-3, -1, 0, 2]
    generator = torch.Generator().manual_seed(0)
    drawn = torch.rand(len(lengths), LONGEST, LONGEST, generator=generator, dtype=torch.float64)
    for matrix, (queries, keys) in zip(drawn, lengths, strict=True):
        matrix[queries:] = 0
        matrix[:, keys:] = 0
    sums = LayerSums(causal=False, tokens=False)
    sums.add(observed(lengths, drawn))
    weights = dict(zip(taken, sums.static_weights(0, taken), strict=True))
    applied = rows_of(lengths, weights)
    shares = [
        torch.tensor([matrices.diagonal(d, -2, -1).sum() for d in taken])
        for matrices in (applied, drawn)
    ]
    given_share, wanted = (share / share.sum() for share in shares)
    assert torch.allclose(given_share, wanted, atol=1e-4)
