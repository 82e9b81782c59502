"""Learned gates: which heads a model can do without, found by training a Hard Concrete gate for each.

A gate scales its head's output before the output projection. Its distribution has mass at exactly 0
and exactly 1, so that heads can be closed while the loss stays differentiable::

    s = sigmoid((log u - log(1 - u) + a) / temperature),  u uniform on (0, 1)
    gate = clamp(s * (right - left) + left, 0, 1)

    P(gate = 0) = sigmoid(temperature * log(-left / right) - a)
    P(gate = 1) = sigmoid(a - temperature * log((1 - left) / (right - 1)))

`a` is learned, one a head; the penalty is the expected number of heads that are not closed, the sum
of 1 - P(gate = 0). Source: Louizos et al. 2018 (arXiv 1712.01312), whose limits are used and whose
temperature is 2/3; Voita et al. 2019 (1905.09418), section 5, whose code takes 0.33, as is done here.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor, nn

from attnlab.ablation.projections import Change, Layer, Projections, changed_heads
from attnlab.core import HEAD_COLUMNS, Head

TEMPERATURE = 0.33
LEFT, RIGHT = -0.1, 1.1
# Every location at the beginning, which leaves nearly all gates at exactly 1.
START = 2.0

Batch = TypeVar("Batch")


def draw_gates(
    location: Float[Tensor, " head"], generator: torch.Generator
) -> Float[Tensor, " head"]:
    """One draw of every gate, differentiable in `location`."""
    smallest = torch.finfo(location.dtype).eps
    uniform = torch.rand(location.shape, generator=generator, dtype=location.dtype)
    uniform = uniform.clamp(smallest, 1 - smallest).to(location.device)
    stretched = ((uniform.logit() + location) / TEMPERATURE).sigmoid() * (RIGHT - LEFT) + LEFT
    return stretched.clamp(0, 1)


def probability_of_zero(location: Float[Tensor, " head"]) -> Float[Tensor, " head"]:
    """P(gate = 0), in closed form."""
    return torch.sigmoid(TEMPERATURE * math.log(-LEFT / RIGHT) - location)


def probability_of_one(location: Float[Tensor, " head"]) -> Float[Tensor, " head"]:
    """P(gate = 1), in closed form."""
    return torch.sigmoid(location - TEMPERATURE * math.log((1 - LEFT) / (RIGHT - 1)))


class HeadGates(nn.Module):
    """A gate for every head; the learned locations are the module's parameters, one vector a layer.

    Args:
        projections: where the heads are apart.
    """

    def __init__(self, projections: Projections) -> None:
        super().__init__()
        self.projections = projections
        self.locations = nn.ParameterDict(
            {
                _name(layer): nn.Parameter(torch.full((projection.heads,), START))
                for layer, projection in projections.items()
            }
        )

    def expected_open(self) -> Float[Tensor, ""]:
        """Expected number of heads whose gate is not 0: the penalty's unit, differentiable."""
        return torch.stack(
            [(1 - probability_of_zero(location)).sum() for location in self.locations.values()]
        ).sum()

    def closed(self) -> list[Head]:
        """Heads whose gate is more likely 0 than 1: they are closed for good."""
        return [
            Head(*layer, head)
            for layer in self.projections
            for head, zero in enumerate(self._zero_is_likelier(layer).tolist())
            if zero
        ]

    def probabilities(self) -> dict[Head, tuple[float, float]]:
        """P(gate = 0) and P(gate = 1) of every head, in the order of the projections."""
        probabilities = {}
        for layer in self.projections:
            location = self.locations[_name(layer)].detach()
            both = zip(probability_of_zero(location), probability_of_one(location), strict=True)
            for head, (zero, open_probability) in enumerate(both):
                probabilities[Head(*layer, head)] = float(zero), float(open_probability)
        return probabilities

    def _zero_is_likelier(self, layer: Layer) -> Tensor:
        location = self.locations[_name(layer)].detach()
        return probability_of_zero(location) > probability_of_one(location)

    @contextmanager
    def drawn(self, generator: torch.Generator) -> Iterator[None]:
        """While the block runs, heads are scaled by gates drawn anew at every pass of a layer."""

        def change(layer: Layer) -> Change:
            def scale(apart: Float[Tensor, "batch query head dim"]) -> Tensor:
                gate = draw_gates(self.locations[_name(layer)], generator)
                return apart * gate.to(apart)[:, None]

            return scale

        with changed_heads(self.projections, {layer: change(layer) for layer in self.projections}):
            yield


@dataclass(frozen=True)
class GateStep:
    """One step of training gates: the loss without the penalty, and the expected number of open heads."""

    loss: float
    expected_open: float


