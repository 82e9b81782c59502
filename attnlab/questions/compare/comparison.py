"""How well each attention mechanism replaces full attention at equal budgets of attended keys."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from attnlab.attention import ScoreRule
from attnlab.budget import (
    ALL,
    COMPARED,
    ERROR,
    FULL,
    L1_ERROR,
    LOSS_GAIN,
    MASS,
    MEASURED,
    BudgetedPlan,
    Candidate,
    Candidates,
    Choosing,
    Layer,
    Scores,
    made,
    mean_intervals,
    mechanism_names,
    refusals,
    types_of_site,
)
from attnlab.core import (
    InputError,
    Note,
    Table,
    nearest_in_words,
    options_of,
    spelled_alike,
)
from attnlab.evaluation import (
    LOSS_IN_WORDS,
    Opened,
    opened,
)
from attnlab.models import (
    Model,
    Run,
    Source,
    leaving_modes,
)
from attnlab.questions.compare.question import (
    MECHANISMS_BY_HEAD,
    QUESTION,
    BudgetBeyondFull,
    ComparisonSettings,
    MechanismLeftOut,
    NoGains,
    NoSettingAtSite,
    SameAttention,
)
from attnlab.questions.compare.replacing import (
    Case,
    check_plans,
    named_plan,
    with_losses,
)
from attnlab.reading import (
    Observed,
    Sentences,
    site_rules,
)
from attnlab.results import Result


@options_of(ComparisonSettings)
@leaving_modes
def compare(source: Source, settings: ComparisonSettings) -> Result:
    """Every mechanism in place of full attention, on held-out sentences, at equal budgets of keys.

    Tables of sigma and the best fixed pattern are learned on training sentences; the setting that each
    mechanism has at a site is the one nearest to full attention on validation sentences whose rows see at
    most the budget there, counted; without a support the work of as many keys counts. Captured
    attention, output error, loss, BLEU and time are measured on held-out sentences with the
    mechanism at all heads of a site, and of all sites where it can be. With `fine_tune` the run is
    trained that many batches further with each mechanism in place, beside full attention trained as long.

    Cost: the matrices of every setting on the validation sentences; a pass over the held-out
    sentences and a round of translation for each row, and with `per_head` a pass for each head.

    Args:
        source: a run or its folder, a transformers folder, the name of a model on the hub, or a pair
            (model, tokenizer); none is changed.
        settings: as keyword arguments.

    Returns:
        The tables `summary` (means over heads and rows, with 95 % intervals over sentences) and
        `mechanisms_by_head`.

    Raises:
        InputError: no sentences, a text too long for the memory, a site, mechanism or plan that cannot be
            used, or a model that cannot be compared.
        AttnlabError: the corpus is no longer the one of the training.
    """
    plans = [named_plan(plan) for plan in settings.plans]
    settings = _with_known_names(plans, settings)

    def check(model: Model, has_loss: bool) -> None:
        _check_loss(model, settings, has_loss=has_loss)
        check_plans(plans, model, settings.mechanisms, settings.sites)

    start = opened(source, settings, check)
    model, parts = start.model, start.parts
    evaluator = start.evaluator(parts.test) if start.has_loss else None
    choosing = _chosen(start, settings)
    candidates = choosing.candidates()
    scores = _scores(
        choosing,
        candidates,
        plans,
        partial(start.read, "Measuring", parts.test),
        [sentence.number for sentence in parts.test.usable],
    )
    cases = list(_cases(choosing, candidates, plans))
    if len(cases) == 1:
        msg = "No mechanism is applicable within the budget; raise it, or choose others."
        raise InputError(msg)
    by_head = scores.heads()
    summary = _means(cases, by_head, scores, choosing)
    kind = None
    if evaluator is not None:
        kind = evaluator.loss
        summary, by_head = with_losses(
            evaluator, settings, cases, candidates, choosing.heads, summary=summary, by_head=by_head
        )
    lengths = {site: (types.queries, types.keys) for site, types in choosing.by_site.items()}
    return Result(
        QUESTION.name,
        f"Mechanisms in place of full attention in {model.label}",
        {
            "summary": _declared(summary, COMPARED),
            "mechanisms_by_head": _declared(by_head, MECHANISMS_BY_HEAD),
        },
        {
            "Held-out sentences": len(parts.test),
            "Validation sentences": len(parts.validation),
            "Training sentences": len(parts.calibration),
            "Seed": settings.seed,
            **({"Gains of": settings.against} if "loss_gain" in summary else {}),
            **({} if kind is None else {"Loss": LOSS_IN_WORDS[kind]}),
            **{
                f"Mean tokens of validation sentences, {site}": f"{queries} queries, {keys} keys"
                for site, (queries, keys) in lengths.items()
            },
        },
        _notes(start, choosing, settings, gains=LOSS_GAIN.name in summary, by_head=by_head),
        {
            "mean_tokens": lengths,
            "loss": kind,
            "against": settings.against,
            "budgets": list(settings.budgets),
        },
        weights=model.weights,
    )


def _check_loss(model: Model, settings: ComparisonSettings, *, has_loss: bool) -> None:
    """Raises InputError where something is asked for that needs a loss, or a run's training."""
    if settings.fine_tune and not isinstance(model, Run):
        msg = "Only runs of attnlab train are trained further here; leave fine_tune out."
        raise InputError(msg, options=["fine_tune"])
    needing = settings.fine_tune, settings.per_head, settings.loss, settings.against
    if not has_loss and any(needing):
        msg = (
            "An encoder-decoder has a loss on sentences with their translations alone; give pairs, or "
            "leave fine_tune, per_head, loss and against out."
        )
        raise InputError(msg, options=["fine_tune", "per_head"])


