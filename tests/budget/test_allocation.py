"""The allocation of options under a budget, against exact ones; and the settings that a site may get."""

import itertools
import random
from typing import Any

import pytest
from scipy.linalg import block_diag
from scipy.optimize import linprog

from attnlab.attention.specification import sides
from attnlab.budget.allocation import Choice, allocate, allocate_exactly, lower_hull
from attnlab.budget.budget_columns import WIDEST
from attnlab.budget.uniform import uniform
from attnlab.core.errors import InputError


def drawn_options(seed: int, heads: int, most: int) -> list[list[Choice]]:
    draw = random.Random(seed)

    def one() -> Choice:
        return Choice(float(draw.randint(1, most)), float(draw.randint(0, 19)))

    return [[Choice(0.0, 20.0), *(one() for _ in range(draw.randint(1, 4)))] for _ in range(heads)]


def smallest_error(options: list[list[Choice]], budget: int) -> float:
    """The exact optimum by dynamic programming over whole costs."""
    best = [0.0] * (budget + 1)
    for own in options:
        best = [
            min(best[left - int(one.cost)] + one.error for one in own if one.cost <= left)
            for left in range(budget + 1)
        ]
    return best[budget]


def test_the_reference_is_the_best_of_all_choices() -> None:
    for seed in range(20):
        options = drawn_options(seed, 4, 6)
        for budget in (0, 3, 9, 24):
            fitting = [
                sum(one.error for one in choice)
                for choice in itertools.product(*options)
                if sum(one.cost for one in choice) <= budget
            ]
            assert smallest_error(options, budget) == min(fitting)


@pytest.mark.parametrize("heads", [1, 4, 12])
def test_the_greedy_is_within_one_step_of_the_optimum(heads: int) -> None:
    exact = 0
    for seed in range(60):
        options = drawn_options(seed, heads, 9)
        steps = [
            own[before].error - own[after].error
            for own in options
            for before, after in itertools.pairwise(lower_hull(own))
        ]
        for budget in (0, 5, 17, 9 * heads):
            found = allocate(options, float(budget))
            taken = [own[index] for own, index in zip(options, found.chosen, strict=True)]
            assert found.cost == sum(one.cost for one in taken) <= budget
            assert found.error == sum(one.error for one in taken)
            optimum = smallest_error(options, budget)
            best = allocate_exactly(options, float(budget))
            assert best is not None
            assert best.error == optimum
            assert best.cost <= budget
            assert found.lower_bound <= optimum + 1e-9
            assert optimum <= found.error <= optimum + max(steps, default=0)
            exact += found.error == optimum
    assert exact > 60 * 4 * 0.5


@pytest.mark.parametrize("heads", [1, 4, 12])
def test_the_bound_is_the_optimum_where_heads_may_share_between_options(heads: int) -> None:
    """That of the linear program in which each head has a mixture of its options."""
    for seed in range(10):
        options = drawn_options(seed, heads, 9)
        costs, errors = (
            [getattr(one, name) for own in options for one in own] for name in Choice._fields
        )
        own = block_diag(*([1.0] * len(one) for one in options))
        for budget in (0, 5, 17, 9 * heads):
            best = linprog(errors, A_ub=[costs], b_ub=[budget], A_eq=own, b_eq=[1.0] * heads)
            found = allocate(options, float(budget))
            assert found.lower_bound == pytest.approx(best.fun, abs=1e-7)


def test_a_hull_is_convex_and_below_every_option() -> None:
    for seed in range(30):
        own = drawn_options(seed, 1, 30)[0]
        hull = [own[index] for index in lower_hull(own)]
        for one in own:
            for left, right in itertools.pairwise(hull):
                if left.cost <= one.cost <= right.cost:
                    share = (one.cost - left.cost) / (right.cost - left.cost)
                    line = left.error + share * (right.error - left.error)
                    assert one.error >= line - 1e-9


def test_a_budget_below_the_cheapest_options_is_refused() -> None:
    options = [[Choice(2.0, 1.0)], [Choice(3.0, 1.0), Choice(4.0, 0.0)]]
    with pytest.raises(InputError, match="cost 5 together, more than the budget of 4; raise"):
        allocate(options, 4.0)
    assert allocate_exactly(options, 4.0) is None


@pytest.mark.parametrize("name", ["band", "longformer"])
@pytest.mark.parametrize("budget", [3, 9])
def test_uniform_windows_are_as_wide_as_those_of_single_heads(name: str, budget: int) -> None:
    for site in ("encoder", "decoder"):
        made: list[Any] = uniform(name, site, budget)
        sizes = {sum(sides(name, one.window)) + 1 for one in made}
        assert WIDEST * budget - 4 < max(sizes) <= WIDEST * budget
        assert sizes >= set(range(1, budget + 1))
