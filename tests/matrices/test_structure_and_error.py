"""P and E are optimal together: brute force over what E may touch and over the members of each family."""

import itertools
import math
from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import corrected as oracle
from oracles import matrices, structured
from weight_matrices import matrix

from attnlab.matrices.bands import fit_band
from attnlab.matrices.column import fit_column, fit_column_band
from attnlab.matrices.diagonal import fit_diagonal
from attnlab.matrices.priced import Task, corrected, fill_columns, priced, priced_total
from attnlab.matrices.rare_columns import BlockSpace, NearDiagonal, _placed, fit_rare_columns
from attnlab.matrices.residual import SparseError
from attnlab.matrices.stochastic import fit_stochastic_rows

BOUNDS = [0.05, 0.3, 0.5, 2.0, math.inf]
SHAPES = [(1, 3), (2, 3), (3, 3), (3, 2), (2, 4)]


def left(H: torch.Tensor, P: torch.Tensor, E: torch.Tensor) -> float:
    return float((H - P - E).abs().sum())


def test_corrections_make_up_for_missing_and_for_surplus_mass() -> None:
    H = torch.tensor([[0.4, 0.3, 0.3]], dtype=torch.float64)
    fit = fit_band(H, window=(0, 1), values="stochastic", error_nnz=2, error_bound=0.5)
    assert float(fit.l1) == pytest.approx(0, abs=1e-12)
    assert float(fit.structure.sum()) == pytest.approx(1, abs=1e-12)
    assert bool(fit.exact)


@given(
    shape=st.sampled_from(SHAPES),
    seed=st.integers(0, 10**6),
    nonzeros=st.integers(0, 4),
    bound=st.sampled_from(BOUNDS),
)
@settings(max_examples=15, deadline=None, derandomize=True)
def test_no_rows_on_a_support_are_nearer_with_any_error(
    shape: tuple[int, int], seed: int, nonzeros: int, bound: float
) -> None:
    H = matrix(*shape, seed)
    support = torch.rand(shape, generator=torch.Generator().manual_seed(seed)) > 0.45
    P, E = fit_stochastic_rows(H, support, nonzeros, bound)
    rows = [[j for j in range(shape[1]) if inside[j]] for inside in support.tolist()]
    expected = oracle.stochastic(H.tolist(), rows, nonzeros, bound)
    assert left(H, P, E) == pytest.approx(expected, abs=1e-8)
    assert bool((P >= 0).all())
    assert not bool(P[~support].any())
    torch.testing.assert_close(P.sum(-1), support.any(-1).double(), rtol=0, atol=1e-12)
    assert int((E != 0).sum()) <= nonzeros
    assert float(E.abs().max()) <= bound


@given(
    shape=st.tuples(st.integers(1, 8), st.integers(1, 8)),
    seed=st.integers(0, 10**6),
    nonzeros=st.integers(0, 20),
    bound=st.sampled_from(BOUNDS),
)
@settings(max_examples=40, deadline=None, derandomize=True)
def test_batched_form_is_as_near_as_the_plain_one(
    shape: tuple[int, int], seed: int, nonzeros: int, bound: float
) -> None:
    H = torch.stack([matrix(*shape, seed + i) for i in range(3)])
    support = torch.rand(H.shape, generator=torch.Generator().manual_seed(seed)) > 0.4
    P, E = fit_stochastic_rows(H, support, nonzeros, bound)
    for b in range(3):
        plain = structured.stochastic_rows(H[b].tolist(), support[b].tolist(), nonzeros, bound)
        structure, error = (torch.tensor(part, dtype=H.dtype) for part in plain)
        assert left(H[b], P[b], E[b]) == pytest.approx(left(H[b], structure, error), abs=1e-12)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("window", [(0, 1), (1, 1), (1, 0)])
