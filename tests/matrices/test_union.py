"""The union of the three families, and rows of stochastic fits, against enumeration and loops."""

import math
from collections.abc import Callable
from functools import cache, partial
from itertools import combinations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import corrected, matrices, structured
from weight_matrices import matrix, weight_matrices

from attnlab.matrices.bands import Band, fit_band
from attnlab.matrices.column import fit_column
from attnlab.matrices.diagonal import Diagonal, fit_diagonal
from attnlab.matrices.fit import Fit, Parameters
from attnlab.matrices.rare_columns import RareColumns, fit_rare_columns
from attnlab.matrices.sigma_sets import Union, fit_sigma

pytestmark = pytest.mark.grid

REACH = 2
WINDOW = (1, 2)
FITS: dict[str, Callable[..., Fit]] = {
    "diagonal": partial(fit_diagonal, window=REACH),
    "band": partial(fit_band, window=REACH),
    "dropped band": partial(fit_band, window=REACH, dropout=0.6),
    "rare columns": partial(fit_rare_columns, window=REACH, num_pos=2),
    "column": fit_column,
    "union": partial(fit_sigma, window=REACH, num_pos=2, equal_budget=True),
}
Rows = tuple[tuple[float, ...], ...]


@cache
def stochastic_row(row: tuple[float, ...], support: tuple[int, ...], bound: float) -> list[float]:
    return corrected.stochastic_row_by_count(list(row), list(support), bound)


def nearest_stochastic(H: Rows, keep: int, nonzeros: int, bound: float) -> float:
    """Over every choice of entries of the band with one or more in each of its rows."""
    n = len(H)
    best = math.inf
    for chosen in combinations(matrices.band(n, n, *WINDOW), keep):
        rows = [tuple(j for i, j in chosen if i == row) for row in range(n)]
        if all(rows):
            losses = [stochastic_row(h, s, bound) for h, s in zip(H, rows, strict=True)]
            best = min(best, corrected.shared(losses, nonzeros))
    return best


@pytest.mark.parametrize("values", ["binary", "free", "stochastic"])
@pytest.mark.parametrize("equal_budget", [False, True])
@pytest.mark.parametrize(("nonzeros", "bound"), [(0, math.inf), (1, 0.3), (3, 0.2), (2, 2.0)])
def test_no_member_of_the_three_families_is_nearer(
    values: str, equal_budget: bool, nonzeros: int, bound: float
) -> None:
    n = 3
    for seed in range(8):
        H = matrix(n, n, seed, ("softmax", "ties", "one_hot", "dropped"))
        if seed >= 4:  # a block of two rows, or a shifted diagonal
            planted = [0, 0, 2] if seed % 2 else [1, 2, 2]
            H = 0.2 * H + 0.8 * torch.eye(n, dtype=H.dtype)[planted]
        rows = H.tolist()
        band = matrices.band(n, n, *WINDOW)
        keep = n if equal_budget else len(band)
        if values == "stochastic":
            syntactic = nearest_stochastic(tuple(map(tuple, rows)), keep, nonzeros, bound)
        else:
            syntactic = corrected.kept_entries(rows, band, keep, values, nonzeros, bound)
        shifted = structured.diagonals(n, n, *WINDOW)
        blocks = structured.rare_columns(n, n, [2], 2)
        every = [
            corrected.columns(rows, shifted, values, nonzeros, bound),
            corrected.columns(rows, blocks, values, nonzeros, bound),
            syntactic,
        ]
        best = min(every)
        error = {"error_nnz": nonzeros, "error_bound": bound}
        fit = fit_sigma(
            H, window=WINDOW, num_pos=2, values=values, equal_budget=equal_budget, **error
        )
        assert float(fit.l1) >= best - 1e-8
        assert float(fit.lower_bound) <= best + 1e-8
        assert float(fit.l1) == pytest.approx(matrices.l1(rows, fit.approximation.tolist()))
        if bool(fit.exact):
            assert float(fit.l1) == pytest.approx(best, abs=1e-8)
            assert every[int(fit.parameters.chosen)] == pytest.approx(best, abs=1e-8)


def supported_rows(parameters: Parameters, queries: int, keys: int) -> list[bool]:
    """Which rows of one matrix have an entry, by what the families are said to be."""
    match parameters:
        case Diagonal():
            return [0 <= i + int(parameters.offset) < keys for i in range(queries)]
        case Band():
            return [i - REACH < keys for i in range(queries)]
        case RareColumns():
            inside = set()
            for used, start, rows, column in zip(
                *(
                    getattr(parameters, name).tolist()
                    for name in ("used", "start", "rows", "column")
                ),
                strict=True,
            ):
                assert not used or column < keys
                inside |= set(range(start, start + rows)) if used else set()
            return [i < keys or i in inside for i in range(queries)]
        case Union():
            return supported_rows(parameters.members[int(parameters.chosen)], queries, keys)
        case _:
            return [True] * queries


@given(H=weight_matrices(), name=st.sampled_from(sorted(FITS)), nonzeros=st.integers(0, 3))
@settings(max_examples=120, deadline=None, derandomize=True)
def test_stochastic_rows_sum_to_one_whether_or_not_they_have_mass(
    H: torch.Tensor, name: str, nonzeros: int
) -> None:
    fit = FITS[name](H, values="stochastic", error_nnz=nonzeros, error_bound=0.5)
    supported = supported_rows(fit.parameters, *H.shape)
    assert fit.structure.sum(-1).tolist() == pytest.approx(list(map(float, supported)), abs=1e-12)
    if nonzeros:
        assert fit.kl is None
        return
    rows = [row for row, inside in zip(H.tolist(), supported, strict=True) if inside]
    X = [row for row, inside in zip(fit.structure.tolist(), supported, strict=True) if inside]
    assert float(fit.kl) == pytest.approx(matrices.kl(rows, X), abs=1e-12)


@pytest.mark.parametrize("name", ["diagonal", "union"])
def test_rows_without_a_key_do_not_count_in_the_divergence(name: str) -> None:
    H = torch.zeros(2, 6, 6, dtype=torch.float64)
    H[:, :4] = 0.5 * torch.eye(6, dtype=H.dtype)[1:5]
    sizes = torch.tensor([[5, 5], [6, 6]])
    fit = FITS[name](H, values="stochastic", sizes=sizes)
    if name == "diagonal":
        assert fit.parameters.offset.tolist() == [1, 1]
    # 4 of 5 rows have a key one to the right, and 5 of 6, the last of which is without mass.
    assert fit.kl[0].tolist() == pytest.approx(0.5 * math.log(0.5))
    assert fit.kl[1].tolist() == pytest.approx(0.5 * math.log(0.5) * 4 / 5)
