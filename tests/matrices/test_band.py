import math
from itertools import combinations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import matrices as oracle
from oracles.structured import best_binary_by_count, nearest_stochastic_row
from weight_matrices import attention, weight_matrices

from attnlab.core.errors import InputError
from attnlab.matrices.bands import fit_band, project_band
from attnlab.matrices.offsets import (
    band_entries,
    mass_beyond_windows,
    mass_by_offset,
    matrix_from_band,
    mean_weight_by_offset,
)
from attnlab.matrices.references import matrix_from_offsets, uniform_matrix
from attnlab.matrices.supports import band_dimension, band_support, check_values

SHAPES = [(1, 1), (5, 5), (5, 7), (7, 3)]
WINDOWS = [(0, 0), (1, 1), (2, 0), (0, 1), (3, 9)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("window", WINDOWS)
def test_support_and_dimension_are_those_of_the_loop(
    shape: tuple[int, int], window: tuple[int, int]
) -> None:
    expected = oracle.band(*shape, *window)
    assert band_support(*shape, window).nonzero().tolist() == [list(pair) for pair in expected]
    assert int(band_dimension(torch.tensor(shape), window)) == len(expected)
    causal = [pair for pair in expected if pair[1] <= pair[0]]
    assert int(band_dimension(torch.tensor(shape), window, causal=True)) == len(causal)


@pytest.mark.parametrize("n", [1, 2, 5, 16])
def test_closed_form_of_the_dimension(n: int) -> None:
    for w in range(n):
        assert int(band_dimension(torch.tensor([n, n]), w)) == (w + 1) * (2 * n - w) - n


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("window", WINDOWS)
def test_projection_keeps_the_band(shape: tuple[int, int], window: tuple[int, int]) -> None:
    H = attention(2, *shape)
    P = project_band(H, window)
    torch.testing.assert_close(P, H * band_support(*shape, window), rtol=0, atol=0)
    torch.testing.assert_close(project_band(P, window), P, rtol=0, atol=0)
    entries = band_entries(H, window)
    torch.testing.assert_close(matrix_from_band(entries, shape[1], window), P, rtol=0, atol=0)


@pytest.mark.parametrize("shape", SHAPES)
def test_mass_by_offset_is_that_of_the_loop(shape: tuple[int, int]) -> None:
    H = attention(2, *shape)
    mass = mass_by_offset(H)
    expected = [
        [oracle.mass_at_offset(h.tolist(), d) for d in range(1 - shape[0], shape[1])] for h in H
    ]
    torch.testing.assert_close(mass, torch.tensor(expected, dtype=H.dtype), rtol=0, atol=1e-13)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_mass_beyond_windows_is_the_distance_of_each_band(
    shape: tuple[int, int], causal: bool
) -> None:
    H = attention(2, *shape)
    curve = mass_beyond_windows(H, 8, causal=causal)
    for w in range(9):
        fit = fit_band(H, window=w, causal=causal)
        torch.testing.assert_close(curve[:, w], fit.l1, rtol=0, atol=1e-12)
        direct = oracle.l1(H[1].tolist(), project_band(H, w, causal=causal)[1].tolist())
        assert float(fit.l1[1]) == pytest.approx(direct, abs=1e-12)
    assert bool((curve.diff(dim=-1) <= 0).all())


def test_mean_by_offset_weights_every_entry_equally() -> None:
    sizes = torch.tensor([[5, 5], [3, 3]])
    H = attention(2, 5, 5)
    profile = mean_weight_by_offset(H, sizes)
    parts = [H[0], H[1, :3, :3]]
    for d in range(-4, 5):
        diagonal = torch.cat([part.diagonal(d) for part in parts if abs(d) < len(part)])
        assert float(profile[d + 4]) == pytest.approx(float(diagonal.mean()), abs=1e-12)
    matrix = matrix_from_offsets(profile, 5, 5)
    assert float(matrix[1, 3]) == float(profile[2 + 4])


def test_uniform_rows_sum_to_one_over_the_real_keys() -> None:
    sizes = torch.tensor([[5, 7], [2, 3]])
    uniform = uniform_matrix(attention(2, 5, 7), sizes)
    assert uniform[1, 0].tolist() == pytest.approx([1 / 3] * 3 + [0] * 4)
    assert float(uniform.sum()) == pytest.approx(7)
    causal = uniform_matrix(attention(4, 4), causal=True)
    assert causal[2].tolist() == pytest.approx([1 / 3] * 3 + [0])


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 6])
def test_no_binary_member_is_nearer(n: int) -> None:
    H = attention(n, n, seed=n)
    for w in range(n):
        for reach in {(w, w), (w, 0), (0, w)}:
            best = best_binary_by_count(H.tolist(), oracle.band(n, n, *reach))
            for keep, expected in enumerate(best):
                fit = fit_band(H, window=reach, values="binary", keep=keep)
                assert float(fit.l1) == pytest.approx(expected, abs=1e-9)
                assert int(fit.budget) == int(fit.structure.sum()) == keep


