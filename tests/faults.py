"""Faults at the n-th step of a forked process that changes files: killed, interrupted, refused, disk full."""

import errno
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from attnlab.core.errors import AttnlabError

FAILED, BROKEN = 3, 4
# A file system without a disk, where the system has one.
MEMORY = Path("/dev/shm")
CHANGES = {"os.rename", "os.mkdir", "os.remove", "os.rmdir"}


def is_device(path: str) -> bool:
    return path.startswith("/dev/") and not path.startswith(str(MEMORY))


def in_child(action: Callable[[], object], fault: str, at: int) -> tuple[int, bool]:
    """The end of a forked process whose `at`-th change of a file meets a fault, and whether it did."""
    status, told = _ended(action, fault, at)
    return status, told == b"met"


def steps_of(action: Callable[[], object]) -> int:
    """How many changes of files a forked process makes."""
    status, told = _ended(action, "none", 0)
    assert status == 0
    return int(told)


def started(
    action: Callable[[], object], fault: str = "none", at: int = 0, writer: int = -1
) -> int:
    """The number of a forked process; it ends with 0, `FAILED` after one sentence, or `BROKEN`."""
    child = os.fork()
    if child:
        return child
    steps = 0

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal steps
        writing = event == "open" and (arguments[2] or 0) & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        path = os.fspath(arguments[0]) if writing or event in CHANGES else None
        if not isinstance(path, str) or "attnlab-" in path or is_device(path):
            return
        steps += 1
        if steps == at:
            os.write(writer, b"met")
            if fault == "killed":
                os.kill(os.getpid(), signal.SIGKILL)
            if fault == "interrupted":
                raise KeyboardInterrupt
        if fault == "refused once" and steps == at:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        if fault == "read-only" and steps >= at:
            raise PermissionError(errno.EROFS, os.strerror(errno.EROFS), path)
        if fault == "disk full" and steps >= at and (writing or event == "os.mkdir"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    status = BROKEN
    try:
        sys.addaudithook(watch)
        action()
        status = 0
    except (AttnlabError, KeyboardInterrupt):
        status = FAILED
    finally:
        if at == 0 and writer >= 0:
            os.write(writer, str(steps).encode())
        os._exit(status)


def _ended(action: Callable[[], object], fault: str, at: int) -> tuple[int, bytes]:
    reader, writer = os.pipe()
    child = started(action, fault, at, writer)
    os.close(writer)
    with os.fdopen(reader, "rb") as told:
        text = told.read()
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), text
