"""Batches of padded matrices: their sizes, and whether a tensor holds attention weights at all.

Ragged batches: a matrix may be smaller than the tensor that holds it.

`sizes[..., 0]` and `sizes[..., 1]` say how many queries and keys of each matrix are real. They are
the leading ones; whatever stands right of them and below them is padding and never counts. Sizes
broadcast: `[sentence, 1, 2]` serves matrices `[sentence, head, query, key]`. None means no padding.

Rows of a larger matrix: `positions[i]` says at which query row i stands, the same in all matrices of a
batch. Offsets are counted from there, and `sizes[..., 0]` says how many of these rows are real. None
means that row i is query i.

Large batches are fitted piece by piece, so that memory beyond the result stays bounded.
"""

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from attnlab.core import LONGEST_TEXT, InputError

Sizes = Int[Tensor, "*#batch 2"]
Positions = Int[Tensor, "query"]


def counted_entries(sizes: Sizes, queries: int, keys: int) -> Bool[Tensor, "*#batch query key"]:
    """True where an entry belongs to the matrix and False in the padding.

    >>> counted_entries(torch.tensor([1, 2]), 2, 3).tolist()
    [[True, True, False], [False, False, False]]
    """
    rows = torch.arange(queries, device=sizes.device) < sizes[..., :1]
    columns = torch.arange(keys, device=sizes.device) < sizes[..., 1:]
    return rows[..., :, None] & columns[..., None, :]


def counted_in(H: Shaped[Tensor, "*batch query key"], sizes: Sizes | None) -> Bool[Tensor, "..."]:
    """True where an entry of `H` belongs to a matrix; everywhere without sizes."""
    queries, keys = H.shape[-2:]
    if sizes is None:
        return torch.ones(queries, keys, dtype=torch.bool, device=H.device)
    return counted_entries(sizes, queries, keys)


def without_padding(
    H: Shaped[Tensor, "*batch query key"], sizes: Sizes | None
) -> Shaped[Tensor, "*batch query key"]:
    """`H` with exact zeros in the padding, whatever stood there; `H` itself when there is none.

    Raises:
        InputError: a size is negative or larger than the tensor.
    """
    if sizes is None:
        return H
    check_sizes(sizes, H.shape[-2], H.shape[-1])
    return H.masked_fill(~counted_entries(sizes, H.shape[-2], H.shape[-1]), 0)


def check_sizes(sizes: Sizes, queries: int, keys: int) -> None:
    """Refuses sizes that do not fit into matrices of `queries` x `keys`.

    Raises:
        InputError: a size is negative or larger than the tensor.
    """
    room = torch.tensor([queries, keys], device=sizes.device)
    if bool(((sizes < 0) | (sizes > room)).any()):
        msg = f"Sizes must lie between 0 and {queries} x {keys}, the size of the padded matrices."
        raise InputError(msg)


def sizes_of(
    H: Shaped[Tensor, "*batch query key"], sizes: Sizes | None
) -> Int[Tensor, "*#batch 2"]:
    """`sizes`, or the size of the whole tensor where there is no padding."""
    return torch.tensor(H.shape[-2:], device=H.device) if sizes is None else sizes


def positions_of(
    H: Shaped[Tensor, "*batch query key"], positions: Positions | None
) -> Int[Tensor, " query"]:
    """`positions`, or those of all queries from 0 where none are given.

    Raises:
        InputError: not a whole number from 0 up for each row.
    """
    queries = H.shape[-2]
    if positions is None:
        return torch.arange(queries, device=H.device)
    if positions.is_floating_point() or positions.shape != (queries,):
        msg = (
            f"Positions must be one whole number for each of the {queries} rows, not "
            f"{positions.dtype} of shape {list(positions.shape)}."
        )
        raise InputError(msg)
    if bool(((positions < 0) | (positions >= LONGEST_TEXT)).any()):
        msg = (
            f"Positions of rows must lie between 0 and {LONGEST_TEXT - 1:,}, not between "
            f"{int(positions.min()):,} and {int(positions.max()):,}."
        )
        raise InputError(msg)
    return positions.to(H.device)


