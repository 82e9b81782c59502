"""Facts about training, vocabularies, kernels and spectra that the source documents state."""

import itertools
import math

import pytest
import torch
from scipy.stats import linregress
from torch.nn import functional as F
from transformers import get_scheduler

from attnlab import plot
from attnlab.attention import make
from attnlab.attention.kernels.feature_products import (
    elu_features,
    favor_exponents,
    taylor_features,
)
from attnlab.matrices.references import cumulative_spectrum
from attnlab.models.tokenizer import SPACE, SPECIAL_TOKENS, train_tokenizer

CLOSE = {"rtol": 0, "atol": 1e-12}


def drawn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize(("dim", "warmup"), [(512, 8), (128, 20)])
def test_warm_up_schedule(dim: int, warmup: int) -> None:
    """d^-0.5 min(step^-0.5, step * warmup^-1.5): inverse_sqrt with its peak at (d * warmup)^-0.5."""
    peak = (dim * warmup) ** -0.5
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=peak)
    schedule = get_scheduler("inverse_sqrt", optimizer, num_warmup_steps=warmup)
    rates = []
    for step in range(1, 5 * warmup):
        optimizer.step()
        schedule.step()
        rates.append(schedule.get_last_lr()[0])
        assert rates[-1] == pytest.approx(dim**-0.5 * min(step**-0.5, step * warmup**-1.5))
    assert rates.index(max(rates)) + 1 == warmup
    assert max(rates) == pytest.approx(peak)


def test_both_conventions_of_label_smoothing() -> None:
    """eps / V on every type is eps (V - 1) / V spread over the others alone, and torch's convention."""
    types, right, share = 7, 3, 0.1
    logits = drawn(1, types)
    logs = logits.log_softmax(1)[0]
    on_all = torch.full((types,), share / types, dtype=torch.float64)
    on_all[right] += 1 - share
    others = share * (types - 1) / types
    on_others = torch.full((types,), others / (types - 1), dtype=torch.float64)
    on_others[right] = 1 - others
    torch.testing.assert_close(on_all, on_others, **CLOSE)
    loss = F.cross_entropy(logits, torch.tensor([right]), label_smoothing=share)
    torch.testing.assert_close(loss, -(on_all * logs).sum(), **CLOSE)
    same_share = torch.full((types,), share / (types - 1), dtype=torch.float64)
    same_share[right] = 1 - share
    assert not torch.allclose(-(same_share * logs).sum(), loss)


def test_first_pair_merge_of_the_worked_example() -> None:
    """The most frequent pair of `abacabbcc` is (a, b), and no character is lost when it is merged."""
    text = "abacabbcc"
    # The letters, and what stands for the space before a word, beside the special tokens.
    letters = len(SPECIAL_TOKENS) + len({*text, SPACE})
    assert set(train_tokenizer([text], "bpe", letters).get_vocab()) == {
        *SPECIAL_TOKENS,
        *text,
        SPACE,
    }
    tokenizer = train_tokenizer([text], "bpe", letters + 1)
    assert set(tokenizer.get_vocab()) == {*SPECIAL_TOKENS, *text, SPACE, "ab"}
    assert tokenizer.tokenize(text) == [SPACE, "ab", "a", "c", "ab", "b", "c", "c"]


KERNELS = {
    "exponential": lambda X: torch.exp(X @ X.T),
    "elu": lambda X: elu_features(X) @ elu_features(X).T,
    "taylor": lambda X: taylor_features(X) @ taylor_features(X).T,
    "any feature map": lambda X: torch.sin(3 * X) @ torch.sin(3 * X).T,
}


@pytest.mark.parametrize("name", KERNELS)
def test_kernels_have_positive_semi_definite_gram_matrices(name: str) -> None:
    gram = KERNELS[name](0.5 * drawn(20, 6))
    least, most = torch.linalg.eigvalsh(gram)[[0, -1]]
    assert float(least) >= -1e-10 * max(1.0, float(most))


def test_features_of_the_exponential_kernel_are_tensor_powers() -> None:
    """exp(q . k) = sum over n of (q^n . k^n) / n!, q^n the n-fold tensor product of q with itself."""
    query, key = 0.4 * drawn(5, 2), 0.4 * drawn(7, 2, seed=1)

    def features(x: torch.Tensor, powers: int) -> torch.Tensor:
        parts, power = [], torch.ones(len(x), 1, dtype=torch.float64)
        for n in range(powers):
            parts.append(power / math.factorial(n) ** 0.5)
            power = (power[:, :, None] * x[:, None]).flatten(1)
        return torch.cat(parts, 1)

    exact = torch.exp(query @ key.T)
    torch.testing.assert_close(features(query, 14) @ features(key, 14).T, exact, **CLOSE)
    assert not torch.allclose(features(query, 2) @ features(key, 2).T, exact)


def test_error_of_random_features_falls_with_the_root_of_their_number() -> None:
    query, key = 0.5 * drawn(12, 4), 0.5 * drawn(12, 4, seed=1)
    exact, numbers = torch.exp(query @ key.T / 2), torch.tensor([8.0, 32.0, 128.0, 512.0])
    errors = []
    for features in numbers.int().tolist():
        found = torch.stack(
            [
                favor_exponents(query, features, seed).exp()
                @ favor_exponents(key, features, seed).exp().T
                for seed in range(40)
            ]
        )
        errors.append((found - exact).square().mean().sqrt())
    slope = linregress(numbers.log(), torch.stack(errors).log()).slope
    assert slope == pytest.approx(-0.5, abs=0.1)