def _with_known_names(
    plans: Sequence[BudgetedPlan], settings: ComparisonSettings
) -> ComparisonSettings:
    """The settings with the names of mechanisms as they are in the table.

    Raises:
        InputError: there is no such mechanism, or no row to hold others against.
    """
    names, named = mechanism_names(), []
    for name in settings.mechanisms or ():
        spelled = spelled_alike(name, names)
        if spelled is None:
            kind, bracket, _ = name.rpartition("(")
            if bracket and spelled_alike(kind, names) is not None:
                msg = (
                    f"The settings of '{name}' follow from the budget; name {kind}, or give a plan, which "
                    "has its own."
                )
                raise InputError(msg)
            near = nearest_in_words(name, names)
            msg = f"There is no mechanism '{name}' here{near}; choose from: {', '.join(names)}."
            raise InputError(msg)
        named.append(spelled)
    mechanisms = None if settings.mechanisms is None else tuple(named)
    rows = [*(names if mechanisms is None else mechanisms), *(plan.name for plan in plans)]
    against = settings.against and spelled_alike(settings.against, rows)
    if settings.against is not None and against is None:
        listed = ", ".join(dict.fromkeys(rows)) or "none"
        msg = (
            f"against names no row that there will be: '{settings.against}'; choose from: {listed}."
        )
        raise InputError(msg)
    return replace(settings, mechanisms=mechanisms, against=against)


def _chosen(start: Opened, settings: ComparisonSettings) -> Choosing:
    """Every mechanism with what it learned on training sentences and its setting from validation ones."""
    model, parts, sites = start.model, start.parts, start.sites
    rules = site_rules(model.model)
    by_site = {
        site: types_of_site(
            site,
            model.type_counts or _type_counts(model.model, parts.calibration),
            parts.validation,
            parts.calibration,
            parts.test,
            rules=rules[site],
        )
        for site in sites
    }
    _check_mechanisms(settings.mechanisms or (), {site: rules[site] for site in sites})
    longest = max(types.longest for types in by_site.values())
    choosing = Choosing(by_site, settings.budgets, settings.mechanisms, longest=longest)
    start.read("Calibrating", parts.calibration, choosing.learn)
    if settings.mechanisms != ():
        start.read("Choosing", parts.validation, choosing.measure)
    return choosing