DTYPES = (torch.float32, torch.float64)


def checked_weights(
    H: Float[Tensor, "*batch query key"], sizes: Sizes | None = None, *, dimensions: int = 2
) -> Float[Tensor, "*batch query key"]:
    """H with zeros in the padding, once it is known to hold attention weights outside of it.

    Raises:
        InputError: not a float32 or float64 tensor of at least `dimensions` dimensions, a matrix without
            queries or keys, sizes that do not fit, or an entry that is negative or not finite.
    """
    check_matrices(H, dimensions)
    H = without_padding(H, sizes)
    check_weights(H)
    return H


def checked_approximation(
    X: Float[Tensor, "*#batch query key"], H: Float[Tensor, "*batch query key"], sizes: Sizes | None
) -> Float[Tensor, "*batch query key"]:
    """X in the shape of H with zeros in the padding, once it is known to be finite outside of it.

    Raises:
        InputError: X is no float32 or float64 tensor, does not fit the shape of H, or is not finite.
    """
    check_matrices(X)
    fits = X.ndim <= H.ndim and all(
        mine in {1, theirs} for mine, theirs in zip(X.shape[::-1], H.shape[::-1], strict=False)
    )
    if not fits:
        msg = f"An approximation of shape {list(X.shape)} does not fit weights of {list(H.shape)}."
        raise InputError(msg)
    X = without_padding(X.expand_as(H), sizes)
    if not bool(X.isfinite().all()):
        msg = "An approximation has an entry that is no finite number."
        raise InputError(msg)
    return X


def check_matrices(H: Any, dimensions: int = 2) -> None:
    """Refuses what is no batch of matrices in single or double precision.

    Raises:
        InputError: not a float32 or float64 tensor, too few dimensions, or no queries or keys.
    """
    if not isinstance(H, Tensor) or H.dtype not in DTYPES:
        kind = str(H.dtype).removeprefix("torch.") if isinstance(H, Tensor) else type(H).__name__
        msg = (
            f"Attention weights must be a floating-point tensor [*batch, query, key] in float32 or "
            f"float64, not {kind}."
        )
        raise InputError(msg)
    if H.ndim < dimensions:
        msg = (
            f"Attention weights must be a floating-point tensor [*batch, query, key] of at least "
            f"{dimensions} dimensions, not {H.ndim}."
        )
        raise InputError(msg)
    if 0 in H.shape[-2:]:
        msg = f"A matrix needs at least one query and one key, not {H.shape[-2]} x {H.shape[-1]}."
        raise InputError(msg)


# Cubes of entries, and sums of as many as fit the memory, are numbers in float64.
LARGEST_WEIGHT = 1e30


def check_weights(H: Float[Tensor, "*batch query key"]) -> None:
    """Refuses NaN, infinite, negative and huge entries, naming the first matrix and entry.

    Raises:
        InputError: no matrices, or an entry that cannot be an attention weight. Positions count from 0.
    """
    check_matrices(H)
    if H.numel() == 0:
        return
    lowest, highest = H.aminmax()  # both are NaN where an entry is
    if bool((lowest >= 0) & (highest <= LARGEST_WEIGHT)):
        return
    bad = ~((H >= 0) & (H <= LARGEST_WEIGHT))
    *index, row, column = bad.nonzero()[0].tolist()
    value = float(H[(*index, row, column)])
    kind = "negative" if value < 0 else "too large" if math.isfinite(value) else "no finite number"
    msg = (
        f"Matrix {matrix_name(index)} has an entry that is {kind} ({value:g}) at row {row}, column "
        f"{column}; attention weights are 0 or more, and {LARGEST_WEIGHT:g} at most."
    )
    raise InputError(msg)


def matrix_name(index: list[int]) -> str:
    """The address of a matrix of a batch: its indices joined by points, `0` for a single one.

    >>> matrix_name([2, 5])
    '2.5'
    """
    return ".".join(map(str, index)) or "0"