def test_no_stochastic_band_is_nearer_with_any_error(window: tuple[int, int], seed: int) -> None:
    shape, bound = SHAPES[seed % len(SHAPES)], BOUNDS[seed % len(BOUNDS)]
    H = matrix(*shape, seed)
    band = matrices.band(*shape, *window)
    rows = [[j for i, j in band if i == row] for row in range(shape[0])]
    nonzeros = seed % 4
    expected = oracle.stochastic(H.tolist(), rows, nonzeros, bound)
    fit = fit_band(H, window=window, values="stochastic", error_nnz=nonzeros, error_bound=bound)
    assert float(fit.l1) == pytest.approx(expected, abs=1e-8)
    assert bool(fit.exact)


@given(
    shape=st.tuples(st.integers(1, 6), st.integers(1, 6)),
    seed=st.integers(0, 10**6),
    nonzeros=st.integers(0, 8),
    bound=st.sampled_from(BOUNDS),
    values=st.sampled_from(["binary", "free", "stochastic"]),
    causal=st.booleans(),
)
@settings(max_examples=60, deadline=None, derandomize=True)
def test_no_diagonal_column_or_blocks_are_nearer_with_any_error(
    shape: tuple[int, int], seed: int, nonzeros: int, bound: float, values: str, causal: bool
) -> None:
    H = matrix(*shape, seed)
    error = {"values": values, "error_nnz": nonzeros, "error_bound": bound, "causal": causal}

    def expected(members) -> float:
        return oracle.columns(H.tolist(), members, values, nonzeros, bound)

    diagonal = fit_diagonal(H, window=3, **error)
    members = structured.diagonals(*shape, 3, 0 if causal else 3)
    assert float(diagonal.l1) == pytest.approx(expected(members), abs=1e-10)
    column = fit_column(H, **error)
    assert float(column.l1) == pytest.approx(
        expected(structured.single_columns(*shape, causal=causal)), abs=1e-10
    )
    assert bool(diagonal.exact)
    assert bool(column.exact)
    height = min(2, shape[0])
    best = expected(structured.rare_columns(*shape, [height], 2, first=causal))
    blocks = fit_rare_columns(H, window=2, num_pos=2, **error)
    assert float(blocks.l1) >= best - 1e-10
    assert float(blocks.lower_bound) <= best + 1e-10
    if bool(blocks.exact):
        assert float(blocks.l1) == pytest.approx(best, abs=1e-10)


@given(
    shape=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    window=st.sampled_from([(0, 0), (1, 0), (0, 1), (1, 1)]),
    seed=st.integers(0, 10**6),
    nonzeros=st.integers(0, 3),
    bound=st.sampled_from(BOUNDS),
    values=st.sampled_from(["binary", "free", "stochastic"]),
    causal=st.booleans(),
)
@settings(max_examples=25, deadline=None, derandomize=True)
def test_no_column_beside_a_band_is_nearer_with_any_error(
    shape: tuple[int, int],
    window: tuple[int, int],
    seed: int,
    nonzeros: int,
    bound: float,
    values: str,
    causal: bool,
) -> None:
    H = matrix(*shape, seed)
    error = {"error_nnz": nonzeros, "error_bound": bound}
    fit = fit_column_band(H, window=window, values=values, causal=causal, **error)
    best = oracle.column_band(H.tolist(), window, values, nonzeros, bound, causal=causal)
    assert float(fit.l1) == pytest.approx(best, abs=1e-8)
    assert left(H, fit.structure, fit.error) == pytest.approx(best, abs=1e-8)
    assert bool(fit.exact)


@pytest.mark.parametrize("values", ["binary", "free", "stochastic"])
@pytest.mark.parametrize("shape", [(2, 5), (5, 2), (4, 4)])
def test_matrices_of_a_batch_with_an_error_are_fitted_each_as_if_alone(
    shape: tuple[int, int], values: str
) -> None:
    H = torch.stack([matrix(*shape, seed) for seed in range(6)])
    for nonzeros, bound in zip((0, 1, 3, 1, 3), BOUNDS, strict=True):
        error = {"values": values, "error_nnz": nonzeros, "error_bound": bound}
        for fit in (partial(fit_column, **error), partial(fit_diagonal, window=1, **error)):
            together = fit(H)
            for index, one in enumerate(H):
                alone = fit(one)
                assert float(together.l1[index]) == pytest.approx(float(alone.l1), abs=1e-12)
                parts = together.structure[index], together.error[index]
                assert left(one, *parts) == pytest.approx(float(alone.l1), abs=1e-12)


