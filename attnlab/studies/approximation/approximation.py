"""How near each family comes to given matrices, at one budget and in bits, references beside them."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd
from jaxtyping import Float
from torch import Tensor

from attnlab.errors import InputError
from attnlab.matrices import references
from attnlab.matrices.additive import fit_additive
from attnlab.matrices.band import check_dropout, fit_band
from attnlab.matrices.candidates import FAMILIES as CODED
from attnlab.matrices.diagonal import fit_diagonal
from attnlab.matrices.distances import distances, kl_divergence
from attnlab.matrices.fit import Fit
from attnlab.matrices.rare_columns import check_blocks, fit_rare_columns
from attnlab.matrices.residual import check_error
from attnlab.matrices.sigma import nearest
from attnlab.matrices.sink import fit_sink
from attnlab.matrices.supports import Window, sides
from attnlab.matrices.values import check_values
from attnlab.matrices.weights import matrix_names, rows_sum_to_one
from attnlab.representations import OneLine
from attnlab.studies.analysis.description import describe_matrices
from attnlab.studies.analysis.members import describe_members

FAMILIES = ("diagonal", "band", "rare_columns", "sink", "additive", "union")
SHOWN = ("diagonal", "band", "rare_columns", "additive")
REFERENCES = ("zero", "uniform", "mean_by_offset", "svd", "top")
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


@dataclass(frozen=True)
class Settings:
    """What is fitted; the names are those of the command's options.

    Every family may use `budget` entries per row and `error_nnz` for E. The diagonal and the rare
    columns have one entry per row by nature and use no more; of the band its largest entries are used,
    unless `dropout` says how many (0: all of them, whatever the budget).

    Raises:
        InputError: a value out of range, an unknown family, or one that has no such values.
    """

    window: Window = (3, 3)
    num_pos: int = 2
    budget: int = 1
    values: str = "free"
    dropout: float | None = None
    error_nnz: int = 0
    error_bound: float = 0.5
    causal: bool = False
    families: tuple[str, ...] = SHOWN

    def __post_init__(self) -> None:
        sides(self.window)
        check_values(self.values)
        check_blocks(self.num_pos)
        check_dropout(self.dropout or 0.0)
        if self.budget < 1:
            msg = f"The budget must be at least 1 entry per row, not {self.budget}."
            raise InputError(msg)
        check_error(self.error_nnz, self.error_bound)
        for family in self.families:
            if family not in FAMILIES:
                msg = f"There is no family '{family}'; choose from: {', '.join(FAMILIES)}."
                raise InputError(msg)
        if not self.families:
            msg = f"Name at least one family; choose from: {', '.join(FAMILIES)}."
            raise InputError(msg)
        if "additive" in self.families and self.values != "free":
            msg = (
                f"The family additive has free values only; leave it out for {self.values} values."
            )
            raise InputError(msg)


@dataclass(frozen=True, repr=False)
class Approximation(OneLine):
    """The table of all fits, and in words what was chosen in each, `members[family][matrix]`."""

    table: pd.DataFrame
    members: dict[str, list[str]]


def approximate(H: Float[Tensor, "*batch query key"], settings: Settings) -> Approximation:
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
    """
    flat = H.flatten(end_dim=-3) if H.ndim > 2 else H[None]
    names = matrix_names(H.shape[:-2])
    fits = {family: _timed(_fitter(family, settings), flat) for family in settings.families}
    budget = max(int(fit.budget.max()) for fit, _ in fits.values())
    stochastic = rows_sum_to_one(flat)
    described = describe_matrices(flat, causal=settings.causal)
    results = [(name, *_reference(flat, name, budget, settings), None) for name in REFERENCES]
    results += [
        (name, fit.approximation, fit.kl if stochastic else None, seconds, fit.budget.tolist())
        for name, (fit, seconds) in fits.items()
    ]
    parts = []
    for name, X, kl, seconds, allowed in results:
        rows = {"matrix": names, "family": name} | _options(name, settings)
        rows |= _measured(flat, X, kl, seconds) | {"budget": allowed}
        rows |= _described(name, described)
        types = dict.fromkeys(columns(), "Float64") | _TEXTS | _COUNTS
        parts.append(pd.DataFrame(rows, columns=columns()).astype(types))
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
    equal = settings.dropout is None
    dropout: dict[str, Any] = {"dropout": settings.dropout or 0.0}

    def kept(H: Tensor) -> int | None:
        return settings.budget * H.shape[-2] if equal else None

    return {
        "diagonal": lambda H: fit_diagonal(H, **shared, **window),
        "band": lambda H: fit_band(H, **shared, **window, **dropout, keep=kept(H)),
        "rare_columns": lambda H: fit_rare_columns(H, **shared, **window, **blocks),
        "sink": lambda H: fit_sink(H, **shared),
        "additive": lambda H: fit_additive(
            H,
            **{name: value for name, value in shared.items() if name != "values"},
            **window,
            **blocks,
            budget=settings.budget * H.shape[-2] + settings.error_nnz,
        ),
        "union": lambda H: nearest([fitter(H) for fitter in _three(settings)]),
    }[family]


def _three(settings: Settings) -> list[Callable[[Tensor], Fit]]:
    """The families of the union, the one of fewest parameters first, since it wins among equals."""
    return [_fitter(family, settings) for family in ("diagonal", "rare_columns", "band")]


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
        "mean_by_offset": references.own_mean_by_offset,
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
    if name in {"rare_columns", "additive", "union"}:
        options |= {"num_pos": settings.num_pos}
    if name in {"band", "union"}:
        options |= {"dropout": settings.dropout}
    bound = settings.error_bound if settings.error_nnz else None
    return options | {"error_nnz": settings.error_nnz, "error_bound": bound}


def _described(name: str, described: pd.DataFrame) -> dict[str, Any]:
    """What a matrix is called, and how many bits per row the family of this name needs for it."""
    family = "diffuse" if name == "uniform" else name
    bits = described[family].tolist() if family in CODED else None
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
