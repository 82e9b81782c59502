"""Links of words that a model wrote itself, beside those of the same words read from the reference."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from difflib import SequenceMatcher

import pandas as pd
import torch

from attnlab.alignment import (
    GoldLinks,
    Link,
    Row,
    Words,
    WordWeights,
    count_links,
    linked,
    links_in,
    score_differences,
    score_intervals,
    words_of,
)
from attnlab.core import AttnlabError
from attnlab.evaluation import evaluator_of
from attnlab.labels import Gold, GoldSentence, Span
from attnlab.models import Model
from attnlab.questions.align.question import (
    AER,
    GENERATED_AER,
    GENERATED_CHANGE,
    AlignmentSettings,
)
from attnlab.questions.align.word_reading import AlignedPairs, WordPairs
from attnlab.reading import read_sentences


def compare_generated(
    model: Model,
    pairs: WordPairs,
    links: Mapping[int, frozenset[Link]],
    heads: tuple[Row, Sequence[int]],
    settings: AlignmentSettings,
) -> pd.DataFrame:
    """How good the links are while the model writes, and under teacher forcing, for the same words.

    Gold links are to words of the reference, so words are compared that its greedy translation and the
    reference have in common, in the same order (`difflib`). Greedy decoding attends as teacher forcing on what
    was written does, so the translation is read again.

    Args:
        model: with its tokenizer.
        pairs: with gold links.
        links: of the pairs to report on, by number, under teacher forcing.
        heads: the row of the weights, and the heads, numbered layer by layer.
        settings: those of the question.

    Returns:
        One row; none where the model writes none of the words, or cannot be evaluated.
    """
    written = _translations(model, pairs, list(links), settings)
    kept = [number for number, sentence in written.items() if sentence.spans]
    if not kept:
        return pd.DataFrame()
    own = WordPairs(
        Gold(
            tuple(pairs.gold.source[n] for n in kept), tuple(written[n] for n in kept), trees=False
        ),
        (),
        "its own translations",
    )
    found = _links(model, own, heads, settings)
    counts, shared, words = [], 0, 0
    for place, number in enumerate(kept):
        reference = pairs.words[number][1]
        same = _in_common(written[number].words, reference)
        shared, words = shared + len(same), words + len(reference)
        gold = _of_words(pairs.links[number], set(same.values()))
        forced = {link for link in links[number] if link[1] in same.values()}
        free = {(s, same[t]) for s, t in found.get(place, frozenset()) if t in same}
        counts.append(count_links([forced, free], [gold, gold]))
    return _row(torch.stack(counts, 1), shared, words, settings.seed)


def _translations(
    model: Model, pairs: WordPairs, numbers: Sequence[int], settings: AlignmentSettings
) -> dict[int, GoldSentence]:
    """The greedy translation of each pair as a sentence of words, by number."""
    texts = [pairs.gold.texts[number] for number in numbers]
    try:
        evaluator = evaluator_of(model, read_sentences(model, texts), settings.batch_size)
    except AttnlabError:
        return {}
    usable = [numbers[one.number] for one in evaluator.sentences.usable]
    found = zip(usable, evaluator.translations(settings.progress), strict=True)
    return {number: _sentence(number, text) for number, text in found}


def _sentence(number: int, text: str) -> GoldSentence:
    spans, start = [], 0
    for word in words_of(text):
        start = text.index(word, start)
        spans.append(Span(start, start + len(word)))
        start += len(word)
    return GoldSentence(str(number + 1), text, tuple(spans), ("_",) * len(spans), ())


def _links(
    model: Model, pairs: WordPairs, heads: tuple[Row, Sequence[int]], settings: AlignmentSettings
) -> dict[int, frozenset[Link]]:
    row, chosen = heads
    found: dict[int, frozenset[Link]] = {}

    def take(numbers: Sequence[int], batch: dict[Row, WordWeights]) -> None:
        grids = linked(batch[row].of_heads(chosen))[:, 0].cpu()
        found.update({n: links_in(grid) for n, grid in zip(numbers, grids, strict=True)})

    AlignedPairs(model, pairs, memory=settings.memory).feed(
        take,
        rows=[row],
        from_word="first" if settings.from_word == "first" else "mean",
        batch_size=settings.batch_size,
    )
    return found


def _in_common(written: Words, reference: Words) -> dict[int, int]:
    """Places of words of the one, in order, with those of the same words of the other."""
    blocks = SequenceMatcher(None, written, reference, autojunk=False).get_matching_blocks()
    return {one.a + step: one.b + step for one in blocks for step in range(one.size)}


def _of_words(gold: GoldLinks, targets: set[int]) -> GoldLinks:
    sure, possible = (
        frozenset(link for link in links if link[1] in targets)
        for links in (gold.sure, gold.possible)
    )
    return replace(gold, sure=sure, possible=possible)


def _row(counts: torch.Tensor, shared: int, words: int, seed: int) -> pd.DataFrame:
    forced, free = score_intervals(counts, "aer", seed=seed)
    (change,) = score_differences(counts[0], counts[1:], "aer", seed=seed)
    row = {
        "pairs": counts.shape[1],
        "words": shared,
        "word_share": shared / max(1, words),
        **AER.cells(forced.change, forced.low, forced.high),
        **GENERATED_AER.cells(free.change, free.low, free.high),
        **change.cells(GENERATED_CHANGE),
    }
    return pd.DataFrame([row])
