"""Heads that align: chosen by gold links or without any, the sets that engines use, and the diagonal.

Heads are columns of `WordWeights`, numbered layer by layer.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Float64, Int
from torch import Tensor

from attnlab.alignment.links import Link, scored
from attnlab.alignment.word_links import (
    GoldGrid,
    WordWeights,
    count_linked,
    linked,
)

# Heads that a greedy set has at most.
MOST_HEADS = 8
# Weights that are worked on at once while a head is added.
_AT_ONCE = 2**23
_TINY = 1e-12


@dataclass(frozen=True)
class GreedyPath:
    """Heads in the order in which they were added.

    Attributes:
        heads: numbers of the heads.
        aers: AER of the mean of the first head, of the first two, and so on, 0 to 1.
    """

    heads: tuple[int, ...]
    aers: tuple[float, ...]

    @property
    def single(self) -> int:
        """The head that is best alone."""
        return self.heads[0]

    @property
    def chosen(self) -> tuple[int, ...]:
        """The first heads whose mean has the least AER, the fewest of equal ones."""
        return self.heads[: self.aers.index(min(self.aers)) + 1]


def greedy_path(words: WordWeights, gold: GoldGrid, *, most: int = MOST_HEADS) -> GreedyPath:
    """Heads added one by one, each so that the AER of the mean of the weights is least.

    Of equal heads the one with the lowest number is taken. It goes on where no head lowers the AER, since two
    may do together what neither does alone; `chosen` is the best beginning.

    Args:
        words: of the sentences with gold links.
        gold: their links.
        most: number of heads at which it ends.

    Cost: `most` times all weights.
    """
    total = torch.zeros_like(words.weights[:, 0])
    heads: list[int] = []
    aers: list[float] = []
    for _ in range(min(most, words.weights.shape[1])):
        tried = torch.cat(
            [scored(counts, "aer") for counts in _counts_with_each(words, total, gold)]
        )
        tried[heads] = torch.inf
        best = int(tried.argmin())
        heads.append(best)
        aers.append(float(tried[best]))
        total = total + words.weights[:, best]
    return GreedyPath(tuple(heads), tuple(aers))


def _counts_with_each(
    words: WordWeights, total: Float[Tensor, "batch target source"], gold: GoldGrid
) -> Iterator[Int[Tensor, "head batch 4"]]:
    """Counts of the sum of `total` and each head, some heads at a time."""
    for part in words.weights.split(max(1, _AT_ONCE // max(1, total.numel())), dim=1):
        added = WordWeights(part + total[:, None], words.targets, words.sources)
        yield count_linked(linked(added), gold)


def count_heads(words: WordWeights, gold: GoldGrid) -> Int[Tensor, "head batch 4"]:
    """|A|, |S|, |A n S| and |A n P| of every head alone, by sentence."""
    none = torch.zeros_like(words.weights[:, 0])
    return torch.cat(list(_counts_with_each(words, none, gold)))


def count_set(words: WordWeights, heads: Sequence[int], gold: GoldGrid) -> Int[Tensor, "batch 4"]:
    """|A|, |S|, |A n S| and |A n P| of the mean of these heads, by sentence."""
    return count_linked(linked(words.of_heads(heads)), gold)[0]


@dataclass(frozen=True)
class HeadProperties:
    """What can be said of heads without gold links, each from 0 to 1.

    Attributes:
        confidence: 1 - entropy of a target word's weights over source words / its maximum, mean over target
            words; weights that do not sum to 1, because some lie on special tokens, count for as much less.
        coverage: of the weight that every source word would receive if each received as much, the share that
            it does, mean over source words.
        monotonicity: share of target words whose arg-max is not before that of the word before.
        agreement: share of target words whose arg-max is that of another head, mean over the other heads.
    """

    confidence: Float64[Tensor, " head"]
    coverage: Float64[Tensor, " head"]
    monotonicity: Float64[Tensor, " head"]
    agreement: Float64[Tensor, " head"]

    @property
    def score(self) -> Float64[Tensor, " head"]:
        """Their geometric mean."""
        each = (self.confidence, self.coverage, self.monotonicity, self.agreement)
        return torch.stack(each).prod(0) ** 0.25


def head_properties(words: WordWeights) -> HeadProperties:
    """The properties of every head over all sentences together.

    Sentences where either side has fewer than two words with pieces are left out: nothing can be told of
    them. Norm, entropy and coverage are what Yeh et al. 2025 (arXiv 2509.09987) filter heads by, there over
    audio frames; here the weight on words takes the part of the norm.

    Cost: O(heads^2 * target words) for the agreement.
    """
    fit = (words.targets.sum(-1) > 1) & (words.sources.sum(-1) > 1)
    targets, sources = words.targets[fit], words.sources[fit]
    weights = words.weights[fit].double() * (targets[:, :, None] & sources[:, None])[:, None]
    rows, wide = targets[:, None], sources.sum(-1).double()[:, None, None]
    sums = weights.sum(-1)
    shares = weights / sums.clamp(min=_TINY)[..., None]
    entropies = torch.special.entr(shares).sum(-1)
    confidence = sums.clamp(max=1) * (1 - entropies / wide.log())
    number = max(1, int(targets.sum()))
    even = targets.sum(-1).double()[:, None, None] / wide
    received = (shares.sum(-2) / even).clamp(max=1) * sources[:, None]
    best = weights.masked_fill(~sources[:, None, None], -1).argmax(-1)
    first = targets.int().argmax(-1)
    return HeadProperties(
        (confidence * rows).sum((0, 2)) / number,
        received.sum((0, 2)) / max(1, int(sources.sum())),
        _monotonicity(best, targets, first),
        _agreement(best.transpose(0, 1)[:, targets]),
    )


def _monotonicity(
    best: Int[Tensor, "batch head target"],
    targets: Tensor,
    first: Int[Tensor, " batch"],
) -> Float64[Tensor, " head"]:
    """Share of words, by head, whose best source is not before that of the last word that has a row."""
    previous = torch.zeros_like(best[..., 0])
    steps = torch.zeros(best.shape[1], dtype=torch.float64, device=best.device)
    compared = 0
    for target in range(best.shape[-1]):
        has_row = targets[:, target]
        counted = has_row & (target > first)
        steps += ((best[..., target] >= previous) & counted[:, None]).sum(0)
        compared += int(counted.sum())
        previous = torch.where(has_row[:, None], best[..., target], previous)
    return steps / max(1, compared)


def _agreement(best: Int[Tensor, "head word"]) -> Float64[Tensor, " head"]:
    heads, words = best.shape
    same = torch.stack([(best == sources).sum() - words for sources in best]).double()
    return same / max(1, words * (heads - 1))


def engine_sets(layers: int, heads: int) -> Mapping[str, tuple[tuple[int, int], ...]]:
    """Sets of (layer, head) that engines average by default, by description; equal sets once.

    * The first head of the last layer: Marian, and CTranslate2 for translation models
      (src/layers/transformer.cc; marian.py of python/ctranslate2/converters/).
    * All heads of the last layer: Fairseq (fairseq.py there).
    * All heads of the last half: Whisper in CTranslate2 (transformers.py there) and openai-whisper.
    """
    sets = {
        "first head of the last layer": ((layers - 1, 0),),
        "mean of the last layer": _of_layers(range(layers - 1, layers), heads),
        "mean of the last half": _of_layers(range(layers // 2, layers), heads),
    }
    first_names = {heads: name for name, heads in reversed(sets.items())}
    return {name: heads for name, heads in sets.items() if first_names[heads] == name}


def published_sets(layers: int, heads: int) -> Mapping[str, tuple[tuple[int, int], ...]]:
    """Sets of (layer, head) that papers average and no engine does, by description.

    All heads of the penultimate layer, where there are two: Garg et al. 2019 (arXiv 1909.02074).
    """
    return (
        {"mean of the penultimate layer": _of_layers(range(layers - 2, layers - 1), heads)}
        if layers > 1
        else {}
    )


def _of_layers(layers: range, heads: int) -> tuple[tuple[int, int], ...]:
    return tuple((layer, head) for layer in layers for head in range(heads))


def diagonal_links(sources: int, targets: int) -> frozenset[Link]:
    """Links from every target word i of n to the source word j of m of least |i/n - j/m|, both from 1.

    Of two equally near the first; all in whole numbers. The prior of fast_align (Dyer et al. 2013) is around
    this diagonal.
    """
    return frozenset(
        (
            min(range(sources), key=lambda j: abs((i + 1) * sources - (j + 1) * targets)),
            i,
        )
        for i in range(targets)
    )
