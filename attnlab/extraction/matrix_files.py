"""Attention matrices from files: .npz, .npy and .safetensors; nothing is unpickled."""

import math
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from attnlab.addresses import layer_name
from attnlab.errors import InputError
from attnlab.extraction.keeping import holds_kept_matrices, load_kept_matrices
from attnlab.extraction.notes import RowsNotNormalized
from attnlab.files import check_regular, open_regular
from attnlab.limits import refuse_beyond_memory
from attnlab.matrices.weights import check_weights, normalized_rows, rows_sum_to_one

# As it is read, in float64, and what checks and divided rows hold of it; measured.
BYTES_AN_ENTRY = 26
# What statistics, description lengths and fits of an analysis hold besides, for the matrices of a layer.
ANALYSIS_BYTES_AN_ENTRY = 240
# And the structured fits, which are of all matrices of an array at once.
FIT_BYTES_AN_ENTRY = 300
# Arrays that a message names.
_MOST_NAMED = 8
_Working: TypeAlias = Callable[[Sequence[int]], int]


def load_matrices(
    path: str | Path,
    *,
    array: str | None = None,
    working: _Working = lambda _: 0,
) -> Tensor:
    """The matrices of a file in float64, `[*batch query key]`.

    Args:
        path: of the file.
        array: which one to take from a file that holds several.
        working: the bytes that the work with an array of a shape will need beside it.

    Raises:
        InputError: the file is missing, of an unknown kind, beyond the free memory, damaged, pickled, holds
            several arrays and none was named, or its array is no batch of matrices.
    """
    path = Path(path)
    check_regular(path)
    if not path.is_file():
        msg = f"There is no file {path}; check the path."
        raise InputError(msg)
    readers = {".npy": _read_numpy, ".npz": _read_members, ".safetensors": _read_safetensors}
    if path.suffix not in readers:
        msg = f"{path} is none of the files that can be read: {', '.join(readers)}."
        raise InputError(msg)
    return _as_matrices(path, readers[path.suffix](path, array, working))


def load_arrays(path: str | Path, *, array: str | None = None) -> dict[str, Tensor]:
    """The matrices of a file by the name of their array; all arrays of a file of an analysis.

    A file from elsewhere gives one array, with an empty name.

    Raises:
        InputError: as `load_matrices`.
    """
    path = Path(path)
    if array is not None or not holds_kept_matrices(path):
        return {"": load_matrices(path, array=array, working=_fits)}
    found = load_kept_matrices(path).matrices
    return {
        f"{n}.{layer_name(site, layer)}": matrix.double()
        for (n, site, layer), matrix in found.items()
    }


def _fits(shape: Sequence[int]) -> int:
    return FIT_BYTES_AN_ENTRY * math.prod(shape)


def _read_numpy(path: Path, array: str | None, working: _Working) -> Tensor:
    _chosen(path, [""], array)
    with _refusing_damage(path), open_regular(path) as file:
        _refuse_declared(path, file, working)
        file.seek(0)
        return _tensor(path, np.lib.format.read_array(file, allow_pickle=False))


def _read_members(path: Path, array: str | None, working: _Working) -> Tensor:
    """One array of a zip file; of the others nothing but the names is read."""
    ending = ".npy"
    with _refusing_damage(path), open_regular(path) as opened, zipfile.ZipFile(opened) as archive:
        members = {name.removesuffix(ending): name for name in archive.namelist()}
        member = members[_chosen(path, list(members), array)]
        with archive.open(member) as file:
            _refuse_declared(path, file, working)
        # No more is unpacked than the array declares.
        with archive.open(member) as file:
            return _tensor(path, np.lib.format.read_array(file, allow_pickle=False))


def _refuse_declared(path: Path, file: Any, working: _Working) -> None:
    """Raises InputError where the array that begins here says that it needs more memory than is free."""
    version = np.lib.format.read_magic(file)
    if version == (1, 0):
        shape, _, _ = np.lib.format.read_array_header_1_0(file)
    else:
        shape, _, _ = np.lib.format.read_array_header_2_0(file)
    _refuse_large(path, shape, working)


