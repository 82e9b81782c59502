"""Mechanisms under a budget of keys: settings that a site may get, and one option for each head.

Each head has options of known cost and error; one is taken for each, at most `budget` in cost altogether,
for the least sum of errors. That is a multiple-choice knapsack. Where mixtures of two options of a head
are allowed (the relaxed problem), taking the steps between neighbours on each head's convex hull by
error saved per cost is optimal, and at most one head ends up mixed. Source: Sinha and Zoltners 1979,
The Multiple-Choice Knapsack Problem.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import NamedTuple

from attnlab.attention.calibration import LARGEST_OFFSET
from attnlab.attention.mechanism import Mechanism
from attnlab.attention.mechanisms.band import Band
from attnlab.attention.mechanisms.bigbird import BigBird
from attnlab.attention.mechanisms.linear import Linear
from attnlab.attention.mechanisms.linformer import Linformer
from attnlab.attention.mechanisms.longformer import Longformer
from attnlab.attention.mechanisms.sigma import Sigma
from attnlab.attention.mechanisms.topk import TopK
from attnlab.attention.registry import mechanisms
from attnlab.attention.specification import Specification
from attnlab.budget.bounds import LEAST_BUDGET, WIDEST
from attnlab.budget.candidates import refusal
from attnlab.core.errors import InputError

SIGMA_COLUMNS = (1, 2, 4, 8)
# Tokens that Linformer has projections for, unless sentences are longer.
LONGEST = 512


class Choice(NamedTuple):
    """What a head may get.

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
    hulls = [lower_hull(own) for own in options]
    chosen = [hull[0] for hull in hulls]
    spent, bound = _totals(options, chosen)
    if spent > budget:
        msg = (
            f"The cheapest mechanisms of all heads see {spent:.0f} keys, over the budget of "
            f"{budget:.0f}; raise the budget, or allow the family none."
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
    for own in options:
        longer = sorted(
            (cost + one.cost, error + one.error, (*chosen, index))
            for cost, error, chosen in sums
            for index, one in enumerate(own)
            if cost + one.cost <= budget
        )
        sums = []
        for found in longer:
            if not sums or found[1] < sums[-1][1]:
                sums.append(found)
    if not sums:
        return None
    cost, error, chosen = sums[-1]
    return Allocation(chosen, cost, error, error)


def _totals(options: Sequence[Sequence[Choice]], chosen: Sequence[int]) -> Choice:
    """Cost and error of all heads together."""
    taken = [own[index] for own, index in zip(options, chosen, strict=True)]
    return Choice(sum(one.cost for one in taken), sum(one.error for one in taken))


def _exchange(options: Sequence[Sequence[Choice]], chosen: list[int], budget: float) -> None:
    """Exchanges one head's option for another that saves most, while any does within the budget."""
    while True:
        spent = _totals(options, chosen).cost
        found = [
            (own[chosen[head]].error - option.error, head, index)
            for head, own in enumerate(options)
            for index, option in enumerate(own)
            if option.error < own[chosen[head]].error
            and spent - own[chosen[head]].cost + option.cost <= budget
        ]
        if not found:
            return
        _, head, index = max(found, key=lambda item: (item[0], -item[1], -item[2]))
        chosen[head] = index


def _rate(options: Sequence[Choice], before: int, after: int) -> float:
    """Error saved per cost."""
    cost = options[after].cost - options[before].cost
    saved = options[before].error - options[after].error
    return saved / cost if cost > 0 else float("inf")


class SearchSpace(NamedTuple):
    """What the settings of a mechanism depend on.

    Attributes:
        most: keys of a row in the middle of a sentence, at most.
        causal: whether a row sees no key behind it.
        longest: most tokens of a sentence.
    """

    most: int
    causal: bool
    longest: int

    def sizes(self, block: int = 1, least: int = 0) -> list[int]:
        """Every number of blocks up to 16, then fewer, beside so many others."""
        sizes = (*range(1, 16), *range(16, 2 * LARGEST_OFFSET, 4))
        return [size for size in sizes if size <= self.most // block - least]

    def windows(self) -> list[tuple[int, int]]:
        """Windows of these sizes: every split of the small ones, of others about five."""
        return [
            (size - 1 - right, right)
            for size in self.sizes()
            for right in ((0,) if self.causal else range(0, size, max(1, size // 4)))
        ]

    def beside(self, columns: int) -> list[tuple[int, int]]:
        """Windows that leave so many columns: to the left, to both sides, to the right."""
        return [
            (size - 1 - right, right)
            for size in self.sizes(least=columns)
            for right in dict.fromkeys((0,) if self.causal else (0, (size - 1) // 2, size - 1))
        ]


@dataclass(frozen=True)
class Uniform:
    """A mechanism with its settings.

    Attributes:
        kind: its class.
        settings: its specifications.
        level: `calibrated`, or `oracle` where it chooses from the matrices that it replaces.
    """

    kind: type[Mechanism]
    settings: Callable[[SearchSpace], Iterable[Specification]]
    level: str = "calibrated"


def uniform_mechanisms() -> dict[str, Uniform]:
    """The mechanisms by their names in tables; those of other distributions by `Mechanism.at_budget`."""
    known = mechanisms()
    found = {
        "band": Uniform(known["band"], lambda room: map(Band, room.windows())),
        "longformer": Uniform(known["longformer"], _longformer),
        "bigbird": Uniform(known["bigbird"], _bigbird),
        **{
            f"sigma {columns}": Uniform(known["sigma"], partial(_sigma, columns))
            for columns in Sigma.choices["columns"]
        },
        "sigma offsets": Uniform(known["sigma"], _sigma_offsets),
        "linear": Uniform(known["linear"], _linear),
        "linformer (not trained)": Uniform(
            known["linformer"], lambda room: (Linformer(k, room.longest) for k in room.sizes())
        ),
        "top-k": Uniform(known["topk"], lambda room: map(TopK, room.sizes()), "oracle"),
    }
    for name, kind in known.items():
        if any(kind.at_budget(LEAST_BUDGET, causal=one) is not None for one in (False, True)):
            found[name] = Uniform(kind, partial(_of_plugin, kind))
    return found


def uniform(
    name: str, site: str, budget: int, *, longest: int = LONGEST, additive: bool = False
) -> Sequence[Specification]:
    """The settings of a mechanism that all heads of a site may get; none where it has no form there.

    Args:
        name: one of `uniform_mechanisms`.
        site: encoder, decoder or cross.
        budget: keys per row.
        longest: most tokens of a sentence.
        additive: whether the site's scores are no products of queries and keys.
    """
    found = uniform_mechanisms()[name]
    if refusal(found.kind, site, additive=additive) is not None:
        return []
    made = found.settings(SearchSpace(WIDEST * budget, site == "decoder", max(longest, LONGEST)))
    return list(dict.fromkeys(made))


def _longformer(room: SearchSpace) -> Iterable[Specification]:
    ends = [(0,)] if room.causal else [(0,), (0, -1)]
    return (Longformer(window, 1, end) for window in room.windows() for end in ends)


def _bigbird(room: SearchSpace) -> Iterable[Specification]:
    return (
        BigBird(block, drawn, ends)
        for block in (1, 2)
        for ends in (1, 2)
        for drawn in (0, *room.sizes(block, 4))
    )


def _sigma(columns: str, room: SearchSpace) -> Iterable[Specification]:
    return (
        Sigma(window, count, columns) for count in SIGMA_COLUMNS for window in room.beside(count)
    )


def _sigma_offsets(room: SearchSpace) -> Iterable[Specification]:
    return (
        Sigma(window, 0, extra=count, entries="offsets")
        for count in SIGMA_COLUMNS
        for window in room.beside(count)
    )


def _linear(room: SearchSpace) -> Iterable[Specification]:
    return Linear("elu"), Linear("taylor"), *(Linear("favor", size) for size in room.sizes())


def _of_plugin(kind: type[Mechanism], room: SearchSpace) -> Iterable[Specification]:
    sizes = (size for size in room.sizes() if size >= LEAST_BUDGET)
    written = (kind.at_budget(size, causal=room.causal) for size in sizes)
    return (one for one in written if one is not None)