@pytest.mark.parametrize("dropout", [0.0, 0.3, 0.5, 0.7, 1.0])
@pytest.mark.parametrize("window", [0, 1, (0, 2)])
def test_no_free_choice_of_entries_is_nearer(window: int | tuple[int, int], dropout: float) -> None:
    n = 4
    H = attention(n, n, seed=3)
    left, right = (window, window) if isinstance(window, int) else window
    positions = oracle.band(n, n, left, right)
    kept = math.ceil(round((1 - dropout) * len(positions), 9))
    best = min(
        sum(value for i, j, value in oracle.entries(H.tolist()) if (i, j) not in chosen)
        for chosen in map(set, combinations(positions, kept))
    )
    fit = fit_band(H, window=window, dropout=dropout)
    assert float(fit.l1) == pytest.approx(best, abs=1e-9)
    assert int(fit.budget) == kept
    assert float(fit.l1) == pytest.approx(float((H - fit.approximation).abs().sum()), abs=1e-12)


def test_error_and_band_are_optimal_together() -> None:
    H = attention(3, 3, seed=2)
    entries = list(oracle.entries(H.tolist()))
    band = oracle.band(3, 3, 1, 1)
    positions = [(i, j) for i, j, _ in entries]
    best = min(
        sum(
            0.0 if (i, j) in kept else max(h - 0.1, 0.0) if (i, j) in mended else h
            for i, j, h in entries
        )
        for kept in map(set, combinations(band, 4))
        for mended in map(set, combinations(positions, 2))
    )
    fit = fit_band(H, window=1, keep=4, error_nnz=2, error_bound=0.1)
    assert float(fit.l1) == pytest.approx(best, abs=1e-9)


@given(
    H=weight_matrices(),
    window=st.tuples(st.integers(0, 3), st.integers(0, 3)),
    dropout=st.sampled_from([0.0, 0.3, 0.7, 1.0]),
)
@settings(max_examples=80, deadline=None, derandomize=True)
def test_bands_of_ties_zeros_and_empty_rows_are_as_near_as_any(
    H: torch.Tensor, window: tuple[int, int], dropout: float
) -> None:
    inside = [H[i, j].item() for i, j in oracle.band(*H.shape, *window)]
    kept = math.ceil(round((1 - dropout) * len(inside), 9))
    fit = fit_band(H, window=window, dropout=dropout)
    best = float(H.sum()) - sum(sorted(inside, reverse=True)[:kept])
    assert float(fit.l1) == pytest.approx(best, abs=1e-12)
    assert int(fit.budget) == kept
    stochastic = fit_band(H, window=window, values="stochastic")
    rows = [[j for i, j in oracle.band(*H.shape, *window) if i == row] for row in range(len(H))]
    nearest = sum(map(nearest_stochastic_row, H.tolist(), rows))
    assert float(stochastic.l1) == pytest.approx(nearest, abs=1e-9)


@pytest.mark.parametrize("scale", [1.0, 0.6, 1.2])
def test_stochastic_rows_are_as_near_as_linear_programming_gets(scale: float) -> None:
    H = attention(5, 6) * scale
    fit = fit_band(H, window=(1, 2), values="stochastic")
    expected = sum(
        nearest_stochastic_row(row, [j for j in range(6) if -1 <= j - i <= 2])
        for i, row in enumerate(H.tolist())
    )
    assert float(fit.l1) == pytest.approx(expected, abs=1e-9)
    torch.testing.assert_close(fit.structure.sum(-1), torch.ones(5, dtype=H.dtype))


