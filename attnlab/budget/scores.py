"""Figures of many heads and sentences as running sums: means by head, and intervals over sentences."""

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from attnlab.ablation import paired_differences, ratio
from attnlab.budget.choosing import Candidate
from attnlab.budget.running_sums import beyond_distance
from attnlab.reading import Observed

MEASURED = ("mass_fraction", "output_error", "error", "visible_keys")


class Entry(NamedTuple):
    """One mechanism at one site; without a budget where it has none."""

    site: str
    budget: int | None
    mechanism: str


def measure_matrices(
    matrices: Float[Tensor, "batch head query key"], layer: Observed, *, support: bool
) -> Float[Tensor, "figure batch head"]:
    """Mass captured, output error, l1 error and visible keys of implied matrices (`MEASURED`).

    What needs a support is NaN where there is none.
    """
    applied = matrices * layer.real_queries[:, None, :, None]
    rows = layer.real_queries.sum(-1)[:, None]
    pairs = applied != 0
    mass = (layer.weights * pairs).sum((-2, -1)) / layer.weights.sum((-2, -1))
    keys = pairs.sum((-2, -1)) / rows
    empty = ~pairs.any(-1) & layer.real_queries[:, None]
    keyless = (empty * beyond_distance(layer.weights, sinks=layer.has_sinks)).sum(-1)
    l1 = ((applied - layer.weights).abs().sum((-2, -1)) + keyless) / rows
    unknown = torch.full_like(mass, torch.nan)
    return torch.stack(
        [
            mass if support else unknown,
            output_error(applied, layer.weights, layer.value),
            l1,
            keys if support else unknown,
        ]
    )


def output_error(
    applied: Float[Tensor, "batch head query key"],
    weights: Float[Tensor, "batch head query key"],
    values: Float[Tensor, "batch head key dim"],
) -> Float[Tensor, "batch head"]:
    """|X V - H V| / |H V|; 0 for heads whose output is 0 either way, as that of pruned ones is."""
    full = weights @ values
    wrong = (applied @ values - full).flatten(2).norm(dim=-1)
    return (wrong / full.flatten(2).norm(dim=-1)).where(wrong != 0, 0.0)


class Scores:
    """Sums over rows for each head, and over heads for each sentence; no matrix is kept.

    A sentence counts with its rows in every figure: a budget is one of rows, and so is what it is spent for.

    Args:
        numbers: the numbers of the sentences that will come.
    """

    def __init__(self, numbers: Sequence[int]) -> None:
        self._index_of = {number: index for index, number in enumerate(numbers)}
        self._by_head: dict[tuple[Entry, int], Tensor] = {}
        self._by_sentence: dict[Entry, Tensor] = {}
        self._rows: dict[str, Tensor] = {}
        self._known: dict[tuple[Entry, int], dict[str, Any]] = {}

    def add(self, candidate: Candidate, budget: int | None, layer: Observed) -> None:
        """Measures one candidate on one layer and batch."""
        support = candidate.mechanism.traits.support
        figures = measure_matrices(candidate.matrices(layer), layer, support=support).cpu()
        places = [self._index_of[number] for number in layer.sentences]
        rows = layer.real_queries.sum(-1).cpu().double()
        self._rows.setdefault(layer.site, torch.zeros(len(self._index_of)).double())[places] = rows
        figures *= rows[:, None]
        entry = Entry(layer.site, budget, candidate.name)
        key = entry, layer.layer
        self._known[key] = {
            "level": candidate.level, "setting": candidate.setting,
            "multiply_adds": float(candidate.multiply_adds),
        }  # fmt: skip
        self._by_head[key] = self._by_head.get(key, 0) + figures.sum(1)
        whole = figures.new_zeros(len(MEASURED), len(self._index_of))
        sums = self._by_sentence.setdefault(entry, whole)
        sums[:, places] += figures.sum(-1)

    def heads(self) -> pd.DataFrame:
        """One row per site, budget, mechanism, layer and head: means over rows."""
        order = list(self._by_sentence)
        rows = []
        for (entry, layer), sums in sorted(
            self._by_head.items(), key=lambda item: (order.index(item[0][0]), item[0][1])
        ):
            means = (sums / self._rows[entry.site].sum()).T.tolist()
            rows += [
                entry._asdict()
                | self._known[entry, layer]
                | {"layer": layer, "head": head}
                | dict(zip(MEASURED, figures, strict=True))
                for head, figures in enumerate(means)
            ]
        return pd.DataFrame(rows).astype({"budget": "Int64"})

    def sentences(self, entries: Collection[Entry]) -> Float[Tensor, "figure 2 sentence"]:
        """Sums of each figure over the rows of all heads of these entries, and these rows, by sentence."""
        sums = torch.stack([self._by_sentence[entry] for entry in entries]).sum(0)
        rows = torch.stack([self._rows[entry.site] * self._heads(entry) for entry in entries]).sum(
            0
        )
        return torch.stack([sums, rows.expand_as(sums)], 1)

    def _heads(self, entry: Entry) -> int:
        """Number of heads of all layers that an entry has."""
        return sum(sums.shape[1] for (at, _), sums in self._by_head.items() if at == entry)


def mean_intervals(
    values: Float[Tensor, "row 2 sentence"],
) -> Float[np.ndarray, "row 3"]:
    """Ratio of both sums of each row, with its 95 % interval over sentences: value, low, high."""
    changes = paired_differences(None, list(values.transpose(1, 2)), ratio)
    return np.array([(change.after, change.low, change.high) for change in changes])
