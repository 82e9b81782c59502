"""How near each family comes to given matrices, at one budget and in bits, references beside them."""

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from attnlab.core import InputError, Note, options_of, path_label
from attnlab.evaluation import Steps
from attnlab.labels import chosen_by_bits
from attnlab.matrices import (
    CODED,
    FAMILIES,
    NO_FAMILY,
    Fit,
    check_blocks,
    check_dropout,
    check_error,
    check_values,
    kl_divergence,
    label_heads,
    matrix_names,
    references,
    rows_sum_to_one,
    sides,
)
from attnlab.matrices.distances import distances
from attnlab.questions.approximate.question import (
    ADDRESS,
    APPROXIMATION,
    LIMITS_SHOWN,
    ApproximationSettings,
)
from attnlab.reading import load_arrays, prepared
from attnlab.results import Result, notes_on_weights

Matrices = Float[Tensor, "*batch query key"]
REFERENCES = ("zero", "uniform", "mean_by_offset", "svd", "top")
# Every column has one type in all rows; options that a row does not have are empty cells.
_TEXTS = dict.fromkeys(
    ("matrix", "site", "family", "values", "member", "structure", "structure_runner_up"), "string"
)
_COUNTS = dict.fromkeys(
    (
        "sentence", "layer", "head", "window_left", "window_right", "num_pos", "error_nnz", "max_entries",
        "nnz",
    ),
    "Int64",
)  # fmt: skip
_COLUMN_OF_AXIS = {"layers": "layer", "texts": "sentence", "heads": "head"}


@options_of(ApproximationSettings)
def approximate(
    source: str | Path | Matrices | np.ndarray | Mapping[str, Tensor | np.ndarray],
    settings: ApproximationSettings,
) -> Result:
    """Fits every family to every matrix, with five references beside them.

    The level is `oracle`: support and values come from the matrix itself (math.md section 7). The
    references are the `zero` and the `uniform` matrix; `mean_by_offset`, the matrix's own mean weight
    at each offset; `svd`, the best matrix of a rank that needs no more numbers than the largest of the
    fits may use; and `top`, as many of the largest entries, so that no fit can be nearer.

    With free values a band contains the diagonals and the blocks in its reach, as a whole and with as
    many entries as they have, so its distance is never larger and chooses nothing. What a matrix is
    called is decided by description length: `structure`, beside the runner-up and the margin, and
    `bits_per_row` of each family, of `diffuse` with the uniform matrix; the table `bits` has those of
    families that are not fitted too. The codes are searched as in an analysis, whatever the options of
    the fits, each matrix as a head of its own.

    `kl` stands where the rows of both matrices sum to 1. `seconds` is the time of the whole batch
    divided by its size.

    Args:
        source: a file of matrices, the matrices as a tensor or array, or several batches of them by name.
        settings: as keyword arguments.

    Raises:
        InputError: a setting out of range, or matrices that cannot be read or fitted.
    """
    about: dict[str, str] = {}
    notes: list[Note] = []
    addresses: dict[str, dict[str, Any]] = {}
    batch: tuple[str, ...] = ()
    if isinstance(source, str | Path):
        arrays, axes, addresses = load_arrays(source, array=settings.array, axes=settings.axes)
        batch = ("heads",) if axes is None else axes.batch
        about = {"File": path_label(source), "Normalized": settings.normalize}
        notes += [] if axes is None else [axes]
        notes += notes_on_weights(Path(source).parent)
    elif settings.array is not None or settings.axes is not None:
        name = "axes" if settings.array is None else "array"
        msg = f"{name} is for files of matrices; leave it out."
        raise InputError(msg)
    else:
        given: dict[str, Any] = dict(source) if isinstance(source, Mapping) else {"": source}
        arrays = {
            # A copy, since torch takes no array that is turned round.
            name: torch.from_numpy(np.array(H)) if isinstance(H, np.ndarray) else H
            for name, H in given.items()
        }
    checked = {name: prepared(H, settings.normalize) for name, H in arrays.items()}
    if not checked or not all(H.numel() for H, _ in checked.values()):
        msg = f"There are no matrices in {about.get('File', 'what was given')}; give at least one."
        raise InputError(msg)
    parts = []
    steps = Steps(
        "Fitting",
        (len(settings.fitted) + len(REFERENCES) + 1) * len(arrays),
        settings.progress,
    )
    for name, (H, note) in checked.items():
        notes += [] if note is None else [note]
        at = _addresses(H.shape[:-2], batch, addresses.get(name, {}))
        # Such as 0.10 alone would be read as a number.
        parts.append(_approximated(f"{name or 'H'}.", at, H, settings, steps))
    tables = {
        name: pd.concat([part[name] for part in parts], ignore_index=True) for name in parts[0]
    }
    unknown = [name for name in ADDRESS if tables["approximation"][name].isna().all()]
    tables["approximation"] = tables["approximation"].drop(columns=unknown)
    return Result(
        question="approximate",
        title=f"Structured fits of {about.get('File', 'matrices')}",
        tables=tables,
        about=_limits_shown(settings) | about,
        notes=tuple(notes),
        details={"sizes": sorted({tuple(H.shape[-2:]) for H in arrays.values()})},
    )