def entries_below_two_thirds_or_above(seed: int) -> torch.Tensor:
    H = matrix(3, 3, seed)
    return H if seed % 2 else H * 1.5


@pytest.mark.parametrize("values", ["binary", "free"])
@pytest.mark.parametrize("seed", range(10))
def test_no_choice_of_band_entries_is_nearer_with_any_error(seed: int, values: str) -> None:
    H = entries_below_two_thirds_or_above(seed)
    positions = matrices.band(3, 3, 1, 1)
    for keep in (1, 3, 5):
        for nonzeros, bound in [(1, 0.1), (2, 0.5), (3, 1.0), (2, math.inf)]:
            best = oracle.kept_entries(H.tolist(), positions, keep, values, nonzeros, bound)
            fit = fit_band(
                H, window=1, values=values, keep=keep, error_nnz=nonzeros, error_bound=bound
            )
            assert float(fit.lower_bound) <= best + 1e-10
            assert float(fit.l1) >= best - 1e-10
            if values == "free" or bound <= 1 or float(H.max()) <= 1:
                assert bool(fit.exact)
            if bool(fit.exact):
                assert float(fit.l1) == pytest.approx(best, abs=1e-10)
            # A smaller bound would be one too, and say less.
            free = fit_band(H, window=1, keep=keep, error_nnz=nonzeros, error_bound=bound)
            assert float(fit.lower_bound) >= float(free.l1) - 1e-10


@pytest.mark.grid
@pytest.mark.parametrize(("nonzeros", "bound"), [(1, 0.1), (2, math.inf)])
@pytest.mark.parametrize("seed", range(3))
def test_no_choice_of_stochastic_band_entries_is_below_the_bound(
    seed: int, nonzeros: int, bound: float
) -> None:
    H = matrix(3, 3, seed)
    error = {"window": 1, "error_nnz": nonzeros, "error_bound": bound}
    fit = fit_band(H, values="stochastic", keep=4, **error)
    choices = itertools.combinations(matrices.band(3, 3, 1, 1), 4)
    supports = ([[j for i, j in chosen if i == row] for row in range(3)] for chosen in choices)
    best = min(
        oracle.stochastic(H.tolist(), rows, nonzeros, bound) for rows in supports if all(rows)
    )
    assert float(fit.l1) >= best - 1e-8
    assert float(fit.lower_bound) <= best + 1e-8
    for nearer in (
        fit_band(H, values="free", keep=4, **error),
        fit_band(H, values="stochastic", **error),
    ):
        assert float(fit.lower_bound) >= float(nearer.l1) - 1e-10


@pytest.mark.parametrize("values", ["binary", "free"])
@pytest.mark.parametrize("shape", [(6, 6), (5, 7), (7, 5)])
@pytest.mark.parametrize("causal", [False, True])
def test_at_a_price_blocks_gain_what_their_matrix_costs_less(
    shape: tuple[int, int], values: str, causal: bool
) -> None:
    for seed in range(8):
        H = matrix(*shape, seed)
        task = Task(H, values, SparseError(3, 0.5))
        space = BlockSpace([2], 1 if causal else 2, 2, None, causal=causal)
        near = NearDiagonal.of(H, space)
        best = _placed(task, space, near, None)
        price = corrected(task, best.column, best.allowed).price
        blocks = _placed(task, space, near, price)
        filled = fill_columns(H, blocks.column, blocks.allowed, values)
        cost = priced((H - filled).abs(), 0.5, price).sum() - 3 * price
        bound = priced_total(task, price) - blocks.gained
        assert float(bound) == pytest.approx(float(cost), abs=1e-12)
