"""Links of a corpus by heads that were chosen before, in parts: memory does not grow with the corpus."""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from torch import Tensor

from attnlab.alignment import (
    AlignmentHeads,
    FoundLinks,
    Link,
    Row,
    WordWeights,
    count_links,
    weighed_links,
    write_json_lines,
    write_pharaoh,
)
from attnlab.core import InputError, Note, NothingUsableError
from attnlab.models import Model
from attnlab.questions.align.other_direction import exchanged_links, joined_links
from attnlab.questions.align.question import AlignmentSettings
from attnlab.questions.align.word_reading import (
    AlignedPairs,
    WordPairs,
    number_of_pairs,
    parts_of,
)

# Pairs that are tokenized and held at once.
PART = 8192


class _Links(NamedTuple):
    """Links with their weights by number of the pair, why the other pairs have none, and what was read."""

    links: dict[int, dict[Link, float]]
    unaligned: Mapping[int, str]
    notes: tuple[Note, ...] = ()


@dataclass(frozen=True)
class Aligner:
    """A model with heads that were chosen before.

    Attributes:
        model: an encoder-decoder.
        heads: whose weights are averaged.
        what: the heads are, in words.
    """

    model: Model
    heads: AlignmentHeads
    what: str = "heads"

    def links(
        self,
        pairs: WordPairs,
        settings: AlignmentSettings,
        progress: Callable[[int, int], None] | None,
    ) -> _Links:
        """The links of every pair that can be aligned, with their weights, and why the others cannot.

        Args:
            pairs: the pairs.
            settings: those of the question.
            progress: called with (pairs done, pairs in all).

        Raises:
            InputError: the heads are those of another model.
        """
        try:
            read = pairs.in_case_of(self.model)
            aligned = AlignedPairs(self.model, read, settings, weights=self.heads.weights)
        except NothingUsableError as error:
            # The other parts may have pairs that can be aligned.
            return _Links({}, dict.fromkeys(range(len(pairs)), str(error).rstrip(".")))
        heads, count = self.heads, aligned.shape[1]
        heads.check_fits(*aligned.shape, self.model.checksum, self.what)
        layers = sorted({layer for layer, _ in heads.heads})
        columns = [layers.index(layer) * count + head for layer, head in heads.heads]
        links: dict[int, dict[Link, float]] = {}

        def take(numbers: Sequence[int], batch: dict[Row, WordWeights]) -> None:
            of_batch = weighed_links(batch[heads.row].of_heads(columns), heads.rule)
            links.update(zip(numbers, of_batch, strict=True))

        aligned.feed(
            take,
            rows=[heads.row],
            from_word=heads.from_word,
            layers=layers,
            batch_size=settings.batch_size,
            progress=progress,
        )
        in_order = {number: links[number] for number in aligned.numbers}
        return _Links(in_order, aligned.unaligned, aligned.reading.notes)


@dataclass
class Counted:
    """What is counted of the links of a corpus while they are written.

    Attributes:
        aligned: how many pairs have links.
        links: how many links they have.
        counts: of the aligned pairs of each part as `count_links` has them; none without gold links.
    """

    aligned: int = 0
    links: int = 0
    counts: list[Tensor] = field(default_factory=list)

    def add(self, pairs: WordPairs, links: Mapping[int, Mapping[Link, float]]) -> None:
        """Counts the links of a part of the corpus, by number of the pair in it."""
        self.aligned += len(links)
        self.links += sum(map(len, links.values()))
        if pairs.links:
            gold = [pairs.links[number] for number in links]
            self.counts.append(count_links(list(links.values()), gold))


@dataclass
class CorpusLinks:
    """Aligns a corpus part by part, and counts what it finds.

    Attributes:
        forward: the model of the pairs, with its heads.
        settings: those of the question: what the pairs are.
        backward: the model of the other direction; None: links are those of `forward` alone.
        origin: where the pairs come from, in words.
        pairs: how many were gone through.
        alone: of the links of `forward`.
        written: of the links that are written: the same, or those of both directions.
        first_unaligned: the number of the first pair without links, and why it has none.
        notes: on what is read of `forward`.
    """

    forward: Aligner
    settings: AlignmentSettings
    backward: Aligner | None = None
    origin: str = ""
    pairs: int = 0
    alone: Counted = field(default_factory=Counted)
    written: Counted = field(default_factory=Counted)
    first_unaligned: tuple[int, str] | None = None
    notes: tuple[Note, ...] = ()

    def write(self) -> None:
        """Aligns all pairs, and writes a line for each where that is asked for, empty without links.

        A file whose name ends in `.jsonl` holds words, links and weights, any other one Pharaoh's form.

        Raises:
            InputError: the pairs cannot be read, or none of them can be aligned.
        """
        # All lines are checked before the first pair is read by the model.
        total = number_of_pairs(self.forward.model, self.settings)
        write_links(self.settings.links, self._all(total))

    def _all(self, total: int) -> Iterator[FoundLinks]:
        """Raises InputError at the end where no pair could be aligned, so that no file is written."""
        for part in parts_of(self.forward.model, self.settings, PART):
            yield from self._part(part, total)
        if not self.written.aligned:
            number, why = self.first_unaligned or (0, "there are none")
            msg = f"None of the {self.pairs} pairs can be aligned; of pair {number + 1}: {why}."
            raise InputError(msg)

    def _part(self, pairs: WordPairs, total: int) -> Iterator[FoundLinks]:
        self.origin, before = pairs.origin, self.pairs
        links, unaligned, notes = self._links(self.forward, pairs, "Aligning pairs", total)
        self.notes = notes or self.notes
        self.alone.add(pairs, links)
        if self.backward is not None:
            what = "Aligning pairs, other direction"
            turned = self._links(self.backward, pairs.turned(), what, total).links
            links = joined_links(links, exchanged_links(turned), self.settings.how_symmetrized)
            unaligned = {number: why for number, why in unaligned.items() if number not in links}
        self.written.add(pairs, links)
        self.pairs += len(pairs)
        if unaligned and self.first_unaligned is None:
            number, why = min(unaligned.items())
            self.first_unaligned = before + number, why
        for number, (source, target) in enumerate(pairs.words):
            yield FoundLinks(source, target, links.get(number, {}))

    def _links(self, aligner: Aligner, pairs: WordPairs, what: str, total: int) -> _Links:
        tell, before = self.settings.progress, self.pairs

        def tell_pairs(done: int, _: int) -> None:
            if tell is not None:
                tell(what, before + done, total)

        return aligner.links(pairs, self.settings, tell_pairs)


def write_links(path: str | Path | None, links: Iterator[FoundLinks]) -> None:
    """Writes the links as they come, a line a pair; without a path they are only gone through.

    A file whose name ends in `.jsonl` holds words, links and weights, any other one Pharaoh's form.
    """
    if path is None:
        deque(links, maxlen=0)
    elif Path(path).suffix == ".jsonl":
        write_json_lines(path, links)
    else:
        write_pharaoh(path, (pair.weights for pair in links))