def train_gates(
    gates: HeadGates,
    batches: Iterable[Batch],
    loss: Callable[[Batch], Float[Tensor, ""]],
    *,
    penalty: float,
    seed: int,
    learning_rate: float = 0.01,
    parameters: Sequence[nn.Parameter] = (),
    parameter_learning_rate: float = 1e-4,
    schedule: Callable[[int], float] | None = None,
) -> list[GateStep]:
    """Trains gates by Adam, one step a batch; they are changed in place.

    Minimised: loss(batch) + penalty * expected number of open heads. The larger the penalty, the
    fewer heads are left; a curve takes several penalties, each from a fresh start.

    Args:
        gates: what is trained.
        batches: one step each.
        loss: mean loss of a batch under the drawn gates.
        penalty: price of an open head, in units of the loss.
        seed: of the draws; the global random state is not touched.
        learning_rate: of the gates.
        parameters: parameters of the model that are trained along; none leaves it as it is.
        parameter_learning_rate: of these.
        schedule: factor of `parameter_learning_rate` at a step, from 0; None: always 1.
    """
    generator = torch.Generator().manual_seed(seed)
    groups: list[dict[str, Any]] = [{"params": list(gates.parameters()), "lr": learning_rate}]
    if parameters:
        groups.append({"params": list(parameters), "lr": parameter_learning_rate})
    trained = [parameter for group in groups for parameter in group["params"]]
    optimizer = torch.optim.Adam(groups)
    history = []
    for step, batch in enumerate(batches):
        if schedule is not None:
            for group in optimizer.param_groups[1:]:
                group["lr"] = parameter_learning_rate * schedule(step)
        with gates.drawn(generator):
            total = loss(batch)
            open_heads = gates.expected_open()
            slopes = torch.autograd.grad(total + penalty * open_heads, trained, allow_unused=True)
        for parameter, slope in zip(trained, slopes, strict=True):
            parameter.grad = slope
        optimizer.step()
        optimizer.zero_grad()
        history.append(GateStep(float(total.detach()), float(open_heads.detach())))
    return history


def _name(layer: Layer) -> str:
    return f"{layer[0]}-{layer[1]}"


@dataclass(frozen=True)
class GradientImportance:
    """Sums over examples of abs(dL/dgate) and its square, by layer `[head]`; add up with `+`.

    Attributes:
        total: summed absolute derivatives.
        squares: summed squares, for the standard error.
        examples: how many examples.
    """

    total: dict[Layer, Tensor]
    squares: dict[Layer, Tensor]
    examples: int

    def __add__(self, other: "GradientImportance") -> "GradientImportance":
        return GradientImportance(
            {layer: mine + other.total[layer] for layer, mine in self.total.items()},
            {layer: mine + other.squares[layer] for layer, mine in self.squares.items()},
            self.examples + other.examples,
        )

    def table(self) -> pd.DataFrame:
        """One row per head: its importance with the standard error, and its share of the layer.

        `gradient_in_layer` is divided by the layer's Euclidean norm, as the paper does before
        comparing layers.
        """
        rows = []
        for (site, layer), total in self.total.items():
            mean = total / self.examples
            variance = self.squares[site, layer] / self.examples - mean**2
            error = (variance.clamp_min(0) / max(1, self.examples - 1)).sqrt()
            share = mean / mean.norm().clamp_min(1e-300)
            figures = zip(mean.tolist(), error.tolist(), share.tolist(), strict=True)
            rows += [(site, layer, head, *three) for head, three in enumerate(figures)]
        names = [
            *HEAD_COLUMNS,
            "gradient_importance",
            "gradient_standard_error",
            "gradient_in_layer",
        ]
        return pd.DataFrame(rows, columns=names)


def gradient_importance(
    projections: Projections, batch: Batch, losses: Callable[[Batch], Float[Tensor, " example"]]
) -> GradientImportance:
    """The importance of every head on a batch.

    ::

        I_h = E_x abs( dL(x) / dgate_h )   at gate_h = 1, gate_h scaling head h before the projection

    The absolute value is taken of each example: derivatives of opposite sign would cancel. One
    backward pass serves all examples, since each has gates of its own.

    Args:
        projections: where the heads are apart.
        batch: what `losses` takes.
        losses: one loss an example, in a fixed order, each depending on its own example only.

    Cost: one forward and one backward pass.
    """
    gates: dict[Layer, Tensor] = {}

    def gate(layer: Layer) -> Change:
        def change(apart: Float[Tensor, "batch query head dim"]) -> Tensor:
            gates[layer] = apart.new_ones(apart.shape[0], apart.shape[2], requires_grad=True)
            return apart * gates[layer][:, None, :, None]

        return change

    with (
        torch.enable_grad(),
        changed_heads(projections, {layer: gate(layer) for layer in projections}),
    ):
        losses_of_batch = losses(batch)
        names = list(gates)
        gradients = torch.autograd.grad(losses_of_batch.sum(), [gates[layer] for layer in names])
    sizes = {layer: slope.abs().double() for layer, slope in zip(names, gradients, strict=True)}
    return GradientImportance(
        {layer: size.sum(0) for layer, size in sizes.items()},
        {layer: (size**2).sum(0) for layer, size in sizes.items()},
        len(losses_of_batch),
    )
