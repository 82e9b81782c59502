"""Texts read for patterns of keys: how often all heads hit them, and how often those of controls."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

from jaxtyping import Int
from torch import Tensor

from attnlab.core import Head, InputError, Note
from attnlab.evaluation.shared_settings import (
    PatternTextSettings,
    RareInTheseTexts,
    WordsUnaligned,
    nothing_left,
)
from attnlab.evaluation.sources import Texts, model_and_texts
from attnlab.labels import (
    OF_RELATIONS,
    RAREST,
    SHUFFLED,
    UNTRAINED,
    Gold,
    GoldSentence,
    Need,
    Pattern,
    PatternCounts,
    PatternTexts,
    TextSide,
    align_corpus,
    counted_types,
    gold_of_texts,
    shuffled,
    unmet_need,
    untrained_twin,
)
from attnlab.models import Model, Source
from attnlab.reading import ATTENTION, Reading, Tokens, prepare, read_sentences

_LACKING = {
    Need.CROSS: "{part} is for cross-attention, and {site} attends within a text",
    Need.ONE_TEXT: "{part} is of one text, and cross-attention looks at another",
    Need.LINKS: "{part} needs linked words, which are known of the embedded corpus alone",
    Need.TREES: "{part} needs gold trees; give a treebank",
    Need.MENTIONS: "{part} needs mentions of entities; give a treebank in the form of CorefUD",
    Need.PAIRS: "{part} needs pairs of texts that the model reads as one",
    Need.SPECIAL_TOKENS: "the tokenizer puts no special tokens into the texts",
    Need.SPECIAL_TOKEN: "{part} is no special token of the texts, which have {special}",
}
_NO_KEY = (
    "there is no such key that a query may look at and one outside the pattern beside it; give other texts "
    "or another pattern"
)
# By site.
Patterns = Mapping[str, Sequence[Pattern]]


def model_with_gold(
    source: Source, settings: PatternTextSettings, *, scores: bool = False
) -> tuple[Model, Texts]:
    """The model at `source` on its device, and its texts with what is known of them.

    Args:
        source: the model.
        settings: which texts, and the device.
        scores: whether the model must score next tokens.

    Raises:
        InputError: no such model, sentences or device.
    """
    model, texts = model_and_texts(
        source, sentences=settings.sentences_to_read, text=settings.text, corpus=settings.corpus,
        pair=settings.pair, treebank=settings.treebank, gold=True, scores=scores,
    )  # fmt: skip
    model.move_to_named(settings.device, source)
    return model, texts


def gold_texts(
    source: Source, settings: PatternTextSettings, *, weights: str = ATTENTION
) -> tuple[Model, Texts, Reading]:
    """The model and texts of `model_with_gold`, and the reading of these.

    Raises:
        InputError: no such model, sentences or site.
    """
    model, texts = model_with_gold(source, settings)
    read = read_sentences(model, texts.texts, texts.origin)
    reading = prepare(model, read, settings.sites, memory=settings.memory, weights=weights)
    return model, texts, reading


@dataclass(frozen=True)
class PatternReading:
    """A model that reads texts, with all of these that some patterns ask for.

    Attributes:
        settings: how texts are read.
        reading: the model with the texts.
        texts: where these come from, with what is known of them.
        asked: the patterns.
        words: whether tokens are aligned with words although no pattern may ask for it.
    """

    settings: PatternTextSettings
    reading: Reading
    texts: Texts
    asked: Collection[Pattern]
    words: bool = False

    @cached_property
    def gold(self) -> Gold:
        """What is known of the texts as the model reads them: pairs of one stack as one text."""
        gold, texts = self.texts.gold, [text.text for text in self.reading.sentences.texts]
        assert gold is not None  # noqa: S101 - `gold_texts` asks for it
        if self.reading.sentences.paired:
            return gold
        if isinstance(texts[0], tuple):
            return gold_of_texts([" ".join(text) for text in texts])
        return gold.without_target()

    @cached_property
    def _known(self) -> tuple[PatternTexts, dict[str, str]]:
        return self._knowledge(self.gold, self.reading)

    @property
    def known(self) -> PatternTexts:
        """What is known of the texts, by their sides."""
        return self._known[0]

    @cached_property
    def _type_counts(self) -> Sequence[Int[Tensor, "_"]]:
        loaded = self.reading.loaded
        return loaded.type_counts or counted_types(
            loaded.both_tokenizers, self.reading.sentences.texts
        )

    def _knowledge(self, gold: Gold, reading: Reading) -> tuple[PatternTexts, dict[str, str]]:
        """What is known of the texts, and why some of them are not aligned with their words."""
        texts, both = reading.sentences.texts, reading.loaded.both_tokenizers
        paired, reasons = reading.sentences.paired, dict[str, str]()

        def side(tokenizer: Any, own: Sequence[GoldSentence], tokens: Sequence[Tokens]) -> TextSide:
            counts = self._type_counts[-1 if own is gold.target else 0]
            trees, seconds = own if gold.trees else (), [text.second for text in tokens]
            if not (self.words or any(pattern.needs_words for pattern in self.asked)):
                return TextSide(counts, trees, seconds=seconds)
            aligned = align_corpus(tokenizer, own, tokens)
            reasons.update(aligned.reasons)
            return TextSide(counts, trees, aligned.alignments, seconds)

        targets = [text.target for text in texts if text.target is not None]
        pattern_texts = PatternTexts(
            [text.text for text in texts],
            side(both.source, gold.source, [text.source for text in texts]),
            side(both.target, gold.target, targets) if paired and gold.target is not None else None,
            gold.pairs if paired else (),
        )
        return pattern_texts, reasons

    @property
    def notes(self) -> Iterator[Note]:
        """Notes on what a reader must know of the texts."""
        names = {name for pattern in self.asked for name in pattern.names}
        if RAREST in names and self.reading.loaded.type_counts is None:
            yield RareInTheseTexts()
        reasons = self._known[1]
        if reasons and any(pattern.needs_words for pattern in self.asked):
            yield WordsUnaligned(len(reasons), *next(iter(reasons.items())))

    def unmet(self, pattern: Pattern, site: str) -> InputError | None:
        """Why no row can meet a pattern at a site, as far as is known before weights are read."""
        special = self._special(site)
        lacking = unmet_need(pattern, site, self._known[0], special)
        if lacking is None:
            return None
        words = {"part": lacking.part, "site": site, "special": ", ".join(sorted(special))}
        return _unmet(pattern, site, _LACKING[lacking.need].format(**words))

    def unmet_in(self, counts: PatternCounts, pattern: Pattern, site: str) -> InputError | None:
        """Why no row of a pattern was counted at a site; None where one was."""
        return None if counts.counted(pattern, site) else _unmet(pattern, site, _NO_KEY)

    def _special(self, site: str) -> set[str]:
        """The special tokens in the texts that are keys at a site."""
        sentences = self.reading.sentences
        target = site == "decoder" and sentences.paired
        vocabulary = sentences.target if target else sentences.source
        ids = {
            token
            for sentence in sentences.usable
            for token in (sentence.target if target and sentence.target else sentence.source)
        }
        return set(vocabulary.tokens(sorted(ids & vocabulary.special)))

    def counts(
        self, patterns: Patterns, watched: Collection[tuple[Head, Pattern]] = ()
    ) -> PatternCounts:
        """Counts of all heads of some sites; the rows of each text of those that are watched."""
        return self._fed("Patterns", self.reading, PatternCounts(self._known[0], patterns, watched))

    def counted(
        self, patterns: Patterns, refused: Sequence[tuple[str, InputError]] = ()
    ) -> tuple[Patterns, PatternCounts, list[tuple[str, InputError]]]:
        """The patterns of each site that rows meet, counts of all heads, and what no row meets, with why.

        Args:
            patterns: those of each site.
            refused: what is told beside them.

        Raises:
            InputError: no row meets any of them.
        """
        refused = [*refused]
        possible = _met(patterns, self.unmet, refused)
        counts = self.counts(possible)
        return _met(possible, partial(self.unmet_in, counts), refused), counts, refused

    def controls(self, patterns: Patterns) -> dict[str, PatternCounts]:
        """The same counts of an untrained model, and on shuffled words where patterns are of relations."""
        seed, (texts, _) = self.settings.seed, self._known
        twin = self.reading.by(untrained_twin(self.reading.model, seed))
        by_control = {
            UNTRAINED: self._fed("Control: untrained model", twin, PatternCounts(texts, patterns))
        }
        of_relations = {
            site: [pattern for pattern in site_patterns if pattern.names & OF_RELATIONS]
            for site, site_patterns in patterns.items()
        }
        if any(of_relations.values()):
            gold = shuffled(self.gold, seed)
            mixed = self.reading.of_texts(gold.texts)
            counts = PatternCounts(self._knowledge(gold, mixed)[0], of_relations)
            by_control[SHUFFLED] = self._fed("Control: shuffled words", mixed, counts)
        return by_control

    def _fed(self, what: str, reading: Reading, counts: PatternCounts) -> PatternCounts:
        chosen = tuple(site for site in reading.sites if counts.patterns.get(site))
        replace(reading, sites=chosen).feed(
            [counts], batch_size=self.settings.batch_size, progress=self.settings.telling(what)
        )
        return counts


def _unmet(pattern: Pattern, site: str, why: str) -> InputError:
    return InputError(f"No row of the texts can meet '{pattern.text}' at {site}: {why}.")


def _met(
    patterns: Patterns,
    reason: Callable[[Pattern, str], InputError | None],
    refused: list[tuple[str, InputError]],
) -> Patterns:
    """The patterns of each site that there is no reason against; one without a site is refused.

    Raises:
        InputError: none is left.
    """
    kept: dict[str, list[Pattern]] = {}
    against: dict[Pattern, list[str]] = {}
    for site, site_patterns in patterns.items():
        for pattern in site_patterns:
            error = reason(pattern, site)
            if error is None:
                kept.setdefault(site, []).append(pattern)
            else:
                against.setdefault(pattern, []).append(str(error))
    left = {pattern for site_patterns in kept.values() for pattern in site_patterns}
    refused += [
        (f"'{pattern.text}'", InputError(" ".join(errors)))
        for pattern, errors in against.items()
        if pattern not in left
    ]
    if not kept:
        raise nothing_left(refused)
    return kept
