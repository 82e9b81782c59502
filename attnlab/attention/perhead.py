"""Different mechanisms for the heads of one layer, as one mechanism."""

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar, Unpack

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from attnlab.attention.mechanism import Mechanism, Told
from attnlab.attention.traits import Cost
from attnlab.errors import InputError


class PerHead(Mechanism):
    """Hands each group of heads to its mechanism and puts the results back in order.

    Args:
        groups: pairs of the heads of a group and their mechanism; together every head once.
    """

    name: ClassVar[str] = "perhead"
    # Each group is asked for itself.
    scored: ClassVar[bool] = True

    def __init__(self, groups: Sequence[tuple[Sequence[int], Mechanism]]) -> None:
        first = groups[0][1]
        super().__init__(causal=first.causal, cross=first.cross, dropout=first.dropout)
        order = [head for heads, _ in groups for head in heads]
        if sorted(order) != list(range(len(order))):
            msg = f"The groups of heads must name every head once, not {sorted(order)}."
            raise InputError(msg)
        self.groups = [tuple(heads) for heads, _ in groups]
        self.mechanisms = nn.ModuleList([mechanism for _, mechanism in groups])
        self.order = [order.index(head) for head in range(len(order))]

    def forward(
        self,
        query: Float[Tensor, "batch head query dim"],
        key: Float[Tensor, "batch head key dim"],
        value: Float[Tensor, "batch head key value_dim"],
        visible: Bool[Tensor, "batch key"] | None = None,
        **told: Unpack[Told],
    ) -> Float[Tensor, "batch head query value_dim"]:
        """Mixed values, each group by its own mechanism."""
        parts = [
            mechanism(
                query[:, heads],
                key[:, heads],
                value[:, heads],
                visible,
                **_told(told, heads, mechanism),
            )
            for heads, mechanism in self._parts()
        ]
        return torch.cat(parts, 1)[:, self.order]

    def implied_matrix(
        self,
        query: Float[Tensor, "batch head query dim"],
        key: Float[Tensor, "batch head key dim"],
        visible: Bool[Tensor, "batch key"] | None = None,
        **told: Unpack[Told],
    ) -> Float[Tensor, "batch head query key"]:
        """The matrices of all heads, each from its own mechanism."""
        parts = [
            mechanism.implied_matrix(
                query[:, heads],
                key[:, heads],
                visible,
                **_told(told, heads, mechanism),
            )
            for heads, mechanism in self._parts()
        ]
        return torch.cat(parts, 1)[:, self.order]

    def cost(self, queries: int, keys: int, dim: int) -> Cost:
        """The mean over heads."""
        costs = [
            mechanism.cost(queries, keys, dim) for heads, mechanism in self._parts() for _ in heads
        ]
        return Cost(
            multiply_adds=sum(cost.multiply_adds for cost in costs) // len(costs),
            bytes=sum(cost.bytes for cost in costs) // len(costs),
        )

    def _parts(self) -> list[tuple[list[int], Mechanism]]:
        pairs = zip(self.groups, self.mechanisms, strict=True)
        return [(list(heads), part) for heads, part in pairs if isinstance(part, Mechanism)]


def _of(bias: Tensor | None, heads: list[int]) -> Tensor | None:
    return bias if bias is None or bias.shape[1] == 1 else bias[:, heads]


def _told(told: Told, heads: list[int], mechanism: Mechanism) -> Told:
    """What a group is told: its heads' part, and nothing that its mechanism does not know."""
    part: Told = {**told}
    if (bias := told.get("bias")) is not None:
        part["bias"] = _of(bias, heads)
    scoring = part.pop("scoring", None)
    if scoring is not None:
        sinks = None if scoring.sinks is None else scoring.sinks[heads]
        part["scoring"] = replace(scoring, allowed=_of(scoring.allowed, heads), sinks=sinks)
    if mechanism.positions == "none":
        part.pop("real_queries", None)
    return part
