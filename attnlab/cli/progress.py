"""Progress on standard error, for work that tells (what, done, total): a bar, or plain lines in a file."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from attnlab.cli.output import messages
from attnlab.texts import duration, printable
from attnlab.waiting import BETWEEN_LINES, FIRST_LINE, repeated

if TYPE_CHECKING:
    from rich.console import Console

Tell = Callable[[str, int, int], None]
# Seconds between two looks at whether a line is due though nothing was told.
BEAT = 0.5
# What is done until something is told: the model, a corpus, sentences.
_FIRST = "Reading"
_BETWEEN = "Working"


@contextmanager
def progress_bars(*, shown: bool = True) -> Iterator[Tell]:
    """Yields a function that shows how far each kind of work is, with the time that remains.

    On a terminal it moves a bar for each kind of work; elsewhere it prints a line every few seconds,
    also while nothing is told.

    Args:
        shown: False for none at all, in all but the first of several processes.
    """
    console = messages()
    if not shown or console.quiet:
        yield lambda _what, _done, _total: None
    elif console.is_terminal:
        with _bars(console) as tell:
            yield tell
    else:
        lines = Lines(console)
        with repeated(lines.wait, first=BEAT, between=BEAT):
            yield lines


@contextmanager
def _bars(console: "Console") -> Iterator[Tell]:
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        SpinnerColumn,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(SpinnerColumn(), *columns, console=console) as bars:
        tasks = {}
        first = bars.add_task(_FIRST, total=None)

        def tell(what: str, done: int, total: int) -> None:
            bars.update(first, visible=False)
            if what not in tasks:
                tasks[what] = bars.add_task(printable(what), total=total)
            bars.update(tasks[what], completed=done)

        yield tell


class Lines:
    """Prints how far work is where there is no terminal: a line per kind of work every few seconds.

    `wait` prints how long the work has lasted where nothing has been told for as long.

    Args:
        console: where to.
        clock: seconds from any point on.
    """

    def __init__(self, console: "Console", clock: Callable[[], float] = time.monotonic) -> None:
        self._console = console
        self._clock = clock
        self._begun: dict[str, tuple[float, int]] = {}
        self._next: dict[str, float] = {}
        self._lock = threading.Lock()
        # What is done and since when, and when the next line is due though nothing is told.
        self._now, self._since = _FIRST, clock()
        self._due = self._since + FIRST_LINE

    def __call__(self, what: str, done: int, total: int) -> None:
        """Prints a line if the last one is old enough, or work that had one is finished."""
        with self._lock:
            self._tell(what, done, total)

    def wait(self) -> None:
        """Prints how long the work has lasted if no line was printed for long."""
        with self._lock:
            now = self._clock()
            if now >= max(self._due, self._since + FIRST_LINE):
                self._print(f"{self._now}: {duration(now - self._since)} so far", now)

    def _tell(self, what: str, done: int, total: int) -> None:
        now = self._clock()
        if what not in self._begun:
            self._since = now
        self._now = what
        if done >= total:
            self._now, self._since = _BETWEEN, now
        if what not in self._begun:
            self._begun[what] = (now, done)
            self._next[what] = now + FIRST_LINE
        finished = done >= total and self._next[what] > self._begun[what][0] + FIRST_LINE
        if now < self._next[what] and not finished:
            return
        self._next[what] = now + BETWEEN_LINES
        self._print(f"{what}: {done:,} of {total:,}{self._left(what, done, total, now)}", now)

    def _print(self, line: str, now: float) -> None:
        # Later than the next line of work that tells.
        self._due = now + 1.5 * BETWEEN_LINES
        self._console.print(line, soft_wrap=True, highlight=False)

    def _left(self, what: str, done: int, total: int, now: float) -> str:
        begun, first = self._begun[what]
        if done >= total:
            return f", {duration(now - begun)}"
        if done <= first:
            return ""
        return f", about {duration((now - begun) * (total - done) / (done - first))} left"
