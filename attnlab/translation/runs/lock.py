"""One training at a time in a run directory; nothing heavy is imported."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from attnlab.errors import AttnlabError, InputError


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Until the block ends, no other process can train in `folder`.

    The operating system holds the lock on the folder itself and takes it back when the process ends,
    however it ends. A folder that is not there is made, and deleted again where it stays empty.
    File systems without such locks (NFS) refuse nobody.

    Raises:
        InputError: another process trains there.
        AttnlabError: the folder cannot be made.
    """
    with _made(folder):
        handle = _lock(folder)
        try:
            yield
        finally:
            if handle is not None:
                os.close(handle)


@contextmanager
def _made(folder: Path) -> Iterator[None]:
    missing = [path for path in (folder, *folder.parents) if not os.path.lexists(path)]
    try:
        if missing:
            folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        msg = f"Could not make the folder {folder}: {error.strerror or error}; choose another one."
        raise AttnlabError(msg) from error
    try:
        yield
    finally:
        with suppress(OSError):  # something stands in it
            for path in missing:
                path.rmdir()


def _lock(folder: Path) -> int | None:
    if not folder.is_dir():
        return None
    handle = None
    try:
        handle = os.open(folder, os.O_RDONLY)
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if handle is not None:
            os.close(handle)
        if isinstance(error, BlockingIOError):
            msg = f"Another process is training in {folder}; wait until it ends, or choose another folder."
            raise InputError(msg) from error
        return None
    return handle
