"""Attention matrices from files: .npz, .npy and .safetensors; nothing is unpickled."""

import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from attnlab.addresses import layer_name
from attnlab.errors import InputError
from attnlab.extraction.keeping import holds_kept_matrices
from attnlab.extraction.keeping import load_matrices as load_kept
from attnlab.extraction.notes import RowsNotNormalized
from attnlab.matrices.weights import check_weights, normalized_rows, rows_sum_to_one


def load_matrices(path: str | Path, *, array: str | None = None) -> Tensor:
    """The matrices of a file in float64, `[*batch query key]`.

    `array` says which one to take from a file that holds several.

    Raises:
        InputError: the file is missing, of an unknown kind, damaged, pickled, holds several arrays and
            none was named, or its array is no batch of matrices.
    """
    path = Path(path)
    if not path.is_file():
        msg = f"There is no file {path}; check the path."
        raise InputError(msg)
    readers: dict[str, Callable[[Path], dict[str, Tensor]]] = {
        ".npy": _read_numpy,
        ".npz": _read_numpy,
        ".safetensors": _read_safetensors,
    }
    if path.suffix not in readers:
        msg = f"{path} is none of the files that can be read: {', '.join(readers)}."
        raise InputError(msg)
    arrays = readers[path.suffix](path)
    name = _chosen(path, list(arrays), array)
    return _as_matrices(path, arrays[name])


def load_arrays(path: str | Path, *, array: str | None = None) -> dict[str, Tensor]:
    """The matrices of a file by the name of their array; all arrays of a file of an analysis.

    A file from elsewhere gives one array, with an empty name.

    Raises:
        InputError: as `load_matrices`.
    """
    path = Path(path)
    if array is not None or not holds_kept_matrices(path):
        return {"": load_matrices(path, array=array)}
    found = load_kept(path).matrices
    return {
        f"{n}.{layer_name(site, layer)}": matrix.double()
        for (n, site, layer), matrix in found.items()
    }


def _read_numpy(path: Path) -> dict[str, Tensor]:
    try:
        loaded = np.load(path, allow_pickle=False)
        named = {"": loaded} if isinstance(loaded, np.ndarray) else dict(loaded)
    # NotImplementedError: a way to compress that no zip file of numpy has.
    except (
        ValueError, EOFError, OSError, NotImplementedError, RuntimeError, zipfile.BadZipFile, zlib.error,
    ) as error:  # fmt: skip
        reason = (
            "it holds Python objects (a pickle), which are never loaded; save plain numbers"
            if "pickle" in str(error)
            else f"it is damaged or no {path.suffix} file"
        )
        msg = f"{path} cannot be read: {reason}."
        raise InputError(msg) from error
    return {name: _tensor(path, values) for name, values in named.items()}


def _tensor(path: Path, values: np.ndarray) -> Tensor:
    if values.dtype.kind not in "fiub":
        msg = f"{path} holds an array of {values.dtype}; attention weights are real numbers."
        raise InputError(msg)
    return torch.from_numpy(np.ascontiguousarray(values, dtype=np.float64))


def _read_safetensors(path: Path) -> dict[str, Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return load_file(path)
    except (SafetensorError, OSError) as error:
        msg = f"{path} cannot be read: it is damaged or no .safetensors file."
        raise InputError(msg) from error


def _chosen(path: Path, names: list[str], wanted: str | None) -> str:
    if wanted is not None and wanted not in names:
        msg = f"{path} has no array '{wanted}'; it has: {', '.join(names) or 'none'}."
        raise InputError(msg)
    if wanted is not None:
        return wanted
    if len(names) != 1:
        msg = (
            f"{path} holds {len(names)} arrays ({', '.join(names)}); name one with --array."
            if names
            else f"{path} holds no array."
        )
        raise InputError(msg)
    return names[0]


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