def _refuse_large(path: Path, shape: Sequence[int], working: _Working) -> None:
    wanted = BYTES_AN_ENTRY * math.prod(shape) + working(shape)
    what = f"The array of shape {tuple(shape)} in {path}"
    refuse_beyond_memory(wanted, what, "save fewer matrices in a file")


@contextmanager
def _refusing_damage(path: Path) -> Iterator[None]:
    """Turns what reading a file of numpy raises into an InputError."""
    try:
        yield
    # NotImplementedError: a way to compress that no zip file of numpy has. The second line: headers, which
    # numpy reads as Python's tokens.
    except (
        ValueError, EOFError, OSError, NotImplementedError, RuntimeError, zipfile.BadZipFile, zlib.error,
        SyntaxError, TypeError, LookupError, OverflowError, tokenize.TokenError,
    ) as error:  # fmt: skip
        reason = (
            "it holds Python objects (a pickle), which are never loaded; save plain numbers"
            if "Object arrays" in str(error)
            else f"it is damaged or no {path.suffix} file"
        )
        msg = f"{path} cannot be read: {reason}."
        raise InputError(msg) from error


def _tensor(path: Path, values: np.ndarray) -> Tensor:
    if values.dtype.kind not in "fiub":
        msg = f"{path} holds an array of {values.dtype}; attention weights are real numbers."
        raise InputError(msg)
    return torch.from_numpy(np.ascontiguousarray(values, dtype=np.float64))


def _read_safetensors(path: Path, array: str | None, working: _Working) -> Tensor:
    from safetensors import SafetensorError, safe_open

    try:
        check_regular(path)
        with safe_open(str(path), "pt") as file:
            name = _chosen(path, list(file.keys()), array)
            _refuse_large(path, file.get_slice(name).get_shape(), working)
            return file.get_tensor(name)
    except (SafetensorError, OSError) as error:
        msg = f"{path} cannot be read: it is damaged or no .safetensors file."
        raise InputError(msg) from error


def _chosen(path: Path, names: list[str], wanted: str | None) -> str:
    if wanted is not None and wanted not in names:
        msg = f"{path} has no array '{wanted}'; it has: {_some(names)}."
        raise InputError(msg)
    if wanted is not None:
        return wanted
    if len(names) != 1:
        msg = (
            f"{path} holds {len(names)} arrays ({_some(names)}); name one of them (array)."
            if names
            else f"{path} holds no array."
        )
        raise InputError(msg)
    return names[0]


def _some(names: list[str]) -> str:
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return (", ".join(names[:_MOST_NAMED]) or "none") + more


def _as_matrices(path: Path, values: Tensor) -> Tensor:
    if values.ndim < 2:
        msg = f"{path} holds an array of {values.ndim} dimension(s); a matrix has two."
        raise InputError(msg)
    if values.numel() == 0:
        msg = f"{path} holds an empty array of shape {tuple(values.shape)}."
        raise InputError(msg)
    if values.is_complex():
        msg = f"{path} holds an array of {values.dtype}; attention weights are real numbers."
        raise InputError(msg)
    return values.double()


def prepared(matrices: Tensor, normalize: str) -> tuple[Tensor, RowsNotNormalized | None]:
    """The matrices, checked, with rows divided by their sums if `normalize` is `rows`.

    With them a note where rows do not sum to 1 and are left so.

    Raises:
        InputError: an unknown way to normalize, an entry that is NaN or negative, or a row of zeros that
            cannot be normalized.
    """
    if normalize not in {"rows", "none"}:
        msg = f"Rows cannot be normalized by '{normalize}'; choose from: rows, none."
        raise InputError(msg)
    check_weights(matrices)
    if normalize == "rows":
        return normalized_rows(matrices), None
    if rows_sum_to_one(matrices):
        return matrices, None
    sums = matrices.sum(-1)
    return matrices, RowsNotNormalized(float(sums.min()), float(sums.max()))
