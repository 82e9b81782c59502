"""Which mechanism each head of a run should have, under one budget of keys for all heads together."""

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from attnlab.ablation import DRAWS, INTERVAL, bleu_difference, loss_difference
from attnlab.attention import AttentionPlan, Specification, plan_of, use, write_plan
from attnlab.budget import Layer, Measurements
from attnlab.budget.uniform import uniform
from attnlab.core import Head, Note, options_of, path_label, usable_device
from attnlab.evaluation import (
    Evaluator,
    Steps,
    evaluator_of,
    model_and_texts,
    observe_part,
    parts_of,
)
from attnlab.models import Run, checksum, is_run, no_run
from attnlab.questions.plan.question import (
    BASELINES,
    BLEU_CHANGE,
    BLEU_GAIN,
    ERROR,
    FULL,
    LOSS_CHANGE,
    LOSS_GAIN,
    QUESTION,
    SCORES,
    SEARCHED,
    BandInstead,
    BudgetNearLength,
    NoSettingFits,
    PlanSettings,
)
from attnlab.questions.plan.search import FoundPlan, Search
from attnlab.reading import sites_of
from attnlab.results import Result

# From this share of the keys of full attention on, a budget saves little.
NEAR = 0.5

Plans = Mapping[tuple[int, str], FoundPlan]


@options_of(PlanSettings)
def plan(source: str | Path | Run, settings: PlanSettings) -> Result:
    """For each head the mechanism that serves all heads best under one budget of keys, and its price.

    Candidates of every family are learned on training sentences and measured on validation sentences:
    how far the matrix that they apply is from full attention (l1; a row without keys counts 2), and how
    many keys its rows see, counted. One candidate for each head is taken such that all rows of all
    heads see `budget` keys on average, by error saved per key. On test sentences the plan stands beside
    one band, Longformer and BigBird for all heads, each in the setting nearest on validation within the
    budget. Nothing is trained.

    Cost: every candidate on every validation sentence; a round of loss and translation for each plan.

    Args:
        source: a run or its folder; neither is changed.
        settings: as keyword arguments.

    Returns:
        The tables `scores` (a row per budget and plan, baselines among them) and `mechanisms` (per budget and
        head of the searched plan); as `extra` the searched plans, which `plans_of` gives too.

    Raises:
        InputError: the source is no run, or a number or site cannot be used, or a budget is too small
            for the families that are allowed.
        AttnlabError: the corpus changed since the training.
    """
    device = usable_device(settings.device)
    if not isinstance(source, Run) and not is_run(source):
        raise no_run(source)
    run, texts = model_and_texts(source, sentences=settings.sentences)
    assert isinstance(run, Run)  # noqa: S101 - the source is one
    run.model.to(device)
    parts = parts_of(
        run,
        texts,
        calibration=settings.calibration,
        validation=settings.validation,
        with_loss=True,
    )
    evaluator = evaluator_of(run, parts.test, settings.batch_size)
    sites = sites_of(run.model, parts.test, settings.sites)
    budgets = list(dict.fromkeys(settings.budgets))
    search = Search(budgets, settings.families)
    read = partial(
        observe_part,
        model=run,
        sites=sites,
        batch_size=settings.batch_size,
        progress=settings.progress,
    )
    read("Calibrating", part=parts.calibration, receive=search.learn)
    read("Choosing", part=parts.validation, receive=search.measure)
    wanted = [(budget, name) for budget in budgets for name in (SEARCHED, *BASELINES)]
    steps = Steps("Searching plans", len(wanted), settings.progress)
    plans = {
        key: found
        for key in wanted
        if (found := steps.of(partial(search.found, *key))()) is not None
    }
    measured = Measurements(_wanted(plans), detailed=True)
    read("Measuring", part=parts.test, receive=measured.add)
    shared = {
        "sentences": len(parts.test),
        "validation_sentences": len(parts.validation),
        "calibration_sentences": len(parts.calibration),
        "seed": settings.seed,
    }
    scores = _score_rows(evaluator, search, plans, measured, settings).assign(**shared)
    result = Result(
        QUESTION.name,
        "A plan of attention under a budget",
        {
            "scores": scores[[name for name in SCORES if name in scores]],
            "mechanisms": _head_rows(search, plans, measured),
        },
        {
            "run": path_label(run.folder),
            "corpus_checksum": run.record["corpus"]["checksum"],
            "sentences": {name: len(one) for name, one in parts._asdict().items()},
            "seed": settings.seed,
            "families": list(settings.families),
        },
        _notes(search, budgets, plans),
        # Token ids of keys are those of the run's source tokenizer.
        {"tokenizer": checksum(run.tokenizers.source)},
        weights=run.weights,
    )
    written = plans_of(result).items()
    extra = {f"plan_{budget}.json": partial(write_plan, plan=one) for budget, one in written}
    return replace(result, extra=extra)


