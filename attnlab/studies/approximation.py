"""How near each family comes to given matrices: one row per matrix and family, references beside them."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd
from jaxtyping import Float
from torch import Tensor

from attnlab.errors import InputError
from attnlab.matrices import references
from attnlab.matrices.band import check_dropout, fit_band
from attnlab.matrices.diagonal import fit_diagonal
from attnlab.matrices.distances import kl_divergence, measure
from attnlab.matrices.fit import Fit
from attnlab.matrices.rare_columns import check_blocks, fit_rare_columns
from attnlab.matrices.residual import check_error
from attnlab.matrices.sigma import fit_sigma
from attnlab.matrices.sink import fit_sink
from attnlab.matrices.supports import Window, sides
from attnlab.matrices.values import check_values
from attnlab.matrices.weights import matrix_names, rows_sum_to_one
from attnlab.studies.members import describe_members

FAMILIES = ("diagonal", "band", "rare_columns", "sink", "union")
REFERENCES = ("zero", "uniform", "top", "svd")
COLUMNS = [
    "matrix", "family", "values", "window_left", "window_right", "num_pos", "dropout", "error_nnz",
    "error_bound", "nnz", "l1", "mean_error", "relative", "frobenius", "kl", "seconds",
]  # fmt: skip
# Options that a row does not have are empty cells; every column has one type in all rows.
_TYPES = dict.fromkeys(COLUMNS, "Float64")
_TYPES |= dict.fromkeys(["window_left", "window_right", "num_pos", "error_nnz", "nnz"], "Int64")
_TYPES |= dict.fromkeys(["matrix", "family", "values"], "string")


@dataclass(frozen=True)
class Settings:
    """What is fitted; the names are those of the command's options.

    Raises:
        InputError: a value out of range, or an unknown family.
    """

    window: Window = (3, 3)
    num_pos: int = 2
    values: str = "free"
    dropout: float = 0.0
    error_nnz: int = 0
    error_bound: float = 0.5
    causal: bool = False
    families: tuple[str, ...] = ("diagonal", "band", "rare_columns", "union")

    def __post_init__(self) -> None:
        sides(self.window)
        check_values(self.values)
        check_blocks(self.num_pos)
        check_dropout(self.dropout)
        check_error(self.error_nnz, self.error_bound)
        for family in self.families:
            if family not in FAMILIES:
                msg = f"There is no family '{family}'; choose from: {', '.join(FAMILIES)}."
                raise InputError(msg)
        if not self.families:
            msg = f"Name at least one family; choose from: {', '.join(FAMILIES)}."
            raise InputError(msg)


@dataclass(frozen=True)
class Approximation:
    """The table of all fits, and in words what was chosen in each, `members[family][matrix]`."""

    table: pd.DataFrame
    members: dict[str, list[str]]


def approximate(H: Float[Tensor, "*batch query key"], settings: Settings) -> Approximation:
    """Fits every family to every matrix, with four references beside them.

    The level is `oracle`: support and values come from the matrix itself (math.md section 7). The
    references are the `zero` and the `uniform` matrix; `top`, the largest entries, as many as the largest
    of the fits may use, so that no fit can be nearer; and `svd`, the best matrix of a rank that needs no
    more numbers than that. `kl` stands where the rows of both matrices sum to 1. `seconds` is the
    time of the whole batch divided by its size.
    """
    flat = H.flatten(end_dim=-3) if H.ndim > 2 else H[None]
    names = matrix_names(H.shape[:-2])
    fits = {family: _timed(_fitter(family, settings), flat) for family in settings.families}
    budget = max(int(fit.budget.max()) for fit, _ in fits.values())
    stochastic = rows_sum_to_one(flat)
    results = [(name, *_reference(flat, name, budget, settings)) for name in REFERENCES]
    results += [
        (name, fit.approximation, fit.kl if stochastic else None, seconds)
        for name, (fit, seconds) in fits.items()
    ]
    parts = []
    for name, X, kl, seconds in results:
        rows = {"matrix": names, "family": name} | _options(name, settings)
        rows |= _measured(flat, X, kl, seconds)
        parts.append(pd.DataFrame(rows, columns=COLUMNS).astype(_TYPES))
    # Matrix by matrix, in the order of the file.
    place = [row * len(parts) + part for part in range(len(parts)) for row in range(len(names))]
    table = pd.concat(parts).set_axis(place).sort_index()
    members = {family: describe_members(fit) for family, (fit, _) in fits.items()}
    return Approximation(table, members)


def approximate_arrays(
    arrays: Mapping[str, Float[Tensor, "..."]], settings: Callable[[Tensor], Settings]
) -> Approximation:
    """Fits as `approximate`, of matrices that may differ in size from array to array.

    Args:
        arrays: `[*batch query key]` each; the name stands before those of its matrices.
        settings: what is fitted, from the matrices of one array.
    """
    found = {name: approximate(H, settings(H)) for name, H in arrays.items()}
    tables = [
        one.table.assign(matrix=(name + "." if name else "") + one.table["matrix"])
        for name, one in found.items()
    ]
    families = next(iter(found.values())).members
    members = {
        family: [m for one in found.values() for m in one.members[family]] for family in families
    }
    return Approximation(pd.concat(tables, ignore_index=True), members)


def svd_rank(budget: int, queries: int, keys: int) -> int:
    """The largest rank that `budget` numbers can hold, at least 1: rank * (queries + keys) <= budget."""
    return max(1, min(budget // (queries + keys), queries, keys))


def _fitter(family: str, settings: Settings) -> Callable[[Tensor], Fit]:
    shared: dict[str, Any] = {
        "values": settings.values,
        "causal": settings.causal,
        "error_nnz": settings.error_nnz,
        "error_bound": settings.error_bound,
    }
    window: dict[str, Any] = {"window": settings.window}
    blocks: dict[str, Any] = {"num_pos": settings.num_pos}
    dropout: dict[str, Any] = {"dropout": settings.dropout}
    return {
        "diagonal": lambda H: fit_diagonal(H, **shared, **window),
        "band": lambda H: fit_band(H, **shared, **window, **dropout),
        "rare_columns": lambda H: fit_rare_columns(H, **shared, **window, **blocks),
        "sink": lambda H: fit_sink(H, **shared),
        "union": lambda H: fit_sigma(H, **shared, **window, **blocks, **dropout),
    }[family]


def _timed(fit: Callable[[Tensor], Any], H: Tensor) -> tuple[Any, float]:
    start = time.perf_counter()
    result = fit(H)
    return result, (time.perf_counter() - start) / len(H)


def _reference(
    H: Tensor, name: str, budget: int, settings: Settings
) -> tuple[Tensor, Tensor | None, float]:
    """A reference matrix for each H, its divergence where it has one, and the seconds it took."""
    rank = svd_rank(budget, *H.shape[-2:])
    make: dict[str, Callable[[Tensor], Tensor]] = {
        "zero": references.zero_matrix,
        "uniform": lambda H: references.uniform_matrix(H, causal=settings.causal),
        "top": lambda H: references.top_entries(H, budget),
        "svd": lambda H: references.truncated_svd(H, rank),
    }
    X, seconds = _timed(make[name], H)
    kl = kl_divergence(H, X) if name == "uniform" and rows_sum_to_one(H) else None
    return X, kl, seconds


def _options(name: str, settings: Settings) -> dict[str, Any]:
    """The options that a family knows; the others stay empty in its rows."""
    if name in REFERENCES:
        return {}
    left, right = sides(settings.window, causal=settings.causal)
    options: dict[str, Any] = {"values": settings.values}
    if name != "sink":
        options |= {"window_left": left, "window_right": right}
    if name in {"rare_columns", "union"}:
        options |= {"num_pos": settings.num_pos}
    if name in {"band", "union"}:
        options |= {"dropout": settings.dropout}
    bound = settings.error_bound if settings.error_nnz else None
    return options | {"error_nnz": settings.error_nnz, "error_bound": bound}


def _measured(H: Tensor, X: Tensor, kl: Tensor | None, seconds: float) -> dict[str, Any]:
    distances = measure(H, X)
    return {
        "nnz": (X != 0).sum((-2, -1)).tolist(),
        "l1": distances.l1.tolist(),
        "mean_error": distances.mean_error.tolist(),
        "relative": distances.relative.tolist(),
        "frobenius": distances.frobenius.tolist(),
        "kl": None if kl is None else kl.tolist(),
        "seconds": seconds,
    }
