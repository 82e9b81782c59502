"""One suite for all fits: brute force over every member, and what must hold of any fit."""

import inspect
import math
from collections.abc import Callable
from functools import partial
from importlib import import_module
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import structured as oracle
from weight_matrices import attention, weight_matrices

from attnlab.core.errors import InputError
from attnlab.matrices import batched as in_pieces
from attnlab.matrices.bands import fit_band
from attnlab.matrices.column import fit_column, fit_column_band
from attnlab.matrices.diagonal import fit_diagonal
from attnlab.matrices.families import FAMILIES, FITTED
from attnlab.matrices.fit import Fit
from attnlab.matrices.rare_columns import fit_rare_columns
from attnlab.matrices.references import top_entries
from attnlab.matrices.sigma_sets import fit_sigma
from attnlab.matrices.synthetic import draw_corpus

pytestmark = pytest.mark.grid

VALUES = ["binary", "free", "stochastic"]
SHAPES = [(1, 1), (2, 2), (3, 3), (4, 4), (5, 5), (6, 6), (5, 3), (3, 5)]
FITS: dict[str, Callable[..., Fit]] = {
    "diagonal": partial(fit_diagonal, window=3),
    "band": partial(fit_band, window=2),
    "dropped band": partial(fit_band, window=2, dropout=0.6),
    "rare columns": partial(fit_rare_columns, window=3, num_pos=2),
    "rare columns, first": partial(fit_rare_columns, window=3, num_pos=2, anchor="first"),
    "rare columns, at most": partial(fit_rare_columns, window=4, num_pos=2, heights="at_most"),
    "column": fit_column,
    "column + band": partial(fit_column_band, window=2),
    "union": partial(fit_sigma, window=3, num_pos=2),
    "union, equal budget": partial(fit_sigma, window=3, num_pos=2, equal_budget=True),
}
DISTANCES = ["l1", "mean_error", "relative", "frobenius"]


@pytest.mark.parametrize("fit", FITS.values(), ids=FITS)
def test_no_matrices_have_no_distances(fit: Callable[..., Fit]) -> None:
    for error_nnz in (0, 2):
        assert fit(torch.zeros(0, 4, 4), error_nnz=error_nnz).l1.shape == (0,)


@pytest.mark.parametrize("values", VALUES)
@pytest.mark.parametrize("shape", SHAPES)
def test_no_diagonal_is_nearer(shape: tuple[int, int], values: str) -> None:
    for seed in range(3):
        H = attention(*shape, seed=seed) * (1.1 if seed == 2 else 1.0)
        for w in range(7):
            expected = oracle.nearest(H.tolist(), oracle.diagonals(*shape, w, w), values)
            assert float(fit_diagonal(H, window=w, values=values).l1) == pytest.approx(
                expected, abs=1e-9
            )
            causal = oracle.nearest(H.tolist(), oracle.diagonals(*shape, w, 0), values)
            assert float(fit_diagonal(H, window=w, values=values, causal=True).l1) == pytest.approx(
                causal, abs=1e-9
            )


@pytest.mark.parametrize("values", VALUES)
@pytest.mark.parametrize("shape", SHAPES)
def test_no_rare_columns_are_nearer(shape: tuple[int, int], values: str) -> None:
    H = attention(*shape, seed=sum(shape))
    for w in range(7):
        height = min(w, shape[0])
        for num_pos in range(4):
            for heights in ("fixed", "at_most"):
                tried = [height] if heights == "fixed" else list(range(1, height + 1))
                for first in (False, True):
                    members = oracle.rare_columns(
                        *shape, [h for h in tried if h], num_pos, first=first
                    )
                    fit = fit_rare_columns(
                        H,
                        window=w,
                        num_pos=num_pos,
                        values=values,
                        heights=heights,
                        anchor="first" if first else "any",
                    )
                    expected = oracle.nearest(H.tolist(), members, values)
                    assert float(fit.l1) == pytest.approx(expected, abs=1e-9)
                    assert float((H - fit.structure).abs().sum()) == pytest.approx(expected)


@pytest.mark.parametrize("values", VALUES)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_no_column_is_nearer(shape: tuple[int, int], causal: bool, values: str) -> None:
    H = attention(*shape, seed=sum(shape))
    expected = oracle.nearest(H.tolist(), oracle.single_columns(*shape, causal=causal), values)
    fit = fit_column(H, values=values, causal=causal)
    assert float(fit.l1) == pytest.approx(expected, abs=1e-9)