def plans_of(result: Result) -> dict[int, AttentionPlan]:
    """The searched plan of each budget, ready for `attnlab.attention.install`."""
    return {
        int(str(budget)): plan_of(
            {str(Head(row.site, row.layer, row.head)): row.mechanism for row in own.itertuples()}
        ).for_tokenizer(result.details["tokenizer"])
        for budget, own in result.mechanisms.groupby("budget", sort=False)
    }


def _wanted(plans: Plans) -> dict[Layer, dict[Specification, set[int]]]:
    """The heads of each specification in any of the plans, by layer."""
    wanted: dict[Layer, dict[Specification, set[int]]] = {}
    for found in plans.values():
        for head, candidate in found.entries.items():
            own = wanted.setdefault((head.site, head.layer), {})
            own.setdefault(candidate.specification, set()).add(head.head)
    return wanted


def _head_rows(search: Search, plans: Plans, measured: Measurements) -> pd.DataFrame:
    rows = []
    for (budget, name), found in plans.items():
        for head, candidate in found.entries.items() if name == SEARCHED else ():
            error, keys = search.measured(head, candidate)
            at = head.site, head.layer
            sums, count = measured.at(at, candidate.specification, head.head), measured.rows[at]
            rows.append(
                {
                    "budget": budget,
                    **head._asdict(),
                    "family": candidate.family,
                    "mechanism": str(candidate.specification),
                    "level": candidate.level,
                    "validation_error": error,
                    "validation_keys": keys,
                    "error": float(sums.error) / count,
                    "keys_per_row": float(sums.nonzeros) / count,
                    "oracle_error": float(sums.oracle) / count,
                    "lower_bound": float(sums.bound) / count,
                }
            )
    return pd.DataFrame(rows)


def _score_rows(
    evaluator: Evaluator,
    search: Search,
    plans: Plans,
    measured: Measurements,
    settings: PlanSettings,
) -> pd.DataFrame:
    """One row a plan; `full` stands once, at no budget."""
    seed = settings.seed
    bleu = settings.bleu and evaluator.translates
    steps = Steps("Scoring plans", len(plans) + 1, settings.progress)
    before = steps.of(partial(output_of, evaluator, None, bleu=bleu))()
    outputs = {
        key: steps.of(partial(output_of, evaluator, found.plan(), bleu=bleu))()
        for key, found in plans.items()
    }
    keys, count = (
        sum(of_layer[head.site, head.layer] for head in search.heads)
        for of_layer in (measured.full_keys, measured.rows)
    )
    rows: list[dict[str, Any]] = [
        {"plan": FULL, "keys_per_row": keys / count, "error": 0.0}
        | changes(evaluator, before, before, seed=seed)
    ]
    for (budget, name), found in plans.items():
        output = outputs[budget, name]
        row = {"budget": budget, "plan": name, "written": _written(name, found)}
        # Supports and settings come from training and validation sentences.
        row["level"] = "calibrated"
        row |= _distances(found, measured, seed)
        row["error_bound"] = found.allocation.lower_bound / search.rows
        row |= changes(evaluator, before, output, seed=seed)
        if name != SEARCHED:
            row |= gains(evaluator, output, outputs[budget, SEARCHED], seed=seed)
        rows.append(row)
    return pd.DataFrame(rows).astype({"budget": "Int64"})


def _written(name: str, found: FoundPlan) -> str:
    if name != SEARCHED:
        by_site = {head.site: one.specification for head, one in found.entries.items()}
        return "; ".join(f"{site}={specification}" for site, specification in by_site.items())
    families = Counter(candidate.family for candidate in found.entries.values())
    return ", ".join(f"{family} {count}" for family, count in families.most_common())


