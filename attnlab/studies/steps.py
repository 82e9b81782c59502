"""Telling how far a number of equal steps has come."""

from collections.abc import Callable
from typing import TypeVar

from attnlab.studies.settings import Progress

Result = TypeVar("Result")


class Steps:
    """Counts calls and tells of each, and of their number when the first begins.

    The calls should take about as long as one another: the time that is left is told from the first on.

    Args:
        what: what is being done.
        total: how many calls there will be.
        progress: called with (what, done, total); None to tell nobody.
    """

    def __init__(self, what: str, total: int, progress: Progress | None) -> None:
        self.what = what
        self.total = total
        self.done = 0
        self._progress = progress

    def of(self, work: Callable[[], Result]) -> Callable[[], Result]:
        """`work`, and a step told after each of its calls."""

        def step() -> Result:
            if not self.done:
                self._tell()
            found = work()
            self.done += 1
            self._tell()
            return found

        return step

    def _tell(self) -> None:
        if self._progress is not None:
            self._progress(self.what, self.done, self.total)