def test_causal_rare_columns_attend_the_first_of_a_block() -> None:
    H = attention(6, 6).tril()
    fit = fit_rare_columns(H, window=3, num_pos=2, causal=True)
    members = oracle.rare_columns(6, 6, [3], 2, first=True)
    assert float(fit.l1) == pytest.approx(oracle.nearest(H.tolist(), members, "free"), abs=1e-9)


def test_a_block_as_high_as_the_matrix_is_a_column_or_the_identity() -> None:
    H = attention(3, 7, 7)
    block = fit_rare_columns(H, window=7, num_pos=1)
    expected = torch.minimum(fit_column(H).l1, fit_diagonal(H, window=0).l1)
    torch.testing.assert_close(block.l1, expected)


def test_blocks_that_were_planted_are_found() -> None:
    columns = torch.tensor([0, 1, 4, 4, 4, 5, 6, 7, 7, 7, 10])
    H = torch.nn.functional.one_hot(columns, 11).double()
    H = 0.8 * H + 0.2 * attention(11, 11)
    found = fit_rare_columns(H, window=3, num_pos=3).parameters
    assert found.start[found.used].tolist() == [2, 7]
    assert found.column[found.used].tolist() == [4, 7]
    assert found.rows.tolist() == [3, 3, 0]


@pytest.mark.parametrize("values", VALUES)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_no_column_beside_a_band_is_nearer(
    shape: tuple[int, int], causal: bool, values: str
) -> None:
    for seed in range(3):
        H = attention(*shape, seed=seed) * (1.1 if seed == 2 else 1.0)
        for window in ((0, 0), (1, 0), (1, 2)):
            expected = oracle.nearest_column_band(H.tolist(), window, values, causal=causal)
            fit = fit_column_band(H, window=window, values=values, causal=causal)
            assert float(fit.l1) == pytest.approx(expected, abs=1e-7)


def test_a_column_and_a_band_are_found_where_they_were_planted() -> None:
    H = torch.full((9, 9), 0.01, dtype=torch.float64)
    H += torch.diag(torch.full((8,), 0.4, dtype=torch.float64), -1)
    H[:, 6] += 0.3
    fit = fit_column_band(H, window=(1, 0))
    assert int(fit.parameters.column) == 6
    band = (torch.arange(9) - torch.arange(9)[:, None]).abs() <= 1
    support = band.tril() | (torch.arange(9) == 6)
    assert torch.equal(fit.structure, torch.where(support, H, 0))
    assert int(fit.budget) == int(support.sum())


@pytest.mark.parametrize("error_nnz", [0, 2])
def test_of_equal_diagonals_the_nearest_is_taken_and_of_two_the_one_that_looks_back(
    error_nnz: int,
) -> None:
    n = 60
    i, j = torch.arange(n)[:, None], torch.arange(n)
    for offsets in ((-3, 3), (-20, 20), (1, -1), (5, 2), (-7, 7, 4)):
        H = sum(((j - i == d) & (i >= 25) & (i < 35)).double() / 4 for d in offsets)
        fit = fit_diagonal(H, window=30, error_nnz=error_nnz, error_bound=0.0)
        assert int(fit.parameters.offset) == min(offsets, key=lambda d: (abs(d), d))


def test_free_union_without_dropout_is_always_a_band() -> None:
    union = fit_sigma(attention(20, 9, 9), window=3, num_pos=2)
    assert union.parameters.chosen.tolist() == [2] * 20


