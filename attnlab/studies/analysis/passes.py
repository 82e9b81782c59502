"""How one analysis takes sentences through models: with which options, shared by which processes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, runtime_checkable

from attnlab.extraction.batches import Text
from attnlab.extraction.capture import Passage, stream
from attnlab.extraction.parcels import Plain
from attnlab.extraction.processes import Processes
from attnlab.extraction.weights import LayerWeights
from attnlab.functions.counting import FunctionCounts
from attnlab.functions.counts import Counts
from attnlab.matrices.candidates import Search
from attnlab.matrices.label_sums import LabelSums
from attnlab.studies.analysis.fits import Profile

Progress = Callable[[str, int, int], None]


@runtime_checkable
class SharedConsumer(Protocol):
    """A consumer of weights that can be told what those of other processes have found."""

    def update(self, layer: LayerWeights) -> None:
        """Takes one layer's weights for one batch."""

    def state(self) -> Plain:
        """What other processes need to know of this one."""

    def absorb(self, states: Sequence[Plain]) -> None:
        """Holds what all processes have found, this one's own `state` among them."""


@dataclass(frozen=True)
class Passes:
    """Takes sentences through models; every process has the whole result after each pass.

    Attributes:
        tokenizer: the tokenizer, or an object with tokenizers `.source` and `.target`.
        sites: as in `attnlab.extraction.capture.stream`.
        batch_size: most sentences in one forward pass.
        progress: called with (what is being done, sentences done, sentences in all).
        processes: who shares the sentences.
    """

    tokenizer: Any
    sites: Sequence[str] | None = None
    batch_size: int = 32
    progress: Progress | None = None
    processes: Processes = field(default_factory=Processes)

    def run(
        self, what: str, model: Any, texts: Sequence[Text], consumers: Sequence[SharedConsumer]
    ) -> Passage:
        """Feeds `consumers` the weights of all sentences; `what` says what for.

        Raises:
            InputError: as `stream` does.
            AttnlabError: as `stream` does, here or in another process.
        """
        processes, tell = self.processes, self.progress
        passage = stream(
            model,
            self.tokenizer,
            texts,
            consumers,
            sites=self.sites,
            batch_size=self.batch_size,
            share=(processes.index, processes.count),
            progress=None if tell is None else lambda done, total: tell(what, done, total),
        )
        if processes.count == 1:
            return passage
        mine = (passage.sentences, [consumer.state() for consumer in consumers])
        everyone = processes.gather(mine, _sent())
        for number, consumer in enumerate(consumers):
            consumer.absorb([states[number] for _, states in everyone])
        return replace(passage, sentences=sum(count for count, _ in everyone))


def _sent() -> list[type]:
    """The dataclasses that stand in states: all counts, and what sums are made of."""
    found: list[type] = [FunctionCounts, LabelSums, Search, Profile]
    waiting: list[type] = [Counts]
    while waiting:
        one = waiting.pop()
        found.append(one)
        waiting += one.__subclasses__()
    return found
