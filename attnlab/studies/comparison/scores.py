"""Figures of many heads and sentences as running sums: means by head, and intervals over sentences."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from attnlab.extraction.observing import Observed
from attnlab.studies.comparison.candidates import Rival

DRAWS = 1000
INTERVAL = (0.025, 0.975)
FIGURES = ("mass_fraction", "output_error", "visible_keys")


class Contest(NamedTuple):
    """One mechanism at one site and budget."""

    site: str
    budget: int
    mechanism: str


def measure_matrices(
    matrices: Float[Tensor, "batch head query key"], seen: Observed, *, support: bool
) -> Float[Tensor, "figure batch head"]:
    """Mass captured, output error and visible keys of implied matrices (`FIGURES`).

    What needs a support is NaN where there is none.
    """
    applied = matrices * seen.real_queries[:, None, :, None]
    rows = seen.real_queries.sum(-1)[:, None]
    pairs = applied != 0
    full = seen.weights @ seen.value
    wrong = (applied @ seen.value - full).flatten(2).norm(dim=-1)
    mass = (seen.weights * pairs).sum((-2, -1)) / rows
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
        self._places = {number: place for place, number in enumerate(numbers)}
        self._by_head: dict[tuple[Contest, int], Tensor] = {}
        self._by_sentence: dict[Contest, Tensor] = {}
        self._rivals: dict[Contest, dict[str, Any]] = {}

    def add(self, rival: Rival, budget: int, seen: Observed) -> None:
        """Measures one rival on one layer and batch."""
        figures = measure_matrices(rival.apply(seen), seen, support=rival.support).cpu()
        contest = Contest(seen.site, budget, rival.name)
        work = np.nan if rival.multiply_adds is None else float(rival.multiply_adds)
        self._rivals[contest] = {
            "level": rival.level, "written": rival.written, "multiply_adds": work,
        }  # fmt: skip
        key = contest, seen.layer
        self._by_head[key] = self._by_head.get(key, 0) + figures.sum(1)
        whole = figures.new_zeros(len(FIGURES), len(self._places))
        sums = self._by_sentence.setdefault(contest, whole)
        sums[:, [self._places[number] for number in seen.sentences]] += figures.sum(-1)

    def heads(self) -> pd.DataFrame:
        """One row a site, budget, mechanism, layer and head: means over sentences."""
        rows = []
        for (contest, layer), sums in sorted(self._by_head.items(), key=self._order):
            means = (sums / len(self._places)).T.tolist()
            rows += [
                contest._asdict()
                | self._rivals[contest]
                | {"layer": layer, "head": head}
                | dict(zip(FIGURES, figures, strict=True))
                for head, figures in enumerate(means)
            ]
        return pd.DataFrame(rows)

    def summary(self, seed: int) -> pd.DataFrame:
        """Means over heads and sentences, with percentile bootstrap intervals over sentences."""
        count = len(self._places)
        draws = np.random.default_rng(seed).integers(0, count, (DRAWS, count))
        rows = []
        for contest, sums in self._by_sentence.items():
            heads = sum(s.shape[1] for (other, _), s in self._by_head.items() if other == contest)
            means = dict(zip(FIGURES, (sums / heads).numpy(), strict=True))
            row: dict[str, Any] = contest._asdict() | {"level": self._rivals[contest]["level"]}
            for name in ("mass_fraction", "output_error"):
                low, high = np.quantile(means[name][draws].mean(-1), INTERVAL)
                row |= {name: means[name].mean(), f"{name}_low": low, f"{name}_high": high}
            row["visible_keys"] = means["visible_keys"].mean()
            row["multiply_adds"] = self._rivals[contest]["multiply_adds"]
            rows.append(row)
        table = pd.DataFrame(rows)
        places = {site: place for place, site in enumerate(table["site"].unique())}
        table["place"] = table["site"].map(places)
        ordered = table.sort_values(["place", "budget", "output_error"], ignore_index=True)
        return ordered.drop(columns="place")

    def _order(self, item: tuple[tuple[Contest, int], Tensor]) -> tuple[int, int]:
        """Contests in the order in which they came, the layers of each together."""
        contest, layer = item[0]
        return list(self._rivals).index(contest), layer
