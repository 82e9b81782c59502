"""When lines say that work goes on, and the thread that has them said while the work itself is silent."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

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
