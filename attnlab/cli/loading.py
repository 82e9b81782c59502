"""A line on a terminal before libraries that load for seconds, so that no command is silent meanwhile."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.abc import MetaPathFinder

from attnlab.core import Terminal

# The first of them that a command imports brings others along.
SLOW = {"datasets", "matplotlib", "pandas", "scipy", "torch", "transformers"}
LINE = "Loading libraries"


class _Announcer(MetaPathFinder):
    """Finds no module, and prints the line when the first slow one is looked for."""

    def __init__(self, console: Terminal) -> None:
        self._console = console

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:  # noqa: ARG002
        if name in SLOW:
            announce_nothing()
            self._console.print(LINE, style="dim")


@contextmanager
def announced_loading(console: Terminal) -> Iterator[None]:
    """Prints a line when the block first imports a library that is slow to load.

    Args:
        console: where to; nothing is printed where it is no terminal.
    """
    if console.is_terminal and not console.quiet:
        sys.meta_path.insert(0, _Announcer(console))
    try:
        yield
    finally:
        announce_nothing()


def announce_nothing() -> None:
    """Leaves the line out from now on, as where a bar moves already."""
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, _Announcer)]
