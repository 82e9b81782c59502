"""Attention rollout against loops, and examples worked by hand."""

import pytest
import torch
from oracles import rollout as oracle

from attnlab.core.errors import InputError
from attnlab.matrices.rollout import attention_rollout


def attention(*shape: int, seed: int = 0, causal: bool = False) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(*shape, generator=generator, dtype=torch.float64).mul(2)
    if causal:
        scores = scores.masked_fill(torch.ones(shape[-2:]).triu(1).bool(), -torch.inf)
    return scores.softmax(-1)


def test_an_example_by_hand() -> None:
    """With the residual [1 0; 1/4 3/4], then [1/2 1/2; 0 1]: their product, the later one on the left."""
    first = torch.tensor([[[1.0, 0.0], [0.5, 0.5]]])
    second = torch.tensor([[[0.0, 1.0], [0.0, 1.0]]])
    found = attention_rollout([first, second])
    expected = [[[1, 0], [0.25, 0.75]], [[0.625, 0.375], [0.25, 0.75]]]
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64))


def test_an_example_with_cross_attention_by_hand() -> None:
    """One target token: half of it is what cross-attention reads, in each of two layers."""
    own, cross = torch.ones(1, 1, 1), torch.tensor([[[0.25, 0.75]]])
    found = attention_rollout([own, own], [cross, cross])
    expected = [[[0.125, 0.375, 0.5]], [[0.1875, 0.5625, 0.25]]]
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64))


@pytest.mark.parametrize("causal", [False, True])
def test_layers_of_unequal_heads_equal_the_loops(causal: bool) -> None:
    layers = [attention(heads, 5, 5, seed=heads, causal=causal) for heads in (2, 3, 1)]
    layers[1] = layers[1] * 0.75  # as beside a sink that is no token
    found = attention_rollout(layers)
    assert found.shape == (3, 5, 5)
    for count in (1, 2, 3):
        expected = oracle.rollout([one.tolist() for one in layers[:count]])
        torch.testing.assert_close(found[count - 1], torch.tensor(expected, dtype=torch.float64))
    torch.testing.assert_close(found.sum(-1), torch.ones(3, 5, dtype=torch.float64))
    assert not causal or not found.triu(1).any()


def test_a_decoder_equals_the_sum_over_all_ways() -> None:
    own = [attention(heads, 3, 3, seed=heads, causal=True) for heads in (2, 3)]
    cross = [attention(heads, 3, 4, seed=heads + 7) for heads in (2, 1)]
    encoder = attention_rollout([attention(2, 4, 4), attention(2, 4, 4, seed=1)])[-1]
    found = attention_rollout(own, cross, encoder)
    means = [[one.mean(0).tolist() for one in both] for both in (own, cross)]
    for layer in (0, 1):
        kept = [one[: layer + 1] for one in means]
        expected = [
            [oracle.share(i, j, *kept, encoder.tolist()) for j in range(7)] for i in range(3)
        ]
        torch.testing.assert_close(found[layer], torch.tensor(expected, dtype=torch.float64))
    # Of the whole source comes a half in each layer, whatever the weights are.
    source = found[..., :4].sum(-1)
    torch.testing.assert_close(source, torch.tensor([[0.5] * 3, [0.75] * 3], dtype=torch.float64))


def test_what_does_not_fit_together_is_refused(as_users_call_it: None) -> None:
    own, cross = attention(2, 3, 3), attention(2, 3, 4)
    for wrong in (
        ([],),
        ([own, attention(2, 4, 4)],),
        ([cross],),
        ([own, own], [cross]),
        ([own], [attention(2, 4, 3)]),
        ([own], [cross], torch.eye(3)),
    ):
        with pytest.raises(InputError, match="are not those of the layers of one text"):
            attention_rollout(*wrong)
    with pytest.raises(InputError, match="negative"):
        attention_rollout([-own])
