"""What training does before its first step, told while it lasts."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console

from attnlab.texts import duration

# Seconds: a stage that is over sooner prints nothing, and no stage prints lines more often.
FIRST_LINE, BETWEEN_LINES = 2.0, 10.0


@contextmanager
def stage(
    what: str,
    console: Console | None,
    *,
    first: float = FIRST_LINE,
    between: float = BETWEEN_LINES,
) -> Iterator[None]:
    """Prints how long the work in the block has lasted, a line every few seconds, through a pipe too.

    Args:
        what: is being done.
        console: where to; None for nowhere.
        first: seconds after which the first line is printed.
        between: seconds between two lines.
    """
    if console is None:
        yield
        return
    begun, ended = time.monotonic(), threading.Event()

    def tell(end: str) -> None:
        lasted = duration(time.monotonic() - begun)
        console.print(f"{what}: {lasted}{end}", soft_wrap=True, highlight=False, markup=False)

    def watch() -> None:
        seconds = first
        while not ended.wait(seconds):
            tell(" so far")
            seconds = between

    watching = threading.Thread(target=watch, daemon=True)
    watching.start()
    try:
        yield
    finally:
        ended.set()
        watching.join()
    if time.monotonic() - begun > first:
        tell("")
