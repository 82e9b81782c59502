"""Scores of static heads: planted ones are found, two solvers agree, and nothing near them is better."""

import math

import pytest
import torch
from scipy.optimize import minimize

from attnlab.core.errors import InputError
from attnlab.matrices import StaticScores, fit_static_scores, static_scores

SENTENCES, QUERIES, KEYS = 6, 5, 7
SIZES = torch.tensor([[5, 7], [4, 4], [2, 3], [5, 6], [1, 1], [3, 7]])


def drawn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def ragged(scores: torch.Tensor, *, causal: bool = False) -> torch.Tensor:
    """A softmax of each row over the keys that it sees in sentences of `SIZES`, as loops."""
    H = torch.zeros(SENTENCES, QUERIES, KEYS, dtype=torch.float64)
    for sentence, (queries, keys) in enumerate(SIZES.tolist()):
        for query in range(queries):
            last = min(query + 1, keys) if causal else keys
            H[sentence, query, :last] = scores[sentence, query, :last].softmax(-1)
    return H


def cross_entropy(
    H: torch.Tensor, key: torch.Tensor, offset: torch.Tensor, *, causal: bool = False
) -> torch.Tensor:
    """Mean over rows, as loops."""
    total, rows = torch.zeros((), dtype=torch.float64), 0.0
    for sentence, (queries, keys) in enumerate(SIZES.tolist()):
        for query in range(queries):
            seen = range(min(query + 1, keys) if causal else keys)
            scores = torch.stack([key[k] + offset[k - query + QUERIES - 1] for k in seen])
            total = total - (H[sentence, query, : len(seen)] * scores.log_softmax(0)).sum()
            rows += float(H[sentence, query].sum())
    return total / rows


@pytest.mark.parametrize("causal", [False, True])
def test_planted_weights_are_found(causal: bool) -> None:
    planted = StaticScores(drawn(KEYS), drawn(QUERIES + KEYS - 1, seed=1), *torch.zeros(2))
    H = ragged(planted.matrix.expand(SENTENCES, -1, -1), causal=causal)
    found = fit_static_scores(H, SIZES, causal=causal)
    assert float(found.gap) < 1e-10
    torch.testing.assert_close(
        ragged(found.matrix.expand(SENTENCES, -1, -1), causal=causal), H, atol=1e-8, rtol=0
    )
    entropy = -(H * H.clamp(min=1e-300).log()).sum() / H.sum()
    assert float(found.cross_entropy) == pytest.approx(float(entropy), abs=1e-10)


@pytest.mark.parametrize("causal", [False, True])
def test_another_solver_finds_the_same_weights(causal: bool) -> None:
    H = ragged(3 * drawn(SENTENCES, QUERIES, KEYS), causal=causal)

    def loss_and_slope(values: object) -> tuple[float, object]:
        scores = torch.tensor(values, requires_grad=True)
        loss = cross_entropy(H, scores[:KEYS], scores[KEYS:], causal=causal)
        loss.backward()
        assert scores.grad is not None
        return float(loss.detach()), scores.grad.numpy()

    start = torch.zeros(2 * KEYS + QUERIES - 1, dtype=torch.float64).numpy()
    other = minimize(
        loss_and_slope, start, jac=True, method="L-BFGS-B",
        options={"maxiter": 5000, "ftol": 1e-16, "gtol": 1e-9},
    )  # fmt: skip
    found = fit_static_scores(H, SIZES, causal=causal)
    assert float(found.cross_entropy) == pytest.approx(other.fun, abs=1e-9)
    _, slope = loss_and_slope(torch.cat([found.key, found.offset]).numpy())
    assert abs(slope).max() == pytest.approx(float(found.gap), abs=1e-14)  # type: ignore[call-overload]
    assert float(found.gap) < 1e-10
    of_other = StaticScores(
        *torch.tensor(other.x).split([KEYS, QUERIES + KEYS - 1]), *torch.zeros(2)
    )
    torch.testing.assert_close(
        ragged(found.matrix.expand(SENTENCES, -1, -1), causal=causal),
        ragged(of_other.matrix.expand(SENTENCES, -1, -1), causal=causal),
        atol=1e-4, rtol=0,
    )  # fmt: skip


