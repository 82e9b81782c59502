"""Sums over features of all keys, of earlier and of later ones, against loops."""

import itertools

import pytest
import torch

from attnlab.attention.kernels.feature_products import over_all, over_earlier, over_later

COUNTS = (1, 2, 3, 4, 5, 6, 9)


@pytest.mark.parametrize(("rows", "keys"), itertools.product(COUNTS, COUNTS))
def test_earlier_and_later_keys_are_those_of_loops(rows: int, keys: int) -> None:
    generator = torch.Generator().manual_seed(10 * rows + keys)
    query = torch.randn(2, rows, 3, generator=generator, dtype=torch.float64)
    key = 30 * torch.randn(2, keys, 3, generator=generator, dtype=torch.float64)
    value = torch.randn(2, keys, 4, generator=generator, dtype=torch.float64)
    weights = (query[:, :, None] + key[:, None]).exp().sum(-1)
    offset = torch.arange(keys) - torch.arange(rows)[:, None]
    everything = over_all(query, key, value)
    torch.testing.assert_close(everything.sums * everything.level.exp(), weights @ value)
    for border in range(-rows - 1, keys + 2):
        earlier = over_earlier(query, key, value, border)
        expected = (weights * (offset <= border)) @ value
        torch.testing.assert_close(earlier.sums * earlier.level.exp(), expected)
        later = over_later(query, key, value, border)
        expected = (weights * (offset >= border)) @ value
        torch.testing.assert_close(later.sums * later.level.exp(), expected)
