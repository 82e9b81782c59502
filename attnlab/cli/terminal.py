"""Output of a program that outlives its terminal: what nobody can read any more is dropped."""

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from errno import EBADF, EIO, ENOSPC
from pathlib import Path
from typing import Any

from attnlab.core.errors import AttnlabError, InputError


class _Terminal(io.FileIO):
    """A terminal that takes everything when it is closed, as a file would."""

    def write(self, data: Any, /) -> int:
        """Writes to the terminal, or nowhere.

        Raises:
            OSError: anything but a closed terminal keeps it from being written.
        """
        try:
            return super().write(data)
        except OSError as error:
            if error.errno != EIO:
                raise
            return memoryview(data).nbytes


def outlive_terminal() -> None:
    """Lets standard output and error, where they are a terminal, be written after it is closed.

    A training then ends with a checkpoint, as SIGHUP asks for, and not at its next line of progress.
    """
    sys.stdout, sys.stderr = _outliving(sys.stdout), _outliving(sys.stderr)


def check_output_open() -> None:
    """Raises where a shell's `>&-` has closed standard output, so that no result would be read.

    Standard error, closed in that way, is dropped.

    Raises:
        InputError: see above.
    """
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - until the end
    if sys.stdout is None:
        sys.stdout = sys.stderr
        msg = "Standard output is closed, so no result can be written; leave >&- out, or write >/dev/null."
        raise InputError(msg)


@contextmanager
def flushed_output() -> Iterator[None]:
    """What is written inside the block has reached standard output when it ends.

    Raises:
        AttnlabError: it could not be written, to a full disk say.
    """
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except BrokenPipeError:  # whoever read it has enough
        _drop_output()
        raise SystemExit(1) from None
    except OSError as error:
        # Of a file its name is known.
        if error.filename is not None or error.errno not in {EBADF, EIO, ENOSPC}:
            raise
        _drop_output()
        msg = f"Could not write to standard output: {error.strerror}."
        raise AttnlabError(msg) from error


def _drop_output() -> None:
    """Python would write what is left once more at its end, and fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _outliving(stream: Any) -> Any:
    if stream is None:  # as a shell's >&- leaves it
        return None
    # Whatever stands in for a stream of text, in a notebook or a test.
    try:
        number = stream.fileno()
    except (OSError, ValueError):  # no file at all
        return stream
    if not os.isatty(number):
        return stream
    stream.flush()
    made = io.TextIOWrapper(
        io.BufferedWriter(_Terminal(number, "w", closefd=False)),
        encoding=stream.encoding, errors=stream.errors, line_buffering=True,
    )  # fmt: skip
    made.mode = "w"  # type: ignore[misc]  # as open leaves it
    return made
