"""Intervals from one figure per sentence or per row, by plain sums."""

import math

NORMAL = 1.959963984540054


def wilson_by_hand(hits: int, total: int) -> tuple[float, float]:
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
    width = NORMAL * math.sqrt(spread) / below
    return ratio, ratio - width, ratio + width
