"""One set of links from those of two directions: intersection, union and what grows between them."""

from bisect import bisect_right, insort
from collections.abc import Collection
from typing import Literal, TypeAlias

from attnlab.alignment.links import Link

Symmetrization: TypeAlias = Literal[
    "intersection", "union", "grow-diag", "grow-diag-final", "grow-diag-final-and"
]

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
