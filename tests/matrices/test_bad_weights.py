"""Every public function of attnlab.matrices refuses what is no attention weights, in one sentence."""

import importlib
import inspect
import math
import pkgutil
from collections.abc import Callable

import pytest
import torch

import attnlab.matrices
from attnlab.core.errors import InputError
from attnlab.matrices import distances, offsets, references
from attnlab.matrices.additive import fit_additive
from attnlab.matrices.bands import fit_band, project_band
from attnlab.matrices.batched import check_weights, checked_weights, normalized_rows
from attnlab.matrices.coded_supports import Search
from attnlab.matrices.column import fit_column, fit_column_band
from attnlab.matrices.diagonal import fit_diagonal
from attnlab.matrices.labels import label_heads, sum_labels
from attnlab.matrices.offsets import mean_weight_by_offset
from attnlab.matrices.random_search import random_search
from attnlab.matrices.rare_columns import fit_rare_columns
from attnlab.matrices.residual import fit_residual
from attnlab.matrices.rollout import attention_rollout
from attnlab.matrices.sigma_sets import fit_sigma
from attnlab.matrices.static_scores import fit_static_scores

pytestmark = [pytest.mark.grid, pytest.mark.usefixtures("as_users_call_it")]

SIZES = torch.tensor([[[4, 4]], [[3, 2]]])


def zeros(H: torch.Tensor) -> torch.Tensor:
    return torch.zeros(2, 1, 4, 4, dtype=H.dtype if isinstance(H, torch.Tensor) else torch.float64)


# Each takes H [2, 1, 4, 4], sentences and heads.
ENTRIES: dict[str, Callable[[torch.Tensor], object]] = {
    "fit_band": lambda H: fit_band(H, window=1),
    "fit_diagonal": lambda H: fit_diagonal(H, window=1),
    "fit_rare_columns": lambda H: fit_rare_columns(H, window=2, num_pos=1),
    "fit_sigma": lambda H: fit_sigma(H, window=2, num_pos=1),
    "fit_column": fit_column,
    "fit_column_band": lambda H: fit_column_band(H, window=1),
    "fit_additive": lambda H: fit_additive(H, window=1, num_pos=1, budget=9),
    "fit_residual": lambda H: fit_residual(H, zeros(H), nonzeros=1),
    "project_band": lambda H: project_band(H, 1),
    "label_heads": label_heads,
    "sum_labels": lambda H: sum_labels(H, SIZES, Search()),
    "measure": lambda H: distances.measure(H, zeros(H)),
    "l1_distance": lambda H: distances.l1_distance(H, zeros(H)),
    "mean_error": lambda H: distances.mean_error(H, zeros(H)),
    "relative_distance": lambda H: distances.relative_distance(H, zeros(H)),
    "frobenius_distance": lambda H: distances.frobenius_distance(H, zeros(H)),
    "kl_divergence": lambda H: distances.kl_divergence(H, zeros(H)),
    "mass_by_offset": offsets.mass_by_offset,
    "mass_beyond_windows": lambda H: offsets.mass_beyond_windows(H, 2),
    "mean_weight_by_offset": offsets.mean_weight_by_offset,
    "diagonal_means": references.diagonal_means,
    "zero_matrix": references.zero_matrix,
    "uniform_matrix": references.uniform_matrix,
    "top_entries": lambda H: references.top_entries(H, 2),
    "truncated_svd": lambda H: references.truncated_svd(H, 1),
    "cumulative_spectrum": references.cumulative_spectrum,
    "random_search": lambda H: random_search(
        H, window=1, num_pos=1, generator=torch.Generator(), attempts=1, coefficients=(0.5,)
    ),
    "attention_rollout": lambda H: attention_rollout([H[0], H[1 % len(H)]]),
    "fit_static_scores": fit_static_scores,
    "checked_weights": checked_weights,
    "normalized_rows": normalized_rows,
    "check_weights": check_weights,
}
# What the functions above are made of: they get what has been checked, or no attention weights at all.
PARTS = {
    "fit_at_equal_budget",
    *(
        "band_entries",
        "matrix_from_band",
        "real_band",
        "band_columns",
        "skewed",
        "entries_by_offset",
        "entries_at_once",
    ),
    *("block_gains", "place_blocks", "best_blocks", "best_candidate", "corrected", "priced"),
    *("outside_of", "likely_columns", "best_columns", "gains"),
    *("near_diagonal", "best_error", "priced_gain", "priced_total"),
    *("nothing", "diagonals", "bands", "rare_columns", "fixed_columns", "columns_and_bands"),
    *("fit_union", "candidates", "keys_of_rows", "with_room", "in_chunks"),
    *("takes_no_memory", "shortest_code", "log2_choose", "labels_of_codes", "fill_columns"),
    *(
        "real_columns",
        "distances",
        "further_columns",
        "measure_residual",
        "from_sums",
        "row_divergence",
        "complete",
        "nearest",
    ),
    *("can_be_read_in_place", "copy_band", "measure_off_band", "check_dropout", "check_blocks"),
    *("check_error", "check_values", "check_sizes", "check_matrices", "checked_approximation"),
    *(
        "counted_entries",
        "counted_in",
        "without_padding",
        "sizes_of",
        "positions_of",
        "fill_support",
        "renormalised",
    ),
    *("fit_stochastic_rows", "largest_of_residual"),
    *("left_after_error", "matrix_from_offsets", "sides", "reach_within", "offsets"),
    *("band_support", "block_columns", "entries_at_offset"),
    *("band_dimension", "draw_corpus", "draw_diagonal", "draw_band", "draw_rare_columns"),
    *("block_starts", "sparse_noise", "matrix_name", "matrix_names", "rows_sum_to_one"),
    *("js_divergences", "js_distances"),
}


