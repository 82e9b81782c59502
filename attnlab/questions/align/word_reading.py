"""Sentence pairs with their words, and the cross-attention of a model between these words."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

import torch

from attnlab.alignment import (
    FromWord,
    GoldGrid,
    GoldLinks,
    Pieces,
    Row,
    Words,
    WordWeights,
    gold_grid,
    gold_links,
    read_links,
    read_pairs,
    word_weights,
)
from attnlab.core import InputError, NothingUsableError, check_memory, check_sentences, path_label
from attnlab.evaluation import Progress, model_and_texts
from attnlab.labels import Alignment, Gold, align_corpus, gold_of_texts
from attnlab.models import Model
from attnlab.questions.align.spoken_words import check_is_text
from attnlab.reading import LayerWeights, Reading, prepare, read_sentences

# Pairs of its test part that a run brings.
OWN_PAIRS = 1000
_BYTES = 4
_FEWER = "take fewer pairs (sentences), leave long ones out, or raise the limit (memory, in GB)"


@dataclass(frozen=True)
class WordPairs:
    """Sentence pairs whose words are known, with their gold links or without.

    Attributes:
        gold: both sides with the positions of their words.
        links: gold links of each pair; none without gold.
        origin: where the pairs come from, in words.
    """

    gold: Gold
    links: tuple[GoldLinks, ...]
    origin: str

    def __len__(self) -> int:
        return len(self.gold.source)

    @cached_property
    def words(self) -> list[tuple[Words, Words]]:
        """The words of both sides."""
        assert self.gold.target is not None  # noqa: S101 - these are pairs
        return [
            (one.words, other.words)
            for one, other in zip(self.gold.source, self.gold.target, strict=True)
        ]

    def turned(self) -> "WordPairs":
        """The same with source and target exchanged."""
        assert self.gold.target is not None  # noqa: S101 - these are pairs
        sides = replace(self.gold, source=self.gold.target, target=self.gold.source, pairs=())
        return WordPairs(sides, tuple(one.turned() for one in self.links), self.origin)

    def with_other_sources(self) -> "WordPairs":
        """Each target beside the source of the next pair, of like length: nothing there is translated."""
        order = sorted(range(len(self)), key=lambda number: len(self.gold.source[number].spans))
        following = dict(zip(order, [*order[1:], order[0]], strict=True))
        sources = tuple(self.gold.source[following[number]] for number in range(len(self)))
        return replace(self, gold=replace(self.gold, source=sources, pairs=()))


Pairs: TypeAlias = str | Path | Sequence[tuple[Any, Any]] | None
_Linked: TypeAlias = tuple[Words, Words, GoldLinks | None]


def pairs_of(model: Model, pairs: Pairs, gold: str | Path | None, count: int | None) -> WordPairs:
    """The sentence pairs that are asked for, with their gold links where there are any.

    Args:
        model: a run brings its test part; in lower case it reads all pairs so.
        pairs: a file, or the pairs.
        gold: a file of links; of XL-WA and GIZA it brings its pairs.
        count: how many at most.

    Raises:
        InputError: there are no pairs, or the files cannot be used.
    """
    if gold is None and pairs is None:
        return _own_pairs(model, count)
    return _named(model, list(_linked_pairs(pairs, gold, count)), _origin(pairs, gold))


def parts_of(
    model: Model, pairs: Pairs, gold: str | Path | None, count: int | None, size: int
) -> Iterator[WordPairs]:
    """The pairs as `pairs_of`, so many at a time; a file is read as far as is needed."""
    if gold is None and pairs is None:
        yield _own_pairs(model, count)
        return
    found = _linked_pairs(pairs, gold, count)
    while part := list(islice(found, size)):
        yield _named(model, part, _origin(pairs, gold))


def number_of_pairs(model: Model, pairs: Pairs, gold: str | Path | None, count: int | None) -> int:
    """How many pairs `pairs_of` gives, without holding them; raises as it does."""
    if gold is None and pairs is None:
        return len(_own_pairs(model, count))
    return sum(1 for _ in _linked_pairs(pairs, gold, count))


def _own_pairs(model: Model, count: int | None) -> WordPairs:
    """Pairs of the test part of a run."""
    _, texts = model_and_texts(model, sentences=count or OWN_PAIRS, gold=True)
    own = texts.gold
    assert own is not None  # noqa: S101 - it was asked for
    if own.target is None:
        msg = "The sentences have no translations; give pairs of source, tab and translation."
        raise InputError(msg)
    links = tuple(gold_links((source, target) for target, source in one) for one in own.pairs)
    return WordPairs(own, links, texts.origin)


def _linked_pairs(pairs: Pairs, gold: str | Path | None, count: int | None) -> Iterator[_Linked]:
    if gold is None:
        assert pairs is not None  # noqa: S101 - one of the two is there
        return ((*words, None) for words in islice(_words_of(pairs), count))
    known = None if pairs is None else _words_of(pairs)
    found = islice(read_links(gold, known), count)
    return ((one.source, one.target, one.links) for one in found)


def _origin(pairs: Pairs, gold: str | Path | None) -> str:
    if gold is not None:
        return path_label(gold)
    return path_label(pairs) if isinstance(pairs, str | Path) else "pairs handed in"


def _words_of(pairs: str | Path | Sequence[tuple[Any, Any]]) -> Iterable[tuple[Words, Words]]:
    if isinstance(pairs, str | Path):
        check_is_text(pairs)
        return read_pairs(pairs)
    if not pairs or not all(isinstance(pair, tuple) and len(pair) == 2 for pair in pairs):
        msg = "Pairs must be a list of (source, target) with at least one entry."
        raise InputError(msg)
    if not all(isinstance(side, str) for pair in pairs for side in pair):
        msg = "Pairs must be of two texts for a model that reads text; give a Whisper for audio."
        raise InputError(msg)
    check_sentences(pairs)
    return [(tuple(source.split()), tuple(target.split())) for source, target in pairs]


def _named(model: Model, found: Sequence[_Linked], origin: str) -> WordPairs:
    if not found:
        msg = f"There are no sentence pairs in {origin}; give at least one."
        raise InputError(msg)
    texts = [(" ".join(source), " ".join(target)) for source, target, _ in found]
    if model.lowercase:
        texts = [(source.lower(), target.lower()) for source, target in texts]
    links = tuple(one for *_, one in found if one is not None)
    return WordPairs(gold_of_texts(texts), links, origin)


@dataclass(frozen=True)
class ReadPairs:
    """What a model attends to between the words of sentence pairs.

    Attributes:
        reading: the model with the pairs.
        numbers: the pairs that it could be read on, in order; the rows of `weights`.
        unaligned: of each pair whose tokens do not match its words why, by number.
        weights: of all heads, layer by layer, by row.
    """

    reading: Reading
    numbers: tuple[int, ...]
    unaligned: dict[int, str]
    weights: dict[Row, WordWeights]

    def grid(self, pairs: WordPairs) -> GoldGrid:
        """The gold links of the pairs that were read; none where there is no gold."""
        words = next(iter(self.weights.values())).weights
        none = gold_links(())
        links = [pairs.links[number] if pairs.links else none for number in self.numbers]
        return gold_grid(links, *words.shape[-2:])


class AlignedPairs:
    """Sentence pairs whose tokens are matched with their words, ready to be read by a model.

    Args:
        model: an encoder-decoder.
        pairs: the sentence pairs.
        memory: the most that the weights of one pair may take, in GB; None: what is free.

    Attributes:
        reading: the model with the pairs.
        numbers: the pairs that the model can be read on.
        unaligned: of each pair whose tokens do not match its words why, by number.

    Raises:
        InputError: no pair can be used.
    """

    def __init__(self, model: Model, pairs: WordPairs, *, memory: float | None = None) -> None:
        both, gold = model.both_tokenizers, pairs.gold
        assert gold.target is not None  # noqa: S101 - these are pairs
        sentences = read_sentences(model, gold.texts, pairs.origin)
        self.pairs = pairs
        sources = align_corpus(both.source, gold.source, [one.source for one in sentences.texts])
        tokens = [one.target for one in sentences.texts if one.target is not None]
        targets = align_corpus(both.target, gold.target, tokens)
        found = zip(sources.alignments, targets.alignments, strict=True)
        aligned = [one is not None and other is not None for one, other in found]
        self.reading = prepare(model, sentences, ["cross"], memory=memory)
        usable = {one.number: one for one in sentences.usable}
        self.numbers = tuple(number for number in sorted(usable) if aligned[number])
        self.unaligned = {
            number: sources.reasons.get(
                gold.source[number].identifier,
                targets.reasons.get(gold.target[number].identifier, "it is empty or too long"),
            )
            for number in range(len(pairs))
            if number not in usable or not aligned[number]
        }
        if not self.numbers:
            number, why = next(iter(self.unaligned.items()))
            msg = f"None of the {len(pairs)} pairs can be aligned; of pair {number + 1}: {why}."
            raise NothingUsableError(msg)
        self._sources = [
            pieces_of(one, len(gold.source[n].spans)) for n, one in enumerate(sources.alignments)
        ]
        self._targets = [
            pieces_of(one, len(gold.target[n].spans)) for n, one in enumerate(targets.alignments)
        ]
        for number, one in usable.items():
            # A start token that the tokenizer put there is not predicted.
            pieces = self._targets[number]
            self._targets[number] = replace(pieces, words=pieces.words[-len(one.labels) :])

    @property
    def layers(self) -> int:
        """Number of decoder layers."""
        return self.reading.attention_sites.layers["cross"]

    def feed(
        self,
        take: Callable[[Sequence[int], dict[Row, WordWeights]], None],
        *,
        rows: Sequence[Row],
        from_word: FromWord,
        layers: Sequence[int] | None = None,
        batch_size: int,
        progress: Callable[[int, int], None] | None = None,
        model: object = None,
    ) -> None:
        """Hands the weights between words of every batch to `take`, those of all heads layer by layer.

        Args:
            take: called with the numbers of the pairs and their weights by row.
            rows: which rows belong to a token, see `word_weights`.
            from_word: see `word_weights`.
            layers: those that are wanted; None: all.
            batch_size: most pairs in one forward pass.
            progress: called with (pairs done, pairs in all).
            model: another model of the same class and configuration; None: the one of the pairs.
        """
        wanted = range(self.layers) if layers is None else layers
        held: list[dict[Row, WordWeights]] = []

        def update(layer: LayerWeights) -> None:
            if layer.site != "cross" or layer.layer not in wanted:
                return
            targets, sources = (
                [side[number] for number in layer.sentences]
                for side in (self._targets, self._sources)
            )
            held.append(
                {
                    row: word_weights(layer.weights, targets, sources, row=row, from_word=from_word)
                    for row in rows
                }
            )
            if len(held) == len(wanted):
                take(layer.sentences, {row: _together([one[row] for one in held]) for row in rows})
                held.clear()

        reading = self.reading if model is None else self.reading.by(model)
        reading.feed([_Consumer(update)], batch_size=batch_size, progress=progress)

    def read(
        self,
        rows: Sequence[Row],
        from_word: FromWord,
        *,
        batch_size: int,
        memory: float | None = None,
        progress: Progress | None = None,
        what: str = "Reading pairs",
        model: object = None,
    ) -> ReadPairs:
        """The weights between the words of all pairs, in memory; arguments as in `feed`.

        Raises:
            InputError: they need more memory than there is.
        """
        heads = self.layers * self.reading.attention_sites.heads
        words = [self.pairs.words[number] for number in self.numbers]
        longest = tuple(max(len(one[side]) for one in words) for side in (1, 0))
        shape = (len(self.numbers), heads, *longest)
        check_memory(
            _BYTES * len(rows) * torch.Size(shape).numel(),
            f"The attention of {heads} heads between the words of {len(self.numbers)} pairs",
            _FEWER,
            memory=memory,
        )
        found = {row: _empty(shape) for row in rows}
        places = {number: place for place, number in enumerate(self.numbers)}

        def take(numbers: Sequence[int], batch: dict[Row, WordWeights]) -> None:
            for row, own in batch.items():
                for index, number in enumerate(numbers):
                    if number in places:
                        _put(found[row], places[number], own, index)

        tell = None if progress is None else (lambda *done: progress(what, *done))
        self.feed(
            take, rows=rows, from_word=from_word, batch_size=batch_size, progress=tell, model=model
        )
        return ReadPairs(self.reading, self.numbers, self.unaligned, found)


@dataclass(frozen=True)
class _Consumer:
    """A function as a consumer of layers."""

    update: Callable[[LayerWeights], None]


def pieces_of(alignment: Alignment | None, count: int) -> Pieces:
    """Which word each token belongs to; words between spaces share no token, so a unit is a word."""
    if alignment is None:
        return Pieces((), count)
    first = {unit: word for word, unit in reversed(list(enumerate(alignment.unit_of_word)))}
    words = (None if unit is None else first[unit] for unit in alignment.unit_of_token)
    return Pieces(tuple(words), count)


def _together(layers: Sequence[WordWeights]) -> WordWeights:
    weights = torch.cat([one.weights for one in layers], 1)
    return WordWeights(weights, layers[0].targets, layers[0].sources)


def _empty(shape: Sequence[int]) -> WordWeights:
    count, _, targets, sources = shape
    return WordWeights(
        torch.zeros(*shape),
        torch.zeros(count, targets, dtype=torch.bool),
        torch.zeros(count, sources, dtype=torch.bool),
    )


def _put(whole: WordWeights, place: int, batch: WordWeights, index: int) -> None:
    """One pair of a batch into the table of all; what is cut off is padding of the batch."""
    targets, sources = whole.weights.shape[-2:]
    part = batch.weights[index, :, :targets, :sources].cpu()
    whole.weights[place, :, : part.shape[-2], : part.shape[-1]] = part
    whole.targets[place, : part.shape[-2]] = batch.targets[index, :targets].cpu()
    whole.sources[place, : part.shape[-1]] = batch.sources[index, :sources].cpu()