@pytest.mark.parametrize("scale", [1.0, 0.6, 1.2])
@pytest.mark.parametrize("keep", [3, 4, 5, 6])
def test_no_stochastic_choice_of_entries_is_nearer(keep: int, scale: float) -> None:
    H = attention(3, 3, seed=5) * scale
    positions = oracle.band(3, 3, 1, 1)
    best = math.inf
    for chosen in combinations(positions, keep):
        rows = [[j for i, j in chosen if i == row] for row in range(3)]
        if all(rows):
            distances = map(nearest_stochastic_row, H.tolist(), rows)
            best = min(best, sum(distances))
    fit = fit_band(H, window=1, values="stochastic", keep=keep)
    assert float(fit.l1) == pytest.approx(best, abs=1e-9)


def test_restricted_softmax_is_the_renormalised_matrix() -> None:
    generator = torch.Generator().manual_seed(1)
    scores = torch.randn(3, 7, 7, generator=generator, dtype=torch.float64)
    support = band_support(7, 7, 2)
    fit = fit_band(scores.softmax(-1), window=2, values="stochastic")
    masked = scores.masked_fill(~support, -math.inf).softmax(-1)
    torch.testing.assert_close(fit.approximation, masked, rtol=0, atol=1e-12)
    beyond = mass_beyond_windows(scores.softmax(-1), 2)[:, 2]
    torch.testing.assert_close(fit.l1, 2 * beyond, rtol=0, atol=1e-12)


@pytest.mark.parametrize("values", ["binary", "free", "stochastic"])
@pytest.mark.parametrize("dropout", [0.0, 0.4])
def test_padded_equals_unpadded(values: str, dropout: float) -> None:
    sizes = torch.tensor([[7, 5], [3, 2], [4, 5]])
    H = attention(3, 7, 5)
    options = {"window": 1, "values": values, "dropout": dropout, "error_nnz": 3}
    fit = fit_band(H, **options, sizes=sizes)
    for b, (q, k) in enumerate(sizes.tolist()):
        alone = fit_band(H[b, :q, :k], **options)
        torch.testing.assert_close(fit.approximation[b, :q, :k], alone.approximation)
        assert float(fit.approximation[b].abs().sum()) == pytest.approx(
            float(alone.approximation.abs().sum())
        )
        for name in ("l1", "mean_error", "relative", "frobenius", "budget"):
            torch.testing.assert_close(getattr(fit, name)[b], getattr(alone, name))


def test_thesis_heads(shared_data) -> None:
    numpy = pytest.importorskip("numpy")
    file = numpy.load(shared_data / "thesis" / "heads.npz", allow_pickle=False)
    H = torch.from_numpy(file["heads"]).double()
    expected = [2.40, 2.23, 7.44, 6.06, 2.48, 1.15, 2.86, 4.57]
    assert fit_band(H, window=3).l1.tolist() == pytest.approx(expected, abs=0.005)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"window": -1}, "from 0 up, not -1"),
        ({"window": (1, 2, 3)}, "pair"),
        ({"window": True}, "whole number"),
        ({"window": 1, "dropout": 1.5}, "between 0 and 1, not 1.5"),
        ({"window": 1, "dropout": math.nan}, "between 0 and 1"),
        ({"window": 1, "keep": -1}, "0 or more"),
        ({"window": 1, "error_nnz": -1}, "0 or more"),
        ({"window": 1, "error_nnz": 1, "error_bound": math.nan}, "0 or more, not nan"),
    ],
)
def test_bad_options_are_refused(options: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        fit_band(attention(4, 4), **options)


def test_unknown_values_are_refused() -> None:
    with pytest.raises(InputError, match="choose from: binary, free, stochastic"):
        check_values("fre")


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("causal", [False, True])
def test_windows_wider_than_the_matrix_leave_what_the_widest_leaves(
    shape: tuple[int, int], causal: bool
) -> None:
    H = attention(2, *shape)
    curve = mass_beyond_windows(H, 40, causal=causal)
    for w in range(41):
        beyond = (H - project_band(H, w, causal=causal)).sum((-2, -1))
        torch.testing.assert_close(curve[:, w], beyond, rtol=0, atol=1e-13)
