"""A progress bar on the terminal, for work that tells (what, done, total)."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress_bars(*, shown: bool = True) -> Iterator[Callable[[str, int, int], None]]:
    """Yields a function that moves one bar for each kind of work; nothing is shown in a pipe.

    Args:
        shown: False for none at all, in all but the first of several processes.
    """
    from rich.console import Console
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
    console = Console(stderr=True)
    with Progress(*columns, console=console, disable=not (shown and console.is_terminal)) as bars:
        tasks = {}

        def tell(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bars.add_task(what, total=total)
            bars.update(tasks[what], completed=done)

        yield tell
