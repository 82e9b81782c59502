"""Progress on standard error, for work that tells (what, done, total): a bar, or plain lines in a file."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from attnlab.cli.loading import announce_nothing
from attnlab.cli.output import busy_clause, messages, output
from attnlab.core import BETWEEN_LINES, FIRST_LINE, Terminal, duration, printable, repeated

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID

# Seconds between two looks at whether a line is due though nothing was told.
BEAT = 0.5
# Steps that all together are shorter say little of the next: the first ones are the slowest.
_LONG_ENOUGH = 1.0
# What is done until something is told: the model, a corpus, sentences.
_FIRST = "Reading"
_BETWEEN = "Working"


@runtime_checkable
class Tell(Protocol):
    """Shows how far work is."""

    def __call__(self, what: str, done: int, total: int) -> None:
        """Shows how much of one kind of work is done."""

    def name(self, work: str) -> None:
        """Shows what is being done now, until something is told of it."""


@contextmanager
def progress_bars(*, shown: bool = True, announced: bool = False, at: str = "") -> Iterator[Tell]:
    """Yields a function that shows how far each kind of work is, with the time that remains.

    On a terminal it moves a bar for each kind of work; elsewhere it prints a line every few seconds,
    also while nothing is told.

    Args:
        shown: False for none at all, in all but the first of several processes.
        announced: also print how much there is to do and how long it will take, see `Announced`; never
            beside --json.
        at: a clause that the first announcement ends with.
    """
    console = messages()
    announced = announced and not output().as_json
    if not shown or console.quiet:
        yield Lines(Terminal(quiet=True))
    elif console.is_terminal:
        with _bars(console) as bars:
            yield Announced(bars, console, at=at) if announced else bars
    else:
        lines = Lines(console)
        with repeated(lines.wait, first=BEAT, between=BEAT):
            yield Announced(lines, console, at=at) if announced else lines


@contextmanager
def _bars(console: "Console") -> "Iterator[Bars]":
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        SpinnerColumn,
        TextColumn,
        TimeRemainingColumn,
    )

    announce_nothing()
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(SpinnerColumn(), *columns, console=console) as bars:
        yield Bars(bars)


class Bars:
    """Moves a bar for each kind of work on a terminal.

    Args:
        bars: that are shown; another one stands for what is being done now.
    """

    def __init__(self, bars: "Progress") -> None:
        self._bars = bars
        self._tasks: dict[str, TaskID] = {}
        self._finished: set[str] = set()
        self._now = bars.add_task(_FIRST, total=None)

    def __call__(self, what: str, done: int, total: int) -> None:
        """Moves the bar of this kind of work, which the first call adds."""
        self._bars.update(self._now, visible=False)
        if what not in self._tasks:
            self._tasks[what] = self._bars.add_task(printable(what), total=total)
        if what in self._finished:
            # The same kind of work once more, whose time has nothing to do with the first.
            self._bars.reset(self._tasks[what], total=total)
        (self._finished.add if done >= total else self._finished.discard)(what)
        self._bars.update(self._tasks[what], completed=done)

    def name(self, work: str) -> None:
        """Shows what is being done now beside a bar that has no end."""
        self._bars.update(self._now, description=printable(work), visible=True)


class Announced:
    """Prints how many steps a kind of work has before its first, and how long all will take soon after.

    The time is that of the steps of the first second times their number; it is left out where it is
    below `FIRST_LINE`. Only work that tells of 0 done steps is announced. The first of these times is
    told with the share of the processors that other processes have, where that is large.

    Args:
        tell: shows all the rest.
        console: where to.
        clock: seconds from any point on.
        busy: a clause on other processes, or nothing.
        at: a clause that the first announcement ends with.
    """

    def __init__(
        self,
        tell: Tell,
        console: "Console",
        clock: Callable[[], float] = time.monotonic,
        busy: Callable[[], str] = busy_clause,
        at: str = "",
    ) -> None:
        self._tell, self._console, self._clock, self._busy = tell, console, clock, busy
        self._warned, self._at = False, at
        self._begun: dict[str, float] = {}
        self._estimated: set[str] = set()

    def __call__(self, what: str, done: int, total: int) -> None:
        """Prints what is to be announced, and passes all on."""
        now = self._clock()
        if what not in self._begun and done == 0 < total:
            self._begun[what] = now
            self._print(f"{what}: {total:,} to do{self._at}")
            self._at = ""
        elif (
            what not in self._estimated
            and 0 < done < total
            and now - self._begun.get(what, now) >= _LONG_ENOUGH
        ):
            self._estimated.add(what)
            seconds = (now - self._begun[what]) * total / done
            if seconds >= FIRST_LINE:
                busy = "" if self._warned else self._busy()
                self._warned = self._warned or bool(busy)
                self._print(f"{what}: about {duration(seconds)} for all {total:,}{busy}")
        if done >= total:
            self._begun.pop(what, None)
            self._estimated.discard(what)
        self._tell(what, done, total)

    def name(self, work: str) -> None:
        """Shows what is being done now."""
        self._tell.name(work)

    def _print(self, line: str) -> None:
        self._console.print(line, soft_wrap=True, highlight=False)


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

    def name(self, work: str) -> None:
        """Says from now on what is being done where nothing is told of it for long."""
        with self._lock:
            self._now, self._since = work, self._clock()

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
        begun = self._begun[what]
        finished = done >= total and self._next[what] > begun[0] + FIRST_LINE
        if done >= total:
            # The same kind of work once more has a time of its own.
            del self._begun[what]
        if now < self._next[what] and not finished:
            return
        self._next[what] = now + BETWEEN_LINES
        self._print(f"{what}: {done:,} of {total:,}{_left(begun, done, total, now)}", now)

    def _print(self, line: str, now: float) -> None:
        # Later than the next line of work that tells.
        self._due = now + 1.5 * BETWEEN_LINES
        self._console.print(line, soft_wrap=True, highlight=False)


def _left(begun: tuple[float, int], done: int, total: int, now: float) -> str:
    """The time that work took, or will take at its speed since it was first told of, as a clause."""
    since, first = begun
    if done >= total:
        return f", {duration(now - since)}"
    if done <= first:
        return ""
    return f", about {duration((now - since) * (total - done) / (done - first))} left"
