"""Gradient importance of heads: how much the loss would change if a head's gate were turned a little.

Source: Michel et al. 2019 (arXiv 1905.10650), eq. (2).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from attnlab.addresses import HEAD_COLUMNS
from attnlab.attribution.projections import Change, Layer, Projections, changed_heads

Batch = TypeVar("Batch")


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
        """One row per head: `site, layer, head, importance, standard_error, importance_in_layer`.

        `importance_in_layer` is divided by the layer's Euclidean norm, as the paper does before
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
        names = [*HEAD_COLUMNS, "importance", "standard_error", "importance_in_layer"]
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
        found = losses(batch)
        names = list(gates)
        gradients = torch.autograd.grad(found.sum(), [gates[layer] for layer in names])
    sizes = {layer: slope.abs().double() for layer, slope in zip(names, gradients, strict=True)}
    return GradientImportance(
        {layer: size.sum(0) for layer, size in sizes.items()},
        {layer: (size**2).sum(0) for layer, size in sizes.items()},
        len(found),
    )