def weights(dtype: torch.dtype = torch.float64) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(2, 1, 4, 4, generator=generator, dtype=torch.float64).softmax(-1).to(dtype)


def changed(value: float) -> torch.Tensor:
    H = weights()
    H[1, 0, 1, 1] = value
    return H


BAD = {
    "nan": changed(math.nan),
    "infinite": changed(math.inf),
    "negative": changed(-0.25),
    "no keys": torch.zeros(2, 1, 4, 0, dtype=torch.float64),
    "no queries": torch.zeros(2, 1, 0, 4, dtype=torch.float64),
    "one dimension": torch.ones(4, dtype=torch.float64),
    "whole numbers": torch.ones(2, 1, 4, 4, dtype=torch.long),
    "truth values": torch.ones(2, 1, 4, 4, dtype=torch.bool),
    "half precision": weights(torch.float16),
    "brain floats": weights(torch.bfloat16),
    "a list": [[1.0]],
}


def public_functions() -> set[str]:
    """Names of all public functions that a module of the package defines."""
    names = set()
    for module in pkgutil.iter_modules(attnlab.matrices.__path__, "attnlab.matrices."):
        loaded = importlib.import_module(module.name)
        names |= {
            name
            for name, function in inspect.getmembers(loaded, inspect.isfunction)
            if not name.startswith("_") and function.__module__ == module.name
        }
    return names


def test_every_public_function_is_on_a_list() -> None:
    assert public_functions() == set(ENTRIES) | PARTS


@pytest.mark.parametrize("bad", sorted(BAD))
@pytest.mark.parametrize("name", sorted(ENTRIES))
def test_what_is_no_attention_is_refused(name: str, bad: str) -> None:
    with pytest.raises(InputError) as refused:
        ENTRIES[name](BAD[bad])
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("name", sorted(ENTRIES))
def test_attention_is_taken_and_keeps_its_dtype(name: str) -> None:
    for dtype in (torch.float32, torch.float64):
        if name not in {
            "attention_rollout",
            "fit_static_scores",
            "label_heads",
            "sum_labels",
        }:  # always in double precision
            for tensor in tensors_of(ENTRIES[name](weights(dtype))):
                assert tensor.dtype == dtype or not tensor.is_floating_point()
        else:
            for tensor in tensors_of(ENTRIES[name](weights(dtype))):
                assert tensor.dtype == torch.float64 or not tensor.is_floating_point()