def _type_counts(model: Any, learning: Sentences) -> tuple[Tensor, Tensor]:
    """How often each id of the vocabulary is read in the sentences: of sources, and of what a decoder reads.

    All ids are counted, so that tables of what is learned go by the ids that the model itself is given.
    """
    size = model.get_input_embeddings().num_embeddings
    sides = (
        [token for text in learning.usable for token in ids(text)]
        for ids in (lambda text: text.source, lambda text: text.target or text.source)
    )
    source, target = (torch.bincount(torch.tensor(side), minlength=size) for side in sides)
    return source, target


def _check_mechanisms(names: Sequence[str], rules: Mapping[str, frozenset[ScoreRule]]) -> None:
    """Raises InputError for a mechanism that no site allows."""
    by_site = [refusals(site, allowed) for site, allowed in rules.items()]
    for name in names:
        if all(name in refused for refused in by_site):
            msg = (
                f"The mechanism '{name}' cannot be in {' or '.join(rules)}: {by_site[0][name]}; choose "
                "other mechanisms or other sites."
            )
            raise InputError(msg)


def _scores(
    choosing: Choosing,
    candidates: Candidates,
    plans: Sequence[BudgetedPlan],
    read: Callable[[Callable[[Observed], None]], None],
    sentences: Sequence[int],
) -> Scores:
    """Attention captured, output error and keys of every candidate on the held-out sentences."""
    heads, scores = choosing.heads, Scores(sentences)
    planned: dict[Layer, list[tuple[int | None, Candidate]]] = {at: [] for at in heads}
    for at, count in heads.items():
        types = len(choosing.by_site[at[0]].counts)
        for plan in plans:
            mechanism = plan.plan.mechanism(*at, count, vocabulary=types).double().eval()
            named = plan.name, plan.setting, plan.level
            planned[at].append((plan.budget, choosing.candidate_of(named, at, mechanism)))
        full = made("full", count, types, at[0])
        planned[at].append((None, choosing.candidate_of((FULL, FULL, ""), at, full)))

    def add(layer: Observed) -> None:
        at = layer.site, layer.layer
        counted = choosing.by_site[layer.site].with_counted_ids(layer)
        for budget, candidate in candidates[at]:
            scores.add(candidate, budget, counted)
        for own_budget, candidate in planned[at]:
            # The keys of a plan are those of the model's own token ids.
            scores.add(candidate, own_budget, layer)

    read(add)
    return scores


def _cases(
    choosing: Choosing, candidates: Candidates, plans: Sequence[BudgetedPlan]
) -> Iterator[Case]:
    """Full attention, every mechanism at each site where it can be and at these together, and plans."""
    sites = tuple(choosing.by_site)
    yield Case(FULL, None, sites)
    by_setting: dict[tuple[int, str], dict[str, None]] = {}
    for (site, _), chosen in candidates.items():
        for budget, candidate in chosen:
            by_setting.setdefault((budget, candidate.name), {})[site] = None
    for (budget, name), applicable in sorted(by_setting.items(), key=lambda item: item[0][0]):
        for site in applicable:
            yield Case(name, budget, (site,))
        if len(applicable) > 1:
            yield Case(name, budget, tuple(applicable))
    for plan in plans:
        yield Case(plan.name, plan.budget, sites, plan.plan)


