"""What an interval of a hit allows to say, beside the figures of controls."""

import math
from collections.abc import Iterable
from typing import NamedTuple

from attnlab.questions.claim.question import ALWAYS, MORE, MOSTLY, NO_MORE, UNDECIDED

OF_ALWAYS, OF_MOSTLY = 0.9, 0.5
# A head must be so far above what controls reach.
MARGIN = 0.1


class Bars(NamedTuple):
    """Above which hit a head does more than controls, and below which no more."""

    above: float
    below: float


def bars_of(controls: Iterable[tuple[float, float]]) -> Bars:
    """The bars, given the figure and the upper end of each control.

    >>> bars_of([(0.2, 0.25), (0.25, 0.5)])
    Bars(above=0.5, below=0.35)
    """
    figures, ends = zip(*controls, strict=True)
    below = max(figures) + MARGIN
    return Bars(max([below, *(end for end in ends if not math.isnan(end))]), below)


def grade_of(low: float, high: float, bars: Bars) -> str:
    """The strongest grade that a whole interval allows; undecided where there is none.

    >>> grade_of(0.3, 0.6, Bars(0.25, 0.2)), grade_of(0.1, 0.3, Bars(0.25, 0.2))
    ('more than controls', 'undecided')
    """
    for grade, limit in ((ALWAYS, OF_ALWAYS), (MOSTLY, OF_MOSTLY), (MORE, bars.above)):
        if low > limit:
            return grade
    return NO_MORE if high < min(bars.below, OF_MOSTLY) else UNDECIDED


def texts_to_decide(hit: float, low: float, high: float, bars: Bars, texts: int) -> int | None:
    """How many texts would decide a claim that so many leave undecided; None where none would.

    The first limit that the interval is beyond as it narrows decides. Its width falls with the square root of
    the number of texts.
    """
    below = min(bars.below, OF_MOSTLY)
    decided = [(hit - limit, hit - low) for limit in (OF_ALWAYS, OF_MOSTLY, bars.above)]
    ratios = [
        width / distance
        for distance, width in [*decided, (below - hit, high - hit)]
        if distance > 0
    ]
    if not ratios or not math.isfinite(min(ratios)):
        return None
    return math.ceil(round(texts * min(ratios) ** 2, 6))
