"""How one analysis takes sentences through models: with which options, shared by which processes."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from attnlab.core.options import BATCH_SIZE
from attnlab.core.processes import Processes
from attnlab.core.serialization import Sums
from attnlab.evaluation.shared_settings import Progress
from attnlab.reading.capture import Coverage, Reading
from attnlab.reading.weights import PerLayer


@dataclass(frozen=True)
class Passes:
    """Takes sentences through models; every process has the whole result after each pass.

    Attributes:
        batch_size: most sentences in one forward pass.
        progress: called with (what is being done, sentences done, sentences in all).
        processes: who shares the sentences.
    """

    batch_size: int = BATCH_SIZE
    progress: Progress | None = None
    processes: Processes = field(default_factory=Processes)

    def run(self, what: str, reading: Reading, consumers: Sequence[PerLayer[Any, Any]]) -> Coverage:
        """Feeds `consumers` the weights of all sentences; `what` says what for.

        Raises:
            AttnlabError: as `Reading.feed` does, here or in another process.
        """
        processes, tell = self.processes, self.progress
        coverage = reading.feed(
            consumers,
            batch_size=self.batch_size,
            share=(processes.index, processes.count),
            progress=None if tell is None else lambda done, total: tell(what, done, total),
        )
        mine = Sums({"coverage": coverage} | {n: one.sums for n, one in enumerate(consumers)})
        found = processes.sum(mine)
        for number, consumer in enumerate(consumers):
            consumer.sums = found[number]
        return found["coverage"]