def _distances(found: FoundPlan, measured: Measurements, seed: int) -> dict[str, float]:
    """Keys per row and relative distance over all heads, with its interval over sentences."""
    sums: dict[int, Tensor] = {}
    for head, candidate in found.entries.items():
        at = head.site, head.layer
        for number, own in measured.by_sentence(at, candidate.specification, head.head).items():
            sums[number] = sums[number] + own if number in sums else own
    table = torch.stack([sums[number] for number in sorted(sums)])
    generator = torch.Generator().manual_seed(seed)
    drawn = table[torch.randint(len(table), (DRAWS, len(table)), generator=generator)]
    l1, _, drawn_rows = drawn.sum(1).unbind(-1)
    ends = (l1 / drawn_rows).quantile(torch.tensor(INTERVAL, dtype=torch.float64)).tolist()
    total, keys, rows = table.sum(0).tolist()
    return {"keys_per_row": keys / rows} | ERROR.cells(total / rows, *ends)


def _notes(search: Search, budgets: Sequence[int], plans: Plans) -> tuple[Note, ...]:
    """Budgets that save little, baselines that are lacking, and sites where a band stands in."""
    keys = search.full_keys()
    notes: list[Note] = [
        BudgetNearLength(budget, keys, budget / keys) for budget in budgets if budget >= NEAR * keys
    ]
    for name in BASELINES:
        notes += [NoSettingFits(name, one) for one in budgets if (one, name) not in plans]
        if any((budget, name) in plans for budget in budgets):
            without = [site for site in search.sites if not uniform(name, site, max(budgets))]
            notes += [BandInstead(name, site) for site in without]
    return tuple(notes)


class Output(NamedTuple):
    """What a model does on the test sentences.

    Attributes:
        losses: loss of each sentence in nats, summed over its target tokens.
        translations: greedy translations; empty where none were wanted.
    """

    losses: Float[Tensor, " sentence"]
    translations: tuple[str, ...]


def output_of(evaluator: Evaluator, plan: AttentionPlan | None, *, bleu: bool) -> Output:
    """Losses and translations with the plan in place of full attention; None leaves the model as it is."""
    with nullcontext() if plan is None else use(evaluator.model, plan):
        return Output(evaluator.losses(), tuple(evaluator.translations()) if bleu else ())


def changes(evaluator: Evaluator, before: Output, after: Output, *, seed: int) -> dict[str, Any]:
    """Loss and BLEU of `after`, and their changes against `before` with bootstrap intervals."""
    loss = loss_difference(before.losses, after.losses, evaluator.tokens, seed=seed)
    found = {"loss": loss.after} | LOSS_CHANGE.cells(loss.change, loss.low, loss.high)
    if after.translations:
        texts = before.translations, after.translations, evaluator.references
        bleu = bleu_difference(*texts, seed=seed)
        found |= {"bleu": bleu.after} | BLEU_CHANGE.cells(bleu.change, bleu.low, bleu.high)
        found["length_ratio"] = length_ratio(after.translations, evaluator.references)
    return found


def gains(evaluator: Evaluator, baseline: Output, searched: Output, *, seed: int) -> dict[str, Any]:
    """How much less loss and more BLEU the searched plan has than a baseline."""
    loss = loss_difference(searched.losses, baseline.losses, evaluator.tokens, seed=seed)
    found = LOSS_GAIN.cells(loss.change, loss.low, loss.high)
    if searched.translations:
        texts = baseline.translations, searched.translations, evaluator.references
        bleu = bleu_difference(*texts, seed=seed)
        found |= BLEU_GAIN.cells(bleu.change, bleu.low, bleu.high)
    return found


def length_ratio(translations: Sequence[str], references: Sequence[str]) -> float:
    """Length of all translations divided by that of the references, in the tokens of BLEU.

    >>> length_ratio(["a b c", "d"], ["a b", "d e f"])
    0.8
    """
    from sacrebleu.metrics import BLEU

    found = BLEU().corpus_score(list(translations), [list(references)])
    return float(found.sys_len / found.ref_len)
