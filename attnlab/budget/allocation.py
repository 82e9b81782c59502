"""One option for each head under a budget of keys.

Each head has options of known cost and error; one is taken for each, at most `budget` in cost altogether,
for the least sum of errors. That is a multiple-choice knapsack. Where mixtures of two options of a head
are allowed (the relaxed problem), taking the steps between neighbours on each head's convex hull by
error saved per cost is optimal, and at most one head ends up mixed. Source: Sinha and Zoltners 1979,
The Multiple-Choice Knapsack Problem.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from attnlab.core import InputError


class Choice(NamedTuple):
    """An option that a head may get.

    Attributes:
        cost: at least 0.
        error: what is left to be made small.
    """

    cost: float
    error: float


@dataclass(frozen=True)
class Allocation:
    """One option for each head.

    Attributes:
        chosen: index of each head's option.
        cost: of all heads together.
        error: of all heads together.
        lower_bound: no choice within the budget has a smaller sum of errors.
    """

    chosen: tuple[int, ...]
    cost: float
    error: float
    lower_bound: float


def lower_hull(options: Sequence[Choice]) -> list[int]:
    """Indices of the options on the lower convex hull, from the cheapest to the smallest error.

    Errors fall from one to the next, and so does the error saved per cost.

    >>> pairs = (0.0, 8.0), (1.0, 7.0), (2.0, 2.0), (3.0, 3.0), (4.0, 1.0)
    >>> lower_hull([Choice(*pair) for pair in pairs])
    [0, 2, 4]
    """
    hull: list[int] = []
    for index in sorted(range(len(options)), key=lambda i: (*options[i], i)):
        if hull and options[index].error >= options[hull[-1]].error:
            continue
        while len(hull) > 1 and _rate(options, *hull[-2:]) <= _rate(options, hull[-1], index):
            hull.pop()
        hull.append(index)
    return hull


def allocate(options: Sequence[Sequence[Choice]], budget: float) -> Allocation:
    """The options that the greedy takes, whose error is within one step of the optimum.

    Steps along the hulls are taken by error saved per cost while they fit. What is left of the budget
    goes to whatever single exchange saves most, until none fits.

    Args:
        options: of each head, at least one.
        budget: largest sum of costs.

    Raises:
        InputError: the cheapest options of all heads cost more than the budget.

    Cost: O(options log options), and a pass over all options for each exchange.
    """
    hulls = [lower_hull(options_of_head) for options_of_head in options]
    chosen = [hull[0] for hull in hulls]
    spent, bound = _totals(options, chosen)
    if spent > budget:
        msg = (
            f"The cheapest options cost {spent:g} together, more than the budget of {budget:g}; raise the "
            "budget, or add cheaper ones."
        )
        raise InputError(msg)
    steps = [
        (head, before, after) for head, hull in enumerate(hulls) for before, after in pairwise(hull)
    ]
    # Rates fall along each hull, and the sort is stable: a head's steps stay in order.
    steps.sort(key=lambda step: -_rate(options[step[0]], step[1], step[2]))
    relaxed, closed = budget - spent, set()
    for head, before, after in steps:
        cost = options[head][after].cost - options[head][before].cost
        saved = options[head][before].error - options[head][after].error
        bound -= saved * (min(1.0, relaxed / cost) if cost > 0 else 1.0)
        relaxed = max(0.0, relaxed - cost)
        # A later step of a head makes sense only behind its earlier ones.
        if head in closed or spent + cost > budget:
            closed.add(head)
            continue
        chosen[head], spent = after, spent + cost
    _exchange(options, chosen, budget)
    return Allocation(tuple(chosen), *_totals(options, chosen), bound)


def allocate_exactly(options: Sequence[Sequence[Choice]], budget: float) -> Allocation | None:
    """The options with the smallest sum of errors within the budget; None where none fit.

    Sums that another sum beats in cost and error are dropped after each head.

    Cost: grows with the product of the numbers of options, so for a few heads only.
    """
    sums: list[tuple[float, float, tuple[int, ...]]] = [(0.0, 0.0, ())]
    for options_of_head in options:
        longer = sorted(
            (cost + option.cost, error + option.error, (*chosen, index))
            for cost, error, chosen in sums
            for index, option in enumerate(options_of_head)
            if cost + option.cost <= budget
        )
        sums = []
        for candidate in longer:
            if not sums or candidate[1] < sums[-1][1]:
                sums.append(candidate)
    if not sums:
        return None
    cost, error, chosen = sums[-1]
    return Allocation(chosen, cost, error, error)


def _totals(options: Sequence[Sequence[Choice]], chosen: Sequence[int]) -> Choice:
    """Cost and error of all heads together."""
    taken = [options_of_head[index] for options_of_head, index in zip(options, chosen, strict=True)]
    return Choice(sum(option.cost for option in taken), sum(option.error for option in taken))


def _exchange(options: Sequence[Sequence[Choice]], chosen: list[int], budget: float) -> None:
    """Exchanges one head's option for another that saves most, while any does within the budget."""
    while True:
        spent = _totals(options, chosen).cost
        exchanges = [
            (options_of_head[chosen[head]].error - option.error, head, index)
            for head, options_of_head in enumerate(options)
            for index, option in enumerate(options_of_head)
            if option.error < options_of_head[chosen[head]].error
            and spent - options_of_head[chosen[head]].cost + option.cost <= budget
        ]
        if not exchanges:
            return
        _, head, index = max(exchanges, key=lambda item: (item[0], -item[1], -item[2]))
        chosen[head] = index


def _rate(options: Sequence[Choice], before: int, after: int) -> float:
    """Error saved per cost."""
    cost = options[after].cost - options[before].cost
    saved = options[before].error - options[after].error
    return saved / cost if cost > 0 else float("inf")
