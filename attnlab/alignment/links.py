"""Links between the words of a sentence pair: those of two directions together, and how good they are.

With found links A, sure links S and possible links P, S a subset of P, over all sentences together::

    precision = |A n P| / |A|      recall = |A n S| / |S|      F1 = 2 precision recall / (precision + recall)
    AER = 1 - (|A n S| + |A n P|) / (|A| + |S|)

Source: Och and Ney 2003, A Systematic Comparison of Various Statistical Alignment Models, section 5.
"""

from bisect import bisect_right, insort
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import torch
from jaxtyping import Float64, Int
from torch import Tensor

from attnlab.ablation import Difference, paired_differences
from attnlab.alignment.conventions import Symmetrization
from attnlab.core import Column, Estimate

# Source word and target word, counted from 0.
Link: TypeAlias = tuple[int, int]
Metric: TypeAlias = Literal["aer", "precision", "recall", "f1"]


@dataclass(frozen=True)
class GoldLinks:
    """The gold links of a sentence pair.

    Attributes:
        sure: what every annotator links, S.
        possible: what may be linked, P; the sure links are among them.

    Raises:
        ValueError: a sure link is not possible.
    """

    sure: frozenset[Link]
    possible: frozenset[Link]

    def __post_init__(self) -> None:
        if not self.sure <= self.possible:
            msg = f"The sure links {sorted(self.sure - self.possible)} are not among the possible ones."
            raise ValueError(msg)

    def turned(self) -> "GoldLinks":
        """The same links with source and target exchanged."""
        return GoldLinks(turned(self.sure), turned(self.possible))


def gold_links(sure: Iterable[Link], possible: Iterable[Link] = ()) -> GoldLinks:
    """Gold links of which `possible` are those that are not sure; with none, S = P.

    >>> gold_links([(0, 0)], [(1, 0)]).possible == {(0, 0), (1, 0)}
    True
    """
    certain = frozenset(sure)
    return GoldLinks(certain, certain | frozenset(possible))


def turned(links: Iterable[Link]) -> frozenset[Link]:
    """The links with source and target exchanged."""
    return frozenset((target, source) for source, target in links)


# The axis of counts: |A|, |S|, |A n S|, |A n P|.
COUNTED = ("found", "sure", "found_sure", "found_possible")


def count_links(
    found: Sequence[Collection[Link]], gold: Sequence[GoldLinks]
) -> Int[Tensor, "sentence 4"]:
    """|A|, |S|, |A n S| and |A n P| of every sentence.

    Raises:
        ValueError: there are not as many sentences with found links as with gold links.
    """
    rows = [
        (len(links), len(truth.sure), len(links & truth.sure), len(links & truth.possible))
        for links, truth in zip(map(frozenset, found), gold, strict=True)
    ]
    return torch.tensor(rows, dtype=torch.long).reshape(-1, len(COUNTED))


def _share(part: Tensor, whole: Tensor) -> Tensor:
    return torch.where(whole > 0, part / whole.clamp(min=1), torch.zeros_like(part))


def precision(sums: Float64[Tensor, "*system 4"]) -> Float64[Tensor, "*system"]:
    """Share of the found links that are possible, 0 to 1; 0 where nothing is found."""
    return _share(sums[..., 3], sums[..., 0])


def recall(sums: Float64[Tensor, "*system 4"]) -> Float64[Tensor, "*system"]:
    """Share of the sure links that are found, 0 to 1; 0 where nothing is sure."""
    return _share(sums[..., 2], sums[..., 1])


def f1(sums: Float64[Tensor, "*system 4"]) -> Float64[Tensor, "*system"]:
    """Harmonic mean of precision and recall, 0 to 1; 0 where both are."""
    one, other = precision(sums), recall(sums)
    total = one + other
    return torch.where(total > 0, 2 * one * other / total.where(total > 0, 1), total)


def aer(sums: Float64[Tensor, "*system 4"]) -> Float64[Tensor, "*system"]:
    """Alignment error rate, 0 to 1; 0 where nothing is found and nothing is sure."""
    agreed, in_all = sums[..., 2] + sums[..., 3], sums[..., 0] + sums[..., 1]
    return torch.where(in_all > 0, 1 - agreed / in_all.clamp(min=1), torch.zeros_like(agreed))


METRICS: Mapping[Metric, Callable[[Tensor], Tensor]] = {
    "aer": aer,
    "precision": precision,
    "recall": recall,
    "f1": f1,
}