def _means(
    cases: Sequence[Case],
    by_head: pd.DataFrame,
    scores: Scores,
    choosing: Choosing,
) -> pd.DataFrame:
    """A row a case: means over its heads and their rows in the held-out sentences."""
    sums = torch.stack([scores.sentences(case.entries) for case in cases], 1)
    means = {name: mean_intervals(figures) for name, figures in zip(MEASURED, sums, strict=True)}
    several = len(choosing.by_site) > 1
    rows = []
    for number, case in enumerate(cases):
        heads = by_head[
            by_head["site"].isin(case.sites)
            & (by_head["mechanism"] == case.name)
            & (
                by_head["budget"].isna()
                if case.budget is None
                else by_head["budget"].eq(case.budget)
            )
        ]
        settings = heads.groupby("site", sort=False)["setting"].first()
        row: dict[str, Any] = {
            "sites": ALL if several and len(case.sites) == len(choosing.by_site) else ", ".join(case.sites),
            "budget": case.budget, "mechanism": case.name, "level": heads["level"].iloc[0],
            "setting": settings.iloc[0] if len(set(settings)) == 1 else "; ".join(
                f"{site}={setting}" for site, setting in settings.items()
            ),
            "settings_tried": sum(
                choosing.tried(case.name, site) for site in case.sites
            ) if case.is_mechanism else None,
            "replaced_heads": _replaced_heads(case, heads), "steps": 0,
            "visible_keys": means["visible_keys"][number, 0], "multiply_adds": heads["multiply_adds"].mean(),
        }  # fmt: skip
        for estimate in (MASS, ERROR, L1_ERROR):
            row |= estimate.cells(*means[estimate.name][number].tolist())
        rows.append(row)
    return pd.DataFrame(rows).astype({"budget": "Int64", "settings_tried": "Int64"})


def _replaced_heads(case: Case, rows: pd.DataFrame) -> int:
    """Heads among the rows of a case that have something else than full attention."""
    if case.plan is None:
        return 0 if case.name == FULL else len(rows)
    heads = zip(rows["site"], rows["layer"], rows["head"], strict=True)
    return sum(case.plan.at(*head).name != FULL for head in heads)


def _declared(table: pd.DataFrame, declared: Table) -> pd.DataFrame:
    """The columns that are there in the order in which they are declared."""
    over = table["visible_keys"] - table["budget"].astype(float)
    table = table.assign(keys_over_budget=over)
    return table[[name for name in declared if name in table]]


def _notes(
    start: Opened,
    choosing: Choosing,
    settings: ComparisonSettings,
    *,
    gains: bool,
    by_head: pd.DataFrame,
) -> tuple[Note, ...]:
    """Sentences and gains that are lacking, and mechanisms that have no form or no setting for a site."""
    notes = start.notes
    handed_in = {plan.name for plan in settings.plans if isinstance(plan, BudgetedPlan)}
    # Who makes plans says by itself what there is beside them.
    if settings.against not in {None, *handed_in} and not gains:
        notes.append(NoGains(str(settings.against)))
    keys = by_head[by_head["mechanism"] == FULL].groupby("site", sort=False)["visible_keys"].mean()
    notes += [
        BudgetBeyondFull(str(site), budget, full)
        for site, full in keys.items()
        for budget in settings.budgets
        if budget >= full
    ]
    notes += [
        MechanismLeftOut(site, name, reason)
        for site, types in choosing.by_site.items()
        for name, reason in refusals(site, types.rules).items()
        if settings.mechanisms is None or name in settings.mechanisms
    ]
    notes += [NoSettingAtSite(*lacking) for lacking in choosing.without_setting()]
    return (*notes, *_alike(by_head))


def _alike(by_head: pd.DataFrame) -> Iterator[SameAttention]:
    """Mechanisms whose figures are the same at every head of a site, to the last digit."""
    figures = ["layer", "head", "visible_keys", "error", "output_error"]
    # A plan of a file has no budget: it stands beside the mechanisms of each.
    plans = by_head[by_head["budget"].isna() & (by_head["mechanism"] != FULL)]
    for at, group in by_head.groupby(["site", "budget"], sort=False):
        site, budget = str(at[0]), int(str(at[1]))
        compared = pd.concat([group, plans[plans["site"] == site]])
        alike: dict[tuple[float, ...], list[str]] = {}
        for name, rows in compared.groupby("mechanism", sort=False):
            alike.setdefault(tuple(rows[figures].fillna(-1).to_numpy().flat), []).append(str(name))
        for names in alike.values():
            # Plans among themselves have nothing to do with a budget.
            if len(names) > 1 and not set(names) <= set(plans["mechanism"]):
                yield SameAttention(site, budget, tuple(names))
