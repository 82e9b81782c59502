"""Files of arrays: what their headers declare is refused before anything of them is read.

Every reader of `.npy`, members of `.npz` and safetensors begins here, so that none fills the memory.
"""

import math
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Shaped

from attnlab.core.errors import InputError, reason
from attnlab.core.files import check_regular
from attnlab.core.limits import check_memory

if TYPE_CHECKING:
    from torch import Tensor

# What numpy and zipfile raise for files that are damaged. NotImplementedError: a way to compress that no zip
# file of numpy has. The second line: headers, which numpy reads as Python's tokens.
UNREADABLE_ARRAYS = (
    ValueError, EOFError, OSError, NotImplementedError, RuntimeError, zipfile.BadZipFile, zlib.error,
    SyntaxError, TypeError, LookupError, OverflowError, tokenize.TokenError,
)  # fmt: skip
_ADVICE = "save fewer numbers in a file"


def read_numpy(
    path: str | Path,
    opened: Callable[[], IO[bytes]],
    holds: str,
    working: Callable[[tuple[int, ...]], int] = lambda _: 0,
) -> Shaped[np.ndarray, "..."]:
    """An array of real numbers in the format of `.npy`, of whatever shape; no more is read than it declares.

    Args:
        path: of the file, for errors.
        opened: the file, or the member of a `.npz`, at its beginning; called twice.
        holds: what the array should hold, in the plural.
        working: the bytes that the work with an array of a shape will need beside it.

    Raises:
        InputError: by its header the array holds something else than real numbers, or does not fit the free
            memory.
        Exception: one of `UNREADABLE_ARRAYS`: the file is damaged.
    """
    shape, size = declared_array(path, opened, holds)
    check_memory(size + working(shape), f"The array of shape {shape} in {path}", _ADVICE)
    with opened() as file:
        return np.lib.format.read_array(file, allow_pickle=False)


def declared_array(
    path: str | Path, opened: Callable[[], IO[bytes]], holds: str
) -> tuple[tuple[int, ...], int]:
    """The shape of an array in the format of `.npy` and its size in bytes, by its header alone.

    Args:
        path: of the file, for errors.
        opened: the file, or the member of a `.npz`, at its beginning.
        holds: what the array should hold, in the plural.

    Raises:
        InputError: the array holds something else than real numbers.
        Exception: one of `UNREADABLE_ARRAYS`: the file is damaged.
    """
    with opened() as file:
        version = np.lib.format.read_magic(file)
        read = getattr(np.lib.format, f"read_array_header_{1 if version == (1, 0) else 2}_0")
        shape, _, dtype = read(file)
    if dtype.kind not in "fiub":
        what = "Python objects (a pickle), which are never loaded" if dtype.hasobject else dtype
        msg = f"{path} holds an array of {what}; {holds} are real numbers."
        raise InputError(msg)
    return tuple(shape), dtype.itemsize * math.prod(shape)


@contextmanager
def opened_tensors(path: str | Path, copies: int = 1) -> Iterator[Any]:
    """A safetensors file of which every tensor fits the free memory.

    Args:
        path: of the file.
        copies: how many bytes the work with its tensors needs for each of them.

    Raises:
        InputError: it is no regular file, or does not fit.
        OSError: it cannot be read.
        SafetensorError: the same.
    """
    from safetensors import safe_open

    check_regular(path)
    # A header can only declare what the file has, though a file with holes takes no room on the disk.
    check_memory(copies * Path(path).stat().st_size, f"What {path} holds", _ADVICE)
    with safe_open(str(path), framework="pt") as file:
        yield file


def read_tensors(path: str | Path, names: Collection[str]) -> "dict[str, Tensor]":
    """The tensors of a safetensors file that holds those of these names and no others.

    Raises:
        InputError: there is no such file, it does not fit the free memory, is damaged or holds others.
    """
    from safetensors import SafetensorError

    advice = "make the result again"
    if not Path(path).is_file():
        msg = f"{path} is absent; {advice}."
        raise InputError(msg)
    try:
        with opened_tensors(path, copies=2) as file:
            tensor_names = sorted(file.keys())
            if set(tensor_names) != set(names):
                msg = f"{path} holds {', '.join(tensor_names)}, and {', '.join(names)} was written; {advice}."
                raise InputError(msg)
            return {name: file.get_tensor(name) for name in tensor_names}
    except (OSError, SafetensorError) as error:
        msg = f"{path} cannot be read ({reason(error)}); {advice}."
        raise InputError(msg) from error
