"""Intervals from one figure per sentence or per row, by plain sums."""

import math

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
    """The quantile of 97.5 % of t, found by bisection of its density's integral."""
    freedom = sentences - 1
    scale = math.exp(math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2))
    scale /= math.sqrt(freedom * math.pi)

    def beyond(end: float) -> float:
        steps = 2000
        at = [end * i / steps for i in range(steps + 1)]
        density = [scale * (1 + x * x / freedom) ** (-(freedom + 1) / 2) for x in at]
        # Simpson's rule.
        inner = sum((4 if i % 2 else 2) * value for i, value in enumerate(density[1:-1], 1))
        return 0.5 - (density[0] + inner + density[-1]) * end / steps / 3

    low, high = 1.0, 20.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if beyond(middle) > 0.025 else (low, middle)
    return low
