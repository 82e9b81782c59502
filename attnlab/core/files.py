"""Files: opened where they are regular ones, written so that what existed is never damaged.

Whatever a user names or a folder holds is opened by `open_regular`, or goes through `check_regular` where
a library opens it by its path. What is written is a temporary file beside the target, then a rename.
"""

import glob
import hashlib
import json
import os
import re
import secrets
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from errno import EINVAL, ENOTSUP, ENXIO
from io import BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnlab.core.errors import AttnlabError, InputError
from attnlab.core.signals import note_written, undisturbed

if TYPE_CHECKING:
    import pandas as pd
    from torch import Tensor

# The end of the name of a file that is being written.
_TEMPORARY = re.compile(r"\.[0-9a-f]{8}")
# With apostrophes before it, so that what had them gets one more, and every text comes back. A number with
# its sign is none.
_FORMULA = re.compile(r"'*(?![+-](?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?\Z)[=+\-@\t\r]")
# What a path can lead to that is no file: reading it may never end, or never begin.
_KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
    stat.S_IFDIR: "a folder",
}
# Files that take their places later, by path: where they are written, or None as long as they are not.
_LATER: ContextVar[dict[Path, Path | None] | None] = ContextVar("later", default=None)
# Enough for a file system that has room for names alone to refuse it.
_TRIED_BYTES = 1 << 16


def expand_user(path: str | Path) -> Path:
    """The path, of which `~` or `~user` at the beginning is the home folder of that user.

    Raises:
        InputError: there is no such user.
    """
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        msg = f"There is no user whose home folder begins {path}; write ./{path} for a file of that name."
        raise InputError(msg) from error


def open_regular(path: str | Path, *, most_bytes: int | None = None) -> BufferedReader:
    """A file opened for reading; links are followed, and what they lead to must be a regular file.

    A named pipe is refused at once, where `open` would wait until somebody writes to it.

    Args:
        path: of the file.
        most_bytes: its largest size; None: any.

    Raises:
        InputError: it is no regular file, or larger.
        OSError: it cannot be opened.
    """
    try:
        number = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == ENXIO:  # as a socket has it
            check_regular(path)
        raise
    try:
        _check_status(path, os.fstat(number), most_bytes)
        os.set_blocking(number, True)
        return os.fdopen(number, "rb")
    except BaseException:
        os.close(number)
        raise


def check_regular(path: str | Path) -> None:
    """Raises for a path that `open_regular` would refuse for its kind; one where nothing is passes.

    Raises:
        InputError: see `open_regular`.
    """
    with suppress(OSError):
        _check_status(path, Path(path).stat(), None)


def check_files_in(folder: str | Path) -> None:
    """Raises where something in a folder is neither a regular file nor a folder, links followed.

    For libraries that choose themselves which files of a folder they read.

    Raises:
        InputError: see above; the first by name is told.
    """
    with suppress(OSError):
        for path in sorted(Path(folder).iterdir()):
            if not path.is_dir():
                check_regular(path)


