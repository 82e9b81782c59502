"""Progress on standard error, for work that tells (what, done, total): a bar, or plain lines in a file."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from attnlab.cli.output import messages

if TYPE_CHECKING:
    from rich.console import Console

Tell = Callable[[str, int, int], None]
# Seconds: work that is over sooner prints no line, and no work prints lines more often.
FIRST_LINE, BETWEEN_LINES = 2.0, 10.0


@contextmanager
def progress_bars(*, shown: bool = True) -> Iterator[Tell]:
    """Yields a function that shows how far each kind of work is, with the time that remains.

    On a terminal it moves a bar for each kind of work; elsewhere it prints a line every few seconds.

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
        yield Lines(console)


@contextmanager
def _bars(console: "Console") -> Iterator[Tell]:
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as bars:
        tasks = {}

        def tell(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bars.add_task(what, total=total)
            bars.update(tasks[what], completed=done)

        yield tell


class Lines:
    """Prints how far work is where there is no terminal: a line per kind of work every few seconds.

    Args:
        console: where to.
        clock: seconds from any point on.
    """

    def __init__(self, console: "Console", clock: Callable[[], float] = time.monotonic) -> None:
        self._console = console
        self._clock = clock
        self._begun: dict[str, tuple[float, int]] = {}
        self._next: dict[str, float] = {}

    def __call__(self, what: str, done: int, total: int) -> None:
        """Prints a line if the last one is old enough, or work that had one is finished."""
        now = self._clock()
        if what not in self._begun:
            self._begun[what] = (now, done)
            self._next[what] = now + FIRST_LINE
        finished = done >= total and self._next[what] > self._begun[what][0] + FIRST_LINE
        if now < self._next[what] and not finished:
            return
        self._next[what] = now + BETWEEN_LINES
        self._console.print(
            f"{what}: {done:,} of {total:,}{self._left(what, done, total, now)}",
            soft_wrap=True, highlight=False, markup=False,
        )  # fmt: skip

    def _left(self, what: str, done: int, total: int, now: float) -> str:
        begun, first = self._begun[what]
        if done >= total:
            return f", {_duration(now - begun)}"
        if done <= first:
            return ""
        return f", about {_duration((now - begun) * (total - done) / (done - first))} left"


def _duration(seconds: float) -> str:
    """A time in words.

    >>> _duration(3.2), _duration(80.0), _duration(7300.0)
    ('3 s', '1 min 20 s', '2 h 1 min')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
