"""Sizes of mechanisms at a budget of counted keys, and what they learn before they are measured."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Int
from torch import Tensor

from attnlab.budget.bounds import TOLERANCE, WIDEST
from attnlab.budget.candidates import (
    FIXED,
    Candidate,
    LayerCalibration,
    SiteStatistics,
    candidates,
    narrow_window,
)
from attnlab.budget.scores import MEASURED, Scores, measure_matrices
from attnlab.core.addresses import Side, sides_of
from attnlab.reading.batches import Encoding, Sentence
from attnlab.reading.observing import Observed


@dataclass(frozen=True)
class SiteTypes:
    """A site, and its token types numbered from 0: the few that occur stand for the vocabulary."""

    statistics: SiteStatistics
    types: Int[Tensor, " type"]

    def numbered(self, layer: Observed) -> Observed:
        """The layer with the numbers of its token types; padding gets any."""
        ranks = torch.searchsorted(self.types.to(layer.token_ids.device), layer.token_ids)
        return replace(layer, token_ids=ranks.clamp(max=len(self.types) - 1))


class Learned:
    """What every layer did on training sentences, and how many keys rows see at every size.

    Args:
        by_site: the sites, with their token types.
        budgets: keys per row, counted.
    """

    def __init__(self, by_site: Mapping[str, SiteTypes], budgets: Sequence[int]) -> None:
        self.by_site, self.budgets = by_site, budgets
        self.layers: dict[tuple[str, int], LayerCalibration] = {}
        self._sizes = range(min(budgets) - 1, WIDEST * max(budgets) + 1)
        self._counted: dict[str, dict[tuple[str, int], float]] = {}
        self._sentences: dict[str, dict[tuple[str, int], int]] = {}
        self._at_sizes: dict[tuple[str, int], list[tuple[int, Candidate]]] = {}

    def add(self, layer: Observed) -> None:
        """Counts one batch of one layer."""
        at_site, key = self.by_site[layer.site], (layer.site, layer.layer)
        if key not in self.layers:
            causal = at_site.statistics.causal
            windows = [narrow_window(size, causal=causal) for size in self._sizes]
            self.layers[key] = LayerCalibration(at_site.statistics, windows)
        self.layers[key].add(at_site.numbered(layer))

    def count(self, layer: Observed) -> None:
        """Counts the keys of the rows of one batch at every size."""
        site, key = layer.site, (layer.site, layer.layer)
        if key not in self._at_sizes:
            self._at_sizes[key] = list(self._counted_in(*key))
        numbered = self.by_site[site].numbered(layer)
        counted = self._counted.setdefault(site, {})
        sentences = self._sentences.setdefault(site, {})
        for size, candidate in self._at_sizes[key]:
            figures = measure_matrices(candidate.apply(numbered), numbered, support=True)
            keys = figures[MEASURED.index("visible_keys")].mean(-1).sum()
            case = candidate.name, size
            counted[case] = counted.get(case, 0.0) + float(keys)
            sentences[case] = sentences.get(case, 0) + len(layer.sentences)

    def _counted_in(self, site: str, layer: int) -> Iterator[tuple[int, Candidate]]:
        """The candidates of a layer by size; the first layer has the static ones, alike in all."""
        first = min(index for at, index in self.layers if at == site)
        for size in self._sizes:
            statistics = self.by_site[site].statistics
            for candidate in candidates(size, statistics, self.layers[site, layer]):
                counts = candidate.support and candidate.name != FIXED
                if counts and (layer == first or candidate.level != "static"):
                    yield size, candidate

    def sizes(self, site: str, budget: int) -> dict[str, int]:
        """By mechanism the size whose rows see most keys within the budget.

        `TOLERANCE` of the budget may be exceeded. Where every size sees more than that, it is the
        size that sees fewest; of sizes that see as many, the smallest.
        """
        found: dict[str, dict[int, float]] = {}
        for (name, size), keys in self._counted[site].items():
            found.setdefault(name, {})[size] = keys / self._sentences[site][name, size]
        chosen, most = {}, budget * (1 + TOLERANCE)
        for name, by_size in found.items():
            within = {size: one for size, one in by_size.items() if one <= most}
            wanted = max(within.values()) if within else min(by_size.values())
            # Sums of the same keys in another order differ by rounding.
            chosen[name] = min(size for size, one in by_size.items() if abs(one - wanted) < 1e-9)
        return chosen

    def candidates(self) -> dict[tuple[str, int], list[tuple[int, Candidate]]]:
        """Every budget's candidates, by site and layer."""
        sizes = {
            (site, budget): self.sizes(site, budget)
            for site in self._counted
            for budget in self.budgets
        }
        return {
            (site, layer): [
                (budget, candidate)
                for budget in self.budgets
                for candidate in candidates(
                    budget, self.by_site[site].statistics, learned, sizes[site, budget]
                )
            ]
            for (site, layer), learned in self.layers.items()
        }


@dataclass(frozen=True)
class Measured:
    """Measures each layer's candidates on what it did on held-out sentences."""

    by_site: Mapping[str, SiteTypes]
    candidates: Mapping[tuple[str, int], Sequence[tuple[int, Candidate]]]
    scores: Scores

    def add(self, layer: Observed) -> None:
        """Scores every candidate of the layer on one batch."""
        numbered = self.by_site[layer.site].numbered(layer)
        for budget, candidate in self.candidates[layer.site, layer.layer]:
            self.scores.add(candidate, budget, numbered)


def types_of_site(
    site: str,
    type_counts: tuple[Int[Tensor, " _"], ...] | None,
    held_out: Encoding,
    learning: Encoding,
    *,
    whole: bool = False,
    additive: bool = False,
) -> SiteTypes:
    """The site with its token types, and how often each occurs in training text.

    Args:
        site: encoder, decoder or cross.
        type_counts: how often each type of the sources and of the targets occurs in training text; None:
            as often as in `learning`.
        held_out: sentences to be measured on.
        learning: training sentences.
        whole: every type that is counted, so that ids number them, and not only those that
            occur in the keys of these sentences.
        additive: whether the site's scores are no products of queries and keys.
    """
    held, before = ([_ids(site, s) for s in e.sentences] for e in (held_out, learning))
    types = torch.tensor(sorted({token for _, ids in [*held, *before] for token in ids}))
    if type_counts is not None:
        of_site = type_counts[site == "decoder"]
        types = torch.arange(len(of_site)) if whole else types
        counts = of_site[types]
    else:
        tokens = torch.tensor([token for _, ids in before for token in ids])
        counts = torch.bincount(tokens, minlength=int(types.max()) + 1)[types]
    queries, keys = (
        max(1, round(sum(len(side[part]) for side in held) / len(held))) for part in (0, 1)
    )
    longest = max(len(ids) for _, ids in [*held, *before])
    return SiteTypes(SiteStatistics(site, counts, queries, keys, longest, additive), types)


def _ids(site: str, sentence: Sentence) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Ids of the queries and of the keys of one sentence."""
    pair: dict[Side, tuple[int, ...]] = {"source": sentence.source}
    if sentence.target is not None:
        pair["target"] = sentence.target
    return sides_of(site, pair)