def _check_status(path: str | Path, status: os.stat_result, most_bytes: int | None) -> None:
    kind = stat.S_IFMT(status.st_mode)
    if kind != stat.S_IFREG:
        msg = f"{path} is {_KINDS.get(kind, 'something else')} and no regular file; name a regular file."
        raise InputError(msg)
    if most_bytes is not None and status.st_size > most_bytes:
        msg = (
            f"{path} has {status.st_size:,} bytes, more than the {most_bytes:,} that are read; check the "
            "path."
        )
        raise InputError(msg)


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """Yields a temporary path beside `path`; when the block ends well the temporary file takes its place.

    If the block raises, `path` is as it was and the temporary file is gone.

    Raises:
        AttnlabError: the disk is full or the folder cannot be written.
    """
    path = Path(path)
    temporary = None
    try:
        with _telling(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary, permissions = _temporary_file(path)
            yield temporary
            # Afterwards, because a writer may have put a new file in this one's place.
            temporary.chmod(permissions)
            flush_to_disk(temporary)
            _put_in_place(temporary, path)
    finally:
        # Where it cannot be deleted either, the first error is the one to tell.
        with suppress(OSError):
            if temporary is not None and temporary not in (_LATER.get() or {}).values():
                temporary.unlink(missing_ok=True)


@contextmanager
def last_in_place(paths: Iterable[str | Path]) -> Iterator[None]:
    """Files of these paths that `replacing` writes inside the block take their places when it ends well.

    If the block raises, all of them are as they were.

    Raises:
        AttnlabError: one of them cannot take its place.
    """
    later: dict[Path, Path | None] = dict.fromkeys(map(Path, paths))
    outer = _LATER.set(later)
    try:
        yield
        _LATER.reset(outer)
        with undisturbed():
            for path, temporary in later.items():
                if temporary is not None:
                    with _telling(path):
                        _put_in_place(temporary, path)
                    later[path] = None
    finally:
        if _LATER.get() is later:
            _LATER.reset(outer)
        for temporary in later.values():
            with suppress(OSError):
                if temporary is not None:
                    temporary.unlink(missing_ok=True)


def _put_in_place(temporary: Path, path: Path) -> None:
    """Renames a written file to `path`, or leaves that to `last_in_place`."""
    later = _LATER.get()
    if later is not None and path in later:
        later[path] = temporary
    else:
        temporary.replace(path)
        flush_to_disk(path.parent)
        note_written(path)


@contextmanager
def _telling(path: Path) -> Iterator[None]:
    """Raises AttnlabError for a file that cannot be written, whichever library writes it."""
    try:
        yield
    except Exception as error:
        if not isinstance(error, OSError | _safetensors_error()):
            raise
        cause = (error.strerror if isinstance(error, OSError) else None) or error
        msg = f"Could not write {path}: {cause}; what was there before is unchanged."
        raise AttnlabError(msg) from error


def _temporary_file(path: Path) -> tuple[Path, int]:
    """An empty file in the folder of `path`, with a name that starts alike, and its permissions.

    These are those of any new file of the user's; files of `tempfile` can be read by their owner only.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    handle = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)
    try:
        return temporary, stat.S_IMODE(os.fstat(handle).st_mode)
    finally:
        os.close(handle)


def check_writable(folder: str | Path) -> None:
    """Raises where no file can be written to `folder`, or to the folder that it would be made in.

    What is written to find out has no name, and is gone at once.

    Raises:
        InputError: the disk is full, or cannot be written, or the folder is a link to nothing.
    """
    folder = Path(folder)
    check_no_dangling_link(folder)
    nearest = next(
        path for path in (folder.absolute(), *folder.absolute().parents) if path.is_dir()
    )
    try:
        with tempfile.TemporaryFile(dir=nearest, buffering=0) as file:
            file.write(bytes(_TRIED_BYTES))
    except OSError as error:
        msg = f"Could not write to {folder}: {error.strerror or error}; choose another folder."
        raise InputError(msg) from error


def check_no_dangling_link(folder: str | Path) -> None:
    """Raises where a folder to write to, or one that it would be made in, is a link that leads nowhere.

    Raises:
        InputError: see above.
    """
    folder = Path(folder)
    for path in (folder, *folder.parents):
        if path.is_symlink() and not path.exists():
            msg = (
                f"{path} is a link to {path.readlink()}, where nothing is; delete the link, or name another "
                "folder."
            )
            raise InputError(msg)


def delete_leftovers(folder: str | Path, names: Iterable[str]) -> None:
    """Deletes what killed processes left in `folder` of writing these files; only who holds its lock may."""
    for name in names:
        for path in Path(folder).glob(f".{glob.escape(name)}.*"):
            if _TEMPORARY.fullmatch(path.name.removeprefix(f".{name}")):
                path.unlink(missing_ok=True)


def delete(path: str | Path) -> None:
    """Deletes a file, a link or a folder with all that is in it; nothing is deleted through a link.

    Raises:
        OSError: it cannot be deleted; part of a folder may be gone.
    """
    path = Path(path)
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def set_usual_permissions(folder: str | Path) -> None:
    """Gives the files in `folder` the permissions of any new file; libraries make some for their owner alone.

    Raises:
        OSError: the folder cannot be written.
    """
    probe, permissions = _temporary_file(Path(folder) / "permissions")
    probe.unlink()
    for path in Path(folder).iterdir():
        if path.is_file() and not path.is_symlink():
            path.chmod(permissions)


def flush_to_disk(path: str | Path) -> None:
    """Returns when what a file holds, or which names a folder holds, would outlive a power failure.

    Raises:
        OSError: it cannot be written; a full disk may be noticed only here.
    """
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (EINVAL, ENOTSUP):  # file systems that cannot be asked to
            raise
    finally:
        os.close(handle)


def file_checksum(path: str | Path) -> str:
    """SHA-256 of the content of a file, in hexadecimal digits; cost: about two seconds per gigabyte.

    Raises:
        InputError: it is no regular file.
        OSError: it cannot be read.
    """
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _safetensors_error() -> type[Exception]:
    """The class that safetensors raises instead of an OSError, once the library is loaded."""
    loaded = sys.modules.get("safetensors")
    return OSError if loaded is None else loaded.SafetensorError


def write_text(path: str | Path, text: str) -> None:
    """Writes `text` as UTF-8 with line feeds as line ends, atomically."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")


