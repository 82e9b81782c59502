import math

import pytest
import torch
from oracles import matrices as oracle
from weight_matrices import attention

from attnlab.core.errors import InputError
from attnlab.matrices.batched import counted_entries
from attnlab.matrices.distances import (
    distances,
    kl_divergence,
    l1_distance,
    measure,
)

SHAPES = [(1, 1), (5, 5), (5, 7), (7, 3)]


@pytest.mark.parametrize("shape", SHAPES)
def test_equal_to_the_loops(shape: tuple[int, int]) -> None:
    H, X = attention(2, *shape), attention(2, *shape, seed=1)
    found = measure(H, X)
    for name, distance in distances().items():
        assert torch.equal(distance(H, X), getattr(found, name)), name
    for b in range(2):
        h, x = H[b].tolist(), X[b].tolist()
        for name in ("l1", "mean_error", "relative", "frobenius"):
            expected = getattr(oracle, name)(h, x)
            assert float(getattr(found, name)[b]) == pytest.approx(expected, abs=1e-12)
        assert float(kl_divergence(H, X)[b]) == pytest.approx(oracle.kl(h, x), abs=1e-12)


def test_one_approximation_serves_all_matrices_of_a_batch() -> None:
    H, X = attention(2, 5, 7), attention(1, 5, 7, seed=1)
    torch.testing.assert_close(l1_distance(H, X[0]), l1_distance(H, X.expand_as(H)), rtol=0, atol=0)


def test_zero_matrix_has_relative_distance_one() -> None:
    H = attention(3, 5, 7)
    found = measure(H, torch.zeros_like(H))
    torch.testing.assert_close(found.relative, torch.ones(3, dtype=H.dtype), rtol=0, atol=0)
    torch.testing.assert_close(found.frobenius, torch.ones(3, dtype=H.dtype), rtol=0, atol=0)


def test_missed_mass_is_infinitely_far_in_kl() -> None:
    H = attention(5, 5)
    assert float(kl_divergence(H, H.tril())) == math.inf
    assert float(kl_divergence(H, H)) == 0


def test_what_stands_in_the_padding_does_not_count() -> None:
    sizes = torch.tensor([[7, 5], [3, 2], [0, 0]])
    H, X = attention(3, 7, 5), attention(3, 7, 5, seed=1)
    padding = ~counted_entries(sizes, 7, 5)
    H = H.masked_fill(padding, math.nan)
    X = X.masked_fill(padding, 9.0)
    found = measure(H, X, sizes)
    for b, (q, k) in enumerate([(7, 5), (3, 2)]):
        alone = measure(H[b, :q, :k], X[b, :q, :k])
        for name in ("l1", "mean_error", "relative", "frobenius"):
            torch.testing.assert_close(getattr(found, name)[b], getattr(alone, name))
        for distance in (kl_divergence, l1_distance):
            torch.testing.assert_close(
                distance(H, X, sizes)[b], distance(H[b, :q, :k], X[b, :q, :k])
            )
    assert [float(v) for v in (found.l1[2], found.relative[2], found.mean_error[2])] == [0, 0, 0]


def test_sizes_of_a_sentence_serve_all_its_heads() -> None:
    H, X = attention(2, 3, 5, 5), attention(2, 3, 5, 5, seed=1)
    sizes = torch.tensor([[4, 4], [2, 2]])
    found = measure(H, X, sizes[:, None])
    torch.testing.assert_close(found.l1[1, 2], l1_distance(H[1, 2, :2, :2], X[1, 2, :2, :2]))
    torch.testing.assert_close(found.mean_error, found.l1 / torch.tensor([[16.0], [4.0]]))


@pytest.mark.parametrize("sizes", [[6, 5], [5, -1]])
def test_sizes_that_do_not_fit_are_refused(sizes: list[int]) -> None:
    H = attention(5, 5)
    with pytest.raises(InputError, match="between 0 and 5 x 5"):
        measure(H, H, torch.tensor(sizes))
