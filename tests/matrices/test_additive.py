"""Band + columns + E under one budget: brute force over every split, and what must hold of it."""

import math
from functools import partial
from itertools import pairwise, product
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import structured as oracle
from weight_matrices import attention

from attnlab.core.errors import InputError
from attnlab.matrices import additive
from attnlab.matrices import batched as in_pieces
from attnlab.matrices.additive import fit_additive
from attnlab.matrices.references import top_entries

SMALL = [(1, 1), (3, 3), (2, 4), (4, 2)]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("shape", SMALL)
def test_no_split_is_nearer(shape: tuple[int, int], causal: bool) -> None:
    """Against every band, every set of columns and every set of corrected entries."""
    for seed, (error_nnz, bound), num_pos in product(range(2), [(0, 1.0), (2, 0.2)], range(3)):
        H = attention(*shape, seed=seed)
        H = H.tril() if causal and seed else H
        distances = oracle.additive_distances(
            H.tolist(), (2, 1), num_pos, error_nnz, bound, causal=causal
        )
        options = {
            "window": (2, 1),
            "num_pos": num_pos,
            "causal": causal,
            "error_nnz": error_nnz,
            "error_bound": bound,
        }
        budget = torch.arange(len(distances))
        fit = fit_additive(H.expand(len(budget), *shape), budget=budget, **options)
        assert fit.l1.tolist() == pytest.approx(distances, abs=1e-9)
        assert (H - fit.approximation).abs().sum((-2, -1)).tolist() == pytest.approx(distances)
        assert bool((fit.budget <= budget).all())
        for number in range(0, len(distances), 3):
            plain = oracle.additive_distance(
                H.tolist(), (2, 1), num_pos, number, error_nnz, bound, causal=causal
            )
            assert plain == pytest.approx(distances[number], abs=1e-9)


@given(
    shape=st.tuples(st.integers(1, 8), st.integers(1, 8)),
    kind=st.sampled_from(["attention", "peaks", "few values", "zeros"]),
    seed=st.integers(0, 10**6),
    causal=st.booleans(),
    num_pos=st.integers(0, 3),
    window=st.tuples(st.integers(0, 3), st.integers(0, 3)),
    error_nnz=st.integers(0, 12),
    error_bound=st.sampled_from([0.0, 0.05, 0.3, math.inf]),
    budget=st.integers(0, 64),
)
@settings(max_examples=60, deadline=None, derandomize=True)
def test_fast_equals_the_definition(shape, kind, seed, causal, **options) -> None:
    H = {
        "attention": lambda: attention(3, *shape, seed=seed),
        # One large entry beside much that is small: the best columns are not those of most mass.
        "peaks": lambda: attention(3, *shape, seed=seed) ** 3,
        "few values": lambda: attention(3, *shape, seed=seed).mul(4).round().div(4),
        "zeros": lambda: torch.zeros(3, *shape, dtype=torch.float64),
    }[kind]()
    fit = fit_additive(H, causal=causal, **options)
    sizes = [options[name] for name in ("window", "num_pos", "budget", "error_nnz", "error_bound")]
    expected = [oracle.additive_distance(one, *sizes, causal=causal) for one in H.tolist()]
    assert fit.l1.tolist() == pytest.approx(expected, abs=1e-9)
    torch.testing.assert_close(fit.l1, (H - fit.approximation).abs().sum((-2, -1)))
    assert bool((fit.budget <= options["budget"]).all())
    assert bool(((fit.approximation != 0).sum((-2, -1)) <= fit.budget).all())
    assert bool(((fit.error != 0).sum((-2, -1)) <= options["error_nnz"]).all())
    assert float(fit.error.abs().max()) <= options["error_bound"]
    if causal:
        assert not bool(fit.structure.triu(1).any())
    for one, budget, l1 in zip(H, fit.budget.tolist(), fit.l1.tolist(), strict=True):
        assert l1 >= float((one - top_entries(one, budget)).sum()) - 1e-12


def test_the_columns_of_most_mass_are_not_always_the_best() -> None:
    """E serves the column of one large entry, a column serves the one of many small ones."""
    H = torch.full((5, 5), 0.01, dtype=torch.float64)
    H[0, 1], H[:, 3] = 0.9, 0.16
    fit = fit_additive(H, window=0, num_pos=1, budget=6, error_nnz=1)
    assert float(H[:, 1].sum()) > float(H[:, 3].sum())
    assert fit.parameters.column.tolist() == [3]
    assert float(fit.l1) == pytest.approx(float(H.sum()) - 0.9 - 5 * 0.16)


def test_the_error_may_correct_what_a_causal_column_does_not_hold() -> None:
    """Row 0 does not see column 2, so E serves it although the column is chosen."""
    H = torch.zeros(4, 4, dtype=torch.float64)
    H[1:, 1], H[2:, 2], H[0, 2] = 0.25, 0.45, 0.9
    fit = fit_additive(H, window=0, num_pos=1, budget=4, causal=True, error_nnz=1)
    assert fit.parameters.column.tolist() == [2]
    assert fit.error.nonzero().tolist() == [[0, 2]]
    assert float(fit.l1) == pytest.approx(3 * 0.25)


def test_without_bounds_the_error_takes_the_whole_budget() -> None:
    """The largest entries are the best support of any size, so E has to be limited to say anything."""
    H = attention(4, 7, 7)
    fit = fit_additive(H, window=2, num_pos=2, budget=14, error_nnz=14)
    torch.testing.assert_close(fit.l1, (H - top_entries(H, 14)).sum((-2, -1)))