def test_no_scores_near_them_are_better() -> None:
    H = ragged(2 * drawn(SENTENCES, QUERIES, KEYS, seed=3))
    found = fit_static_scores(H, SIZES)
    best = float(cross_entropy(H, found.key, found.offset))
    assert best == pytest.approx(float(found.cross_entropy), abs=1e-12)
    for seed in range(10):
        key, offset = drawn(KEYS, seed=seed), drawn(QUERIES + KEYS - 1, seed=-seed - 1)
        for size in (1e-4, 0.1):
            other = cross_entropy(H, found.key + size * key, found.offset + size * offset)
            assert float(other) > best


def test_sums_of_rows_padding_and_the_order_of_sentences_change_nothing() -> None:
    H = ragged(2 * drawn(SENTENCES, QUERIES, KEYS, seed=4))
    found = fit_static_scores(H, SIZES)
    order = torch.randperm(SENTENCES, generator=torch.Generator().manual_seed(0))
    padded = torch.nn.functional.pad(H, (0, 0, 0, 0, 0, 2), value=5.0)
    sizes = torch.cat([SIZES, torch.zeros(2, 2, dtype=torch.long)])
    spoilt = torch.where(H > 0, H, 9.0)
    for other, own in (
        (fit_static_scores(H[order], SIZES[order]), found),
        (fit_static_scores(padded, sizes), found),
        (fit_static_scores(spoilt, SIZES), found),
        (fit_static_scores(torch.stack([H, H[order]])[:1], SIZES), found),
    ):
        torch.testing.assert_close(
            other.matrix.reshape(QUERIES, KEYS), own.matrix, atol=1e-7, rtol=0
        )
    # The same sentence several times, and its rows added up.
    twice = fit_static_scores(
        torch.cat([H, H[:2], H[:2]]), torch.cat([SIZES, SIZES[:2], SIZES[:2]])
    )
    weights = torch.tensor([3.0, 3, 1, 1, 1, 1], dtype=torch.float64)[:, None, None]
    added = fit_static_scores(H * weights, SIZES)
    torch.testing.assert_close(added.matrix, twice.matrix, atol=1e-7, rtol=0)


def test_rows_without_a_choice_and_far_optima_end() -> None:
    """A head on one offset has its best scores at infinity: the weights are there, and scores are finite."""
    H = torch.eye(4, dtype=torch.float64).expand(3, 4, 4)
    found = fit_static_scores(H)
    assert float(found.gap) < 1e-10
    assert bool(found.matrix.isfinite().all())
    torch.testing.assert_close(found.matrix.softmax(-1), H[0], atol=1e-8, rtol=0)
    alone = fit_static_scores(torch.ones(2, 1, 1))
    assert (float(alone.cross_entropy), float(alone.gap)) == (0, 0)


def test_what_is_no_weights_is_refused() -> None:
    with pytest.raises(InputError, match="not finite|finite"):
        fit_static_scores(torch.full((2, 3, 3), math.nan))


def test_a_head_without_rows_has_no_figures() -> None:
    found = fit_static_scores(torch.zeros(2, 3, 4, 4))
    assert found.cross_entropy.isnan().all()
    assert found.gap.isnan().all()
    assert found.matrix.eq(0).all()


def test_attention_to_later_keys_is_not_causal() -> None:
    H = torch.eye(4, dtype=torch.float64).roll(1, 1)[None]
    with pytest.raises(InputError, match="leave causal out"):
        fit_static_scores(H, causal=True)


def test_the_gap_is_that_of_the_scores_where_steps_run_out(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = torch.Generator().manual_seed(0)
    H = (4 * torch.randn(3, 5, 5, dtype=torch.float64, generator=generator)).softmax(-1)
    monkeypatch.setattr(static_scores, "MOST_STEPS", 1)
    found = fit_static_scores(H)
    # At the scores that are returned, by hand.
    apart = (found.matrix.softmax(-1) - H).sum(0)
    by_offset = [apart.diagonal(offset).sum() for offset in range(-4, 5)]
    gap = max(apart.sum(0).abs().max(), torch.stack(by_offset).abs().max()) / H.sum()
    torch.testing.assert_close(found.gap, gap)
    assert found.gap > 1e-4
