"""Sentence pairs with their words, and the cross-attention of a model between these words."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import torch

from attnlab.alignment import (
    FromWord,
    GoldGrid,
    GoldLinks,
    LinkForm,
    Pieces,
    Row,
    Words,
    WordWeights,
    form_of,
    gold_grid,
    gold_links,
    read_links,
    read_pairs,
    word_weights,
)
from attnlab.core import InputError, NothingUsableError, check_memory, path_label, texts_of
from attnlab.corpora import DEFAULT_PAIR, read_pair_file, readers_by_ending, split_pair
from attnlab.evaluation import model_and_texts
from attnlab.labels import Alignment, Gold, align_corpus, gold_of_texts
from attnlab.models import Model, Run, Source, model_of
from attnlab.questions.align.question import AlignmentSettings
from attnlab.questions.align.spoken_words import check_is_text
from attnlab.reading import LayerWeights, Reading, Selection, prepare, read_sentences

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
        lowercase: whether both sides are in lower case, for a model that reads no capitals.
    """

    gold: Gold
    links: tuple[GoldLinks, ...]
    origin: str
    lowercase: bool = False

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
        return replace(self, gold=sides, links=tuple(one.turned() for one in self.links))

    def in_case_of(self, other: "Model | WordPairs") -> "WordPairs":
        """The same in lower case, where a model reads no capitals or other pairs have none."""
        if self.lowercase or not other.lowercase:
            return self
        return replace(self, gold=self.gold.lowered(), lowercase=True)

    def with_other_sources(self) -> "WordPairs":
        """Each target beside the source of the next pair, of like length: nothing there is translated."""
        order = sorted(range(len(self)), key=lambda number: len(self.gold.source[number].spans))
        following = dict(zip(order, [*order[1:], order[0]], strict=True))
        sources = tuple(self.gold.source[following[number]] for number in range(len(self)))
        return replace(self, gold=replace(self.gold, source=sources, pairs=()))


def model_of_languages(source: Source, settings: AlignmentSettings) -> Model:
    """The model, its tokenizer set to the languages.

    Raises:
        InputError: it is no encoder-decoder, or its tokenizer does not know a language.
    """
    model = model_of(source, scores=False)
    if not model.model.config.is_encoder_decoder:
        msg = (
            f"{model.label} is no encoder-decoder, so it has no cross-attention that could align; give a "
            "translation model."
        )
        raise InputError(msg)
    for name, what, code in (
        ("src_lang", "source language", settings.source_language),
        ("tgt_lang", "target language", settings.target_language),
    ):
        if code is None:
            continue
        tokenizer = model.tokenizer
        if not hasattr(tokenizer, name):
            msg = (
                f"The tokenizer of {model.label} has no languages to choose from; leave {what} out."
            )
            raise InputError(msg)
        if not _knows(tokenizer, code):
            msg = f"The tokenizer of {model.label} does not know the language '{code}'."
            raise InputError(msg)
        setattr(tokenizer, name, code)
    return model


def _knows(tokenizer: Any, language: str) -> bool:
    """Whether a tokenizer of several languages has this one, by its code.

    M2M100 writes the code `en` as the token `__en__`; other tokenizers' codes are tokens, and pieces of words
    that look alike are none.
    """
    codes = getattr(tokenizer, "lang_code_to_token", None)
    if codes:
        return language in codes
    return language in tokenizer.get_added_vocab() or language in tokenizer.all_special_tokens


_Linked: TypeAlias = tuple[Words, Words, GoldLinks | None]


class AskedPairs(NamedTuple):
    """Which sentence pairs are asked for.

    Attributes:
        pairs: a file, or the pairs; None: those of the gold file, or without one those that a run brings.
        gold: a file of links; of XL-WA and GIZA it brings its pairs.
        most: how many at most.
        languages: of a file of several, such as `en-it`; None: those of the run, or `en-it`.
        form: of the file of links; None: as its name or its first line says.
        first_index: of words in links; None: as the form has it.
    """

    pairs: str | Path | Sequence[tuple[Any, Any]] | None = None
    gold: str | Path | None = None
    most: int | None = None
    languages: str | None = None
    form: LinkForm | None = None
    first_index: int | None = None


