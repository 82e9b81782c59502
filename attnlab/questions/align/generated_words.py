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
    score_differences,
    score_intervals,
    weighed_links,
    words_of,
)
from attnlab.core import Note, NothingUsableError
from attnlab.evaluation import Evaluator, evaluator_of
from attnlab.labels import AER, Gold, GoldSentence, Span
from attnlab.models import Model
from attnlab.questions.align.question import (
    GENERATED_AER,
    GENERATED_CHANGE,
    AlignmentSettings,
    NotGenerated,
    TranslationsNotAligned,
)
from attnlab.questions.align.word_reading import AlignedPairs, Chosen, Part, WordPairs
from attnlab.reading import read_sentences


def compare_generated(
    model: Model, report: Part, chosen: Chosen, settings: AlignmentSettings
) -> tuple[pd.DataFrame | None, list[Note]]:
    """How good the links are while the model writes, and under teacher forcing, for the same words.

    Gold links are to words of the reference, so words are compared that its greedy translation and the
    reference have in common, in the same order (`difflib`). Greedy decoding attends as teacher forcing on
    what was written does, so the translation is read again. Pairs whose translation cannot be aligned are
    left out of both.

    Args:
        model: with its tokenizer; one of several languages writes that of the references, by the token that
            these begin with. Where nothing says how a translation begins, nothing is compared, which a note
            says.
        report: the reported pairs.
        chosen: the heads.
        settings: those of the question; with `quick` nothing is compared.

    Returns:
        The table `generation`, of one row, where there is something to compare; and whether translations were
        left out.
    """
    if settings.quick:
        return None, []
    evaluator = _evaluator(model, report, settings)
    if evaluator is None:
        return None, [NotGenerated()]
    written = {
        number: sentence
        for number, sentence in translations_of(evaluator, report, settings).items()
        if sentence.spans
    }
    generated, unaligned = _links(model, report.pairs, written, chosen, settings)
    notes: list[Note] = []
    if unaligned:
        first, why = min(unaligned.items())
        notes.append(TranslationsNotAligned(len(unaligned), len(written), first + 1, why))
    if not generated:
        return None, notes
    links, words = report.links_of(chosen), report.pairs.words
    counts, shared = [], 0
    for number, of_translation in generated.items():
        same = _in_common(written[number].words, words[number][1])
        shared += len(same)
        gold = _of_words(report.pairs.links[number], set(same.values()))
        forced = {link for link in links[number] if link[1] in same.values()}
        free = {(source, same[target]) for source, target in of_translation if target in same}
        counts.append(count_links([forced, free], [gold, gold]))
    total = sum(len(words[number][1]) for number in generated)
    return _row(torch.stack(counts, 1), shared, total), notes


def _evaluator(model: Model, report: Part, settings: AlignmentSettings) -> Evaluator | None:
    """The model with the reported pairs; None where nothing says how their translations begin."""
    texts = [report.pairs.gold.texts[number] for number in report.numbers]
    sentences = read_sentences(model, texts)
    begun = sentences.forced_beginning(sentences.usable, model.model.device)
    if model.model.config.decoder_start_token_id is None and not begun:
        return None
    return evaluator_of(model, sentences, settings.batch_size)


def translations_of(
    evaluator: Evaluator, report: Part, settings: AlignmentSettings
) -> dict[int, GoldSentence]:
    """The greedy translation of each pair as a sentence of words, by number."""
    usable = [report.numbers[text.number] for text in evaluator.sentences.usable]
    texts = zip(usable, evaluator.translations(settings.progress), strict=True)
    return {number: sentence_of(number, text) for number, text in texts}


def sentence_of(number: int, text: str) -> GoldSentence:
    """The words of a text, with where they stand."""
    spans, start = [], 0
    for word in words_of(text):
        start = text.index(word, start)
        spans.append(Span(start, start + len(word)))
        start += len(word)
    return GoldSentence(str(number + 1), text, tuple(spans), ("_",) * len(spans), ())


def _links(
    model: Model,
    pairs: WordPairs,
    written: Mapping[int, GoldSentence],
    chosen: Chosen,
    settings: AlignmentSettings,
) -> tuple[dict[int, dict[Link, float]], dict[int, str]]:
    """The links of every translation that can be aligned, by number; and why the others cannot."""
    if not written:
        return {}, {}
    numbers = list(written)
    sides = Gold(
        tuple(pairs.gold.source[number] for number in numbers), tuple(written.values()), trees=False
    )
    pairs = WordPairs(sides, (), "its own translations")
    try:
        aligned = AlignedPairs(model, pairs, settings)
    except NothingUsableError as error:
        return {}, dict.fromkeys(numbers, str(error).rstrip("."))
    links: dict[int, dict[Link, float]] = {}

    def take(places: Sequence[int], batch: dict[Row, WordWeights]) -> None:
        of_batch = weighed_links(batch[chosen.row].of_heads(chosen.heads))
        links.update(zip(places, of_batch, strict=True))

    aligned.feed(
        take,
        rows=[chosen.row],
        from_word=settings.from_tokens,
        batch_size=settings.batch_size,
    )
    return (
        {numbers[place]: links[place] for place in aligned.numbers},
        {numbers[place]: why for place, why in aligned.unaligned.items()},
    )


def _in_common(written: Words, reference: Words) -> dict[int, int]:
    """Places of words of the one, in order, with those of the same words of the other."""
    blocks = SequenceMatcher(None, written, reference, autojunk=False).get_matching_blocks()
    return {block.a + n: block.b + n for block in blocks for n in range(block.size)}


def _of_words(gold: GoldLinks, targets: set[int]) -> GoldLinks:
    sure, possible = (
        frozenset(link for link in links if link[1] in targets)
        for links in (gold.sure, gold.possible)
    )
    return replace(gold, sure=sure, possible=possible)


def _row(counts: torch.Tensor, shared: int, words: int) -> pd.DataFrame:
    forced, free = score_intervals(counts, "aer")
    (change,) = score_differences(counts[0], counts[1:], "aer")
    row = {
        "pairs": counts.shape[1],
        "words": shared,
        "word_share": shared / max(1, words),
        **AER.cells(forced.change, forced.low, forced.high),
        **GENERATED_AER.cells(free.change, free.low, free.high),
        **change.cells(GENERATED_CHANGE),
    }
    return pd.DataFrame([row])