ESTIMATES: Mapping[Metric, Estimate] = {
    "aer": Estimate(
        Column(
            "aer",
            "AER",
            "Alignment error rate of the links against gold links, 0 to 1, over all sentences together; "
            "smaller is better.",
            3,
        )
    ),
    "precision": Estimate(
        Column("precision", "precision", "Share of the found links that are possible, 0 to 1.", 3)
    ),
    "recall": Estimate(
        Column("recall", "recall", "Share of the sure gold links that are found, 0 to 1.", 3)
    ),
    "f1": Estimate(Column("f1", "F1", "Harmonic mean of precision and recall, 0 to 1.", 3)),
}


def scored(counts: Int[Tensor, "*system sentence 4"], metric: Metric) -> Float64[Tensor, "*system"]:
    """The metric over all sentences together."""
    return METRICS[metric](counts.sum(-2).double())


def score_intervals(counts: Int[Tensor, "system sentence 4"], metric: Metric) -> list[Difference]:
    """The metric of each system with its interval: `change`, `low` and `high` are of the figure itself.

    Args:
        counts: of the same sentences by every system.
        metric: what is scored.
    """
    return paired_differences(None, list(counts), METRICS[metric])


def score_differences(
    before: Int[Tensor, "sentence 4"], afters: Int[Tensor, "system sentence 4"], metric: Metric
) -> list[Difference]:
    """How far each of several systems is above one other, on the same sentences."""
    return paired_differences(before, list(afters), METRICS[metric])


# In the order in which Moses tries them; a step is (target words, source words).
_NEIGHBOURS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))


def symmetrized(
    by_target: Collection[Link], by_source: Collection[Link], how: Symmetrization
) -> frozenset[Link]:
    """The links of two directions made one; intersection <= each of these <= union.

    grow-diag starts from the intersection and takes links of the union that are next to a link already
    taken (diagonals too) and have a word that is not linked yet; links are gone through by target word,
    then source word, new ones among them, until none is added. `final` takes the remaining links that
    have a word not linked yet, `final-and` those with neither word linked yet: first those of `by_target`
    alone, then those of `by_source` alone.

    This is `printgrow` of Moses (symal/symal.cpp), with links in place of its two arrays: `by_target` is
    its inverse array `b`. atools of fast_align (src/atools.cc) tries links in another order, and
    `grow_diag_final_and` of nltk (translate/gdfa.py as of 2015) gives the union, since its test of covered
    words always passes.

    Args:
        by_target: from a model of source to target, whose rows are target words.
        by_source: from a model of target to source.
        how: the name.

    Source: Koehn, Och and Marcu 2003, Statistical Phrase-Based Translation; Koehn et al. 2005.
    """
    forward, backward = frozenset(by_target), frozenset(by_source)
    if how == "intersection":
        return forward & backward
    if how == "union":
        return forward | backward
    grown = _Grown(forward & backward)
    grown.grow(forward | backward)
    if how != "grow-diag":
        both = how == "grow-diag-final-and"
        grown.finish(forward - backward, both=both)
        grown.finish(backward - forward, both=both)
    return grown.links


class _Grown:
    """Links to which others are added, with the words that they cover."""

    def __init__(self, links: frozenset[Link]) -> None:
        self.points = sorted((target, source) for source, target in links)
        self.targets = {target for target, _ in self.points}
        self.sources = {source for _, source in self.points}

    @property
    def links(self) -> frozenset[Link]:
        return frozenset((source, target) for target, source in self.points)

    def add(self, target: int, source: int) -> None:
        insort(self.points, (target, source))
        self.targets.add(target)
        self.sources.add(source)

    def covered(self, target: int, source: int) -> int:
        """How many of the two words are linked."""
        return (target in self.targets) + (source in self.sources)

    def grow(self, union: frozenset[Link]) -> None:
        added = True
        while added:
            added = False
            position = 0
            while position < len(self.points):
                current = self.points[position]
                for step in _NEIGHBOURS:
                    target, source = current[0] + step[0], current[1] + step[1]
                    if (source, target) in union and self.covered(target, source) < 2:
                        self.add(target, source)
                        added = True
                # What was added behind the current link is still to come in this round.
                position = bisect_right(self.points, current)

    def finish(self, links: frozenset[Link], *, both: bool) -> None:
        most = 0 if both else 1
        for target, source in sorted((target, source) for source, target in links):
            if self.covered(target, source) <= most:
                self.add(target, source)