def _limits_shown(settings: ApproximationSettings) -> dict[str, str]:
    """What the fits may use, in words."""
    left, right = sides(settings.window, causal=settings.causal)
    most = f"at most {settings.budget} a row"
    entries = (
        most if settings.dropout is None else f"of a band all but a share of {settings.dropout:g}"
    )
    error = f"at most {settings.error_nnz}, up to {settings.error_bound:g}"
    limits = (
        f"{left} back, {right} ahead",
        f"{entries}, {settings.values}",
        error if settings.error_entries(1) and settings.error_bound else "none",
    )
    return dict(zip(LIMITS_SHOWN, limits, strict=True))


def _addresses(
    shape: Sequence[int], axes: Sequence[str], constants: Mapping[str, Any]
) -> dict[str, list[Any]]:
    """Sentence, site, layer and head of each matrix of an array, as far as they are known.

    Args:
        shape: of the array, without query and key.
        axes: names of these axes; none where nothing says them.
        constants: what holds for all of the matrices.
    """
    indices = list(np.ndindex(*shape))
    of_axes = zip(axes, zip(*indices, strict=True), strict=True) if axes else ()
    cells = {_COLUMN_OF_AXIS[axis]: list(numbers) for axis, numbers in of_axes}
    return cells | {name: [value] * len(indices) for name, value in constants.items()}


def _approximated(
    prefix: str,
    addresses: Mapping[str, list[Any]],
    H: Matrices,
    settings: ApproximationSettings,
    steps: Steps,
) -> dict[str, pd.DataFrame]:
    """The tables of one array; `prefix` stands before the names of its matrices."""
    rows = H.shape[-2]
    options = _options(settings, rows)
    flat = H.flatten(end_dim=-3) if H.ndim > 2 else H[None]
    names = [prefix + name for name in matrix_names(H.shape[:-2])]
    fits: dict[str, tuple[Fit, float]] = {
        family: steps.of(partial(_timed, partial(FAMILIES[family].fitted, options=options), flat))()
        for family in settings.fitted
    }
    budget = max(int(fit.budget.max()) for fit, _ in fits.values())
    stochastic = rows_sum_to_one(flat)
    described = steps.of(partial(_described, flat, causal=settings.causal))()
    results: list[tuple[str, Tensor, dict[str, Any]]] = []
    for name in REFERENCES:
        X, seconds = steps.of(partial(_timed, _reference(name, budget, settings), flat))()
        kl = kl_divergence(flat, X).tolist() if name == "uniform" and stochastic else None
        results.append((name, X, {"kl": kl, "seconds": seconds}))
    for name, (fit, seconds) in fits.items():
        cells = _cells(name, settings, rows) | {
            "max_entries": fit.budget.tolist(),
            "member": [fit.parameters.described(index) for index in range(len(flat))],
            "kl": fit.kl.tolist() if stochastic and fit.kl is not None else None,
            "seconds": seconds,
        }
        results.append((name, fit.approximation, cells))
    columns = _columns()
    types = dict.fromkeys(columns, "Float64") | _TEXTS | _COUNTS
    parts = []
    for name, X, figures in results:
        coded = NO_FAMILY if name == "uniform" else name
        cells = {
            **described.drop(columns=[*CODED]).to_dict("list"),
            **_distances(flat, X),
            **figures,
            **addresses,
            "matrix": names,
            "family": name,
            "bits_per_row": described[coded] if coded in CODED else None,
            "nnz": (X != 0).sum((-2, -1)).tolist(),
        }
        parts.append(pd.DataFrame(cells, columns=columns).astype(types))
    # Matrix by matrix, in the order of the file.
    order = [row * len(parts) + part for part in range(len(parts)) for row in range(len(names))]
    bits = {
        "matrix": [name for name in names for _ in CODED],
        "family": [*CODED] * len(names),
        "bits_per_row": described[[*CODED]].to_numpy().flatten(),
    }
    return {
        "approximation": pd.concat(parts).set_axis(order).sort_index(),
        "bits": pd.DataFrame(bits),
    }


