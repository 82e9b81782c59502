"""How near each family comes to given matrices, at one budget and in bits, references beside them."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import pandas as pd
from jaxtyping import Float
from torch import Tensor

from attnlab.core.errors import InputError
from attnlab.core.options import options_of
from attnlab.core.representations import ShortRepr
from attnlab.evaluation.shared_settings import Steps
from attnlab.matrices import references
from attnlab.matrices.additive import fit_additive
from attnlab.matrices.band import check_dropout, fit_band
from attnlab.matrices.candidates import FAMILIES
from attnlab.matrices.column import fit_column
from attnlab.matrices.column_band import fit_column_band
from attnlab.matrices.diagonal import fit_diagonal
from attnlab.matrices.distances import distances, kl_divergence
from attnlab.matrices.fit import Fit
from attnlab.matrices.rare_columns import check_blocks, fit_rare_columns
from attnlab.matrices.residual import check_error
from attnlab.matrices.sigma import nearest
from attnlab.matrices.supports import sides
from attnlab.matrices.values import check_values
from attnlab.matrices.weights import matrix_names, rows_sum_to_one
from attnlab.studies.analysis.description import describe_matrices
from attnlab.studies.analysis.members import describe_members
from attnlab.studies.approximation.settings import ApproximationSettings

_WHAT = "Fitting"
COMPARED_WITH = ("zero", "uniform", "mean_by_offset", "svd", "top")
# Every column has one type in all rows; options that a row does not have are empty cells.
_TEXTS = dict.fromkeys(("matrix", "family", "values", "structure", "structure_runner_up"), "string")
_COUNTS = dict.fromkeys(
    ("window_left", "window_right", "num_pos", "error_nnz", "budget", "nnz"), "Int64"
)


def columns() -> list[str]:
    """The columns of the table, in their order."""
    return [
        "matrix", "family", "values", "window_left", "window_right", "num_pos", "dropout",
        "error_nnz", "error_bound", "budget", "nnz", *distances(), "kl", "bits_per_row",
        "structure", "structure_margin_bits_per_row", "structure_runner_up", "seconds",
    ]  # fmt: skip


@dataclass(frozen=True, repr=False)
class Approximation(ShortRepr):
    """The table of all fits, and in words what was chosen in each, `members[family][matrix]`.

    Attributes:
        table: a row per matrix and family.
        members: what was chosen.
        bits: a row per matrix: `matrix`, and the bits per row of every family that is coded, fitted or
            not.
    """

    table: pd.DataFrame
    members: dict[str, list[str]]
    bits: pd.DataFrame


@options_of(ApproximationSettings)
def approximate(
    H: Float[Tensor, "*batch query key"], settings: ApproximationSettings
) -> Approximation:
    """Fits every family to every matrix, with five references beside them.

    The level is `oracle`: support and values come from the matrix itself (math.md section 7). The
    references are the `zero` and the `uniform` matrix; `mean_by_offset`, the matrix's own mean weight
    at each offset; `svd`, the best matrix of a rank that needs no more numbers than the largest of the
    fits may use; and `top`, as many of the largest entries, so that no fit can be nearer.

    With free values a band contains the diagonals and the blocks in its reach, as a whole and with as
    many entries as they have, so its distance is never larger and chooses nothing. What a matrix is
    called is decided by description length: `structure`, beside the runner-up and the margin, and
    `bits_per_row` of each family, of `diffuse` with the uniform matrix. The codes are searched as in
    an analysis, whatever the options of the fits, each matrix as a head of its own.

    `kl` stands where the rows of both matrices sum to 1. `seconds` is the time of the whole batch
    divided by its size.

    Args:
        H: the matrices.
        settings: as keyword arguments.

    Raises:
        InputError: a setting out of range, or matrices that cannot be fitted.
    """
    return _approximated(H, settings, Steps(_WHAT, _steps(settings), settings.progress))


def _approximated(
    H: Float[Tensor, "*batch query key"], settings: ApproximationSettings, steps: Steps
) -> Approximation:
    rows = H.shape[-2]
    _check(settings, rows)
    flat = H.flatten(end_dim=-3) if H.ndim > 2 else H[None]
    names = matrix_names(H.shape[:-2])
    fits = {
        family: steps.of(partial(_timed, _fitter(family, settings, rows), flat))()
        for family in settings.fitted
    }
    budget = max(int(fit.budget.max()) for fit, _ in fits.values())
    stochastic = rows_sum_to_one(flat)
    described = steps.of(partial(describe_matrices, flat, causal=settings.causal))()
    results = [
        (name, *steps.of(partial(_reference, flat, name, budget, settings))(), None)
        for name in COMPARED_WITH
    ]
    results += [
        (name, fit.approximation, fit.kl if stochastic else None, seconds, fit.budget.tolist())
        for name, (fit, seconds) in fits.items()
    ]
    parts = []
    for name, X, kl, seconds, allowed in results:
        cells = {"matrix": names, "family": name} | _options(name, settings, rows)
        cells |= _measured(flat, X, kl, seconds) | {"budget": allowed}
        cells |= _described(name, described)
        types = dict.fromkeys(columns(), "Float64") | _TEXTS | _COUNTS
        parts.append(pd.DataFrame(cells, columns=columns()).astype(types))
    # Matrix by matrix, in the order of the file.
    order = [row * len(parts) + part for part in range(len(parts)) for row in range(len(names))]
    table = pd.concat(parts).set_axis(order).sort_index()
    members = {family: describe_members(fit) for family, (fit, _) in fits.items()}
    bits = described[[*FAMILIES]].assign(matrix=names)
    return Approximation(table, members, bits[["matrix", *FAMILIES]])


def approximate_arrays(
    arrays: Mapping[str, Float[Tensor, "..."]], settings: ApproximationSettings
) -> Approximation:
    """Fits as `approximate`, of matrices that may differ in size from array to array.

    Args:
        arrays: `[*batch query key]` each; the name stands before those of its matrices.
        settings: what is fitted.
    """
    steps = Steps(_WHAT, _steps(settings) * len(arrays), settings.progress)
    found = {name: _approximated(H, settings, steps) for name, H in arrays.items()}
    tables, bits = (
        [
            getattr(one, of).assign(
                matrix=(name + "." if name else "") + getattr(one, of)["matrix"]
            )
            for name, one in found.items()
        ]
        for of in ("table", "bits")
    )
    families = next(iter(found.values())).members
    members = {
        family: [m for one in found.values() for m in one.members[family]] for family in families
    }
    return Approximation(
        pd.concat(tables, ignore_index=True), members, pd.concat(bits, ignore_index=True)
    )


def _steps(settings: ApproximationSettings) -> int:
    """How many steps are told of for one array: fits, references and the description lengths."""
    return len(settings.fitted) + len(COMPARED_WITH) + 1


def _check(settings: ApproximationSettings, rows: int) -> None:
    """Raises InputError for what the fits refuse, before the first of them is computed."""
    sides(settings.window)
    check_values(settings.values)
    check_blocks(settings.num_pos)
    check_dropout(settings.dropout or 0.0)
    check_error(settings.error_entries(rows), settings.error_bound)


def svd_rank(budget: int, queries: int, keys: int) -> int:
    """The largest rank that `budget` numbers can hold, at least 1: rank * (queries + keys) <= budget."""
    return max(1, min(budget // (queries + keys), queries, keys))


def _fitter(family: str, settings: ApproximationSettings, rows: int) -> Callable[[Tensor], Fit]:
    shared: dict[str, Any] = {
        "values": settings.values,
        "causal": settings.causal,
        "error_nnz": settings.error_entries(rows),
        "error_bound": settings.error_bound,
    }
    window: dict[str, Any] = {"window": settings.window}
    blocks: dict[str, Any] = {"num_pos": settings.num_pos}
    kept = settings.budget * rows if settings.dropout is None else None
    dropout: dict[str, Any] = {"dropout": settings.dropout or 0.0}

    return {
        "diagonal": lambda H: fit_diagonal(H, **shared, **window),
        "band": lambda H: fit_band(H, **shared, **window, **dropout, keep=kept),
        "rare_columns": lambda H: fit_rare_columns(H, **shared, **window, **blocks),
        "column": lambda H: fit_column(H, **shared),
        "column_band": lambda H: fit_column_band(H, **shared, **window),
        "additive": lambda H: fit_additive(
            H,
            **{name: value for name, value in shared.items() if name != "values"},
            **window,
            **blocks,
            budget=settings.budget * rows + settings.error_entries(rows),
        ),
        "union": lambda H: nearest([fitter(H) for fitter in _three(settings, rows)]),
    }[family]


def _three(settings: ApproximationSettings, rows: int) -> list[Callable[[Tensor], Fit]]:
    """The families of the union, the one of fewest parameters first, since it wins among equals."""
    return [_fitter(family, settings, rows) for family in ("diagonal", "rare_columns", "band")]


def _timed(fit: Callable[[Tensor], Any], H: Tensor) -> tuple[Any, float]:
    start = time.perf_counter()
    result = fit(H)
    return result, (time.perf_counter() - start) / len(H)


def _reference(
    H: Tensor, name: str, budget: int, settings: ApproximationSettings
) -> tuple[Tensor, Tensor | None, float]:
    """A reference matrix for each H, its divergence where it has one, and the seconds it took."""
    rank = svd_rank(budget, *H.shape[-2:])
    make: dict[str, Callable[[Tensor], Tensor]] = {
        "zero": references.zero_matrix,
        "uniform": lambda H: references.uniform_matrix(H, causal=settings.causal),
        "mean_by_offset": references.own_mean_by_offset,
        "top": lambda H: references.top_entries(H, budget),
        "svd": lambda H: references.truncated_svd(H, rank),
    }
    X, seconds = _timed(make[name], H)
    kl = kl_divergence(H, X) if name == "uniform" and rows_sum_to_one(H) else None
    return X, kl, seconds


def _options(name: str, settings: ApproximationSettings, rows: int) -> dict[str, Any]:
    """The options that a family knows; the others stay empty in its rows."""
    if name in COMPARED_WITH:
        return {}
    left, right = sides(settings.window, causal=settings.causal)
    options: dict[str, Any] = {"values": settings.values}
    if name != "column":
        options |= {"window_left": left, "window_right": right}
    if name in {"rare_columns", "additive", "union"}:
        options |= {"num_pos": settings.num_pos}
    if name in {"band", "union"}:
        options |= {"dropout": settings.dropout}
    entries = settings.error_entries(rows)
    bound = settings.error_bound if entries else None
    return options | {"error_nnz": entries, "error_bound": bound}


def _described(name: str, described: pd.DataFrame) -> dict[str, Any]:
    """What a matrix is called, and how many bits per row the family of this name needs for it."""
    family = "diffuse" if name == "uniform" else name
    bits = described[family].tolist() if family in FAMILIES else None
    labels = ("structure", "structure_margin_bits_per_row", "structure_runner_up")
    return {"bits_per_row": bits} | {label: described[label].tolist() for label in labels}


def _measured(H: Tensor, X: Tensor, kl: Tensor | None, seconds: float) -> dict[str, Any]:
    measured = {name: distance(H, X) for name, distance in distances().items()}
    for name, found in measured.items():
        if found.shape != H.shape[:-2]:
            msg = f"The distance '{name}' gives {list(found.shape)} numbers for {len(H)} matrices."
            raise InputError(msg)
    return {
        "nnz": (X != 0).sum((-2, -1)).tolist(),
        **{name: found.tolist() for name, found in measured.items()},
        "kl": None if kl is None else kl.tolist(),
        "seconds": seconds,
    }
