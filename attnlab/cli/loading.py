"""A line on a terminal before libraries that load for seconds, so that no command is silent meanwhile."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.abc import MetaPathFinder

from attnlab.core import Terminal

# The first of them that a command imports brings others along.
SLOW = {"datasets", "matplotlib", "numpy", "pandas", "scipy", "torch", "transformers"}
# A variable that shells set while they complete words.
COMPLETION = "_ATTNLAB_COMPLETE"


class _Announcer(MetaPathFinder):
    """Finds no module, and prints the line when the first slow one is looked for."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:  # noqa: ARG002
        if name in SLOW:
            announce_nothing()
            Terminal(stderr=True).print("Loading libraries", style="dim")


@contextmanager
def announced_loading() -> Iterator[None]:
    """Prints a line when the block first imports a library that is slow to load.

    Where standard error is no terminal, with --quiet, while a shell completes words, and in all but the first
    of several processes it prints nothing.
    """
    # Some are loaded while options are made, before any is read.
    is_quiet = not {"--quiet", "-q"}.isdisjoint(sys.argv)
    is_first = os.environ.get("RANK", "0") == "0"
    if sys.stderr.isatty() and is_first and not is_quiet and COMPLETION not in os.environ:
        sys.meta_path.insert(0, _Announcer())
    try:
        yield
    finally:
        announce_nothing()


def announce_nothing() -> None:
    """Leaves the line out from now on, as where a bar moves already."""
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, _Announcer)]
