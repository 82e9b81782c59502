"""Sentences with what is known of them beforehand: trees, alignments, and their shuffled form."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from attnlab.core import ShortRepr
from attnlab.grammar import GrammarPair
from attnlab.labels.treebank import GoldSentence, gold_sentence, load_treebank, shuffle_words
from attnlab.labels.word_tokens import (
    Alignment,
    Span,
    UnalignedError,
    align_offsets,
    align_separate,
    locate_tokens,
)
from attnlab.reading import Text, Tokens

Links = tuple[tuple[int, int], ...]


@dataclass(frozen=True, repr=False)
class Gold(ShortRepr):
    """Sentences and what is known of them, numbered as they are analyzed.

    Attributes:
        source: sentences of the encoder or the only stack.
        target: sentences of the decoder, if there are any.
        pairs: aligned words (target, source) of each sentence, counted from 0; none where unknown.
        trees: whether the sentences have their gold trees, or words alone.
        generated: whether they are drawn from a grammar.
    """

    source: tuple[GoldSentence, ...]
    target: tuple[GoldSentence, ...] | None = None
    pairs: tuple[Links, ...] = ()
    trees: bool = True
    generated: bool = False

    @property
    def texts(self) -> tuple[Text, ...]:
        """The sentences, or pairs of them, as a model reads them."""
        if self.target is None:
            return tuple(sentence.text for sentence in self.source)
        return tuple(
            (one.text, other.text) for one, other in zip(self.source, self.target, strict=True)
        )

    def lowered(self) -> "Gold":
        """The same in lower case, words where they are."""

        def of(side: tuple[GoldSentence, ...]) -> tuple[GoldSentence, ...]:
            return tuple(_lowered(sentence, lowercase=True) for sentence in side)

        target = None if self.target is None else of(self.target)
        return replace(self, source=of(self.source), target=target)

    def without_target(self) -> "Gold":
        """The same for a model that reads the source alone."""
        return Gold(self.source, trees=self.trees, generated=self.generated)


def gold_of_treebank(path: str | Path, sentences: int | None, *, lowercase: bool = False) -> Gold:
    """The first sentences of a CoNLL-U file, in lower case for a model that was trained on that.

    Raises:
        InputError: the file is missing or no CoNLL-U.
    """
    path = Path(path)
    return Gold(tuple(_lowered(one, lowercase=lowercase) for one in load_treebank(path, sentences)))


def gold_of_texts(texts: Sequence[Text]) -> Gold:
    """Sentences of which nothing is known but their words: what stands between spaces."""
    sources = tuple(_words(t[0] if isinstance(t, tuple) else t, n) for n, t in enumerate(texts))
    if not isinstance(texts[0], tuple):
        return Gold(sources, trees=False)
    targets = tuple(_words(t[1], n) for n, t in enumerate(texts) if isinstance(t, tuple))
    return Gold(sources, targets, trees=False)


def _words(text: str, number: int) -> GoldSentence:
    spans = tuple(Span(*match.span()) for match in _WORD.finditer(text))
    return GoldSentence(str(number + 1), text, spans, ("_",) * len(spans), ())


# White space is here what `str.split` takes for it.
_WORD = re.compile(r"\S+")


def gold_of_embedded(
    texts: Sequence[Text], drawn: Iterable[GrammarPair], *, lowercase: bool
) -> Gold:
    """Trees and alignments of sentence pairs of the embedded corpus; words alone of any other.

    Args:
        texts: pairs of source and target.
        drawn: the pairs of the corpus, see `ParallelCorpus.drawn`.
        lowercase: whether the texts are.
    """
    pair_of: dict[Text, GrammarPair] = {}
    for pair in drawn:
        sides = (pair.source, pair.target)
        pair_of[(sides[0].lower(), sides[1].lower()) if lowercase else sides] = pair
    if any(text not in pair_of for text in texts):
        return gold_of_texts(texts)
    pairs = [pair_of[text] for text in texts]
    sources, targets = (
        tuple(
            _lowered(gold_sentence(tree, str(n + 1)), lowercase=lowercase)
            for n, tree in enumerate(trees)
        )
        for trees in ([pair.source_tree for pair in pairs], [pair.target_tree for pair in pairs])
    )
    links = tuple(tuple((t - 1, s - 1) for s, t in pair.alignment) for pair in pairs)
    return Gold(sources, targets, links, generated=True)


def _lowered(sentence: GoldSentence, *, lowercase: bool) -> GoldSentence:
    if not lowercase:
        return sentence
    lowered = sentence.text.lower()
    if len(lowered) != len(sentence.text):
        # Some letters are longer in lower case; they stay, or the spans of words would be wrong.
        letters = ((letter, letter.lower()) for letter in sentence.text)
        lowered = "".join(low if len(low) == 1 else letter for letter, low in letters)
    return replace(sentence, text=lowered)


def shuffled(gold: Gold, seed: int) -> Gold:
    """The same sentences with their words in random order; trees and alignments go with the words."""
    sources = [_shuffled(sentence, seed) for sentence in gold.source]
    if gold.target is None:
        return replace(gold, source=tuple(sentence for sentence, _ in sources))
    # Another seed, or sentences of as many words would be shuffled alike on both sides.
    targets = [_shuffled(sentence, seed + 1) for sentence in gold.target]
    pairs = tuple(
        tuple((target[t], source[s]) for t, s in links)
        for links, (_, source), (_, target) in zip(gold.pairs, sources, targets, strict=False)
    )
    return replace(
        gold,
        source=tuple(sentence for sentence, _ in sources),
        target=tuple(sentence for sentence, _ in targets),
        pairs=pairs,
    )


def _shuffled(sentence: GoldSentence, seed: int) -> tuple[GoldSentence, dict[int, int]]:
    """The shuffled sentence, and where each word went."""
    # The tags go with the words, so tags that are numbers say which word is where.
    numbered = replace(sentence, tags=tuple(str(n) for n in range(len(sentence.spans))))
    mixed = shuffle_words(numbered, seed)
    old_positions = [int(tag) for tag in mixed.tags]
    tags = tuple(sentence.tags[old] for old in old_positions)
    return replace(mixed, tags=tags), {old: new for new, old in enumerate(old_positions)}


@dataclass(frozen=True)
class AlignedCorpus:
    """The alignment of every sentence, and the reasons where there is none.

    Attributes:
        alignments: one for each sentence, in order; None where tokens and words do not match.
        reasons: for each sentence that is not aligned, its identifier and why.
    """

    alignments: tuple[Alignment | None, ...]
    reasons: dict[str, str]

    @property
    def coverage(self) -> float:
        """Share of sentences that are aligned, 0 to 1."""
        return 1 - self.alignments.count(None) / len(self.alignments)


def align_corpus(
    tokenizer: Any, sentences: Sequence[GoldSentence], tokens: Sequence[Tokens]
) -> AlignedCorpus:
    """The alignment of every sentence; those that cannot be aligned are kept with their reasons.

    Args:
        tokenizer: of transformers, fast or not.
        sentences: texts with the positions of their words.
        tokens: what the tokenizer made of each text.
    """
    alignments = _separate(sentences, tokens)
    reasons: dict[str, str] = {}
    for number, alignment in enumerate(alignments):
        if alignment is None:
            sentence = sentences[number]
            try:
                alignments[number] = align_sentence(tokenizer, sentence, tokens[number])
            except UnalignedError as error:
                reasons[sentence.identifier] = str(error)
    return AlignedCorpus(tuple(alignments), reasons)


def _separate(
    sentences: Sequence[GoldSentence], tokens: Sequence[Tokens]
) -> list[Alignment | None]:
    """The alignments of sentences in which every token is of one word: of nearly all, at once."""
    spans = [made.spans for made in tokens if made.spans is not None]
    if len(spans) < len(sentences):
        return [None] * len(sentences)
    texts, words = [one.text for one in sentences], [one.spans for one in sentences]
    return align_separate(texts, words, spans, [made.special for made in tokens])


def align_sentence(tokenizer: Any, sentence: GoldSentence, tokens: Tokens) -> Alignment:
    """Alignment with the tokens that `tokenizer` made of the text, special tokens among them.

    Fast tokenizers say where their tokens stand in the text; those of others are found by their
    letters.

    Raises:
        UnalignedError: the tokens do not match the words.
    """
    if tokens.spans is not None:
        spans = [Span(*span) for span in tokens.spans]
    else:
        pieces = tokenizer.convert_ids_to_tokens(tokens.ids)
        spans = locate_tokens(sentence.text, pieces, tokens.special, tokenizer.unk_token)
    return align_offsets(sentence.text, sentence.spans, spans, tokens.special)
