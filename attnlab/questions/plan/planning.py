"""Which mechanism each head of a run should have, under one budget of keys for all heads together."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import pandas as pd

from attnlab.attention import (
    AttentionPlan,
    Specification,
    attention_modules,
    can_leave_layers_full,
    check_one_stack,
    layer_rules,
    plan_of,
    write_plan,
)
from attnlab.budget import BudgetedPlan, Layer, Measurements
from attnlab.core import Head, Note, options_of
from attnlab.evaluation import (
    Evaluator,
    FewerThanAsked,
    Opened,
    Steps,
    opened,
)
from attnlab.models import Model, Source, checksum, leaving_modes
from attnlab.questions.plan.criteria import check_criterion, costs
from attnlab.questions.plan.question import (
    BASELINES,
    CRITERIA,
    EMPTY,
    KEY_VALUE_HEAD,
    LAYER,
    LAYER_TYPES,
    OF_LAYER_TYPES,
    QUESTION,
    SEARCHED,
    BandInstead,
    BudgetNearLength,
    NoSettingFits,
    NotApplicable,
    PlanSettings,
)
from attnlab.questions.plan.search import (
    Candidate,
    Costs,
    FoundPlan,
    Search,
    Unit,
    check_families,
)
from attnlab.results import Result, question_named

# From this share of the keys of full attention on, a budget saves little.
NEAR = 0.5

Plans = Mapping[tuple[int, str], FoundPlan]


@options_of(PlanSettings)
@leaving_modes
def plan(source: Source, settings: PlanSettings) -> Result:
    """For each head the mechanism that serves all heads best under one budget of keys, and its price.

    Candidates of every family are learned on training sentences and measured on validation sentences:
    how far the matrix that they apply is from full attention (l1; a row without keys counts 2), and how
    many keys its rows see, counted. Those nearest for their keys are tried by `criterion`, each alone in
    its heads. One candidate for each head is taken such that all rows of all heads see `budget` keys on
    average, and the sum of what the candidates cost is least. On held-out sentences the plan is compared
    as `attnlab.compare` does with one band, Longformer and BigBird for all heads, each in the setting
    nearest by l1 on validation within the budget. Nothing is trained.

    Cost: every candidate on every validation sentence; with a criterion of the model's output a pass over
    150 of them for each that is tried; a round of loss and translation for each plan.

    Args:
        source: a run or its folder, a transformers folder, the name of a model on the hub, or a pair
            (model, tokenizer); none is changed.
        settings: as keyword arguments.

    Returns:
        The tables `summary` (a row per budget and plan, baselines among them, as of `attnlab.compare`) and
        `mechanisms` (per budget and head of the searched plan); as `extra` the searched plans, which
        `plans_of` gives too.

    Raises:
        InputError: the source, a number or site cannot be used, the model has no loss on the sentences or
            cannot be compared, or a budget is too small for the families that are allowed.
        AttnlabError: the corpus changed since the training.
    """
    check_families(settings.families)
    types = settings.granularity == LAYER_TYPES
    start = opened(source, settings, lambda model, _: _check_stack(model, settings.granularity))
    model = start.model
    families = settings.families
    if types:
        can = can_leave_layers_full(model.model)
        families = OF_LAYER_TYPES if can else OF_LAYER_TYPES[:1]
    evaluator = start.evaluator(start.parts.validation)
    check_criterion(settings.criterion, evaluator)
    budgets = list(settings.budgets)
    search = Search(
        budgets,
        families,
        _together(model, settings.granularity),
        rules=layer_rules(model.model),
        one_window=types,
    )
    start.read("Calibrating", start.parts.calibration, search.learn)
    start.read("Choosing", start.parts.validation, search.measure)
    search.check_affordable()
    pricing = _Pricing(search, evaluator, settings, start)
    costs = pricing.alone()
    plans = _plans(pricing, costs, budgets)
    measured = Measurements(_wanted(plans), detailed=True)
    start.read("Measuring", start.parts.test, measured.add)
    compared = question_named("compare").verb(
        model, budgets, mechanisms=(), against=SEARCHED, sentences=settings.sentences_to_read,
        plans=[
            BudgetedPlan(chosen.plan(), name, budget, "calibrated", _setting_of(name, chosen))
            for (budget, name), chosen in plans.items()
        ],
        **{name: getattr(settings, name) for name in _SHARED},
    )  # fmt: skip
    details = {name: value for name, value in compared.details.items() if name != "against"}
    result = Result(
        QUESTION.name,
        f"A plan of attention under a budget for {model.label}",
        {
            "summary": compared.summary,
            "mechanisms": _head_rows(search, plans, measured, costs),
        },
        {
            **compared.about,
            "Chosen by": CRITERIA[settings.criterion],
            "Mechanism for each": settings.granularity,
            "Families": ", ".join(families),
        },
        (*_notes_of(compared, settings), *_notes(search, budgets, plans)),
        # Token ids of keys are those of the source tokenizer.
        {**details, "tokenizer": checksum(model.both_tokenizers.source)},
        weights=model.weights,
    )
    written = plans_of(result).items()
    extra = {f"plan_{budget}.json": partial(write_plan, plan=chosen) for budget, chosen in written}
    return replace(result, extra=extra)


# What a comparison is told as the search is.
_SHARED = (
    "validation", "calibration", "text", "calibration_text", "sites", "quick", "memory",
    "loss", "seed", "batch_size", "device", "progress",
)  # fmt: skip


def _check_stack(model: Model, granularity: str) -> None:
    if granularity == LAYER_TYPES:
        check_one_stack(attention_modules(model.model))


def _together(model: Model, granularity: str) -> dict[Layer, int]:
    """How many neighbouring heads of each layer share a mechanism."""
    sizes: dict[Layer, int] = {}
    for at in attention_modules(model.model):
        # So transformers call the query heads of a key-value head.
        groups = getattr(at.module, "num_key_value_groups", 1)
        size = {KEY_VALUE_HEAD: groups, LAYER: at.heads, LAYER_TYPES: at.heads}.get(granularity, 1)
        sizes |= {(at.site, layer): size for layer in at.layers}
    return sizes


@dataclass(frozen=True)
class _Pricing:
    """What candidates and plans cost by the criterion, on validation sentences."""

    search: Search
    evaluator: Evaluator
    settings: PlanSettings
    start: Opened

    def alone(self) -> Costs | None:
        """The cost of each candidate of the shortlist alone; None where the search knows its own."""
        return None if self.settings.criterion == "l1" else self._costs(self.search.shortlist())

    def within(self, plan: FoundPlan) -> Costs:
        """The cost of each candidate of the shortlist with the other heads as a plan has them."""
        return self._costs(self.search.shortlist(), plan)

    def price(self, plan: FoundPlan) -> float:
        """The cost of all mechanisms of a plan together."""
        unit = self.search.units[0]
        # A single pass: its few batches would be told as if all candidates were tried again.
        (cost,) = self._costs({unit: [plan.entries[unit[0]]]}, plan, announced=False).values()
        return cost

    def _costs(
        self,
        shortlist: Mapping[Unit, Sequence[Candidate]],
        plan: FoundPlan | None = None,
        *,
        announced: bool = True,
    ) -> Costs:
        settings, evaluator = self.settings, self.evaluator
        context = None if plan is None else plan.plan().entries
        return costs(
            settings.criterion,
            shortlist,
            evaluator,
            partial(self.start.read, "Choosing", evaluator.sentences),
            lambda what, total: Steps(what, total, settings.progress if announced else None),
            context=context,
        )


def _plans(pricing: _Pricing, costs: Costs | None, budgets: Sequence[int]) -> Plans:
    """The searched plan of each budget, and the baselines that have a setting within it."""
    search = pricing.search
    cases = [(budget, name) for budget in budgets for name in (SEARCHED, *BASELINES)]
    steps = Steps("Searching plans", len(cases), pricing.settings.progress)
    plans = {}
    for budget, name in cases:
        make = partial(_searched, pricing, costs, budget)
        chosen = steps.of(make if name == SEARCHED else partial(search.baseline, name, budget))()
        if chosen is not None:
            plans[budget, name] = chosen
    return plans


def _searched(pricing: _Pricing, costs: Costs | None, budget: int) -> FoundPlan:
    """The plan of a budget; after rounds the one of them that costs least."""
    plan = pricing.search.searched(budget, costs)
    rounds = pricing.settings.rounds
    if costs is None or not rounds:
        return plan
    tried = [(pricing.price(plan), 0, plan)]
    for number in range(1, rounds + 1):
        costs = pricing.search.damped(costs, plan, pricing.within(plan))
        plan = pricing.search.searched(budget, costs)
        tried.append((pricing.price(plan), number, plan))
    return min(tried, key=lambda trial: trial[:2])[-1]


def plans_of(result: Result) -> dict[int, AttentionPlan]:
    """The searched plan of each budget, ready for `attnlab.attention.install`."""
    return {
        int(str(budget)): plan_of(
            {str(Head(row.site, row.layer, row.head)): row.mechanism for row in rows.itertuples()}
        ).for_tokenizer(result.details["tokenizer"])
        for budget, rows in result.mechanisms.groupby("budget", sort=False)
    }


def _wanted(plans: Plans) -> dict[Layer, dict[Specification, set[int]]]:
    """The heads of each specification in any of the searched plans, by layer."""
    by_layer: dict[Layer, dict[Specification, set[int]]] = {}
    for (_, name), chosen in plans.items():
        for head, candidate in chosen.entries.items() if name == SEARCHED else ():
            by_specification = by_layer.setdefault((head.site, head.layer), {})
            by_specification.setdefault(candidate.specification, set()).add(head.head)
    return by_layer


def _head_rows(
    search: Search, plans: Plans, measured: Measurements, found_costs: Costs | None
) -> pd.DataFrame:
    units = {head: unit for unit in search.units for head in unit}
    rows = []
    for (budget, name), chosen in plans.items():
        for head, candidate in chosen.entries.items() if name == SEARCHED else ():
            error, keys = search.measured(head, candidate)
            at = head.site, head.layer
            sums, count = measured.at(at, candidate.specification, head.head), measured.rows[at]
            rows.append(
                {
                    "budget": budget,
                    **head._asdict(),
                    "mechanism_family": candidate.family,
                    "mechanism": str(candidate.specification),
                    "level": candidate.level,
                    "validation_error": error,
                    "validation_keys": keys,
                    "criterion": error
                    if found_costs is None
                    else found_costs[units[head], candidate.specification],
                    "error": float(sums.error) / count,
                    "visible_keys": float(sums.nonzeros) / count,
                    EMPTY.name: float(sums.empty) / count,
                    "oracle_error": float(sums.oracle) / count,
                    "lower_bound": float(sums.bound) / count,
                }
            )
    return pd.DataFrame(rows)


def _setting_of(name: str, chosen: FoundPlan) -> str:
    if name != SEARCHED:
        by_site = {head.site: candidate.specification for head, candidate in chosen.entries.items()}
        return "; ".join(f"{site}={specification}" for site, specification in by_site.items())
    families = Counter(candidate.family for candidate in chosen.entries.values())
    return ", ".join(f"{family} {count}" for family, count in families.most_common())


def _notes_of(compared: Result, settings: PlanSettings) -> list[Note]:
    """Notes of the comparison, which is given a number of sentences even where nobody asked for one."""
    requested = settings.sentences is not None
    return [note for note in compared.notes if requested or not isinstance(note, FewerThanAsked)]


def _notes(search: Search, budgets: Sequence[int], plans: Plans) -> tuple[Note, ...]:
    """Budgets that save little, baselines that are lacking, and sites where a band stands in."""
    keys = search.full_keys()
    notes: list[Note] = [
        BudgetNearLength(budget, keys, budget / keys) for budget in budgets if budget >= NEAR * keys
    ]
    for name in BASELINES:
        without = search.without(name)
        if len(without) == len(search.sites):
            notes.append(NotApplicable(name))
            continue
        notes += [NoSettingFits(name, budget) for budget in budgets if (budget, name) not in plans]
        if any((budget, name) in plans for budget in budgets):
            notes += [BandInstead(name, site) for site in without]
    return tuple(notes)
