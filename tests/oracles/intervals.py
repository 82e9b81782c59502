"""Intervals from one figure per sentence or per row, by plain sums."""

import math
from collections.abc import Callable

NORMAL = 1.959963984540054


def wilson_by_hand(hits: float, total: float) -> tuple[float, float]:
    """The two roots of (p - share)^2 = z^2 p (1 - p) / n."""
    share, square = hits / total, NORMAL**2 / total
    a, b, c = 1 + square, -(2 * share + square), share**2
    root = math.sqrt(max(b * b - 4 * a * c, 0))
    return (-b - root) / (2 * a), (-b + root) / (2 * a)


def ratio_by_sentences(
    numerators: list[float], denominators: list[float]
) -> tuple[float, float, float]:
    """Ratio of the sums with its ends, from the residuals of the sentences."""
    pairs = [(a, b) for a, b in zip(numerators, denominators, strict=True) if b != 0]
    below = sum(b for _, b in pairs)
    ratio = sum(a for a, _ in pairs) / below
    spread = sum((a - ratio * b) ** 2 for a, b in pairs) * len(pairs) / (len(pairs) - 1)
    width = student(len(pairs)) * math.sqrt(spread) / below
    return ratio, ratio - width, ratio + width


def share_by_sentences(hits: list[int], totals: list[int]) -> tuple[float, float]:
    """Wilson's roots for as many observations as tell as much as those of these sentences."""
    pairs = [(a, b) for a, b in zip(hits, totals, strict=True) if b != 0]
    total = sum(b for _, b in pairs)
    share = sum(a for a, _ in pairs) / total
    spread = sum((a - share * b) ** 2 for a, b in pairs) * len(pairs) / (len(pairs) - 1)
    binomial = total * share * (1 - share)
    effect = max(1.0, spread / binomial) if binomial else 1.0
    alike = total / effect * (NORMAL / student(len(pairs))) ** 2
    return wilson_by_hand(share * alike, alike)


def student(sentences: int) -> float:
    """The quantile of 97.5 % of t, by bisection."""
    return bisected(lambda end: beyond(end, sentences - 1) > 0.025, 1.0, 20.0)


def beyond(end: float, freedom: int) -> float:
    """The share of t above `end`, by Simpson's rule from 0 on."""
    scale = math.exp(math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2))
    scale /= math.sqrt(freedom * math.pi)
    steps = 2000
    at = [end * i / steps for i in range(steps + 1)]
    density = [scale * (1 + x * x / freedom) ** (-(freedom + 1) / 2) for x in at]
    inner = sum((4 if i % 2 else 2) * value for i, value in enumerate(density[1:-1], 1))
    return 0.5 - (density[0] + inner + density[-1]) * end / steps / 3


def bisected(below: Callable[[float], bool], low: float, high: float) -> float:
    """Where `below` turns from true to false."""
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if below(middle) else (low, middle)
    return low


def jackknife_values(statistic: Callable[[list[int]], float], sentences: int) -> list[float]:
    """What each sentence adds to a statistic, from the statistic without it."""
    every = range(sentences)
    without = [statistic([one for one in every if one != left]) for left in every]
    mean = sum(without) / sentences
    return [(sentences - 1) * (mean - one) for one in without]


def careful_p_value(change: float, values: list[float]) -> float:
    """The largest p-value of Student's t, of Hall's transformation of it, and of signs that are alike."""
    n = len(values)
    return max(2 * beyond(_careful(change, values), n - 1), 2.0 ** (1 - n))


def careful_interval(change: float, values: list[float]) -> tuple[float, float]:
    """The ends beyond which a change is rejected, by bisection."""
    quantile, far = student(len(values)), 100 * max(map(abs, values))
    inside = lambda end: _careful(change - end, values) < quantile  # noqa: E731
    return (
        bisected(lambda end: not inside(end), change - far, change),
        bisected(inside, change, change + far),
    )


def _careful(change: float, values: list[float]) -> float:
    n, mean = len(values), sum(values) / len(values)
    second, third = (sum((one - mean) ** power for one in values) / n for power in (2, 3))
    t = change / math.sqrt(second / (n - 1))
    skewness = third / second**1.5 * math.sqrt(n * (n - 1)) / (n - 2)
    bent = t + skewness * t**2 / 3 / math.sqrt(n) + skewness**2 * t**3 / 27 / n
    return min(abs(t), abs(bent + skewness / 6 / math.sqrt(n)))
