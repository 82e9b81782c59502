"""Figures of many heads and sentences as running sums: means by head, and intervals over sentences."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from attnlab.ablation.significance import DRAWS, INTERVAL
from attnlab.budget.candidates import Candidate
from attnlab.reading.observing import Observed

MEASURED = ("mass_fraction", "output_error", "visible_keys")


class Entry(NamedTuple):
    """One mechanism at one site and budget."""

    site: str
    budget: int
    mechanism: str


def measure_matrices(
    matrices: Float[Tensor, "batch head query key"], layer: Observed, *, support: bool
) -> Float[Tensor, "figure batch head"]:
    """Mass captured, output error and visible keys of implied matrices (`MEASURED`).

    What needs a support is NaN where there is none.
    """
    applied = matrices * layer.real_queries[:, None, :, None]
    rows = layer.real_queries.sum(-1)[:, None]
    pairs = applied != 0
    full = layer.weights @ layer.value
    wrong = (applied @ layer.value - full).flatten(2).norm(dim=-1)
    mass = (layer.weights * pairs).sum((-2, -1)) / rows
    keys = pairs.sum((-2, -1)) / rows
    unknown = torch.full_like(mass, torch.nan)
    return torch.stack(
        [
            mass if support else unknown,
            wrong / full.flatten(2).norm(dim=-1),
            keys if support else unknown,
        ]
    )


class Scores:
    """Sums over sentences for each head, and over heads for each sentence; no matrix is kept.

    Args:
        numbers: the numbers of the sentences that will come.
    """

    def __init__(self, numbers: Sequence[int]) -> None:
        self._index_of = {number: index for index, number in enumerate(numbers)}
        self._by_head: dict[tuple[Entry, int], Tensor] = {}
        self._by_sentence: dict[Entry, Tensor] = {}
        self._levels: dict[Entry, dict[str, Any]] = {}

    def add(self, candidate: Candidate, budget: int, layer: Observed) -> None:
        """Measures one candidate on one layer and batch."""
        figures = measure_matrices(candidate.apply(layer), layer, support=candidate.support).cpu()
        entry = Entry(layer.site, budget, candidate.name)
        work = np.nan if candidate.multiply_adds is None else float(candidate.multiply_adds)
        self._levels[entry] = {
            "level": candidate.level, "written": candidate.written, "multiply_adds": work,
        }  # fmt: skip
        key = entry, layer.layer
        self._by_head[key] = self._by_head.get(key, 0) + figures.sum(1)
        whole = figures.new_zeros(len(MEASURED), len(self._index_of))
        sums = self._by_sentence.setdefault(entry, whole)
        sums[:, [self._index_of[number] for number in layer.sentences]] += figures.sum(-1)

    def heads(self) -> pd.DataFrame:
        """One row per site, budget, mechanism, layer and head: means over sentences."""
        rows = []
        for (entry, layer), sums in sorted(self._by_head.items(), key=self._order):
            means = (sums / len(self._index_of)).T.tolist()
            rows += [
                entry._asdict()
                | self._levels[entry]
                | {"layer": layer, "head": head}
                | dict(zip(MEASURED, figures, strict=True))
                for head, figures in enumerate(means)
            ]
        return _over_budget(pd.DataFrame(rows))

    def summary(self, seed: int) -> pd.DataFrame:
        """Means over heads and sentences, with percentile bootstrap intervals over sentences."""
        count = len(self._index_of)
        draws = np.random.default_rng(seed).integers(0, count, (DRAWS, count))
        rows = []
        for entry, sums in self._by_sentence.items():
            heads = sum(s.shape[1] for (other, _), s in self._by_head.items() if other == entry)
            means = dict(zip(MEASURED, (sums / heads).numpy(), strict=True))
            row: dict[str, Any] = entry._asdict() | {"level": self._levels[entry]["level"]}
            for name in ("mass_fraction", "output_error"):
                low, high = np.quantile(means[name][draws].mean(-1), INTERVAL)
                row |= {name: means[name].mean(), f"{name}_low": low, f"{name}_high": high}
            row["visible_keys"] = means["visible_keys"].mean()
            row["multiply_adds"] = self._levels[entry]["multiply_adds"]
            rows.append(row)
        table = _over_budget(pd.DataFrame(rows))
        order = {site: index for index, site in enumerate(table["site"].unique())}
        table["order"] = table["site"].map(order)
        ordered = table.sort_values(["order", "budget", "output_error"], ignore_index=True)
        return ordered.drop(columns="order")

    def _order(self, item: tuple[tuple[Entry, int], Tensor]) -> tuple[int, int]:
        """Entries in the order in which they came, the layers of each together."""
        entry, layer = item[0]
        return list(self._levels).index(entry), layer


def _over_budget(table: pd.DataFrame) -> pd.DataFrame:
    """The table with how many keys a row saw beyond the budget, beside those that it saw."""
    at = list(table).index("visible_keys") + 1
    table.insert(at, "keys_over_budget", table["visible_keys"] - table["budget"])
    return table