def matrix_names(batch: torch.Size) -> list[str]:
    """The names of all matrices of a batch, in the order of `flatten`.

    >>> matrix_names(torch.Size([2, 2]))
    ['0.0', '0.1', '1.0', '1.1']
    """
    every = torch.ones(batch, dtype=torch.bool).nonzero().tolist() if batch else [[]]
    return [matrix_name(index) for index in every]


def rows_sum_to_one(H: Float[Tensor, "*batch query key"], tolerance: float = 1e-3) -> bool:
    """Whether every row of every matrix sums to 1 within the tolerance."""
    return bool(((H.sum(-1) - 1).abs() <= tolerance).all())


def normalized_rows(H: Float[Tensor, "*batch query key"]) -> Float[Tensor, "*batch query key"]:
    """Every row divided by its sum.

    Raises:
        InputError: no attention weights, or a row sums to 0.
    """
    check_weights(H)
    total = H.sum(-1, keepdim=True)
    empty = (total[..., 0] == 0).nonzero()
    if len(empty):
        *index, row = empty[0].tolist()
        msg = f"Row {row} of matrix {matrix_name(index)} sums to 0 and cannot be normalized."
        raise InputError(msg)
    return H / total


Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

# Measured: working tensors of this many entries still fit into the processor's cache.
CPU_ENTRIES = 1 << 18
GPU_ENTRIES = 1 << 26


def entries_at_once(device: torch.device) -> int:
    """Number of entries of working tensors that a device is given at a time."""
    return CPU_ENTRIES if device.type == "cpu" else GPU_ENTRIES


def in_chunks(
    fit: Callable[Concatenate[Tensor, Arguments], Result],
) -> Callable[Concatenate[Tensor, Arguments], Result]:
    """A fit that takes its batch in pieces of about equal work and joins the results.

    The first argument is `[*batch query key]`; keyword arguments that are tensors belong to the
    matrices one by one and are cut with them, but for `positions`. The number of matrices in a piece
    follows from their size.
    """

    @functools.wraps(fit)
    def run(H: Tensor, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        check_matrices(H)
        length = max(entries_at_once(H.device) // max(H.shape[-2] * H.shape[-1], 1), 1)
        batch = H.shape[:-2]
        if batch.numel() <= length:
            return fit(H, *args, **kwargs)
        pieces = H.reshape(-1, *H.shape[-2:]).split(length)
        cut: dict[str, Any] = {
            name: _cut(name, value, batch, length) for name, value in kwargs.items()
        }
        results = [
            fit(piece, *args, **{name: values[i] for name, values in cut.items()})
            for i, piece in enumerate(pieces)
        ]
        return _join(results, batch)

    return run  # type: ignore[return-value]  # H may also be given by name


def _cut(name: str, value: Any, batch: torch.Size, length: int) -> Any:
    """One value per piece: slices of what belongs to single matrices, the value itself otherwise."""
    if not isinstance(value, Tensor) or name == "positions":
        return _Same(value)
    inner_shape = value.shape[-1:] if name == "sizes" else value.shape[:0]
    return value.expand(*batch, *inner_shape).reshape(-1, *inner_shape).split(length)


def takes_no_memory(tensor: Tensor) -> bool:
    """Whether this is one number shown at every entry, such as the zero of an absent error."""
    return tensor.numel() > 0 and not any(tensor.stride())


@dataclasses.dataclass(frozen=True)
class _Same:
    value: Any

    def __getitem__(self, index: int) -> Any:
        return self.value


def _join(parts: list[Any], batch: torch.Size) -> Any:
    first = parts[0]
    if isinstance(first, Tensor):
        if all(takes_no_memory(part) for part in parts):
            number = first.flatten()[0].clone()
            if all(bool(part.flatten()[0] == number) for part in parts):
                return number.expand(*batch, *first.shape[1:])
        return torch.cat(parts).unflatten(0, batch)
    if dataclasses.is_dataclass(first) and not isinstance(first, type):
        joined = {
            field.name: _join([getattr(part, field.name) for part in parts], batch)
            for field in dataclasses.fields(first)
        }
        return dataclasses.replace(first, **joined)
    if isinstance(first, tuple):
        return tuple(_join(list(items), batch) for items in zip(*parts, strict=True))
    return first
