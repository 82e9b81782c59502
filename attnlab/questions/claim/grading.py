"""What an interval of a hit allows to say, beside the figures of controls."""

import math
from collections.abc import Iterable

from attnlab.questions.claim.question import ALWAYS, MORE, MOSTLY, NO_MORE, UNDECIDED

OF_ALWAYS, OF_MOSTLY = 0.9, 0.5
# A head must be so far above what controls reach.
MARGIN = 0.1


def bar_of(controls: Iterable[tuple[float, float]]) -> float:
    """What a hit must exceed to be more than controls, given the figure and the upper end of each.

    >>> bar_of([(0.2, 0.25), (0.3, 0.45)])
    0.45
    """
    figures, ends = zip(*controls, strict=True)
    return max([max(figures) + MARGIN, *(end for end in ends if not math.isnan(end))])


def grade_of(low: float, high: float, bar: float) -> str:
    """The strongest grade that a whole interval allows; undecided where there is none.

    >>> grade_of(0.91, 0.95, 0.4), grade_of(0.3, 0.45, 0.35), grade_of(0.1, 0.3, 0.35)
    ('always', 'undecided', 'no more than controls')
    """
    for grade, limit in ((ALWAYS, OF_ALWAYS), (MOSTLY, OF_MOSTLY), (MORE, bar)):
        if low > limit:
            return grade
    return NO_MORE if high < bar else UNDECIDED


def texts_to_decide(hit: float, low: float, high: float, bar: float, texts: int) -> int | None:
    """How many texts would decide a claim that so many leave undecided; None where none would.

    The nearest limit that the hit is beyond decides, once the end of the interval on its side is there. The
    width of intervals falls with the square root of the number of texts.
    """
    decided = [
        (hit - limit, hit - low) for limit in (OF_ALWAYS, OF_MOSTLY, bar) if hit > limit
    ] or [(bar - hit, high - hit)]
    ratios = [width / distance for distance, width in decided if distance > 0]
    if not ratios or not math.isfinite(min(ratios)):
        return None
    return math.ceil(round(texts * min(ratios) ** 2, 6))