def test_a_bilinear_score_is_no_kernel() -> None:
    """q . k with queries and keys projected apart has negative eigenvalues: it is no inner product."""
    X = drawn(20, 6)
    scores = X @ drawn(6, 6, seed=1) @ X.T
    assert float(torch.linalg.eigvalsh(scores + scores.T)[0]) < -1


def test_random_projections_keep_distances() -> None:
    """Johnson and Lindenstrauss: some projection to n > 8 ln(m) / eps^2 keeps squares within 1 +- eps."""
    points, eps = 12, 0.5
    n = int(8 * torch.tensor(float(points)).log() / eps**2) + 1
    X = drawn(points, 400)
    pairs = list(itertools.combinations(range(points), 2))
    before = torch.stack([(X[i] - X[j]).square().sum() for i, j in pairs])
    worst = []
    for seed in range(20):
        Y = X @ drawn(400, n, seed=seed + 1) / n**0.5
        after = torch.stack([(Y[i] - Y[j]).square().sum() for i, j in pairs])
        worst.append(float((after / before - 1).abs().max()))
    assert sum(one <= eps for one in worst) >= 15
    too_few = X @ drawn(400, 3, seed=1) / 3**0.5
    after = torch.stack([(too_few[i] - too_few[j]).square().sum() for i, j in pairs])
    assert float((after / before - 1).abs().max()) > eps


def relative_error(actual: torch.Tensor, expected: torch.Tensor) -> float:
    return float((actual - expected).norm() / expected.norm())


def test_a_projected_attention_matrix_mixes_values_nearly_as_before() -> None:
    """Wang et al. 2020, theorem 1: P R^T R V is near P V, R of k rows, and nearer by the root of k."""
    n, d = 96, 8
    Q, K, V = (drawn(n, d, seed=seed) for seed in range(3))
    P = (Q @ K.T / d**0.5).softmax(-1)
    errors = {}
    for k in (24, 384):
        projections = [drawn(k, n, seed=seed + 9) / k**0.5 for seed in range(10)]
        errors[k] = sum(relative_error(P @ R.T @ R @ V, P @ V) for R in projections) / 10
    assert errors[24] / errors[384] == pytest.approx(4, rel=0.15)
    # R projects after the softmax: P itself is computed, all n x n of it.
    R = torch.linalg.qr(drawn(n, n, seed=3))[0]
    torch.testing.assert_close(P @ R.T @ R, P, rtol=0, atol=1e-10)


def test_linformer_projects_before_the_softmax() -> None:
    """softmax(Q (E K)^T / sqrt(d)) F V is P V where E = F permutes keys, and not P R^T R V where it mixes."""
    n, d = 32, 8
    Q, K, V = (drawn(1, 1, n, d, seed=seed) for seed in range(3))
    P = (Q @ K.mT / d**0.5).softmax(-1)
    linformer = make(f"linformer(k={n}, max_length={n}, share='kv')").double()
    shuffle = torch.eye(n, dtype=torch.float64)[
        torch.randperm(n, generator=torch.Generator().manual_seed(0))
    ]
    with torch.no_grad():
        linformer.key_projection.copy_(shuffle)
        torch.testing.assert_close(linformer(Q, K, V), P @ V, **CLOSE)
        mixing = drawn(n, n, seed=4) / n**0.5
        linformer.key_projection.copy_(mixing)
        assert relative_error(linformer(Q, K, V), P @ mixing.T @ mixing @ V) > 0.5


@pytest.mark.parametrize("delta", [1 / 64, 1 / 4096])
def test_random_projections_of_small_scale_do_not_come_near(delta: float) -> None:
    """E = delta R, F = exp(-delta) R: scores vanish with delta, and the output is that of equal weights."""
    n, d, k = 64, 8, 48
    Q, K, V = (drawn(n, d, seed=seed) for seed in range(3))
    R = drawn(k, n, seed=5) / k**0.5
    weights = (Q @ (delta * R @ K).T / d**0.5).softmax(-1)
    out = weights @ (math.exp(-delta) * R @ V)
    assert float((weights - 1 / k).abs().max()) < delta
    assert relative_error(out, (Q @ K.T / d**0.5).softmax(-1) @ V) > 0.9


def test_spectrum_of_attention_has_a_long_tail() -> None:
    """A few singular values of a softmax hold most of their sum; of a shift all are alike."""
    n, d = 64, 8
    H = (drawn(10, n, d) @ drawn(10, n, d, seed=1).mT / d**0.5).softmax(-1)
    share = cumulative_spectrum(H)
    assert float(share[:, n // 4 - 1].min()) > 0.6
    shift = torch.eye(n, dtype=torch.float64).roll(1, 0)
    expected = torch.arange(1, n + 1, dtype=torch.float64) / n
    torch.testing.assert_close(cumulative_spectrum(shift), expected, **CLOSE)
    (axes,) = plot.spectrum({"head": H[0], "shift": shift}).axes
    (head, _, diagonal) = axes.lines
    assert list(head.get_ydata()) == pytest.approx(share[0].tolist())
    assert list(diagonal.get_ydata()) == [0, 1]