def write_json(path: str | Path, value: Any) -> None:
    """Writes `value` as indented JSON, atomically."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def write_table(path: str | Path, table: "pd.DataFrame") -> None:
    """Writes a tidy table as CSV without its index, atomically, its texts as `inert_texts` has them."""
    write_text(path, csv_of(table))


def csv_of(table: "pd.DataFrame") -> str:
    """A tidy table as CSV without its index, its texts as `inert_texts` has them.

    Every float has the digits that tell it from all others.
    """
    return str(inert_texts(table).to_csv(index=False, lineterminator="\n"))


def inert_texts(table: "pd.DataFrame") -> "pd.DataFrame":
    """The table with an apostrophe before each text that a spreadsheet would take for a formula.

    These begin with = + - @, a tab or a carriage return; numbers stay, also those in columns of texts, such
    as "-0.5". `read_text_cell` takes it off.
    """
    others = table.select_dtypes(exclude=["number", "bool"])
    # `map` would make floats of whole numbers among which some are missing.
    texts = [name for name in others if any(isinstance(cell, str) for cell in others[name])]
    return (
        table.assign(**{str(name): table[name].map(_inert) for name in texts}) if texts else table
    )


def _inert(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and _FORMULA.match(value) else value


def read_text_cell(cell: str) -> str:
    """The text of a cell that `inert_texts` made.

    >>> read_text_cell("'=1+1"), read_text_cell("'tis")
    ('=1+1', "'tis")
    """
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell


def write_tensors(
    path: str | Path, tensors: "Mapping[str, Tensor]", metadata: Mapping[str, str] | None = None
) -> None:
    """Writes named tensors as safetensors, atomically and the same to the last byte for the same values.

    Args:
        path: where to.
        tensors: in the file they are sorted by size of numbers and name.
        metadata: strings by name; in the file they are sorted.
    """
    from safetensors.torch import save_file

    with replacing(path) as temporary:
        save_file(
            {name: tensor.contiguous() for name, tensor in tensors.items()},
            temporary,
            # An empty mapping would make a file without tensors unreadable.
            metadata=dict(metadata) if metadata else None,
        )
        _sort_metadata(temporary)


def _sort_metadata(path: Path) -> None:
    """Sorts the metadata of a safetensors file, which come in another order in each process."""
    with path.open("r+b") as file:
        size = int.from_bytes(file.read(8), "little")
        written = file.read(size)
        header = json.loads(written)
        if "__metadata__" in header:
            header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
            text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
            # As safetensors writes JSON, so that both are as long.
            assert len(text.ljust(size)) == size  # noqa: S101 - the offsets of tensors would shift
            file.seek(8)
            file.write(text.ljust(size))


MATRIX_SUFFIXES = (".npz", ".npy", ".safetensors")


def is_matrix_file(source: object) -> bool:
    """Whether `source` is the name of a file of matrices."""
    return isinstance(source, str | Path) and Path(source).suffix in MATRIX_SUFFIXES
