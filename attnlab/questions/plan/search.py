"""The search itself: candidates learned on some sentences, one chosen for each head on others."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from attnlab.attention import (
    AttentionPlan,
    Band,
    Full,
    Keys,
    Nothing,
    ScoreRule,
    Specification,
    Static,
    rule_against,
)
from attnlab.attention.registry import mechanisms
from attnlab.budget import (
    REACHES,
    WIDEST,
    Allocation,
    Choice,
    Layer,
    LayerSums,
    Measurements,
    allocate,
    allocate_exactly,
    lower_hull,
    sized_mechanisms,
)
from attnlab.budget.uniform import uniform
from attnlab.core import Head, InputError, briefly, counted
from attnlab.questions.plan.question import BASELINES, FAMILIES, NOTHING
from attnlab.reading import Observed

SIZES = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 64)
COLUMN_TOKENS = (1, 2, 4, 8, 16)
COLUMN_OFFSETS = (0, 1, 2, 3, 5, 8, 12)
BLOCK_TOKENS = (4, 16, 64)
# The windows of `layer-types`, which are those of long texts too.
WINDOWS = (*SIZES, *(2**power for power in range(7, 16)))
# The windows, nearest by l1 at each budget, that a dear criterion decides among.
WINDOWS_TRIED = 4
DIGITS = 4
# The relative distance that scoring keys has to save over fixed weights.
SCORING = 0.01


@dataclass(frozen=True)
class Candidate:
    """A mechanism that a head may get, and which family it was made as."""

    family: str
    specification: Specification

    @property
    def level(self) -> str:
        """`calibrated`, support from other sentences, or `static`, weights from them too."""
        return "static" if self.family in {"none", "static"} else "calibrated"


# Heads of one layer that share a mechanism.
Unit: TypeAlias = tuple[Head, ...]
Options: TypeAlias = dict[Unit, list[Candidate]]
# What each candidate costs, by the heads that share it.
Costs: TypeAlias = Mapping[tuple[Unit, Specification], float]


def candidates(sums: LayerSums, head: int, budget: int, families: Sequence[str]) -> list[Candidate]:
    """Everything that a head may get, each specification once.

    Args:
        sums: what the head's layer did on calibration sentences.
        head: its index.
        budget: the largest budget of the search.
        families: those that are allowed.
    """
    near = sums.offsets_by_mass((0, 0), head)
    sizes = [size for size in SIZES if size <= WIDEST * budget]
    narrow = [size for size in COLUMN_OFFSETS if size <= max(sizes)]
    made: dict[str, Callable[[], Iterable[Specification]]] = {
        "none": lambda: [Nothing()],
        "full": lambda: [Full()],
        "band": lambda: (Band(sums.best_window(head, size)) for size in sizes),
        "offsets": lambda: (
            Keys(offsets=chosen) for chosen in _first(near, sizes) if not _is_window(chosen)
        ),
        "ends": lambda: (
            Keys(offsets=chosen, first=end[0], last=end[1])
            for end in sums.ends[1:]
            for chosen in _first(sums.offsets_by_mass(end, head), (0, *sizes))
        ),
        "tokens": lambda: (
            Keys(offsets=chosen, tokens=tokens)
            for tokens in _first(sums.tokens_by_weight(head, None), COLUMN_TOKENS, ranked=True)
            for chosen in _first(near, narrow)
        ),
        "blocks": lambda: (
            Keys(offsets=(0,), tokens=tokens, reach=reach)
            for reach in REACHES
            for tokens in _first(sums.tokens_by_weight(head, reach), BLOCK_TOKENS, ranked=True)
        ),
        "static": lambda: (
            Static(chosen, _rounded(sums.static_weights(head, list(chosen))))
            for chosen in _first(near, sizes)
        ),
    }
    by_specification: dict[Specification, Candidate] = {}
    for family in families:
        for specification in made[family]():
            by_specification.setdefault(specification, Candidate(family, specification))
    return list(by_specification.values())


def check_families(families: Sequence[str]) -> None:
    """Raises InputError for what is neither learned here nor a mechanism whose settings have known keys."""
    named = (
        name
        for name, kind in sized_mechanisms().items()
        if kind.traits.support and not kind.traits.learned
    )
    choices = dict.fromkeys((*FAMILIES, *named))
    wrong = next((name for name in families if name not in choices), None)
    if wrong is not None:
        msg = f"families must be among {', '.join(choices)}, not {briefly(wrong)}."
        raise InputError(msg)


def windows(site: str, longest: int, *, full: bool = True) -> list[Candidate]:
    """What a layer may get as its type: full attention, or a window that configurations can name.

    Args:
        site: a window of the decoder reaches back; others reach as far to both sides.
        longest: tokens of the longest text; a window of so many is full attention.
        full: whether a configuration can leave some layers full.
    """
    sizes = [size for size in WINDOWS if size < longest] or [1]
    reaches = (
        # The cache of transformers keeps all keys where the window is 1.
        [(size - 1, 0) for size in sizes if size > 1] or [(1, 0)]
        if site == "decoder"
        else [(reach, reach) for reach in dict.fromkeys(size // 2 for size in sizes)]
    )
    whole = [Candidate("full", Full())] if full else []
    return [*whole, *(Candidate("band", Band(reach)) for reach in reaches)]


def _first(
    items: Sequence[int], sizes: Iterable[int], *, ranked: bool = False
) -> Iterator[tuple[int, ...]]:
    """So many of the first items, as often as there are that many, in order unless they stay `ranked`."""
    for size in sizes:
        if size <= len(items):
            yield tuple(items[:size] if ranked else sorted(items[:size]))


def _is_window(offsets: Sequence[int]) -> bool:
    """Whether the offsets are all from the first to the last, 0 among them: a band."""
    return 0 in offsets and offsets[-1] - offsets[0] == len(offsets) - 1


def _rounded(weights: Iterable[float]) -> tuple[float, ...]:
    return tuple(float(f"{weight:.{DIGITS}g}") for weight in weights)


@dataclass(frozen=True)
class FoundPlan:
    """What stands at each head.

    Attributes:
        entries: the mechanism of each head.
        allocation: how the search ended.
    """

    entries: Mapping[Head, Candidate]
    allocation: Allocation

    def plan(self) -> AttentionPlan:
        """The plan as a file holds it."""
        return AttentionPlan({str(head): one.specification for head, one in self.entries.items()})


class Search:
    """Learns candidates, measures them, and chooses.

    Args:
        budgets: numbers of keys per row.
        families: what a head may get.
        together: by layer, how many neighbouring heads share a mechanism; 1 where it is not named.
        rules: by layer, what the model does to its scores, which not every mechanism can follow.
        one_window: whether each head has the one window of all, of any size, or full attention where
            that is a family.
    """

    def __init__(
        self,
        budgets: Sequence[int],
        families: Sequence[str],
        together: Mapping[Layer, int] | None = None,
        *,
        rules: Mapping[Layer, frozenset[ScoreRule]] | None = None,
        one_window: bool = False,
    ) -> None:
        self._rules = rules or {}
        self._budgets, self._families, self._together = budgets, families, together or {}
        self._most, self._one_window, self._longest = max(budgets), one_window, 1
        self._sums: dict[Layer, LayerSums] = {}
        self._heads: dict[Layer, int] = {}
        self._candidates: dict[Unit, list[Candidate]] = {}
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
        self._longest = max(self._longest, layer.weights.shape[-1])

    def measure(self, layer: Observed) -> None:
        """Measures every candidate on one batch of validation sentences."""
        self._longest = max(self._longest, layer.weights.shape[-1])
        if not self._candidates:
            self._make()
        self._measured.add(layer)

    @property
    def heads(self) -> list[Head]:
        """All heads, layer by layer."""
        return [Head(*at, head) for at, count in self._heads.items() for head in range(count)]

    @property
    def units(self) -> list[Unit]:
        """All heads, those together that share a mechanism."""
        units = []
        for at, count in self._heads.items():
            size = self._together.get(at, 1)
            heads = [Head(*at, head) for head in range(count)]
            units += [tuple(heads[start : start + size]) for start in range(0, count, size)]
        return units

    @property
    def sites(self) -> list[str]:
        """The sites of the heads."""
        return list(dict.fromkeys(site for site, _ in self._heads))

    @property
    def rows(self) -> int:
        """Rows of all heads on the validation sentences."""
        return sum(self._measured.rows[at] * count for at, count in self._heads.items())

    def full_keys(self) -> float:
        """Keys that a row of full attention sees, on average over all heads."""
        keys = (self._measured.full_keys[at] * count for at, count in self._heads.items())
        return sum(keys) / self.rows

    def shortlist(self) -> dict[Unit, list[Candidate]]:
        """The candidates worth a dear criterion: nearest by l1 for their keys, of all or of their family.

        These are the options on the lower convex hull of keys and l1 error. Of windows that all share they
        are those of the nearest plans of each budget.

        Raises:
            InputError: a head has no candidate.
        """
        if self._one_window:
            return self._windows_worth_trying()
        by_unit = {}
        for unit in self.units:
            pool = self._worth_scoring(unit)
            families = {candidate.family for candidate in pool}
            kept = {
                part[index]: None
                for part in (pool, *([c for c in pool if c.family == name] for name in families))
                for index in lower_hull([self._choice(one.specification, *unit) for one in part])
            }
            by_unit[unit] = [candidate for candidate in pool if candidate in kept]
        return by_unit

    def check_affordable(self) -> None:
        """Raises InputError where the cheapest candidates of all heads see more keys than a budget."""
        least = sum(
            min(self._choice(one.specification, *unit).cost for one in self._worth_scoring(unit))
            for unit in self.units
        )
        for budget in self._budgets:
            if least > budget * self.rows:
                msg = (
                    f"At {counted(budget, 'key')} per row there is no plan: what these families have "
                    f"cheapest sees {least / self.rows:.2f} keys; raise the budget, or allow the family "
                    f"{NOTHING}."
                )
                raise InputError(msg)

    def searched(self, budget: int, costs: Costs | None = None) -> FoundPlan:
        """The best candidate for each head such that all together see `budget` keys per row.

        Args:
            budget: keys per row.
            costs: of the candidates that may be chosen; None: the l1 error of every candidate.

        Raises:
            InputError: the cheapest candidates see more, or a head has none.
        """
        options = {
            unit: [one for one in pool if costs is None or (unit, one.specification) in costs]
            for unit, pool in ((unit, self._worth_scoring(unit)) for unit in self.units)
        }
        plans = self._plans(options, budget, costs)
        best = min(plans, key=lambda plan: plan.allocation.error)
        bound = min(plan.allocation.lower_bound for plan in plans)
        return replace(best, allocation=replace(best.allocation, lower_bound=bound))

    def _plans(self, options: Options, budget: int, costs: Costs | None) -> list[FoundPlan]:
        """The best plan of all options; where all share one window, of each that fits the budget."""
        bands = (one for pool in options.values() for one in pool if one.family == "band")
        sizes = dict.fromkeys(bands if self._one_window else ())
        # Of windows none is left where budgets allow full attention everywhere.
        if not sizes:
            return [self._allocated(options, budget, costs)]
        within = [
            {
                unit: [one for one in candidates if one.family == "full" or one == window]
                for unit, candidates in options.items()
            }
            for window in sizes
        ]
        fits = [
            narrowed
            for narrowed in within
            if sum(
                min(self._choice(one.specification, *unit).cost for one in few)
                for unit, few in narrowed.items()
            )
            <= budget * self.rows
        ]
        return [self._allocated(narrowed, budget, costs) for narrowed in fits or within[:1]]

    def _windows_worth_trying(self) -> Options:
        """Full attention and the windows of the plans nearest by l1 at each budget, for every unit."""
        options = {unit: self._worth_scoring(unit) for unit in self.units}
        kept: dict[Candidate, None] = {}
        for budget in self._budgets:
            plans = sorted(
                self._plans(options, budget, None), key=lambda plan: plan.allocation.error
            )
            for plan in plans[:WINDOWS_TRIED]:
                kept |= dict.fromkeys(plan.entries.values())
        return {
            unit: [one for one in candidates if one.family == "full" or one in kept]
            for unit, candidates in options.items()
        }

    def _allocated(self, options: Options, budget: int, costs: Costs | None) -> FoundPlan:
        """The best of these candidates for each head; raises InputError where the cheapest see too much."""
        choices = [
            [
                Choice(score.cost, score.error if costs is None else costs[unit, one.specification])
                for one in candidates
                for score in [self._choice(one.specification, *unit)]
            ]
            for unit, candidates in options.items()
        ]
        allocation = allocate(choices, float(budget * self.rows))
        chosen = zip(options.items(), allocation.chosen, strict=True)
        entries = {head: members[index] for (unit, members), index in chosen for head in unit}
        return FoundPlan(entries, allocation)

    def damped(self, costs: Costs, plan: FoundPlan, within: Costs) -> Costs:
        """Costs halfway between those that led to a plan and those measured within it.

        Costs of single heads do not add up: what several heads lose together is more than the sum. Measured
        anew with the others as the plan has them they swing from plan to plan; half of the way does not.

        Args:
            costs: those that the plan was chosen by.
            plan: the mechanism of each head.
            within: what the model loses with the candidate in place of the plan's own.
        """
        now = {unit: plan.entries[unit[0]].specification for unit in self.units}
        return {
            (unit, one): (
                (cost - costs[unit, now[unit]]) + (within[unit, one] - within[unit, now[unit]])
            )
            / 2
            for (unit, one), cost in costs.items()
        }

    def baseline(self, name: str, budget: int) -> FoundPlan | None:
        """One setting of a mechanism for all heads of each site, the best under the same total budget.

        A site where the mechanism has no form gets a band. None where it has no form at any site, since all
        of them would get one, or no setting fits the budget.
        """
        if len(self.without(name)) == len(self.sites):
            return None
        by_site: dict[str, list[Head]] = {}
        for head in self.heads:
            by_site.setdefault(head.site, []).append(head)
        settings = [
            uniform(name, site, self._most) or uniform("band", site, self._most) for site in by_site
        ]
        options = [
            [self._choice(specification, *heads) for specification in specifications]
            for heads, specifications in zip(by_site.values(), settings, strict=True)
        ]
        allocation = allocate_exactly(options, float(budget * self.rows))
        if allocation is None:
            return None
        chosen = zip(by_site, settings, allocation.chosen, strict=True)
        candidate_at = {site: Candidate(name, tried[index]) for site, tried, index in chosen}
        return FoundPlan({head: candidate_at[head.site] for head in self.heads}, allocation)

    def without(self, name: str) -> list[str]:
        """The sites where a baseline's mechanism has no form."""
        return [site for site in self.sites if not uniform(name, site, self._most)]

    def measured(self, head: Head, candidate: Candidate) -> tuple[float, float]:
        """Relative distance and keys per row on the validation sentences."""
        choice = self._choice(candidate.specification, head)
        rows = self._measured.rows[head.site, head.layer]
        return choice.error / rows, choice.cost / rows

    def _worth_scoring(self, unit: Unit) -> list[Candidate]:
        """The candidates of a unit without those that score keys and are no nearer than fixed weights.

        On the same keys a softmax is never farther from full attention than fixed weights, and both
        count as many keys; but fixed weights need neither queries nor keys, so they win within
        `SCORING` of it.

        Raises:
            InputError: there is no candidate.
        """
        choices = {one: self._choice(one.specification, *unit) for one in self._candidates[unit]}
        if not choices:
            msg = (
                f"None of the families {', '.join(self._families)} has a form for the heads of the "
                f"{unit[0].site}; allow another, such as band, or choose other sites."
            )
            raise InputError(msg)
        price = SCORING * self._measured.rows[unit[0].site, unit[0].layer] * len(unit)
        fixed = [choice for candidate, choice in choices.items() if candidate.level == "static"]

        def needed(choice: Choice) -> bool:
            return not any(
                other.cost <= choice.cost and other.error <= choice.error + price for other in fixed
            )

        return [one for one, choice in choices.items() if one.level == "static" or needed(choice)]

    def _make(self) -> None:
        by_layer: dict[Layer, dict[Specification, set[int]]] = {at: {} for at in self._heads}
        for unit in self.units:
            at = unit[0].site, unit[0].layer
            made = [
                candidate
                for head in unit
                for candidate in (
                    windows(head.site, self._longest, full="full" in self._families)
                    if self._one_window
                    else self._of_head(at, head)
                )
            ]
            by_specification = {
                one.specification: one for one in reversed(made) if self._follows(one, at)
            }
            self._candidates[unit] = list(reversed(by_specification.values()))
            for specification in by_specification:
                members = by_layer[at].setdefault(specification, set())
                members.update(head.head for head in unit)
        for at, count in self._heads.items():
            for name in BASELINES:
                for specification in uniform(name, at[0], self._most):
                    by_layer[at][specification] = set(range(count))
        self._measured = Measurements(by_layer, detailed=False)

    def _of_head(self, at: Layer, head: Head) -> list[Candidate]:
        """What is learned for a head, and the settings of mechanisms that are named as families."""
        learned = [name for name in self._families if name in FAMILIES]
        named = (name for name in self._families if name not in FAMILIES)
        return [
            *candidates(self._sums[at], head.head, self._most, learned),
            *(
                Candidate(name, specification)
                for name in named
                for specification in uniform(name, head.site, self._most)
            ),
        ]

    def _follows(self, candidate: Candidate, at: Layer) -> bool:
        """Whether the candidate can do to scores what the model does in a layer."""
        kind = mechanisms()[candidate.specification.name]
        return rule_against(kind, self._rules.get(at, ())) is None

    def _choice(self, specification: Specification, *heads: Head) -> Choice:
        """Cost and error of one specification at these heads."""
        sums = [self._measured.at((one.site, one.layer), specification, one.head) for one in heads]
        return Choice(
            sum(float(part.nonzeros) for part in sums), sum(float(part.error) for part in sums)
        )
