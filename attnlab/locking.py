"""One process at a time in a folder; nothing heavy is imported."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from attnlab.errors import AttnlabError, InputError
from attnlab.files import check_no_dangling_link

# A folder that others delete while it is being locked is made so often.
ATTEMPTS = 20


@contextmanager
def locked(folder: str | Path) -> Iterator[None]:
    """Until the block ends, no other process can lock `folder`.

    The operating system holds the lock on the folder itself and takes it back when the process ends,
    however it ends. A folder that is not there is made, and deleted again where it stays empty.
    File systems without such locks (NFS) refuse nobody.

    Raises:
        InputError: another process writes there, which is named where the system tells it.
        AttnlabError: the folder cannot be made or opened.
    """
    handle, made = _made_and_locked(Path(folder))
    try:
        yield
    finally:
        # Still locked: nobody else writes in what is deleted.
        with suppress(OSError):  # something stands in it
            for path in made:
                path.rmdir()
        os.close(handle)


def _made_and_locked(folder: Path) -> tuple[int, list[Path]]:
    """The locked folder, and which folders had to be made, the deepest first."""
    check_no_dangling_link(folder)
    made: set[Path] = set()
    try:
        for attempt in range(1, ATTEMPTS + 1):
            made |= {path for path in (folder, *folder.parents) if not os.path.lexists(path)}
            try:
                handle = _opened(folder)
            except FileNotFoundError:  # deleted since
                if attempt == ATTEMPTS:
                    raise
                continue
            if _lock(handle, folder):
                return handle, sorted(made, key=lambda path: len(path.parts), reverse=True)
    except OSError as error:
        msg = f"Could not make the folder {folder}: {error.strerror or error}; choose another one."
        raise AttnlabError(msg) from error
    msg = f"Other processes keep deleting the folder {folder}; choose another one."
    raise AttnlabError(msg)


def _opened(folder: Path) -> int:
    if not folder.exists():
        folder.mkdir(parents=True, exist_ok=True)
    return os.open(folder, os.O_RDONLY)


def _lock(handle: int, folder: Path) -> bool:
    """Whether what is locked is still the folder; closed where it is not, or another process writes there."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        holder = _holder(os.fstat(handle))
        os.close(handle)
        who = "Another process" if holder is None else f"Another process ({holder})"
        msg = f"{who} is writing to {folder}; wait until it ends, or choose another folder."
        raise InputError(msg) from error
    except OSError:  # a file system without locks
        return True
    try:
        is_kept = os.path.samestat(os.fstat(handle), folder.stat())
    except FileNotFoundError:
        is_kept = False
    if not is_kept:
        os.close(handle)
    return is_kept


def _holder(folder: os.stat_result) -> int | None:
    """The number of the process that holds the lock; None where Linux does not list it."""
    device = f"{os.major(folder.st_dev):02x}:{os.minor(folder.st_dev):02x}:{folder.st_ino}"
    try:
        rows = [line.split() for line in Path("/proc/locks").read_text("ascii").splitlines()]
    except OSError:
        return None
    holders = [int(row[4]) for row in rows if row[1] == "FLOCK" and row[5] == device]
    return holders[0] if holders else None
