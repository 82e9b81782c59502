"""Gradient importance against finite differences of each example."""

import math

import pytest
import torch
from torch import Tensor
from zoo.architectures import CASES, SOURCE, TARGET, Case

from attnlab.ablation.gates import gradient_importance
from attnlab.ablation.projections import all_heads, changed_heads
from attnlab.core.addresses import Head


def losses_of(case: Case):
    """Summed loss of each sentence."""

    def losses(rows: Tensor) -> Tensor:
        logits = case.run(SOURCE[rows], TARGET[rows]).logits[:, :-1]
        labels = TARGET[rows][:, 1:]
        found = torch.nn.functional.cross_entropy(logits.mT, labels, reduction="none")
        return (found * (labels != 0)).sum(1)

    return losses


@pytest.mark.parametrize("name", ["attnlab", "marian", "bart"])
def test_importance_equals_finite_differences_of_each_example(name: str) -> None:
    case = CASES[name]()
    projections = case.projections()
    losses, rows = losses_of(case), torch.arange(3)
    found = gradient_importance(projections, rows, losses)
    assert found.examples == 3
    step = 1e-5
    for head in all_heads(projections)[::3]:
        slopes = []
        for sign in (1, -1):

            def scale(apart: Tensor, sign: int = sign, head: Head = head) -> Tensor:
                factors = torch.ones(apart.shape[2], dtype=apart.dtype)
                factors[head.head] += sign * step
                return apart * factors[:, None]

            with torch.no_grad(), changed_heads(projections, {(head.site, head.layer): scale}):
                slopes.append(losses(rows))
        by_hand = ((slopes[0] - slopes[1]) / (2 * step)).abs()
        total = found.total[head.site, head.layer][head.head]
        torch.testing.assert_close(total, by_hand.sum(), rtol=1e-5, atol=1e-7)
        squares = found.squares[head.site, head.layer][head.head]
        torch.testing.assert_close(squares, (by_hand**2).sum(), rtol=1e-5, atol=1e-7)


def test_absolute_value_is_taken_of_each_example() -> None:
    case = CASES["attnlab"]()
    projections = case.projections()
    together = gradient_importance(projections, torch.arange(3), losses_of(case))
    alone = [
        gradient_importance(projections, torch.tensor([row]), losses_of(case)) for row in range(3)
    ]
    summed = gradient_importance(
        projections, torch.arange(3), lambda rows: losses_of(case)(rows).sum()[None]
    )
    total = alone[0] + alone[1] + alone[2]
    for layer in projections:
        torch.testing.assert_close(together.total[layer], total.total[layer])
    assert total.examples == 3
    # A summed loss still gives each example its own gate: nothing cancels there either.
    for layer in projections:
        torch.testing.assert_close(together.total[layer], summed.total[layer])


def test_parameters_and_randomness_are_left_alone(untouched_randomness) -> None:
    case = CASES["attnlab"]()
    projections = case.projections()
    before = {name: p.clone() for name, p in case.model.named_parameters()}
    gradient_importance(projections, torch.arange(3), losses_of(case))
    for name, parameter in case.model.named_parameters():
        assert torch.equal(parameter, before[name])
        assert parameter.grad is None


def test_table_of_importance() -> None:
    case = CASES["attnlab"]()
    projections = case.projections()
    found = gradient_importance(projections, torch.arange(3), losses_of(case))
    table = found.table()
    assert len(table) == len(all_heads(projections))
    by_layer = table.groupby(["site", "layer"])
    assert by_layer.gradient_in_layer.apply(lambda x: (x**2).sum()).tolist() == pytest.approx(
        [1] * 6
    )
    row = table[(table.site == "cross") & (table.layer == 1)].iloc[2]
    total, squares = (part["cross", 1][2].item() for part in (found.total, found.squares))
    assert row.gradient_importance == pytest.approx(total / 3)
    assert row.gradient_standard_error == pytest.approx(
        math.sqrt((squares / 3 - (total / 3) ** 2) / 2)
    )
