"""Which heads are chosen: by gold links, by those of a statistical aligner, or by words written alike."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float64
from torch import Tensor

from attnlab.alignment import (
    ENGINE_ROW,
    GreedyPath,
    Link,
    Metric,
    Row,
    StatisticalAligner,
    Words,
    WordWeights,
    count_heads,
    fit_statistical_aligner,
    greedy_path,
    head_properties,
    score_differences,
    scored,
    words_of,
)
from attnlab.core import InputError
from attnlab.models import Model, Run
from attnlab.questions.align.question import AlignmentSettings, Choice
from attnlab.questions.align.word_reading import (
    AlignedPairs,
    Chosen,
    Part,
    WordPairs,
    calibration_settings,
    pairs_of,
)

# Pairs of the training text that the statistical aligner learns from, and the fewest that it can.
MOST_TRAINING, FEWEST_TRAINING = 200_000, 500


class Halves(NamedTuple):
    """What a model attends to in all pairs, in those that heads are chosen on and in those reported on."""

    aligned: AlignedPairs
    whole: Part
    calibration: Part
    report: Part


def halves(
    model: Model,
    pairs: WordPairs,
    settings: AlignmentSettings,
    *,
    what: str = "Reading pairs",
    twin: object = None,
    turned: bool = False,
) -> Halves:
    """Both halves of the pairs, or the pairs and those of the calibration file; without gold links all twice.

    Args:
        model: with its tokenizer.
        pairs: with gold links or without.
        settings: those of the question.
        what: is being done, for the progress.
        twin: another model of the same class and configuration that reads them; None: `model`.
        turned: whether source and target are exchanged.

    Raises:
        InputError: there are too few pairs.
    """

    def read(given: WordPairs) -> tuple[AlignedPairs, Part]:
        aligned = AlignedPairs(model, given.turned() if turned else given, settings)
        return aligned, aligned.read(settings, what, twin)

    aligned, whole = read(pairs)
    if not pairs.links:
        return Halves(aligned, whole, whole, whole)
    if settings.calibration is not None:
        others = pairs_of(model, calibration_settings(settings)).in_case_of(pairs)
        return Halves(aligned, whole, read(others)[1], whole)
    if len(whole.numbers) < 2:
        msg = (
            "Heads are chosen on one half of the pairs and scored on the other; give at least two."
        )
        raise InputError(msg)
    # By number, so that no pair is in the one half here and in the other for another model.
    parts = [
        whole.of([place for place, number in enumerate(whole.numbers) if number % 2 == odd])
        for odd in (0, 1)
    ]
    if not all(part.numbers for part in parts):
        msg = "None of the pairs of one half can be aligned; give more of them."
        raise InputError(msg)
    return Halves(aligned, whole, *parts)


@dataclass(frozen=True)
class Direction:
    """A model with the pairs that it was read on, and the heads that were chosen there.

    Attributes:
        model: with its tokenizer.
        read: the pairs, all of them and those that heads were chosen and scored on.
        chosen: the heads.
    """

    model: Model
    read: Halves
    chosen: Chosen

    @property
    def links(self) -> dict[int, dict[Link, float]]:
        """The links of the heads in all pairs that could be read, by number."""
        return self.read.whole.links_of(self.chosen)


def best_set(part: Part) -> Chosen:
    """The set of the row whose set has the lower AER, of equal ones the smaller, then the first."""
    row = min(part.paths, key=lambda row: _least(part.paths[row]))
    return part.heads(row, *part.paths[row].chosen)


def _least(path: GreedyPath) -> tuple[float, int]:
    """The key by which sets are compared: AER, and of equal ones the number of heads."""
    return min(path.aers), len(path.chosen)


def choices(part: Part, statistical: StatisticalAligner | None) -> dict[Choice, Chosen]:
    """What can be chosen, by name; without gold links by those of the statistical aligner.

    Args:
        part: the pairs that heads are chosen on.
        statistical: the aligner whose links take the place of gold ones.
    """
    linked = None if statistical is None else part.with_links(statistical.align(part.words))
    unsupervised = heads_without_gold(part) if linked is None else best_set(linked)
    chosen: dict[Choice, Chosen] = {}
    if part.pairs.links:
        single = min(part.paths, key=lambda row: part.paths[row].aers[0])
        chosen = {
            "set": best_set(part),
            "single": part.heads(single, part.paths[single].single),
            **heads_for_engines(part),
        }
    elif linked is not None:
        chosen = heads_for_engines(linked)
    return chosen if unsupervised is None else {**chosen, "unsupervised": unsupervised}


def heads_for_engines(part: Part) -> dict[Choice, Chosen]:
    """Heads that engines can use, of least AER on the row that they read; none where it is not read.

    CTranslate2 averages heads of one layer, Marian takes the first head of one, see `ctranslate2_heads` and
    `marian_layer`.

    Args:
        part: pairs with links that heads are chosen by.

    Cost: that of a greedy path.
    """
    if ENGINE_ROW not in part.weights:
        return {}
    words, per_layer = part.weights[ENGINE_ROW], part.per_layer
    starts = range(0, words.weights.shape[1], per_layer)
    paths = {
        start: greedy_path(_of_heads(words, range(start, start + per_layer)), part.gold)
        for start in starts
    }
    layer = min(starts, key=lambda start: _least(paths[start]))
    first = greedy_path(_of_heads(words, starts), part.gold, most=1).single
    return {
        "one-layer": part.heads(ENGINE_ROW, *(layer + head for head in paths[layer].chosen)),
        "first-head": part.heads(ENGINE_ROW, starts[first]),
    }


def _of_heads(words: WordWeights, heads: Sequence[int]) -> WordWeights:
    """The weights of some heads, each still apart."""
    return WordWeights(words.weights[:, list(heads)], words.targets, words.sources)


def heads_without_gold(part: Part) -> Chosen | None:
    """The head that links most words that are written alike on both sides (`alike_shares`).

    Of those within one standard error of it the one of the highest score (`head_properties`), as the
    one-standard-error rule has it (Breiman et al. 1984). None where no pair has two words with tokens on both
    sides.
    """
    scores = {row: head_properties(words).score for row, words in part.weights.items()}
    if not any(score.any() for score in scores.values()):
        return None
    shares = {row: alike_shares(part, row) for row in part.weights}
    most = max(float(share.max()) for share in shares.values())
    count = sum(len(_written_alike(*words)) for words in part.words)
    # Without such words nothing tells heads apart but their scores.
    near = most - math.sqrt(most * (1 - most) / count) if count else -1.0
    candidates = [
        (float(score), part.heads(row, head))
        for row, of_row in scores.items()
        for head, score in enumerate(of_row)
        if shares[row][head] >= near
    ]
    return max(candidates, key=lambda candidate: candidate[0])[1]


def heads_differ(part: Part, statistical: StatisticalAligner | None) -> bool:
    """Whether without gold links one head agrees better with other links than its row's heads do on average.

    The head is the best one on every other pair and is tested on the rest: the whole 95 % interval of the
    difference lies on its side. The links are those of the statistical aligner, by AER, or without one those
    of words that are written alike, by recall. Where there are none, or too few pairs for an interval, they
    do not differ.

    Args:
        part: pairs whose gold links do not count.
        statistical: an aligner that has learned from text alone.
    """
    metric: Metric = "recall" if statistical is None else "aer"
    linked = part.with_links(
        [_written_alike(*words) for words in part.words]
        if statistical is None
        else statistical.align(part.words)
    )
    counts = {row: count_heads(words, linked.gold) for row, words in part.weights.items()}
    odd = torch.tensor(part.numbers) % 2 == 1
    if not odd.any():
        return False
    # Of AER less is better, of recall more.
    sign = 1 if metric == "aer" else -1
    errors = {row: sign * scored(of_row[:, ~odd], metric) for row, of_row in counts.items()}
    row = min(errors, key=lambda row: float(errors[row].min()))
    tested = counts[row][:, odd]
    best = tested[int(errors[row].argmin())]
    (change,) = score_differences(tested.sum(0), best[None], metric)
    return change.interval is not None and max(sign * end for end in change.interval) < 0


def alike_shares(part: Part, row: Row) -> Float64[Tensor, " head"]:
    """The share that each head links of the words that stand once on both sides, written alike.

    Such words are names, numbers and punctuation: links that are known without anyone who made them.
    """
    alike = part.with_links([_written_alike(*words) for words in part.words])
    return scored(count_heads(part.weights[row], alike.gold), "recall")


def _written_alike(source: Words, target: Words) -> frozenset[Link]:
    once = {
        word for word in set(source) & set(target) if source.count(word) == target.count(word) == 1
    }
    return frozenset((source.index(word), target.index(word)) for word in once)


def statistical_aligner(
    model: Model, words: Sequence[tuple[Words, Words]], settings: AlignmentSettings
) -> StatisticalAligner | None:
    """An aligner that learned from the model's own training text and these pairs; None for too few."""
    if settings.quick:
        return None
    training = [(words_of(source), words_of(target)) for source, target in _training_texts(model)]
    learned = [pair for pair in [*training, *words] if all(pair)]
    if len(learned) < FEWEST_TRAINING:
        return None
    return fit_statistical_aligner(learned, progress=settings.progress)


def _training_texts(model: Model) -> Iterator[tuple[str, str]]:
    """The first training pairs of a run; none of another model."""
    if not isinstance(model, Run):
        return
    rows = model.corpus().train
    count = min(len(rows), MOST_TRAINING)
    yield from zip(rows[:count]["source"], rows[:count]["target"], strict=True)