def tensors_of(result: object) -> list[torch.Tensor]:
    """All tensors in a result, whatever holds them."""
    if isinstance(result, torch.Tensor):
        return [result]
    if isinstance(result, tuple | list):
        return [tensor for one in result for tensor in tensors_of(one)]
    if isinstance(result, dict):
        return tensors_of(list(result.values()))
    return tensors_of(list(vars(result).values())) if hasattr(result, "__dict__") else []


@pytest.mark.parametrize("bad", ["nan", "infinite"])
@pytest.mark.parametrize(
    "distance", [distances.measure, distances.l1_distance, distances.kl_divergence]
)
def test_approximations_that_are_no_numbers_are_refused(distance: Callable, bad: str) -> None:
    with pytest.raises(InputError, match="no finite number"):
        distance(weights(), BAD[bad])
    with pytest.raises(InputError, match=r"\[3, 4\] does not fit"):
        distance(weights(), torch.ones(3, 4))


@pytest.mark.parametrize("entry", [math.nan, math.inf, -0.5])
def test_a_matrix_of_one_entry_is_looked_at_too(entry: float) -> None:
    with pytest.raises(InputError, match=r"at row 0, column 0|has an entry"):
        fit_diagonal(torch.tensor([[entry]]), window=0)


@pytest.mark.parametrize("name", ["fit_additive", "fit_static_scores", "label_heads"])
def test_of_no_matrices_there_is_nothing(name: str) -> None:
    for tensor in tensors_of(ENTRIES[name](torch.zeros(0, 1, 4, 4))):
        assert tensor.numel() == 0


def test_padding_may_hold_anything() -> None:
    H = changed(math.nan)
    sizes = torch.tensor([[[4, 4]], [[1, 4]]])
    assert bool(fit_sigma(H, window=2, num_pos=1, sizes=sizes).l1.isfinite().all())


@pytest.mark.parametrize("option", ["window", "num_pos", "column_positions"])
def test_options_of_labels_are_whole_numbers_from_0_up(option: str) -> None:
    for value in (-1, 1.5, True):
        with pytest.raises(InputError, match=f"{option} must be a whole number from 0 up"):
            label_heads(weights(), **{option: value})


def test_rows_without_mass_are_spread_in_the_precision_of_the_matrix() -> None:
    H = torch.zeros(4, 4, dtype=torch.float64)
    for dropout in (0.0, 0.3):
        fit = fit_band(H, window=1, values="stochastic", dropout=dropout)
        assert fit.structure.sum(-1).tolist() == pytest.approx([1.0] * 4, abs=1e-15)
        assert float(fit.l1) == pytest.approx(4, abs=1e-15)
    band = fit_band(H, window=1, values="stochastic").structure[1]
    assert band.tolist() == pytest.approx([1 / 3, 1 / 3, 1 / 3, 0], abs=1e-16)
    for fit in (fit_diagonal(H, window=0, values="stochastic"), fit_column(H, values="stochastic")):
        assert fit.structure.sum(-1).tolist() == [1.0] * 4


def test_means_by_offset_need_an_axis_of_matrices() -> None:
    with pytest.raises(InputError, match="at least 3 dimensions"):
        mean_weight_by_offset(torch.rand(4, 6))


@pytest.mark.parametrize(
    ("positions", "message"),
    [
        ([0, 1, 2, -1], "between 0 and 999,999, not between -1 and 2"),
        ([0, 1, 2, 10**6], "not between 0 and 1,000,000"),
        ([0, 1, 2], r"one whole number for each of the 4 rows, not torch.int64 of shape \[3\]"),
        ([0.0, 1.0, 2.0, 3.0], "one whole number for each of the 4 rows, not torch.float32"),
    ],
)
def test_positions_are_a_whole_number_for_each_row(positions: list, message: str) -> None:
    at = torch.tensor(positions)
    for fit in (
        lambda: fit_band(weights(), window=1, positions=at),
        lambda: fit_diagonal(weights(), window=1, positions=at),
        lambda: fit_column(weights(), positions=at),
        lambda: label_heads(weights(), positions=at),
        lambda: sum_labels(weights(), SIZES, Search(), at),
        lambda: offsets.mass_beyond_windows(weights(), 2, positions=at),
    ):
        with pytest.raises(InputError, match=message):
            fit()
