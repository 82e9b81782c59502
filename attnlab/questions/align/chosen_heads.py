"""Which heads are chosen: by gold links, by those of a statistical aligner, or by words written alike."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float64, Int
from torch import Tensor

from attnlab.alignment import (
    ENGINE_ROW,
    GoldGrid,
    GoldLinks,
    GreedyPath,
    Link,
    Metric,
    Row,
    StatisticalAligner,
    Words,
    WordWeights,
    align_both,
    count_heads,
    count_set,
    fit_statistical_aligner,
    gold_grid,
    gold_links,
    greedy_path,
    head_properties,
    score_differences,
    scored,
    weighed_links,
    words_of,
)
from attnlab.core import InputError
from attnlab.evaluation import Progress
from attnlab.models import Model, Run
from attnlab.questions.align.question import AlignmentSettings, Choice
from attnlab.questions.align.word_reading import (
    AlignedPairs,
    ReadPairs,
    WordPairs,
    calibration_pairs,
    pairs_of,
)

# Pairs of the training text that the statistical aligner learns from, and the fewest that it can.
MOST_TRAINING, FEWEST_TRAINING = 200_000, 500
# |A|, |S|, |A n S| and |A n P| of each pair, see `attnlab.alignment.count_links`.
Counts = Int[Tensor, "pair 4"]


@dataclass(frozen=True)
class Chosen:
    """Heads of one row of the weights, numbered layer by layer."""

    row: Row
    heads: tuple[int, ...]


class Part(NamedTuple):
    """Sentence pairs with the attention between their words.

    Attributes:
        pairs: all that were given.
        numbers: those that are meant, in the order of the weights.
        weights: of every head, by row of the weights.
        gold: their links.
    """

    pairs: WordPairs
    numbers: tuple[int, ...]
    weights: Mapping[Row, WordWeights]
    gold: GoldGrid

    @property
    def words(self) -> list[tuple[Words, Words]]:
        """The words of both sides."""
        return [self.pairs.words[number] for number in self.numbers]

    @property
    def links(self) -> list[GoldLinks]:
        """The gold links."""
        return [self.pairs.links[number] for number in self.numbers]

    def of(self, chosen: Sequence[int]) -> "Part":
        """Some of the pairs, by their places here."""
        index = list(chosen)
        weights = {
            row: WordWeights(one.weights[index], one.targets[index], one.sources[index])
            for row, one in self.weights.items()
        }
        gold = GoldGrid(self.gold.sure[index], self.gold.possible[index])
        numbers = tuple(np.array(self.numbers)[index].tolist())
        return Part(self.pairs, numbers, weights, gold)

    def with_links(self, links: Sequence[frozenset[Link]]) -> "Part":
        """The same pairs with other links in place of gold."""
        shape = next(iter(self.weights.values())).weights.shape[-2:]
        return self._replace(gold=gold_grid([gold_links(one) for one in links], *shape))

    def counts(self, chosen: Chosen) -> Counts:
        """How the links of these heads agree with gold."""
        return count_set(self.weights[chosen.row], chosen.heads, self.gold)


def part_of(pairs: WordPairs, read: ReadPairs) -> Part:
    """The pairs that were read."""
    return Part(pairs, read.numbers, read.weights, read.grid(pairs))


def found_links(read: Part | ReadPairs, chosen: Chosen) -> dict[int, dict[Link, float]]:
    """The links of every pair that was read, with their weights, by number."""
    links = weighed_links(read.weights[chosen.row].of_heads(chosen.heads))
    return dict(zip(read.numbers, links, strict=True))


class Halves(NamedTuple):
    """What a model attends to, in the pairs that heads are chosen on and in those that are reported on."""

    aligned: AlignedPairs
    read: ReadPairs
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
    """Every other pair each, or the pairs and those of the calibration file.

    Args:
        model: with its tokenizer.
        pairs: with gold links.
        settings: those of the question.
        what: is being done, for the progress.
        twin: another model of the same class and configuration that reads them; None: `model`.
        turned: whether source and target are exchanged.

    Raises:
        InputError: there are too few pairs.
    """
    pairs = pairs.turned() if turned else pairs
    aligned = AlignedPairs(model, pairs, memory=settings.memory)
    read = aligned.read(settings, what, twin)
    whole = part_of(pairs, read)
    if settings.calibration is not None:
        others = pairs_of(model, calibration_pairs(settings.calibration, settings)).in_case_of(
            pairs
        )
        others = others.turned() if turned else others
        beside = AlignedPairs(model, others, memory=settings.memory)
        return Halves(aligned, read, part_of(others, beside.read(settings, what, twin)), whole)
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
    return Halves(aligned, read, *parts)


def greedy_paths(part: Part) -> dict[Row, GreedyPath]:
    """Heads as they are added by the gold links of a part, by row of the weights."""
    return {row: greedy_path(words, part.gold) for row, words in part.weights.items()}


def best_set(paths: Mapping[Row, GreedyPath]) -> Chosen:
    """The set of the row whose set has the lower AER, of equal ones the smaller, then the first."""
    row = min(paths, key=lambda row: _least(paths[row]))
    return Chosen(row, paths[row].chosen)


def _least(path: GreedyPath) -> tuple[float, int]:
    """By what sets are compared: AER, and of equal ones the number of heads."""
    return min(path.aers), len(path.chosen)


def choices(
    calibration: Part,
    paths: Mapping[Row, GreedyPath],
    statistical: "BothDirections | None",
    per_layer: int,
) -> dict[Choice, Chosen]:
    """What can be chosen, by name.

    Args:
        calibration: the pairs that heads are chosen on.
        paths: their greedy choice.
        statistical: the aligner whose links take the place of gold ones.
        per_layer: heads of a layer.
    """
    single = min(paths, key=lambda row: paths[row].aers[0])
    found: dict[Choice, Chosen] = {
        "set": best_set(paths),
        "single": Chosen(single, (paths[single].single,)),
        **heads_for_engines(calibration, per_layer),
    }
    unsupervised = heads_without_gold(calibration, statistical)
    return found if unsupervised is None else {**found, "unsupervised": unsupervised}


def heads_for_engines(part: Part, per_layer: int) -> dict[Choice, Chosen]:
    """What engines can be told of, with the least AER on the row that they read; none where it is not read.

    CTranslate2 averages heads of one layer, Marian takes the first head of one, see `ctranslate2_heads` and
    `marian_layer`.

    Args:
        part: pairs with links that heads are chosen by.
        per_layer: heads of a layer.

    Cost: that of a greedy path.
    """
    if ENGINE_ROW not in part.weights:
        return {}
    words = part.weights[ENGINE_ROW]
    starts = range(0, words.weights.shape[1], per_layer)
    paths = {
        start: greedy_path(_of_heads(words, range(start, start + per_layer)), part.gold)
        for start in starts
    }
    layer = min(starts, key=lambda start: _least(paths[start]))
    first = greedy_path(_of_heads(words, starts), part.gold, most=1).single
    return {
        "one-layer": Chosen(ENGINE_ROW, tuple(layer + head for head in paths[layer].chosen)),
        "first-head": Chosen(ENGINE_ROW, (starts[first],)),
    }


def _of_heads(words: WordWeights, heads: Sequence[int]) -> WordWeights:
    """The weights of some heads, each still apart."""
    return WordWeights(words.weights[:, list(heads)], words.targets, words.sources)


def heads_without_gold(part: Part, statistical: "BothDirections | None") -> Chosen | None:
    """The set that is nearest to the links of a statistical aligner, which has learned from text alone.

    Without one the head that links most words that are written alike on both sides (`alike_shares`); of those
    within one standard error of it the one of the highest score (`head_properties`), as the
    one-standard-error rule has it (Breiman et al. 1984). None where no pair has two words with tokens on both
    sides.
    """
    if statistical is not None:
        return best_set(greedy_paths(part.with_links(statistical.links(part.words))))
    scores = {row: head_properties(words).score for row, words in part.weights.items()}
    if not any(one.any() for one in scores.values()):
        return None
    shares = {row: alike_shares(part, row) for row in part.weights}
    most = max(float(one.max()) for one in shares.values())
    count = sum(len(_written_alike(*words)) for words in part.words)
    # Without such words nothing tells heads apart but their scores.
    near = most - math.sqrt(most * (1 - most) / count) if count else -1.0
    fit = [
        (float(score), Chosen(row, (head,)))
        for row, own in scores.items()
        for head, score in enumerate(own)
        if shares[row][head] >= near
    ]
    return max(fit, key=lambda one: one[0])[1]


def heads_differ(part: Part, statistical: "BothDirections | None") -> bool:
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
        else statistical.links(part.words)
    )
    counts = {row: count_heads(words, linked.gold) for row, words in part.weights.items()}
    odd = torch.tensor(part.numbers) % 2 == 1
    if not odd.any():
        return False
    # Of AER less is better, of recall more.
    sign = 1 if metric == "aer" else -1
    errors = {row: sign * scored(own[:, ~odd], metric) for row, own in counts.items()}
    row = min(errors, key=lambda row: float(errors[row].min()))
    tested = counts[row][:, odd]
    best = tested[int(errors[row].argmin())]
    (change,) = score_differences(tested.sum(0), best[None], metric)
    return change.interval is not None and max(sign * end for end in change.interval) < 0


def alike_shares(part: Part, row: Row) -> Float64[Tensor, " head"]:
    """Of the words that stand once on both sides, written alike, the share that each head links.

    Such words are names, numbers and punctuation: links that are known without anyone who made them.
    """
    alike = part.with_links([_written_alike(*words) for words in part.words])
    return scored(count_heads(part.weights[row], alike.gold), "recall")


def _written_alike(source: Words, target: Words) -> frozenset[Link]:
    once = {
        word for word in set(source) & set(target) if source.count(word) == target.count(word) == 1
    }
    return frozenset((source.index(word), target.index(word)) for word in once)


class BothDirections(NamedTuple):
    """A statistical aligner of each direction."""

    forward: StatisticalAligner
    backward: StatisticalAligner

    @property
    def exchanged(self) -> "BothDirections":
        """The same for pairs whose sides are exchanged."""
        return BothDirections(self.backward, self.forward)

    def links(self, words: Sequence[tuple[Words, Words]]) -> list[frozenset[Link]]:
        """The links of both directions made one."""
        return align_both(self.forward, self.backward, words, "grow-diag-final-and")


def statistical_aligner(
    model: Model, words: Sequence[tuple[Words, Words]], settings: AlignmentSettings
) -> BothDirections | None:
    """An aligner that learned from the model's own training text and these pairs; None for too few."""
    if settings.quick:
        return None
    training = [(words_of(one), words_of(other)) for one, other in _training_texts(model)]
    learned = [pair for pair in [*training, *words] if all(pair)]
    if len(learned) < FEWEST_TRAINING:
        return None
    backwards = [(target, source) for source, target in learned]
    return BothDirections(
        *(
            fit_statistical_aligner(one, progress=_named(settings.progress, name))
            for one, name in ((learned, "source to target"), (backwards, "target to source"))
        )
    )


def _training_texts(model: Model) -> Iterator[tuple[str, str]]:
    """The first training pairs of a run; none of another model."""
    if not isinstance(model, Run):
        return
    rows = model.corpus().train
    count = min(len(rows), MOST_TRAINING)
    yield from zip(rows[:count]["source"], rows[:count]["target"], strict=True)


def _named(progress: Progress | None, direction: str) -> Progress | None:
    if progress is None:
        return None
    return lambda what, done, total: progress(f"{what}, {direction}", done, total)
