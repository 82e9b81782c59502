"""Signals that ask a process to end: Ctrl-C, what batch systems send, what a closed terminal sends."""

import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_WRITTEN: ContextVar[list[Path] | None] = ContextVar("written", default=None)
_STOPPED: ContextVar[Callable[[], bool] | None] = ContextVar("stopped", default=None)
# A terminal that is closed and its shell both send SIGHUP, the one as quickly after the other.
_TOGETHER_SECONDS = 1.0


@contextmanager
def answering(answer: Callable[[int], None], signals: Sequence[int] = SIGNALS) -> Iterator[None]:
    """Inside the block `answer` is called with the number of each signal that comes.

    SIGHUP stays ignored where `nohup` has it ignored. Only the main thread can be told of signals;
    in any other nothing changes.
    """
    heard = [kind for kind in signals if kind != signal.SIGHUP or _is_heard(kind)]
    with _handled(lambda number, _: answer(number), heard):
        yield


@contextmanager
def _handled(handler: Any, kinds: Iterable[int]) -> Iterator[None]:
    """Gives signals another handler until the block ends; outside the main thread nothing changes."""
    try:
        before = {kind: signal.signal(kind, handler) for kind in kinds}
    except ValueError:
        before = {}
    try:
        yield
    finally:
        for kind, earlier in before.items():
            signal.signal(kind, earlier)


@contextmanager
def stopped_by_signals() -> Iterator[Callable[[], bool]]:
    """Inside the block SIGTERM and SIGHUP raise KeyboardInterrupt, as Ctrl-C does.

    Yields a function that tells whether one came. Further ones that come at once are of the same request,
    and would stop the tidying up; a later one raises anew, since code of libraries may have swallowed the
    first. A block inside another adds nothing.
    """
    outer = _STOPPED.get()
    if outer is not None:
        yield outer
        return
    heard_at: float | None = None

    def was_stopped() -> bool:
        return heard_at is not None

    def stop(_: int) -> None:
        nonlocal heard_at
        now = time.monotonic()
        again = heard_at is not None and now - heard_at < _TOGETHER_SECONDS
        heard_at = now
        if not again:
            raise KeyboardInterrupt

    before = _STOPPED.set(was_stopped)
    try:
        with answering(stop, (signal.SIGTERM, signal.SIGHUP)):
            yield was_stopped
    finally:
        _STOPPED.reset(before)


@contextmanager
def ending_at_once() -> Iterator[None]:
    """Inside the block each signal ends the process, also where code that is not Python's waits."""
    with _handled(signal.SIG_DFL, filter(_is_heard, SIGNALS)):
        yield


@contextmanager
def undisturbed() -> Iterator[None]:
    """Signals that come inside the block take effect when it ends."""
    waiting: list[int] = []
    try:
        with answering(waiting.append):
            yield
    finally:
        for number in waiting:
            signal.raise_signal(number)


@contextmanager
def noting_written() -> Iterator[list[Path]]:
    """Yields a list to which every file and result folder that is put in place inside the block is added."""
    written: list[Path] = []
    before = _WRITTEN.set(written)
    try:
        yield written
    finally:
        _WRITTEN.reset(before)


def note_written(path: str | Path) -> None:
    """Adds a file or result folder to the list of `noting_written`, if there is one."""
    written = _WRITTEN.get()
    if written is not None:
        written.append(Path(path))


def _is_heard(number: int) -> bool:
    return signal.getsignal(number) != signal.SIG_IGN


# Seconds: work that is over sooner prints no line, and no work prints lines more often.
FIRST_LINE, BETWEEN_LINES = 2.0, 10.0


@contextmanager
def repeated(act: Callable[[], None], *, first: float, between: float) -> Iterator[None]:
    """While the block runs, another thread calls a function again and again.

    Args:
        act: what to call.
        first: seconds before the first call.
        between: seconds between one call and the next.
    """
    ended = threading.Event()

    def repeat() -> None:
        seconds = first
        while not ended.wait(seconds):
            act()
            seconds = between

    acting = threading.Thread(target=repeat, daemon=True)
    acting.start()
    try:
        yield
    finally:
        ended.set()
        acting.join()
