"""Identities of attention that the source documents state, and the values of their worked examples."""

import pytest
import torch
from torch import nn
from torch.autograd.functional import jacobian

from attnlab.attention.multihead import MultiHeadAttention
from attnlab.attention.registry import make
from attnlab.models.layers import sinusoidal_positions
from tests.oracles import translation_model as reference

CLOSE = {"rtol": 0, "atol": 1e-12}


def drawn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_positions_of_the_worked_example() -> None:
    expected = torch.tensor([0.8415, 0.5403, 0.0464, 0.9989, 0.0022, 1.0], dtype=torch.float64)
    table = sinusoidal_positions(2, 6, dtype=torch.float64)
    torch.testing.assert_close(table[1], expected, rtol=0, atol=5e-5)
    torch.testing.assert_close(
        reference.positions(9, 7), sinusoidal_positions(9, 7, dtype=torch.float64), **CLOSE
    )


@pytest.mark.parametrize("dim", [3, 64])
def test_a_score_has_the_variance_of_the_head_size(dim: int) -> None:
    """Var(q . k) = d_k for independent entries of mean 0 and variance 1; sqrt(d_k) makes it 1."""
    queries, keys = drawn(40_000, dim), drawn(40_000, dim, seed=1)
    scores = (queries * keys).sum(1)
    assert float(scores.var()) == pytest.approx(dim, rel=0.05)
    assert float((scores / dim**0.5).var()) == pytest.approx(1, rel=0.05)


def test_jacobian_of_softmax() -> None:
    """d softmax(x) / d x = diag(s) - s s^T."""
    x = drawn(7)
    s = reference.softmax(x[None])[0]
    actual = jacobian(lambda x: torch.softmax(x, 0), x)
    torch.testing.assert_close(actual, torch.diag(s) - torch.outer(s, s), **CLOSE)


def test_jacobian_of_softmax_vanishes_as_scores_grow() -> None:
    x = drawn(7)
    norms = [
        float(jacobian(lambda x: torch.softmax(x, 0), scale * x).norm()) for scale in (1, 10, 100)
    ]
    assert norms[0] > norms[1] > norms[2]
    assert norms[2] < 1e-6


def test_softmax_of_the_worked_example() -> None:
    scores = torch.tensor([[2.716, 3.062, 4.615, 5.078, 3.446, 4.373, 2.839]])
    expected = torch.tensor([[0.0355, 0.0502, 0.2372, 0.3770, 0.0736, 0.1862, 0.0401]])
    torch.testing.assert_close(reference.softmax(scores), expected, rtol=0, atol=1e-3)


def test_scores_are_a_bilinear_form_of_the_tokens() -> None:
    """(U W_Q)(U W_K)^T = U (W_Q W_K^T) U^T."""
    U, W_Q, W_K = drawn(5, 12), drawn(12, 4, seed=1), drawn(12, 4, seed=2)
    torch.testing.assert_close((U @ W_Q) @ (U @ W_K).T, U @ (W_Q @ W_K.T) @ U.T, **CLOSE)


@pytest.mark.parametrize("heads", [1, 3, 4])
def test_heads_are_blocks_of_columns_of_one_projection(heads: int) -> None:
    """One d x d projection split by columns is h projections of d x d/h, each attending by itself."""
    dim, size = 12, 12 // heads
    X, weights = drawn(5, dim), [drawn(dim, dim, seed=seed) for seed in (1, 2, 3, 4)]
    attention = MultiHeadAttention(dim, heads, make("full")).double()
    with torch.no_grad():
        for layer, W in zip(
            (attention.query, attention.key, attention.value, attention.output),
            weights,
            strict=True,
        ):
            layer.weight.copy_(W.T)
    W_Q, W_K, W_V = ([W[:, at : at + size] for at in range(0, dim, size)] for W in weights[:3])
    separate = [
        reference.attention_weights(X @ W_Q[h], X @ W_K[h]) @ (X @ W_V[h]) for h in range(heads)
    ]
    expected = torch.cat(separate, dim=1) @ weights[3]
    mixed, _ = attention(X[None], *attention.keys_and_values(X[None]))
    torch.testing.assert_close(mixed[0], expected, **CLOSE)


def test_masked_attention_adds_minus_infinity_above_the_diagonal() -> None:
    """softmax(Q K^T / sqrt(d) + M), M = 0 on and below the diagonal: row i renormalises its first i + 1."""
    Q, K = drawn(6, 4), drawn(6, 4, seed=1)
    whole, masked = (
        reference.attention_weights(Q, K),
        reference.attention_weights(Q, K, causal=True),
    )
    for i in range(6):
        expected = torch.zeros(6, dtype=torch.float64)
        expected[: i + 1] = whole[i, : i + 1] / whole[i, : i + 1].sum()
        torch.testing.assert_close(masked[i], expected, **CLOSE)


def test_softmax_ends_before_the_values() -> None:
    """softmax(Q K^T / sqrt(d)) V, not softmax(Q K^T V / sqrt(d)): rows are means of the values."""
    X, Y, size = drawn(4, 8), drawn(5, 8, seed=1), 4
    weights = {
        f"{name}.{part}": drawn(*shape, seed=seed)
        for seed, name in enumerate(("query", "key", "value"), start=2)
        for part, shape in (("weight", (8, 8)), ("bias", (8,)))
    }
    mixed, H = reference.head(X, Y, weights, 1, 8 // size)
    Q, K, V = (
        (T @ weights[f"{name}.weight"].T + weights[f"{name}.bias"])[:, size:]
        for name, T in (("query", X), ("key", Y), ("value", Y))
    )
    torch.testing.assert_close(mixed, H @ V, **CLOSE)
    assert bool((mixed.amax(0) <= V.amax(0)).all())
    assert bool((mixed.amin(0) >= V.amin(0)).all())
    shifted = weights | {"value.bias": weights["value.bias"] + 7}
    torch.testing.assert_close(
        reference.head(X, Y, shifted, 1, 8 // size)[0], mixed + 7, rtol=0, atol=1e-10
    )
    # Rows of Q K^T V have one entry per dimension, not per key.
    closed_after = reference.softmax(Q @ K.T @ V / size**0.5)
    assert not torch.allclose(closed_after, mixed)


def test_layer_norm_takes_its_means_over_the_model_dimension() -> None:
    X = 3 + 2 * drawn(5, 8)
    norm = nn.LayerNorm(8).double()
    actual = norm(X)
    torch.testing.assert_close(actual, reference.layer_norm(X, norm.state_dict()), **CLOSE)
    torch.testing.assert_close(actual.mean(1), torch.zeros(5, dtype=torch.float64), **CLOSE)
    torch.testing.assert_close(
        actual.var(1, correction=0), torch.ones(5, dtype=torch.float64), rtol=0, atol=1e-4
    )
    # A mean over anything else, such as tokens, would let one token's norm depend on the others.
    torch.testing.assert_close(norm(X[:1]), actual[:1], **CLOSE)
