"""Which heads are replaced at a time, and what is put there instead."""

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch

from attnlab.attention.mechanism import Mechanism
from attnlab.attention.plan import AttentionPlan, plan_of
from attnlab.budget.candidates import Candidate
from attnlab.core.addresses import Head, layer_name
from attnlab.studies.substitution.selected import SelectedHeads

Layer = tuple[str, int]


class Target(NamedTuple):
    """Heads that are replaced together.

    Attributes:
        scope: `head`, `site`, `model`, or `plan`.
        name: `encoder.0.3`, `encoder` or `all`.
        heads: the heads.
    """

    scope: str
    name: str
    heads: frozenset[Head]

    @property
    def sites(self) -> tuple[str, ...]:
        """Those of the heads."""
        return tuple(dict.fromkeys(head.site for head in sorted(self.heads)))


def targets(heads: Sequence[Head], scopes: Sequence[str]) -> list[Target]:
    """Every head alone, the heads of every site, and all heads, as far as they are among `scopes`.

    A model of one site has no scope `model`, which would be the same as its site.
    """
    found = []
    sites = list(dict.fromkeys(head.site for head in heads))
    if "head" in scopes:
        found += [Target("head", str(head), frozenset([head])) for head in heads]
    if "site" in scopes:
        found += [
            Target("site", site, frozenset(head for head in heads if head.site == site))
            for site in sites
        ]
    if "model" in scopes and (len(sites) > 1 or "site" not in scopes):
        found.append(Target("model", "all", frozenset(heads)))
    return found


@dataclass(frozen=True)
class Replacement:
    """One mechanism for every layer that can have it.

    Attributes:
        budget: keys per row.
        name: as in the tables of `attnlab compare`.
        level: `oracle` or `calibrated`.
        by_layer: it, as it was taught for each layer.
        written: its setting at each site.
    """

    budget: int
    name: str
    level: str
    by_layer: Mapping[Layer, Mechanism]
    written: Mapping[str, str]

    def plan(
        self, target: Target, counts: Mapping[Layer, int], dtype: torch.dtype
    ) -> AttentionPlan:
        """The plan that replaces the target's heads.

        Args:
            target: what is replaced.
            counts: number of heads of each layer.
            dtype: of the model.
        """
        entries = {}
        for layer, heads in by_layer(target.heads).items():
            mechanism = copy.deepcopy(self.by_layer[layer]).to(dtype)
            if len(heads) < counts[layer]:
                mechanism = SelectedHeads(mechanism, heads, counts[layer])
            entries[layer_name(*layer)] = mechanism
        return plan_of(entries)

    def written_at(self, target: Target) -> str:
        """Its setting at the target's heads; of several sites those of each."""
        if len(target.sites) == 1:
            return self.written[target.sites[0]]
        return "; ".join(f"{site}={self.written[site]}" for site in target.sites)

    def has(self, target: Target) -> bool:
        """Whether the mechanism can stand at all of the target's heads."""
        return all((head.site, head.layer) in self.by_layer for head in target.heads)


def by_layer(heads: frozenset[Head]) -> dict[Layer, list[int]]:
    """Indices of the heads in each layer."""
    found: dict[Layer, list[int]] = {}
    for head in sorted(heads):
        found.setdefault((head.site, head.layer), []).append(head.head)
    return found


def replacements(
    candidates: Mapping[Layer, Sequence[tuple[int, Candidate]]],
) -> Iterator[Replacement]:
    """Every mechanism and budget with its layers."""
    found: dict[tuple[int, str, str], dict[Layer, Candidate]] = {}
    for layer, there in candidates.items():
        for budget, candidate in there:
            key = budget, candidate.name, candidate.level
            found.setdefault(key, {})[layer] = candidate
    for (budget, name, level), layers in sorted(found.items(), key=lambda item: item[0][0]):
        mechanisms = {at: one.mechanism for at, one in layers.items() if one.mechanism is not None}
        written = {site: one.written for (site, _), one in layers.items()}
        yield Replacement(budget, name, level, mechanisms, written)
