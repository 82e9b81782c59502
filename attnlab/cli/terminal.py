"""Output of a program that outlives its terminal: what nobody can read any more is dropped."""

import io
import os
import sys
from errno import EIO
from typing import Any


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
