"""What an interval of a hit allows to say, beside the figures of controls."""

import math

from attnlab.labels import Bars
from attnlab.questions.claim.question import ALWAYS, MORE, MOSTLY, NO_MORE, UNDECIDED

OF_ALWAYS, OF_MOSTLY = 0.9, 0.5


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
