"""Weights as text: what is read is what was written, to half a level of the square root."""

from dataclasses import astuple

import torch
from oracles.page_weights import decoded
from planted_layers import stochastic

from attnlab.results.page.rendering import (
    block_maxima,
    encode_weights,
    rows_keeping_largest,
    stored_vectors,
)


def softmaxed(heads: int, queries: int, keys: int) -> torch.Tensor:
    scores = 3 * torch.randn(heads, queries, keys, generator=torch.Generator().manual_seed(7))
    return scores.softmax(-1)


def test_square_roots_are_off_by_at_most_half_a_level() -> None:
    weights = softmaxed(3, 7, 11)
    read = decoded(*astuple(encode_weights(weights)))
    assert read.shape == weights.shape
    assert float((read.sqrt() - weights.double().sqrt()).abs().max()) <= 1 / 510 + 1e-7
    # What the foot of a page says of the weights themselves.
    assert float((read - weights.double()).abs().max()) <= 0.004


def test_weights_above_one_keep_their_size() -> None:
    weights = 5 * softmaxed(2, 3, 5)
    encoded = encode_weights(weights)
    assert encoded.scale == float(weights.max())
    read = decoded(*astuple(encoded))
    torch.testing.assert_close(read, weights.double(), atol=0.05, rtol=0.05)


def test_nothing_stays_nothing() -> None:
    assert decoded(*astuple(encode_weights(torch.zeros(2, 3, 5)))).sum() == 0


def test_the_largest_weight_of_a_row_is_nearly_always_kept() -> None:
    kept, rows = rows_keeping_largest(softmaxed(8, 64, 64))
    assert rows == 8 * 64
    assert kept / rows > 0.97
    assert rows_keeping_largest(stochastic(2, 5, 7)) == (10, 10)


def test_block_maxima_are_those_of_loops() -> None:
    weights = stochastic(2, 5, 7)
    pooled = block_maxima(weights, 3)
    assert pooled.shape == (2, 2, 3)
    for head in range(2):
        for row in range(2):
            for column in range(3):
                square = weights[head, 3 * row : 3 * row + 3, 3 * column : 3 * column + 3]
                assert float(pooled[head, row, column]) == float(square.float().max())
    assert block_maxima(weights, 1) is weights


def test_short_sentences_of_many_heads_are_small() -> None:
    """24 heads and 20 short sentences within 1 MB."""
    assert sum(len(encode_weights(softmaxed(24, 16, 16)).text) for _ in range(20)) < 1e6


def test_small_vectors_are_stored_as_exactly_as_large_ones() -> None:
    vectors = torch.randn(2, 3, 5, generator=torch.Generator().manual_seed(7))
    usual = stored_vectors("queries.0.encoder", vectors)
    for factor in (1e-9, 1e9):
        other = stored_vectors("queries.0.encoder", vectors * factor)
        assert other.text == usual.text
        ratios = torch.tensor(other.scales) / torch.tensor(usual.scales)
        torch.testing.assert_close(ratios, torch.full((2,), factor))
