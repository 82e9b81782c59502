"""The setting of each mechanism at a site, chosen on validation sentences within a budget of keys per row."""

from collections.abc import Iterable, Mapping, Sequence

from attnlab.attention.mechanism import Mechanism
from attnlab.attention.mechanisms.sigma import Sigma, SigmaAttention
from attnlab.attention.specification import Specification, sides
from attnlab.budget.allocation import Choice, allocate_exactly, uniform, uniform_mechanisms
from attnlab.budget.candidates import (
    FIXED,
    Candidate,
    LayerCalibration,
    candidate_of,
    made,
    refusal,
    teach,
)
from attnlab.budget.running_sums import Layer, Measurements
from attnlab.budget.sizes import SiteTypes
from attnlab.reading.observing import Observed

Candidates = Mapping[Layer, Sequence[tuple[int, Candidate]]]


def mechanism_names() -> tuple[str, ...]:
    """The mechanisms that there are settings for."""
    return (*uniform_mechanisms(), FIXED)


def refusals(site: str, *, additive: bool = False) -> dict[str, str]:
    """The mechanisms that a site, or additive attention there, does not allow, and why."""
    found = {
        name: refusal(one.kind, site, additive=additive)
        for name, one in uniform_mechanisms().items()
    }
    return {name: reason for name, reason in found.items() if reason is not None}


class Choosing:
    """Learns tables on training sentences, and chooses settings on validation sentences.

    All settings of a mechanism are measured at all heads of a site: how far the matrices are from full
    attention (l1), and how many keys the rows see, counted, or without a support the work of as many.
    The nearest one within the budget is taken, as for the baselines of the plan search.

    Args:
        by_site: the sites, with their token types.
        budgets: keys per row.
        names: the mechanisms; None: all.
        longest: most tokens of a sentence.

    Attributes:
        by_site: the same.
    """

    def __init__(
        self,
        by_site: Mapping[str, SiteTypes],
        budgets: Sequence[int],
        names: Iterable[str] | None,
        *,
        longest: int,
    ) -> None:
        self.by_site, self._budgets = by_site, list(dict.fromkeys(budgets))
        self._names = list(mechanism_names() if names is None else dict.fromkeys(names))
        self._known = {
            name: one for name, one in uniform_mechanisms().items() if name in self._names
        }
        self._settings = {
            (site, name): uniform(
                name, site, max(budgets), longest=longest, additive=types.statistics.additive
            )
            for site, types in by_site.items()
            for name in self._known
        }
        self._learned: dict[Layer, LayerCalibration] = {}
        self._measured: Measurements | None = None
        self._chosen: dict[tuple[str, str, int], Specification | None] = {}

    def learn(self, layer: Observed) -> None:
        """Counts one batch of training sentences."""
        at, site = (layer.site, layer.layer), self.by_site[layer.site]
        if at not in self._learned:
            windows = dict.fromkeys(self._windows(layer.site))
            self._learned[at] = LayerCalibration(site.statistics, windows)
        self._learned[at].add(site.numbered(layer))

    def measure(self, layer: Observed) -> None:
        """Measures every setting on one batch of validation sentences."""
        if self._measured is None:
            wanted = {
                at: dict.fromkeys(self._of_site(at[0]), range(learned.heads))
                for at, learned in self._learned.items()
            }
            self._measured = Measurements(wanted, detailed=False, build=self._taught)
        self._measured.add(self.by_site[layer.site].numbered(layer))

    def setting(self, name: str, site: str, budget: int) -> Specification | None:
        """The nearest setting of a mechanism within the budget; None where none fits or it has no form."""
        case = name, site, budget
        if case not in self._chosen:
            settings = self._settings[site, name]
            choices = [self._choice(site, one) for one in settings]
            found = (
                allocate_exactly([choices], float(budget * self._rows(site))) if choices else None
            )
            self._chosen[case] = None if found is None else settings[found.chosen[0]]
        return self._chosen[case]

    def candidates(self) -> Candidates:
        """Every mechanism and budget that has a setting at the site of each layer, ready for the layer."""
        return {
            at: [
                (budget, candidate)
                for budget in self._budgets
                for name in self._names
                if (candidate := self._candidate(name, at, budget)) is not None
            ]
            for at in self._learned
        }

    def tried(self, name: str, site: str) -> int:
        """How many settings of a mechanism were measured at a site."""
        return 1 if name == FIXED else len(self._settings[site, name])

    def without_setting(self) -> list[tuple[str, str, int]]:
        """Site, mechanism and budget where it has a form, but no setting within the budget."""
        return [
            (site, name, budget)
            for (site, name), settings in self._settings.items()
            for budget in self._budgets
            if settings and self.setting(name, site, budget) is None
        ]

    def _candidate(self, name: str, at: Layer, budget: int) -> Candidate | None:
        learned, statistics = self._learned[at], self.by_site[at[0]].statistics
        sizes = statistics.queries, statistics.keys, learned.dim
        if name == FIXED:
            words = f"the best of {', '.join(learned.pattern_names())} for each head"
            return candidate_of((name, words, "calibrated"), learned.best_pattern(), sizes)
        setting = self.setting(name, at[0], budget)
        if setting is None:
            return None
        mechanism = self._taught(at, setting, learned.heads)
        return candidate_of((name, str(setting), self._known[name].level), mechanism, sizes)

    def _taught(self, at: Layer, specification: Specification, heads: int) -> Mechanism:
        counts = self.by_site[at[0]].statistics.counts
        mechanism = made(specification, heads, len(counts), at[0])
        if isinstance(mechanism, SigmaAttention):
            teach(mechanism, counts, self._learned[at])
        return mechanism

    def _of_site(self, site: str) -> list[Specification]:
        return [one for name in self._known for one in self._settings[site, name]]

    def _windows(self, site: str) -> list[tuple[int, int]]:
        found = [one for one in self._of_site(site) if isinstance(one, Sigma)]
        return [sides(one.name, one.window) for one in found]

    def _choice(self, site: str, specification: Specification) -> Choice:
        """Cost and error of one setting at all heads of a site."""
        found = [
            self._measurements.at(at, specification, head)
            for at, learned in self._learned.items()
            if at[0] == site
            for head in range(learned.heads)
        ]
        return Choice(
            sum(float(one.nonzeros) for one in found), sum(float(one.l1) for one in found)
        )

    def _rows(self, site: str) -> int:
        """Rows of all heads of a site on the validation sentences."""
        rows = self._measurements.rows
        layers = self._learned.items()
        return sum(rows[at] * learned.heads for at, learned in layers if at[0] == site)

    @property
    def _measurements(self) -> Measurements:
        if self._measured is None:
            msg = "settings are chosen on validation sentences; measure some first"
            raise ValueError(msg)
        return self._measured
