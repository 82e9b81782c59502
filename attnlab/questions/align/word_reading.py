"""Sentence pairs with their words, and the cross-attention of a model between these words."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from attnlab.alignment import (
    FromWord,
    GoldGrid,
    GoldLinks,
    GreedyPath,
    Link,
    LinkForm,
    Row,
    Words,
    WordWeights,
    count_set,
    form_of,
    gold_grid,
    gold_links,
    greedy_path,
    read_links,
    read_pairs,
    weighed_links,
    word_weights,
)
from attnlab.core import InputError, NothingUsableError, check_memory, path_label, texts_of
from attnlab.corpora import DEFAULT_PAIR, read_pair_file, readers_by_ending, split_pair
from attnlab.evaluation import model_and_texts
from attnlab.labels import Gold, align_corpus, gold_of_texts
from attnlab.models import Model, Run, Source, model_of
from attnlab.questions.align.heard_words import Receiver, check_is_text, pieces_of
from attnlab.questions.align.question import AlignmentSettings
from attnlab.reading import LayerWeights, Selection, prepare, read_sentences

# Pairs of its test part that a run brings.
PAIRS_OF_RUN = 1000
_BYTES = 4
_FEWER = "take fewer pairs (sentences), leave long ones out, or raise the limit (memory, in GB)"
# |A|, |S|, |A n S| and |A n P| of each pair, see `attnlab.alignment.count_links`.
Counts = Int[Tensor, "pair 4"]
_Linked: TypeAlias = tuple[Words, Words, GoldLinks | None]


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
            (source.words, target.words)
            for source, target in zip(self.gold.source, self.gold.target, strict=True)
        ]

    def turned(self) -> "WordPairs":
        """The same with source and target exchanged."""
        assert self.gold.target is not None  # noqa: S101 - these are pairs
        sides = replace(self.gold, source=self.gold.target, target=self.gold.source, pairs=())
        return replace(self, gold=sides, links=tuple(gold.turned() for gold in self.links))

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


def calibration_settings(settings: AlignmentSettings) -> AlignmentSettings:
    """Settings that ask for the pairs of the calibration file.

    Raises:
        InputError: neither the name nor the first line of a file tells its form.
    """
    path = settings.calibration
    assert path is not None  # noqa: S101 - it is asked for
    return AlignmentSettings(gold=path, first_index=_first_index(form_of(path), settings))


def _first_index(form: LinkForm, settings: AlignmentSettings) -> int | None:
    """Index of the first word in another file of links: as in a gold file of the same form."""
    gold = settings.gold
    alike = gold is not None and form == (settings.gold_form or form_of(gold))
    return settings.first_index if alike else None


def links_of_baseline(
    pairs: WordPairs, settings: AlignmentSettings
) -> list[frozenset[Link]] | None:
    """The links of another aligner in each pair, those that are possible too; None where no file is named.

    Raises:
        InputError: the file cannot be read, a line is not of Pharaoh's form, a link is outside its sentence,
            or there are not as many lines as pairs (with `sentences`, fewer).
    """
    if settings.baseline_links is None:
        return None
    first = _first_index("pharaoh", settings)
    linked = read_links(settings.baseline_links, pairs.words, form="pharaoh", first_index=first)
    return [pair.links.possible for pair in islice(linked, settings.sentences)]


def pairs_of(model: Model, settings: AlignmentSettings) -> WordPairs:
    """The sentence pairs that are asked for, with their gold links where there are any.

    Args:
        model: a run brings its test part; in lower case it reads all pairs so.
        settings: which pairs.

    Raises:
        InputError: there are no pairs, or the files cannot be used.
    """
    pairs = next(parts_of(model, settings), None)
    if pairs is None:
        msg = f"There are no sentence pairs in {origin_of(settings)}; give at least one."
        raise InputError(msg)
    return pairs


def parts_of(
    model: Model, settings: AlignmentSettings, size: int | None = None
) -> Iterator[WordPairs]:
    """The pairs as `pairs_of`, so many at a time; a file is read as far as is needed."""
    if settings.gold is None and settings.pairs is None:
        yield _test_pairs(model, settings.sentences)
        return
    pairs = _linked_pairs(model, settings)
    while part := list(islice(pairs, size)):
        texts = [(" ".join(source), " ".join(target)) for source, target, _ in part]
        links = tuple(gold for *_, gold in part if gold is not None)
        yield WordPairs(gold_of_texts(texts), links, origin_of(settings)).in_case_of(model)


def number_of_pairs(model: Model, settings: AlignmentSettings) -> int:
    """How many pairs `pairs_of` gives, without holding them; raises as it does."""
    if settings.gold is None and settings.pairs is None:
        return len(_test_pairs(model, settings.sentences))
    return sum(1 for _ in _linked_pairs(model, settings))


def _test_pairs(model: Model, count: int | None) -> WordPairs:
    """Pairs of the test part of a run."""
    if not isinstance(model, Run):
        msg = f"{model.label} brings no pairs of its own; give pairs, or gold links with their sentences."
        raise InputError(msg)
    _, texts = model_and_texts(model, sentences=count or PAIRS_OF_RUN, gold=True)
    gold = texts.gold
    assert gold is not None  # noqa: S101 - it was asked for
    if gold.target is None:
        msg = "The sentences have no translations; give pairs of source, tab and translation."
        raise InputError(msg)
    links = tuple(gold_links((source, target) for target, source in pairs) for pairs in gold.pairs)
    return WordPairs(gold, links, texts.origin, model.lowercase)


def _linked_pairs(model: Model, settings: AlignmentSettings) -> Iterator[_Linked]:
    """Words of both sides with gold links, or None in place of these."""
    words = None if settings.pairs is None else _words_of(model, settings)
    if settings.gold is None:
        return ((*pair, None) for pair in islice(words or (), settings.sentences))
    pairs = read_links(
        settings.gold, words, form=settings.gold_form, first_index=settings.first_index
    )
    return ((pair.source, pair.target, pair.links) for pair in islice(pairs, settings.sentences))


def origin_of(settings: AlignmentSettings) -> str:
    """Where pairs come from, in words."""
    path = settings.pairs if settings.gold is None else settings.gold
    return path_label(path) if isinstance(path, str | Path) else "pairs handed in"


def _words_of(model: Model, settings: AlignmentSettings) -> Iterable[tuple[Words, Words]]:
    """The words of both sides of pairs that are given."""
    pairs = settings.pairs
    if isinstance(pairs, str | Path):
        check_is_text(pairs)
        if not _is_read_as_corpus(pairs):
            return read_pairs(pairs)
        trained = split_pair(model.settings.corpus.pair if isinstance(model, Run) else DEFAULT_PAIR)
        languages = trained if settings.pair is None else split_pair(settings.pair)
        if isinstance(model, Run) and languages == trained[::-1]:
            languages_of_run = "-".join(trained)
            msg = f"pair is {settings.pair}, and {model.label} translates {languages_of_run}; leave pair out."
            raise InputError(msg)
        texts: Any = read_pair_file(Path(pairs), languages)
    else:
        if not pairs or not all(isinstance(pair, tuple) and len(pair) == 2 for pair in pairs):
            msg = "Pairs must be a list of (source, target) with at least one entry."
            raise InputError(msg)
        if not all(isinstance(side, str) for pair in pairs for side in pair):
            msg = (
                "Pairs must be of two texts for a model that reads text; give a Whisper for audio."
            )
            raise InputError(msg)
        texts_of(pairs, "pairs")
        texts = pairs
    return ((tuple(source.split()), tuple(target.split())) for source, target in texts)


def check_languages(settings: AlignmentSettings) -> None:
    """Raises InputError where languages are named of pairs that hold no names of them."""
    if settings.pair is not None and not _is_read_as_corpus(settings.pairs):
        msg = "pair names the languages of a .jsonl file of pairs; give such pairs, or leave pair out."
        raise InputError(msg)


def _is_read_as_corpus(pairs: object) -> bool:
    """Whether it is a file that a reader of corpora reads; .tsv may have more columns here."""
    if not isinstance(pairs, str | Path):
        return False
    ending = Path(pairs).name.removesuffix(".gz").rpartition(".")[2]
    return ending in readers_by_ending().keys() - {"tsv"}


@dataclass(frozen=True)
class Chosen:
    """Heads of one row of the weights, numbered layer by layer."""

    row: Row
    heads: tuple[int, ...]
    per_layer: int

    @property
    def addresses(self) -> tuple[tuple[int, int], ...]:
        """Layer and head of each."""
        return tuple(divmod(head, self.per_layer) for head in self.heads)

    @property
    def names(self) -> str:
        """The heads in words: `0.2, 1.3`."""
        return ", ".join(f"{layer}.{head}" for layer, head in self.addresses)


@dataclass(frozen=True)
class Part:
    """Sentence pairs with the attention of all heads between their words.

    Attributes:
        pairs: all that were given.
        numbers: those that are meant, in the order of the weights.
        weights: of every head, layer by layer, by row of the weights.
        gold: their links.
        per_layer: number of heads of a layer.
    """

    pairs: WordPairs
    numbers: tuple[int, ...]
    weights: Mapping[Row, WordWeights]
    gold: GoldGrid
    per_layer: int

    @property
    def words(self) -> list[tuple[Words, Words]]:
        """The words of both sides."""
        return [self.pairs.words[number] for number in self.numbers]

    @property
    def links(self) -> list[GoldLinks]:
        """The gold links."""
        return [self.pairs.links[number] for number in self.numbers]

    @cached_property
    def paths(self) -> dict[Row, GreedyPath]:
        """Heads as they are added by the gold links, by row of the weights."""
        return {row: greedy_path(words, self.gold) for row, words in self.weights.items()}

    def of(self, chosen: Sequence[int]) -> "Part":
        """Some of the pairs, by their places here."""
        index = list(chosen)
        weights = {
            row: WordWeights(words.weights[index], words.targets[index], words.sources[index])
            for row, words in self.weights.items()
        }
        gold = GoldGrid(self.gold.sure[index], self.gold.possible[index])
        numbers = tuple(np.array(self.numbers)[index].tolist())
        return replace(self, numbers=numbers, weights=weights, gold=gold)

    def with_links(self, links: Iterable[frozenset[Link]]) -> "Part":
        """The same pairs with other links in place of gold."""
        shape = next(iter(self.weights.values())).weights.shape[-2:]
        return replace(self, gold=gold_grid([gold_links(pair) for pair in links], *shape))

    def heads(self, row: Row, *heads: int) -> Chosen:
        """Heads of a row, by their numbers."""
        return Chosen(row, heads, self.per_layer)

    def counts(self, chosen: Chosen) -> Counts:
        """How the links of these heads agree with gold."""
        return count_set(self.weights[chosen.row], chosen.heads, self.gold)

    def links_of(self, chosen: Chosen) -> dict[int, dict[Link, float]]:
        """The links of these heads in every pair, with their weights, by number."""
        links = weighed_links(self.weights[chosen.row].of_heads(chosen.heads))
        return dict(zip(self.numbers, links, strict=True))


class AlignedPairs:
    """Sentence pairs whose tokens are matched with their words, ready to be read by a model.

    Args:
        model: an encoder-decoder.
        pairs: the sentence pairs.
        settings: those of the question: what is read of the model, and its memory.
        weights: what is read where a file of heads says it, in place of the settings.

    Attributes:
        reading: the model with the pairs.
        numbers: the pairs that the model can be read on.
        unaligned: of each pair whose tokens do not match its words why, by number.

    Raises:
        InputError: no pair can be used.
    """

    def __init__(
        self,
        model: Model,
        pairs: WordPairs,
        settings: AlignmentSettings,
        *,
        weights: str | None = None,
    ) -> None:
        both, gold = model.both_tokenizers, pairs.gold
        assert gold.target is not None  # noqa: S101 - these are pairs
        sentences = read_sentences(model, gold.texts, pairs.origin)
        self.pairs = pairs
        texts = sentences.texts
        sources = align_corpus(both.source, gold.source, [text.source for text in texts])
        tokens = [text.target for text in texts if text.target is not None]
        targets = align_corpus(both.target, gold.target, tokens)
        sides = zip(sources.alignments, targets.alignments, strict=True)
        aligned = [None not in side for side in sides]
        self.reading = prepare(
            model, sentences, ["cross"],
            memory=settings.memory, weights=weights or settings.weights,
        )  # fmt: skip
        usable = {text.number: text for text in sentences.usable}
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
        self._sources, self._targets = (
            [
                pieces_of(alignment, len(sentence.spans))
                for alignment, sentence in zip(corpus.alignments, side, strict=True)
            ]
            for corpus, side in ((sources, gold.source), (targets, gold.target))
        )
        for number, text in usable.items():
            # A start token that the tokenizer put there is not predicted.
            pieces = self._targets[number]
            self._targets[number] = replace(pieces, words=pieces.words[-len(text.labels) :])

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
            layers: which decoder layers; None: all.
            batch_size: most pairs in one forward pass.
            progress: called with (pairs done, pairs in all).
            model: another model of the same class and configuration; None: the one of the pairs.
        """
        selected = range(self.shape[0]) if layers is None else layers
        batch: list[dict[Row, WordWeights]] = []

        def update(layer: LayerWeights) -> None:
            targets, sources = (
                [side[number] for number in layer.sentences]
                for side in (self._targets, self._sources)
            )
            batch.append(
                {
                    row: word_weights(layer.weights, targets, sources, row=row, from_word=from_word)
                    for row in rows
                }
            )
            if len(batch) == len(selected):
                take(layer.sentences, {row: _together([of[row] for of in batch]) for row in rows})
                batch.clear()

        reading = self.reading if model is None else self.reading.by(model)
        reading = replace(reading, selection=Selection(tuple(selected)))
        reading.feed([Receiver(update)], batch_size=batch_size, progress=progress)

    def read(self, settings: AlignmentSettings, what: str, model: object = None) -> Part:
        """The pairs with the weights between their words, in memory.

        Args:
            settings: those of the question: rows, tokens of words, size of batches, memory, progress.
            what: is being done, for the progress.
            model: another model of the same class and configuration; None: the one of the pairs.

        Raises:
            InputError: they need more memory than there is.
        """
        (layers, per_layer), rows = self.shape, settings.rows
        words = [self.pairs.words[number] for number in self.numbers]
        longest = [max(len(pair[side]) for pair in words) for side in (1, 0)]
        shape = (len(words), layers * per_layer, *longest)
        check_memory(
            _BYTES * len(rows) * torch.Size(shape).numel(),
            f"The attention of {layers * per_layer} heads between the words of {len(words)} pairs",
            _FEWER,
            memory=settings.memory,
        )
        weights = {row: _empty(shape) for row in rows}
        places = {number: place for place, number in enumerate(self.numbers)}

        def take(numbers: Sequence[int], batch: dict[Row, WordWeights]) -> None:
            for row, of_batch in batch.items():
                for index, number in enumerate(numbers):
                    if number in places:
                        _put(weights[row], places[number], of_batch, index)

        self.feed(
            take,
            rows=rows,
            from_word=settings.from_tokens,
            batch_size=settings.batch_size,
            progress=settings.progress and partial(settings.progress, what),
            model=model,
        )
        none = gold_links(())
        links = [self.pairs.links[number] if self.pairs.links else none for number in self.numbers]
        return Part(self.pairs, self.numbers, weights, gold_grid(links, *longest), per_layer)


def _together(layers: Sequence[WordWeights]) -> WordWeights:
    weights = torch.cat([layer.weights for layer in layers], 1)
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
