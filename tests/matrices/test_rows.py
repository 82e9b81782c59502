"""Fits of some rows of larger matrices, whose positions are given."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from oracles.structured import Columns, diagonals, nearest, single_columns
from torch import Tensor
from weight_matrices import matrix

from attnlab.matrices.bands import fit_band
from attnlab.matrices.batched import Sizes, rows_sum_to_one
from attnlab.matrices.column import fit_column
from attnlab.matrices.diagonal import fit_diagonal
from attnlab.matrices.families import CODED
from attnlab.matrices.fit import Fit
from attnlab.matrices.labels import label_heads
from attnlab.matrices.offsets import mass_beyond_windows

pytestmark = pytest.mark.grid

SHAPES = [(9, 9), (9, 5), (5, 9), (1, 6), (6, 1)]
FITS: dict[str, Callable[..., Fit]] = {
    "diagonal": lambda H, **options: fit_diagonal(H, window=(2, 3), **options),
    "band": lambda H, **options: fit_band(H, window=(2, 1), **options),
    "entries of a band": lambda H, **options: fit_band(H, window=(2, 1), dropout=0.6, **options),
    "wide band": lambda H, **options: fit_band(H, window=99, **options),
    "column": fit_column,
}


def batch(queries: int, keys: int, *, causal: bool = False) -> Tensor:
    """Six matrices without ties, so that no two choices are as near."""
    H = torch.stack([matrix(queries, keys, seed, ("softmax", "scaled_up")) for seed in range(6)])
    return H.tril() if causal else H


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("error", [{}, {"error_nnz": 3, "error_bound": 0.4}])
@pytest.mark.parametrize("values", ["free", "binary", "stochastic"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", FITS)
def test_all_rows_in_any_order_have_the_fit_of_the_matrix(
    name: str, shape: tuple[int, int], values: str, error: dict[str, Any], causal: bool
) -> None:
    H = batch(*shape, causal=causal)
    order = torch.randperm(shape[0], generator=torch.Generator().manual_seed(1))
    options = {"values": values, "causal": causal, **error}
    whole = FITS[name](H, **options)
    rows = FITS[name](H[:, order], positions=order, **options)
    for figure in ("l1", "lower_bound", "relative"):
        torch.testing.assert_close(getattr(rows, figure), getattr(whole, figure))
    assert rows.budget.tolist() == whole.budget.tolist()
    described = [[fit.parameters.described(at) for at in range(len(H))] for fit in (rows, whole)]
    assert described[0] == described[1]
    # With an error, and of entries that gain the same, other choices can be as near.
    if not error and name != "entries of a band":
        torch.testing.assert_close(rows.structure, whole.structure[:, order])


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_all_rows_in_any_order_have_the_bits_and_the_bands_of_the_matrix(
    shape: tuple[int, int], causal: bool
) -> None:
    H = batch(*shape, causal=causal)
    order = torch.randperm(shape[0], generator=torch.Generator().manual_seed(1))
    whole = label_heads(H[:, None], causal=causal)
    rows = label_heads(H[:, None, order], causal=causal, positions=order)
    for index, family in enumerate(CODED):
        expected = math.inf if family == "rare_columns" else whole.bits_per_row[:, index]
        torch.testing.assert_close(
            rows.bits_per_row[:, index], torch.as_tensor(expected).expand(len(H)).double()
        )
    torch.testing.assert_close(
        mass_beyond_windows(H[:, order], 12, causal=causal, positions=order),
        mass_beyond_windows(H, 12, causal=causal),
    )


def of_rows(at: list[int], members: Iterator[Columns]) -> Iterator[Columns]:
    """What members of the whole matrix are in these rows, where they have an entry there."""
    for member in members:
        part = tuple(member[i] for i in at)
        if any(key is not None for key in part):
            yield part


@pytest.mark.parametrize("at", [[7, 2, 3], [0], [8, 0, 5, 5]])
@pytest.mark.parametrize("shape", [(9, 9), (9, 5), (9, 14)])
@pytest.mark.parametrize("values", ["free", "binary"])
def test_of_given_rows_no_member_is_nearer(
    values: str, shape: tuple[int, int], at: list[int]
) -> None:
    positions = torch.tensor(at)
    for causal in (False, True):
        for H in batch(*shape, causal=causal)[:, at]:
            rows, options = H.tolist(), {"values": values, "causal": causal, "positions": positions}
            ahead = 0 if causal else 3
            best = nearest(rows, of_rows(at, diagonals(*shape, 2, ahead)), values)
            assert float(fit_diagonal(H, window=(2, 3), **options).l1) == pytest.approx(best)
            best = nearest(rows, of_rows(at, single_columns(*shape, causal=causal)), values)
            assert float(fit_column(H, **options).l1) == pytest.approx(best)
            inside = [[-2 <= j - i <= (0 if causal else 1) for j in range(shape[1])] for i in at]
            expected = sum(
                abs(h - (h if values == "free" else 1.0)) if here else h
                for row, marks in zip(rows, inside, strict=True)
                for h, here in zip(row, marks, strict=True)
            )
            band = fit_band(H, window=(2, 1), **options)
            assert float(band.l1) == pytest.approx(expected)
            assert int(band.budget) == sum(map(sum, inside))


def test_padding_behind_given_rows_does_not_count() -> None:
    at, sizes = torch.tensor([1, 4, 6, 8]), torch.tensor([[4, 9], [2, 5], [3, 7]])
    H = batch(9, 9)[:3, at]
    filled = H.clone()
    for number, (rows, keys) in enumerate(sizes.tolist()):
        filled[number, rows:], filled[number, :, keys:] = math.nan, math.nan

    def alone(fit: Callable[..., Tensor]) -> list[float]:
        return [
            float(fit(one[:rows, :keys], positions=at[:rows]))
            for one, (rows, keys) in zip(H, sizes.tolist(), strict=True)
        ]

    def together(fit: Callable[..., Tensor], sizes: Sizes) -> list[float]:
        return fit(filled, positions=at, sizes=sizes).tolist()

    for fit in FITS.values():

        def l1(H: Tensor, fit: Callable[..., Fit] = fit, **options: Any) -> Tensor:
            return fit(H, **options).l1

        assert together(l1, sizes) == pytest.approx(alone(l1))

    def bits(H: Tensor, sizes: Sizes | None = None, **options: Any) -> Tensor:
        sizes = None if sizes is None else sizes[:, None]
        return label_heads(H[..., None, :, :], sizes=sizes, **options).bits[..., 2]

    assert together(bits, sizes) == pytest.approx(alone(bits))


@pytest.mark.parametrize("rows", [5, 16])
def test_rows_that_are_drawn_estimate_the_mean_over_all(rows: int) -> None:
    n, draws = 40, 400
    H = matrix(n, n, 3, ("softmax",))
    off = torch.stack([row[(torch.arange(n) - i).abs() > 2].sum() for i, row in enumerate(H)])
    found = []
    for seed in range(draws):
        at = torch.randperm(n, generator=torch.Generator().manual_seed(seed))[:rows]
        found.append(float(fit_band(H[at], window=2, positions=at).l1) / rows)
    spread = torch.tensor(found).double()
    # Of rows drawn without replacement.
    standard_error = float(off.std()) * math.sqrt((1 - rows / n) / rows)
    assert abs(float(spread.mean() - off.mean())) < 4 * standard_error / math.sqrt(draws)
    assert float(spread.std()) == pytest.approx(standard_error, rel=0.15)


@pytest.mark.parametrize("batch", [(), (2,), (2, 3)])
def test_sums_are_those_of_rows_whatever_the_batch(batch: tuple[int, ...]) -> None:
    H = torch.zeros(*batch, 3, 3)
    H[..., 0] = 1
    assert rows_sum_to_one(H)
    assert not rows_sum_to_one(H.mT)
    H[(0,) * len(batch)][2, 0] = 0.9
    assert not rows_sum_to_one(H)
    assert rows_sum_to_one(H, tolerance=0.2)
