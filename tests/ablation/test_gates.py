"""Hard Concrete gates: their distribution, their verdict, and learning which heads are not needed."""

import math

import pytest
import torch
from torch import Tensor
from zoo.architectures import CASES

from attnlab.ablation.gates import (
    HeadGates,
    draw_gates,
    probability_of_one,
    probability_of_zero,
    train_gates,
)
from attnlab.ablation.projections import all_heads
from attnlab.core.addresses import Head


@pytest.mark.parametrize("location", [-3.0, -0.5, 0.0, 0.7, 2.0])
def test_gates_are_drawn_as_the_closed_forms_say(location: float) -> None:
    generator = torch.Generator().manual_seed(0)
    draws = draw_gates(torch.full((40_000,), location, dtype=torch.float64), generator)
    where = torch.tensor([location], dtype=torch.float64)
    for value, formula in ((0.0, probability_of_zero), (1.0, probability_of_one)):
        share = (draws == value).double().mean().item()
        assert share == pytest.approx(formula(where).item(), abs=0.01)
    assert ((draws >= 0) & (draws <= 1)).all()


def hard_concrete_cdf(value: float, location: float) -> float:
    """P(gate <= value) for 0 <= value < 1, by inverting the stretched concrete distribution.

    With the published numbers written out: temperature 0.33, stretched to (-0.1, 1.1). A binary
    concrete s has P(s <= x) = sigmoid(temperature * logit(x) - location) (Maddison et al. 2017).
    """
    x = (value + 0.1) / 1.2
    return 1 / (1 + math.exp(location - 0.33 * math.log(x / (1 - x))))


@pytest.mark.parametrize("location", [-2.0, 0.0, 0.7, 2.0])
def test_gates_have_the_published_distribution(location: float) -> None:
    where = torch.tensor([location], dtype=torch.float64)
    assert probability_of_zero(where).item() == pytest.approx(hard_concrete_cdf(0, location))
    # Just below 1 the distribution has all but the mass at 1.
    below_one = hard_concrete_cdf(1 - 1e-12, location)
    assert probability_of_one(where).item() == pytest.approx(1 - below_one)
    draws = draw_gates(where.expand(200_000), torch.Generator().manual_seed(1))
    for value in (0.0, 0.05, 0.2, 0.5, 0.8, 0.95):
        share = (draws <= value).double().mean().item()
        assert share == pytest.approx(hard_concrete_cdf(value, location), abs=0.005)


def test_gates_have_a_slope() -> None:
    location = torch.zeros(5, dtype=torch.float64, requires_grad=True)

    def draw(x: Tensor) -> Tensor:
        return draw_gates(x, torch.Generator().manual_seed(4))

    assert torch.autograd.gradcheck(draw, location)


def test_closed_for_good_when_zero_is_likelier() -> None:
    case = CASES["attnlab"]()
    projections = case.projections()
    gates = HeadGates(projections)
    assert gates.closed() == []
    with torch.no_grad():
        gates.locations["cross-1"][2] = -0.01
        gates.locations["encoder-0"][0] = -4.0
        gates.locations["encoder-0"][1] = 0.01
    assert gates.closed() == [Head("encoder", 0, 0), Head("cross", 1, 2)]
    by_hand = sum(
        1 - probability_of_zero(location).sum() / len(location)
        for location in gates.locations.values()
    )
    assert gates.expected_open().item() == pytest.approx(3 * by_hand.item(), rel=1e-5)


@pytest.mark.slow
def test_heads_that_do_nothing_are_closed_and_the_needed_one_stays() -> None:
    # One head of the cross-attention carries all that the loss asks for.
    case = CASES["attnlab"]()
    projections = case.projections()
    kept: dict[str, Tensor] = {}
    needed = Head("cross", 1, 1)

    def loss(_: int) -> Tensor:
        apart = kept["gated"]
        return (apart[:, :, needed.head] - kept["whole"][:, :, needed.head]).square().mean() * 50

    def note(name):
        def hook(_, inputs):
            kept[name] = inputs[0].unflatten(-1, (3, -1))

        return hook

    module = projections["cross", 1].module
    handle = module.register_forward_pre_hook(note("whole"))
    case.result()
    handle.remove()
    kept["whole"] = kept["whole"].detach()
    others = {layer: p for layer, p in projections.items() if layer == ("cross", 1)}
    gates = HeadGates(others)

    def run(batch: int) -> Tensor:
        handle = module.register_forward_pre_hook(note("gated"))
        case.run()
        handle.remove()
        return loss(batch)

    history = train_gates(gates, range(200), run, penalty=0.05, learning_rate=0.1, seed=0)
    assert gates.closed() == [head for head in all_heads(others) if head != needed]
    assert history[-1].expected_open < history[0].expected_open
    assert all(parameter.grad is None for parameter in case.model.parameters())


def test_probabilities_stand_at_their_heads() -> None:
    case = CASES["attnlab"]()
    projections = case.projections()
    gates = HeadGates(projections)
    with torch.no_grad():
        for number, (site, layer) in enumerate(projections):
            gates.locations[f"{site}-{layer}"].copy_(torch.arange(3) - number)
    found = gates.probabilities()
    assert list(found) == all_heads(projections)
    assert [head for head, (zero, one) in found.items() if zero > one] == gates.closed()
    zero, one = found[Head("cross", 0, 2)]
    where = torch.tensor([2.0 - list(projections).index(("cross", 0))])
    assert zero == pytest.approx(float(probability_of_zero(where)))
    assert one == pytest.approx(float(probability_of_one(where)))


def test_the_models_rate_follows_its_schedule() -> None:
    case = CASES["attnlab"]()
    gates = HeadGates(case.projections())
    before = {name: tensor.clone() for name, tensor in case.model.state_dict().items()}

    def changed(factors: list[float]) -> bool:
        train_gates(
            gates, range(len(factors)), lambda _: case.run().logits.square().mean(),
            penalty=0.0, seed=0, parameters=list(case.model.parameters()),
            schedule=factors.__getitem__,
        )  # fmt: skip
        now = case.model.state_dict()
        return any(not torch.equal(now[name], tensor) for name, tensor in before.items())

    assert not changed([0.0, 0.0])
    assert changed([0.0, 1.0])