def _columns() -> list[str]:
    """The columns of the table in their order; distances of other distributions behind attnlab's own."""
    names = list(APPROXIMATION)
    behind = names.index("frobenius") + 1
    return [*names[:behind], *(name for name in distances() if name not in names), *names[behind:]]


def _options(settings: ApproximationSettings, rows: int) -> dict[str, Any]:
    """What the fits of matrices with so many rows may be told.

    Raises:
        InputError: what the fits refuse, before the first of them is computed.
    """
    sides(settings.window)
    check_values(settings.values)
    check_blocks(settings.num_pos)
    check_dropout(settings.dropout or 0.0)
    entries = settings.error_entries(rows)
    check_error(entries, settings.error_bound)
    return {
        "window": settings.window,
        "num_pos": settings.num_pos,
        "values": settings.values,
        "dropout": settings.dropout or 0.0,
        "keep": settings.budget * rows if settings.dropout is None else None,
        "budget": settings.budget * rows + entries,
        "causal": settings.causal,
        "error_nnz": entries,
        "error_bound": settings.error_bound,
    }


def _cells(family: str, settings: ApproximationSettings, rows: int) -> dict[str, Any]:
    """The options that a family knows; the others stay empty in its rows."""
    left, right = sides(settings.window, causal=settings.causal)
    entries = settings.error_entries(rows)
    by_option: dict[str, dict[str, Any]] = {
        "window": {"window_left": left, "window_right": right},
        "num_pos": {"num_pos": settings.num_pos},
        "dropout": {"dropout": settings.dropout},
    }
    cells = {"values": settings.values, "error_nnz": entries}
    cells["error_bound"] = settings.error_bound if entries else None
    for option in FAMILIES[family].options:
        cells |= by_option.get(option, {})
    return cells


def svd_rank(budget: int, queries: int, keys: int) -> int:
    """The largest rank that `budget` numbers can hold, at least 1: rank * (queries + keys) <= budget."""
    return max(1, min(budget // (queries + keys), queries, keys))


def _timed(work: Callable[[Tensor], Any], H: Tensor) -> tuple[Any, float]:
    start = time.perf_counter()
    result = work(H)
    return result, (time.perf_counter() - start) / len(H)


def _reference(
    name: str, budget: int, settings: ApproximationSettings
) -> Callable[[Tensor], Tensor]:
    """What makes a reference matrix for each H."""
    make: dict[str, Callable[[Tensor], Tensor]] = {
        "zero": references.zero_matrix,
        "uniform": lambda H: references.uniform_matrix(H, causal=settings.causal),
        "mean_by_offset": references.diagonal_means,
        "top": lambda H: references.top_entries(H, budget),
        "svd": lambda H: references.truncated_svd(H, svd_rank(budget, *H.shape[-2:])),
    }
    return make[name]


def _described(H: Float[Tensor, "matrix query key"], *, causal: bool) -> pd.DataFrame:
    """What each matrix is called as a head of its own, and its bits per row by family; missing: no member."""
    bits = label_heads(H[:, None], causal=causal).bits_per_row
    table = pd.DataFrame(bits.masked_fill(bits.isinf(), float("nan")).tolist(), columns=[*CODED])
    return pd.concat([chosen_by_bits(table), table], axis="columns")


def _distances(H: Tensor, X: Tensor) -> dict[str, list[float]]:
    measured = {name: distance(H, X) for name, distance in distances().items()}
    for name, values in measured.items():
        if values.shape != H.shape[:-2]:
            msg = f"The distance '{name}' gives {list(values.shape)} numbers for {len(H)} matrices."
            raise InputError(msg)
    return {name: values.tolist() for name, values in measured.items()}