def asked_pairs(settings: AlignmentSettings) -> AskedPairs:
    """The pairs to align.

    Raises:
        InputError: languages are named of a file that holds no names of them.
    """
    if settings.pair is not None and not _is_read_as_corpus(settings.pairs):
        msg = "pair names the languages of a .jsonl file of pairs; give such pairs, or leave pair out."
        raise InputError(msg)
    return AskedPairs(
        settings.pairs,
        settings.gold,
        settings.sentences,
        settings.pair,
        settings.gold_form,
        settings.first_index,
    )


def calibration_pairs(path: str | Path, settings: AlignmentSettings) -> AskedPairs:
    """The pairs of a calibration file; words count alike there and in a gold file of the same form.

    Raises:
        InputError: neither the name nor the first line of a file tells its form.
    """
    gold = settings.gold
    alike = gold is not None and form_of(path) == (settings.gold_form or form_of(gold))
    return AskedPairs(gold=path, first_index=settings.first_index if alike else None)


def pairs_of(model: Model, asked: AskedPairs) -> WordPairs:
    """The sentence pairs that are asked for, with their gold links where there are any.

    Args:
        model: a run brings its test part; in lower case it reads all pairs so.
        asked: which.

    Raises:
        InputError: there are no pairs, or the files cannot be used.
    """
    if asked.gold is None and asked.pairs is None:
        return _own_pairs(model, asked.most)
    return _named(model, list(_linked_pairs(model, asked)), _origin(asked))


def parts_of(model: Model, asked: AskedPairs, size: int) -> Iterator[WordPairs]:
    """The pairs as `pairs_of`, so many at a time; a file is read as far as is needed."""
    if asked.gold is None and asked.pairs is None:
        yield _own_pairs(model, asked.most)
        return
    found = _linked_pairs(model, asked)
    while part := list(islice(found, size)):
        yield _named(model, part, _origin(asked))


def number_of_pairs(model: Model, asked: AskedPairs) -> int:
    """How many pairs `pairs_of` gives, without holding them; raises as it does."""
    if asked.gold is None and asked.pairs is None:
        return len(_own_pairs(model, asked.most))
    return sum(1 for _ in _linked_pairs(model, asked))


def _own_pairs(model: Model, count: int | None) -> WordPairs:
    """Pairs of the test part of a run."""
    if not isinstance(model, Run):
        msg = f"{model.label} brings no pairs of its own; give pairs, or gold links with their sentences."
        raise InputError(msg)
    _, texts = model_and_texts(model, sentences=count or OWN_PAIRS, gold=True)
    own = texts.gold
    assert own is not None  # noqa: S101 - it was asked for
    if own.target is None:
        msg = "The sentences have no translations; give pairs of source, tab and translation."
        raise InputError(msg)
    links = tuple(gold_links((source, target) for target, source in one) for one in own.pairs)
    return WordPairs(own, links, texts.origin, model.lowercase)


def _linked_pairs(model: Model, asked: AskedPairs) -> Iterator[_Linked]:
    if asked.gold is None:
        return ((*words, None) for words in islice(_words_of(model, asked), asked.most))
    known = None if asked.pairs is None else _words_of(model, asked)
    found = islice(
        read_links(asked.gold, known, form=asked.form, first_index=asked.first_index), asked.most
    )
    return ((one.source, one.target, one.links) for one in found)


def _origin(asked: AskedPairs) -> str:
    path = asked.pairs if asked.gold is None else asked.gold
    return path_label(path) if isinstance(path, str | Path) else "pairs handed in"


