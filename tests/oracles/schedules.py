"""Learning rates as plain formulas: a linear warm-up from 0 to the peak, then a decay."""

import math


def warming(step: int, peak: float, warmup: int) -> float:
    """The rate of step 0, 1, ... before `warmup`."""
    return peak * step / warmup


def inverse_sqrt(step: int, peak: float, warmup: int, steps: int) -> float:
    """Falls with the root of the step (Vaswani et al. 2017, section 5.3), whatever `steps` is."""
    return warming(step, peak, warmup) if step < warmup else peak * math.sqrt(warmup / step)


def linear(step: int, peak: float, warmup: int, steps: int) -> float:
    """Falls in a straight line to 0 behind the last step."""
    if step < warmup:
        return warming(step, peak, warmup)
    return peak * (steps - step) / (steps - warmup)


def cosine(step: int, peak: float, warmup: int, steps: int) -> float:
    """Falls as half a period of a cosine to 0 behind the last step (Loshchilov and Hutter 2017)."""
    if step < warmup:
        return warming(step, peak, warmup)
    return peak * 0.5 * (1 + math.cos(math.pi * (step - warmup) / (steps - warmup)))
