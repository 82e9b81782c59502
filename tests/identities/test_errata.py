"""The right form of what is printed wrongly in the sources, and that the printed form is another."""

import math
from itertools import pairwise

import pytest
import torch
from torch.nn.functional import cross_entropy
from transformers import BertConfig, BertModel, OpenAIGPTConfig, OpenAIGPTModel

from attnlab.attention.registry import make
from attnlab.matrices import fit_residual
from tests.oracles import translation_model as reference

CLOSE = {"rtol": 0, "atol": 1e-12}


def drawn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_values_have_a_projection_of_their_own() -> None:
    """Thesis, eq. (5): V = X W_V, not X W_K, with which W_V would have no part in the output."""
    X = drawn(5, 4)
    weights = {
        f"{name}.{part}": drawn(*shape, seed=seed)
        for seed, name in enumerate(("query", "key", "value"), start=1)
        for part, shape in (("weight", (4, 4)), ("bias", (4,)))
    }
    mixed, H = reference.head(X, X, weights, 0, 1)
    of_values, of_keys = (
        H @ (X @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]) for name in ("value", "key")
    )
    torch.testing.assert_close(mixed, of_values, **CLOSE)
    assert not torch.allclose(mixed, of_keys)


def test_rows_are_divided_from_the_left() -> None:
    """P = D^-1 exp(A), D the sums of rows: exp(A) D^-1 divides each column by the sum of another row."""
    A = drawn(6, 6)
    exponentials = A.exp()
    inverse = torch.diag(1 / exponentials.sum(1))
    torch.testing.assert_close(inverse @ exponentials, reference.softmax(A), **CLOSE)
    printed = exponentials @ inverse
    assert not torch.allclose(printed.sum(1), torch.ones(6, dtype=torch.float64))
    assert not torch.allclose(printed, torch.softmax(A, 0)), "nor are its columns a softmax"


def test_scores_may_be_negative_and_divided_by_their_sum_they_give_no_convex_combination() -> None:
    """Weights q . k / sum q . k sum to 1 and may be negative; those of the softmax are all positive."""
    Q, K, V = drawn(40, 3), drawn(7, 3, seed=1), drawn(7, 2, seed=2)
    scores = Q @ K.T
    assert bool((scores < 0).any())
    divided, weights = scores / scores.sum(1, keepdim=True), reference.softmax(scores)
    for one in (divided, weights):
        torch.testing.assert_close(
            one.sum(1), torch.ones(40, dtype=torch.float64), rtol=0, atol=1e-9
        )
    low, high = V.amin(0), V.amax(0)
    assert bool((divided < 0).any())
    assert not bool(((divided @ V >= low) & (divided @ V <= high)).all())
    assert bool((weights > 0).all())
    assert bool(((weights @ V >= low) & (weights @ V <= high)).all())


@pytest.mark.parametrize("residual", [0.9, -0.9])
def test_an_entry_is_bounded_in_size_and_the_bound_is_attained(residual: float) -> None:
    """|l| <= eps: `l < epsilon` bounds no negative entry, and without equality nothing is nearest."""
    bound = 0.25
    target, structure = (torch.tensor([[max(one, 0.0)]]).double() for one in (residual, -residual))
    fitted = float(fit_residual(target, structure, nonzeros=1, bound=bound))
    assert fitted == math.copysign(bound, residual)
    # Each smaller entry has a nearer one between itself and the bound, which is nearer than all.
    smaller = [math.copysign(bound * (1 - 0.5**step), residual) for step in range(1, 20)]
    distances = [abs(residual - entry) for entry in (*smaller, fitted)]
    assert all(later < earlier for earlier, later in pairwise(distances))
    if residual < 0:
        assert residual < bound, "so the whole residual would be allowed"


def test_exponentials_of_the_worked_example() -> None:
    """exp(s) to three decimals, whose shares are the softmax of the table."""
    scores = (2.716, 3.062, 4.615, 5.078, 3.446, 4.373, 2.839)
    right = (15.120, 21.370, 100.988, 160.453, 31.375, 79.281, 17.099)
    assert [round(math.exp(score), 3) for score in scores] == list(right)
    shares = torch.tensor(right, dtype=torch.float64) / sum(right)
    softmax = reference.softmax(torch.tensor([scores], dtype=torch.float64))[0]
    torch.testing.assert_close(shares, softmax, rtol=0, atol=2e-6)


def test_without_its_transpose_the_bilinear_form_gives_other_scores() -> None:
    """(x W_Q)(y W_K)^T = x W_Q W_K^T y^T: with x W_Q W_K y^T it is the transposed key projection's."""
    U, W_Q, W_K = drawn(5, 4), drawn(4, 4, seed=1), drawn(4, 4, seed=2)
    scores = (U @ W_Q) @ (U @ W_K).T
    torch.testing.assert_close(U @ W_Q @ W_K.T @ U.T, scores, **CLOSE)
    assert not torch.allclose(U @ W_Q @ W_K @ U.T, scores)
    with pytest.raises(RuntimeError):  # of a head, which is narrower than the model
        U @ W_Q[:, :2] @ W_K[:, :2] @ U.T


def test_gpt_has_more_parameters_than_bert_base() -> None:
    """Of one depth and width: 116.5 million in GPT, 109.5 million in BERT-base."""
    with torch.device("meta"):
        gpt, bert = OpenAIGPTModel(OpenAIGPTConfig()), BertModel(BertConfig())
    counts = [sum(one.numel() for one in model.parameters()) for model in (gpt, bert)]
    assert counts == [116_534_784, 109_482_240]
    sizes = [
        (c.num_hidden_layers, c.hidden_size, c.num_attention_heads)
        for c in (gpt.config, bert.config)
    ]
    assert sizes == [(12, 768, 12)] * 2


def test_a_regulariser_is_added_to_the_loss_and_not_to_its_argument() -> None:
    """L(f) + lambda R pulls on the weights; in L(f + lambda R) it has no effect on a softmax."""
    X, labels, strength = drawn(9, 4), torch.arange(9) % 3, 0.1

    def gradient(*, added: bool, inside: bool) -> torch.Tensor:
        W = drawn(4, 3, seed=1).requires_grad_()
        penalty = strength * (W**2).sum() if added else 0.0
        logits = X @ W
        loss = (
            cross_entropy(logits + penalty, labels)
            if inside
            else cross_entropy(logits, labels) + penalty
        )
        return torch.autograd.grad(loss, W)[0]

    plain = gradient(added=False, inside=False)
    W = drawn(4, 3, seed=1)
    torch.testing.assert_close(
        gradient(added=True, inside=False), plain + 2 * strength * W, **CLOSE
    )
    torch.testing.assert_close(gradient(added=True, inside=True), plain, **CLOSE)


def test_attention_is_equivariant_to_permutations_and_not_invariant() -> None:
    """f(Pi X) = Pi f(X): rows move with their tokens; only a mean over them would stay as it is."""
    X, order = drawn(1, 6, 4), torch.tensor([3, 0, 5, 1, 4, 2])
    attention = make("full", causal=False).double()

    def mixed(tokens: torch.Tensor) -> torch.Tensor:
        heads = tokens[:, None]
        return attention(heads, heads, heads)[0, 0]

    torch.testing.assert_close(mixed(X[:, order]), mixed(X)[order], **CLOSE)
    assert not torch.allclose(mixed(X[:, order]), mixed(X))
    torch.testing.assert_close(mixed(X[:, order]).mean(0), mixed(X).mean(0), **CLOSE)