def test_what_was_planted_is_found() -> None:
    for causal, keys in [(False, 11), (True, 11), (False, 7)]:
        H = torch.full((11, keys), 0.001, dtype=torch.float64)
        H = H + 0.3 * torch.eye(11, keys, dtype=torch.float64)
        H[1:] += 0.3 * torch.eye(11, keys, dtype=torch.float64)[:-1]
        H[:, [0, 5]] += 0.2
        H[10, 3] += 0.4
        H = H.tril() if causal else H
        budget = int((H > 0.01).sum())
        fit = fit_additive(
            H, window=3, num_pos=3, budget=budget, causal=causal, error_nnz=1, error_bound=0.5
        )
        found = fit.parameters
        assert bool(found.banded)
        assert (int(found.left), int(found.right)) == (1, 0)
        assert sorted(found.column[found.used].tolist()) == [0, 5]
        assert fit.error.nonzero().tolist() == [[10, 3]]


def test_a_larger_allowance_is_never_worse() -> None:
    H = attention(6, 9, 7)
    plain = partial(fit_additive, H)
    for series in (
        [
            plain(window=2, num_pos=2, budget=b, error_nnz=5, error_bound=0.1)
            for b in range(0, 63, 6)
        ],
        [plain(window=2, num_pos=k, budget=25, error_nnz=5, error_bound=0.1) for k in range(4)],
        [plain(window=w, num_pos=1, budget=40, error_nnz=5, error_bound=0.1) for w in range(5)],
        [plain(window=2, num_pos=1, budget=25, error_nnz=s, error_bound=0.1) for s in range(9)],
    ):
        assert all(bool((b.l1 <= a.l1 + 1e-12).all()) for a, b in pairwise(series))


def test_padding_never_counts() -> None:
    sizes = torch.tensor([[9, 7], [5, 5], [2, 3], [7, 2], [1, 1], [0, 0]])
    H = attention(6, 9, 7)
    for filling in (math.nan, math.inf, 5.0):
        padded = torch.full_like(H, filling)
        for b, (q, k) in enumerate(sizes.tolist()):
            padded[b, :q, :k] = H[b, :q, :k]
        for causal in (False, True):
            budget = sizes[:, 0] * 2
            options = {"window": 2, "num_pos": 2, "causal": causal, "error_bound": 0.3}
            fit = fit_additive(padded, sizes=sizes, budget=budget, error_nnz=sizes[:, 0], **options)
            for b, (q, k) in enumerate(sizes.tolist()[:-1]):
                alone = fit_additive(H[b, :q, :k], budget=2 * q, error_nnz=q, **options)
                torch.testing.assert_close(fit.approximation[b, :q, :k], alone.approximation)
                assert float(fit.l1[b]) == pytest.approx(float(alone.l1))
                assert int(fit.budget[b]) == int(alone.budget)
                assert int(fit.approximation[b].count_nonzero()) == int(
                    alone.approximation.count_nonzero()
                )
            assert float(fit.l1[-1]) == float(fit.budget[-1]) == 0


@pytest.mark.parametrize("seed", range(6))
def test_bounds_are_never_below_what_sets_gain_and_meet_it_at_the_right_threshold(
    seed: int,
) -> None:
    """With the identity taken, 6 entries are left, so that each is a threshold."""
    H = attention(3, 3, 3, seed=seed)
    inside = torch.eye(3, dtype=torch.bool).expand(3, 3, 3)
    # One correction in all, and as many as the budget leaves beside a column (2 of 4 and 5).
    limits = additive.Limits(torch.tensor([6, 7, 8]), torch.tensor([1, 3, 4]), 0.3, num_pos=2)
    outside = additive.outside_of(H, inside, ~inside, ~inside, limits)
    weights, base = additive._bounds(outside, limits)
    for count in (1, 2):
        sets = torch.combinations(torch.arange(3), count).expand(3, -1, -1)
        gain = additive.gains(outside, limits, sets)
        summed = torch.stack([weights[..., chosen].sum(-1) for chosen in sets[0]], -1)
        bound = (summed + base[..., None]).amin(1)
        possible = gain > -math.inf
        assert bool((bound >= gain - 1e-12)[possible].all())
        # A set that leaves E a number of entries that are there: the bound is its gain.
        left = outside.room - 2 * count
        meets = (torch.minimum(limits.error_nnz, left) >= 1) & (left <= 6 - 2 * count)
        torch.testing.assert_close(bound[meets], gain[meets])
        assert count == 2 or int(meets.sum()) >= 2


def test_pieces_of_the_work_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    H = attention(3, 5, 7, 7)
    budget = torch.tensor([[14], [9], [20]])
    options = {"window": 2, "num_pos": 2, "budget": budget, "error_nnz": 5, "error_bound": 0.2}
    whole = fit_additive(H, **options)
    monkeypatch.setattr(in_pieces, "CPU_ENTRIES", 4 * 49)
    monkeypatch.setattr(additive, "_ROOM", 1)
    pieces = fit_additive(H, **options)
    for name in ("l1", "relative", "budget", "structure", "error"):
        torch.testing.assert_close(getattr(pieces, name), getattr(whole, name))
    assert torch.equal(pieces.parameters.column, whole.parameters.column)
    assert pieces.l1.shape == (3, 5)
    single = fit_additive(H.float(), **options)
    assert float((single.relative.double() - whole.relative).abs().max()) < 1e-5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"budget": -1}, "budget of band, columns and sparse error must be 0 or more"),
        ({"budget": torch.tensor([9, -1])}, "sparse error must be 0 or more"),
        ({"num_pos": -1}, "0 or more, not -1"),
        ({"window": -1}, "from 0 up, not -1"),
        ({"error_nnz": -1}, "0 or more"),
        ({"error_bound": -0.5}, "0 or more, not -0.5"),
    ],
)
def test_bad_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        fit_additive(
            attention(5, 5).expand(2, 5, 5), **({"window": 1, "num_pos": 1, "budget": 9} | options)
        )