def _words_of(model: Model, asked: AskedPairs) -> Iterable[tuple[Words, Words]]:
    pairs = asked.pairs
    assert pairs is not None  # noqa: S101 - others have links
    if isinstance(pairs, str | Path):
        check_is_text(pairs)
        if not _is_read_as_corpus(pairs):
            return read_pairs(pairs)
        own = split_pair(model.settings.corpus.pair if isinstance(model, Run) else DEFAULT_PAIR)
        languages = own if asked.languages is None else split_pair(asked.languages)
        if isinstance(model, Run) and languages == own[::-1]:
            msg = f"pair is {asked.languages}, and {model.label} translates {'-'.join(own)}; leave pair out."
            raise InputError(msg)
        rows = read_pair_file(Path(pairs), languages)
        return ((tuple(source.split()), tuple(target.split())) for source, target in rows)
    if not pairs or not all(isinstance(pair, tuple) and len(pair) == 2 for pair in pairs):
        msg = "Pairs must be a list of (source, target) with at least one entry."
        raise InputError(msg)
    if not all(isinstance(side, str) for pair in pairs for side in pair):
        msg = "Pairs must be of two texts for a model that reads text; give a Whisper for audio."
        raise InputError(msg)
    texts_of(pairs, "pairs")
    return [(tuple(source.split()), tuple(target.split())) for source, target in pairs]


def _is_read_as_corpus(pairs: object) -> bool:
    """Whether it is a file that a reader of corpora reads; .tsv may have more columns here."""
    if not isinstance(pairs, str | Path):
        return False
    return Path(pairs).name.removesuffix(".gz").rpartition(".")[2] in readers_by_ending().keys() - {
        "tsv"
    }


def _named(model: Model, found: Sequence[_Linked], origin: str) -> WordPairs:
    if not found:
        msg = f"There are no sentence pairs in {origin}; give at least one."
        raise InputError(msg)
    texts = [(" ".join(source), " ".join(target)) for source, target, _ in found]
    links = tuple(one for *_, one in found if one is not None)
    return WordPairs(gold_of_texts(texts), links, origin).in_case_of(model)


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
        return self.shape[0]

    @property
    def shape(self) -> tuple[int, int]:
        """Number of decoder layers, and of heads of each."""
        sites = self.reading.attention_sites
        return len(sites.layers["cross"]), sites.heads

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
        reading = replace(reading, selection=Selection(tuple(wanted)))
        reading.feed([_Consumer(update)], batch_size=batch_size, progress=progress)

    def read(self, settings: AlignmentSettings, what: str, model: object = None) -> ReadPairs:
        """The weights between the words of all pairs, in memory.

        Args:
            settings: those of the question: rows, tokens of words, size of batches, memory, progress.
            what: is being done, for the progress.
            model: another model of the same class and configuration; None: the one of the pairs.

        Raises:
            InputError: they need more memory than there is.
        """
        heads, rows = self.shape[0] * self.shape[1], settings.rows
        words = [self.pairs.words[number] for number in self.numbers]
        longest = tuple(max(len(one[side]) for one in words) for side in (1, 0))
        shape = (len(self.numbers), heads, *longest)
        check_memory(
            _BYTES * len(rows) * torch.Size(shape).numel(),
            f"The attention of {heads} heads between the words of {len(self.numbers)} pairs",
            _FEWER,
            memory=settings.memory,
        )
        found = {row: _empty(shape) for row in rows}
        places = {number: place for place, number in enumerate(self.numbers)}

        def take(numbers: Sequence[int], batch: dict[Row, WordWeights]) -> None:
            for row, own in batch.items():
                for index, number in enumerate(numbers):
                    if number in places:
                        _put(found[row], places[number], own, index)

        tell = None if settings.progress is None else partial(settings.progress, what)
        self.feed(
            take,
            rows=rows,
            from_word=settings.from_tokens,
            batch_size=settings.batch_size,
            progress=tell,
            model=model,
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
