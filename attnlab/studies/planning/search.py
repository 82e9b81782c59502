"""The search itself: candidates learned on some sentences, one chosen for each head on others."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from attnlab.attention.plan import AttentionPlan
from attnlab.attention.specification import Specification
from attnlab.budget.measuring import Layer, Measurements
from attnlab.budget.uniform import uniform
from attnlab.core.addresses import Head
from attnlab.core.errors import InputError
from attnlab.reading.observing import Observed
from attnlab.studies.planning.allocation import Allocation, Choice, allocate, allocate_exactly
from attnlab.studies.planning.candidates import BASELINES, Candidate, candidates
from attnlab.studies.planning.statistics import LayerSums

Entries = Mapping[Head, Candidate]
# The relative distance that scoring keys has to save over fixed weights.
SCORING = 0.01


@dataclass(frozen=True)
class FoundPlan:
    """What stands at each head.

    Attributes:
        entries: the mechanism of each head.
        uniform: for a baseline the one specification of each site; empty for a searched plan.
        allocation: how the search ended.
    """

    entries: Entries
    uniform: Mapping[str, Specification]
    allocation: Allocation

    def plan(self) -> AttentionPlan:
        """The plan as a file holds it."""
        if self.uniform:
            return AttentionPlan(self.uniform)
        return AttentionPlan({str(head): one.specification for head, one in self.entries.items()})


class Search:
    """Learns candidates, measures them, and chooses.

    Args:
        budgets: numbers of keys per row.
        families: what a head may get.
    """

    def __init__(self, budgets: Sequence[int], families: Sequence[str]) -> None:
        self._most, self._families = max(budgets), families
        self._sums: dict[Layer, LayerSums] = {}
        self._heads: dict[Layer, int] = {}
        self._candidates: dict[Head, list[Candidate]] = {}
        self._measured = Measurements({}, detailed=False)

    def learn(self, layer: Observed) -> None:
        """Counts one batch of calibration sentences."""
        at = layer.site, layer.layer
        if at not in self._sums:
            # Decoding with a cache knows keys, not their tokens.
            causal = layer.site == "decoder"
            self._sums[at] = LayerSums(causal=causal, tokens=not causal)
            self._heads[at] = layer.weights.shape[1]
        self._sums[at].add(layer)

    def measure(self, layer: Observed) -> None:
        """Measures every candidate on one batch of validation sentences."""
        if not self._candidates:
            self._make()
        self._measured.add(layer)

    @property
    def heads(self) -> list[Head]:
        """All heads, layer by layer."""
        return [Head(*at, head) for at, count in self._heads.items() for head in range(count)]

    @property
    def sites(self) -> list[str]:
        """The sites of the heads."""
        return list(dict.fromkeys(site for site, _ in self._heads))

    @property
    def rows(self) -> int:
        """Rows of all heads on the validation sentences."""
        return sum(self._measured.rows[head.site, head.layer] for head in self.heads)

    def full_keys(self) -> float:
        """Keys that a row of full attention sees, on average over all heads."""
        keys = (self._measured.full_keys[head.site, head.layer] for head in self.heads)
        return sum(keys) / self.rows

    def searched(self, budget: int) -> FoundPlan:
        """The best candidate for each head such that all together see `budget` keys per row.

        Raises:
            InputError: the cheapest candidates see more, or a head has none.
        """
        for head in self.heads:
            if not self._candidates[head]:
                msg = (
                    f"None of the families {', '.join(self._families)} has a form for the heads of the "
                    f"{head.site}; allow another, such as band, or choose other sites."
                )
                raise InputError(msg)
        left = {head: self._worth_scoring(head) for head in self.heads}
        options = [[self._choice(head, one) for one in own] for head, own in left.items()]
        allocation = allocate(options, float(budget * self.rows))
        everything = [
            [self._choice(head, one) for one in self._candidates[head]] for head in self.heads
        ]
        bound = allocate(everything, float(budget * self.rows)).lower_bound
        allocation = replace(allocation, lower_bound=bound)
        entries = {
            head: own[index]
            for (head, own), index in zip(left.items(), allocation.chosen, strict=True)
        }
        return FoundPlan(entries, {}, allocation)

    def baseline(self, name: str, budget: int) -> FoundPlan | None:
        """One setting of a mechanism for all heads of each site, the best under the same total budget.

        A site where the mechanism has no form gets a band. None where no setting fits the budget.
        """
        settings = {
            site: uniform(name, site, self._most) or uniform("band", site, self._most)
            for site in self.sites
        }
        options = [
            [self._uniform_choice(site, specification) for specification in settings[site]]
            for site in self.sites
        ]
        allocation = allocate_exactly(options, float(budget * self.rows))
        if allocation is None:
            return None
        chosen = {
            site: settings[site][index]
            for site, index in zip(self.sites, allocation.chosen, strict=True)
        }
        entries = {head: Candidate(name, chosen[head.site]) for head in self.heads}
        return FoundPlan(entries, chosen, allocation)

    def measured(self, head: Head, candidate: Candidate) -> tuple[float, float]:
        """Relative distance and keys per row on the validation sentences."""
        choice = self._choice(head, candidate)
        rows = self._measured.rows[head.site, head.layer]
        return choice.error / rows, choice.cost / rows

    def _worth_scoring(self, head: Head) -> list[Candidate]:
        """A head's candidates without those that score keys and are no nearer than fixed weights.

        On the same keys a softmax is never farther from full attention than fixed weights, and both
        count as many keys; but fixed weights need neither queries nor keys, so they win within
        `SCORING` of it.
        """
        own = self._candidates[head]
        price = SCORING * self._measured.rows[head.site, head.layer]
        fixed = [self._choice(head, one) for one in own if one.level == "static"]

        def needed(candidate: Candidate) -> bool:
            choice = self._choice(head, candidate)
            return candidate.level == "static" or not any(
                one.cost <= choice.cost and one.error <= choice.error + price for one in fixed
            )

        return [candidate for candidate in own if needed(candidate)]

    def _make(self) -> None:
        wanted: dict[Layer, dict[Specification, set[int]]] = {}
        for at, count in self._heads.items():
            own: dict[Specification, set[int]] = {}
            for head in range(count):
                made = candidates(self._sums[at], head, self._most, self._families)
                self._candidates[Head(*at, head)] = made
                for candidate in made:
                    own.setdefault(candidate.specification, set()).add(head)
            for name in BASELINES:
                for specification in uniform(name, at[0], self._most):
                    own[specification] = set(range(count))
            wanted[at] = own
        self._measured = Measurements(
            {
                at: {specification: sorted(heads) for specification, heads in own.items()}
                for at, own in wanted.items()
            },
            detailed=False,
        )

    def _choice(self, head: Head, candidate: Candidate) -> Choice:
        at = head.site, head.layer
        found = self._measured.at(at, candidate.specification, head.head)
        return Choice(float(found.nonzeros), float(found.error))

    def _uniform_choice(self, site: str, specification: Specification) -> Choice:
        """Cost and error of one specification at all heads of a site."""
        own = [head for head in self.heads if head.site == site]
        choices = [self._choice(head, Candidate(site, specification)) for head in own]
        return Choice(
            sum(choice.cost for choice in choices), sum(choice.error for choice in choices)
        )