@given(
    H=weight_matrices(batch=(3,), largest=9),
    name=st.sampled_from(sorted(FITS)),
    values=st.sampled_from(VALUES),
    causal=st.booleans(),
)
@settings(max_examples=120, deadline=None, derandomize=True)
def test_what_holds_of_every_fit(H: torch.Tensor, name: str, values: str, causal: bool) -> None:
    fit = partial(FITS[name], values=values, causal=causal)
    plain = fit(H)
    # The distances are those of the matrices that come with them.
    torch.testing.assert_close(
        plain.l1, (H - plain.approximation).abs().sum((-2, -1)), rtol=0, atol=1e-12
    )
    if causal:
        assert not bool(plain.structure.triu(1).any())
    # No matrix with so many entries is nearer.
    for b, budget in enumerate(plain.budget.tolist()):
        assert int((plain.structure[b] != 0).sum()) <= budget
        bound = (H[b] - top_entries(H[b], budget)).sum()
        assert float(plain.l1[b]) >= float(bound) - 1e-12
    # A sparse error never hurts, and more of it helps more.
    before = plain.l1
    for nonzeros, limit in [(1, 0.05), (3, 0.05), (3, 0.5), (9, 0.5), (9, math.inf)]:
        mended = fit(H, error_nnz=nonzeros, error_bound=limit)
        assert bool((mended.l1 <= before + 1e-12).all())
        assert bool(((mended.error != 0).sum((-2, -1)) <= nonzeros).all())
        assert float(mended.error.abs().max()) <= limit
        before = mended.l1
    # The order of the batch is the order of the results.
    turned = fit(H.flip(0))
    for field in (*DISTANCES, "budget"):
        torch.testing.assert_close(getattr(turned, field).flip(0), getattr(plain, field))
    # Single precision is near.
    single = fit(H.float())
    torch.testing.assert_close(single.l1.double(), plain.l1, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("values", VALUES)
@pytest.mark.parametrize("name", sorted(FITS))
def test_padded_equals_unpadded(name: str, values: str) -> None:
    sizes = torch.tensor([[11, 7], [5, 5], [2, 3], [7, 2], [1, 1]])
    H = attention(5, 11, 7)
    options = {"values": values, "error_nnz": 4, "error_bound": 0.3}
    fit = FITS[name](H, sizes=sizes, **options)
    for b, (q, k) in enumerate(sizes.tolist()):
        alone = FITS[name](H[b, :q, :k], **options)
        torch.testing.assert_close(fit.approximation[b, :q, :k], alone.approximation)
        assert float(fit.approximation[b].abs().sum()) == pytest.approx(
            float(alone.approximation.abs().sum())
        )
        for field in (*DISTANCES, "budget"):
            torch.testing.assert_close(getattr(fit, field)[b], getattr(alone, field))


@pytest.mark.parametrize("name", sorted(FITS))
def test_matrices_without_any_entry_have_distance_zero(name: str) -> None:
    fit = FITS[name](attention(2, 5, 5), sizes=torch.tensor([[0, 0], [5, 5]]))
    assert float(fit.l1[0]) == float(fit.relative[0]) == float(fit.budget[0]) == 0
    assert float(fit.l1[1]) > 0


@pytest.mark.parametrize("name", sorted(FITS))
def test_chunks_change_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    H = attention(3, 5, 7, 7)
    sizes = torch.randint(1, 8, (3, 1, 2), generator=torch.Generator().manual_seed(0))
    counts = torch.tensor([[1], [2], [3]])
    for options in ({}, {"values": "stochastic"}, {"sizes": sizes, "error_nnz": counts}):
        whole = FITS[name](H, **options)
        with monkeypatch.context() as patch:
            patch.setattr(in_pieces, "CPU_ENTRIES", 4 * 49)
            pieces = FITS[name](H, **options)
        for field in (*DISTANCES, "budget", "structure", "error", "approximation"):
            torch.testing.assert_close(getattr(pieces, field), getattr(whole, field))
        if name in {"band", "dropped band"}:
            torch.testing.assert_close(pieces.parameters.kept, whole.parameters.kept)
        if name.startswith("rare"):
            torch.testing.assert_close(pieces.parameters.column, whole.parameters.column)
        if name.startswith("union"):
            torch.testing.assert_close(pieces.parameters.chosen, whole.parameters.chosen)
            members = zip(pieces.parameters.members, whole.parameters.members, strict=True)
            assert all(torch.equal(a.kept, b.kept) for a, b in members if hasattr(a, "kept"))
        assert pieces.l1.shape == (3, 5)


@pytest.mark.parametrize("values", VALUES)
def test_distance_falls_with_the_parameters(values: str) -> None:
    H = attention(5, 11, 11)

    def falls(fits: list[Fit]) -> bool:
        return all(bool((b.l1 <= a.l1 + 1e-12).all()) for a, b in pairwise(fits))

    assert falls([fit_diagonal(H, window=w, values=values) for w in range(8)])
    assert falls([fit_rare_columns(H, window=3, num_pos=k, values=values) for k in range(5)])
    assert falls(
        [
            fit_rare_columns(H, window=w, num_pos=2, values=values, heights="at_most")
            for w in range(8)
        ]
    )
    if values != "binary":  # a wider band of ones is not nearer
        assert falls([fit_band(H, window=w, values=values) for w in range(8)])


def test_stochastic_divergence_is_finite_only_on_the_whole_matrix() -> None:
    H = attention(2, 5, 5)
    assert fit_band(H, window=1).kl is None
    assert fit_band(H, window=1, values="stochastic").kl.tolist() == [math.inf, math.inf]
    whole = fit_band(H, window=4, values="stochastic").kl
    torch.testing.assert_close(whole, torch.zeros(2, dtype=H.dtype), rtol=0, atol=1e-12)
    assert fit_band(H, window=4, values="stochastic", error_nnz=1).kl is None


def test_global_random_state_stays(untouched_randomness: None) -> None:
    for fit in FITS.values():
        assert bool(fit(attention(5, 5)).l1.isfinite())


@pytest.mark.parametrize(
    ("fit", "options", "message"),
    [
        (fit_rare_columns, {"window": 3, "num_pos": -1}, "0 or more, not -1"),
        (fit_sigma, {"window": -3, "num_pos": 1}, "from 0 up, not -3"),
        (fit_diagonal, {"window": 3, "error_nnz": -2}, "0 or more"),
    ],
)
def test_bad_options_are_refused(
    fit: Callable[..., Fit], options: dict[str, int], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        fit(attention(5, 5), **options)


@pytest.mark.parametrize("H", [torch.ones(5, 5, dtype=torch.long), torch.ones(5)])
def test_what_is_no_matrix_is_refused(H: torch.Tensor) -> None:
    with pytest.raises(InputError, match=r"floating-point tensor \[\*batch, query, key\]"):
        in_pieces.check_matrices(H)


@pytest.mark.parametrize("shape", [(1, 1), (5, 7), (7, 3)])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    "fit",
    [
        fit_diagonal,
        fit_band,
        partial(fit_band, dropout=0.4),
        partial(fit_band, dropout=0.4, values="stochastic"),
        partial(fit_sigma, num_pos=2),
    ],
)
def test_a_window_wider_than_the_matrix_costs_and_finds_no_more(
    fit: Callable[..., Fit], causal: bool, shape: tuple[int, int]
) -> None:
    H = attention(3, *shape)
    enough = fit(H, window=max(shape) - 1, causal=causal)
    # The entries of such a band would be far more than any machine holds.
    wide = fit(H, window=10**13, causal=causal)
    torch.testing.assert_close(wide.structure, enough.structure, rtol=0, atol=0)
    for name in [*DISTANCES, "budget"]:
        torch.testing.assert_close(getattr(wide, name), getattr(enough, name), rtol=0, atol=0)


@pytest.mark.parametrize("name", FITTED)
def test_a_family_takes_each_option_of_its_fit(name: str) -> None:
    """What users choose reaches the fit."""
    module, _, fit = FAMILIES[name].fit.partition(":")
    taken = set(inspect.signature(getattr(import_module(module), fit)).parameters)
    options = {"window", "num_pos", "values", "dropout", "keep", "budget"}
    assert set(FAMILIES[name].options) >= taken & options


def test_the_column_beside_a_band_is_the_nearest_of_rows_above_1() -> None:
    """Stochastic rows: of those with more weight than 1 a column adds nothing, by brute force."""
    generator = torch.Generator().manual_seed(4)
    for _ in range(20):
        H = torch.rand(6, 6, dtype=torch.float64, generator=generator)
        H *= torch.rand(6, 1, dtype=torch.float64, generator=generator)
        near = (torch.arange(6)[:, None] - torch.arange(6)).abs() <= 1
        distances = []
        for column in range(6):
            support = near | (torch.arange(6) == column)
            held = torch.where(support, H, 0).sum(-1)
            distances.append(float((H.sum(-1) - held + (1 - held).abs()).sum()))
        found = fit_column_band(H, window=1, values="stochastic")
        assert float(found.l1) <= min(distances) + 1e-9


def test_a_column_is_planted_beside_bands_and_beside_single_offsets() -> None:
    drawn = [
        draw_corpus(
            "column_band", torch.tensor([9]), noise=0.0, window=2, num_pos=2,
            generator=torch.Generator().manual_seed(seed),
        )[0]
        for seed in range(12)
    ]  # fmt: skip
    widest = [int((matrix > 0).sum(-1).max()) for matrix in drawn]
    assert min(widest) == 2
    assert max(widest) > 2
