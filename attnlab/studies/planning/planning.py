"""Which mechanism each head of a run should have, under one budget of keys for all heads together."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from attnlab.ablation.significance import DRAWS, INTERVAL
from attnlab.attention.plan import AttentionPlan
from attnlab.attention.specification import Specification
from attnlab.budget.measuring import Layer, Measurements
from attnlab.budget.uniform import uniform
from attnlab.core.addresses import Head
from attnlab.core.errors import Note
from attnlab.core.options import options_of
from attnlab.core.processes import usable_device
from attnlab.core.representations import ShortRepr
from attnlab.core.texts import path_label
from attnlab.evaluation.evaluator import Parts, evaluator_of, observe_sentences, parts_of
from attnlab.evaluation.shared_settings import Steps
from attnlab.evaluation.sources import Subject, load_subject
from attnlab.models.run import Run
from attnlab.models.run_folder import is_run, no_run
from attnlab.models.tokenizer import checksum
from attnlab.studies.planning.candidates import BASELINES, Candidate
from attnlab.studies.planning.columns import SCORES
from attnlab.studies.planning.notes import BandInstead, BudgetNearLength, NoSettingFits
from attnlab.studies.planning.scores import Output, changes, gains, output_of
from attnlab.studies.planning.search import FoundPlan, Search
from attnlab.studies.planning.settings import PlanSettings

SEARCHED, FULL = "searched", "full"
# Supports and settings come from training and validation sentences.
LEVEL = "calibrated"
# From this share of the keys of full attention on, a budget saves little.
NEAR = 0.5

Plans = Mapping[tuple[int, str], FoundPlan]


@dataclass(frozen=True, repr=False)
class Planning(ShortRepr):
    """What a plan search found.

    Attributes:
        heads: one row a budget and head, see `attnlab.studies.planning.columns.HEADS`.
        scores: one row a budget and plan, baselines among them, see `SCORES` there.
        plans: the searched plan of each budget, ready for `attnlab.attention.install`.
        about: run, checksum of its corpus and numbers of sentences, ready for JSON.
        notes: what the reader must know, see `attnlab.reporting.notes`.
        weights: checksum of the weights of the run.
    """

    heads: pd.DataFrame
    scores: pd.DataFrame
    plans: Mapping[int, AttentionPlan]
    about: Mapping[str, Any]
    notes: tuple[Note, ...]
    weights: str | None


@options_of(PlanSettings)
def plan(source: str | Path | Run, settings: PlanSettings) -> Planning:
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

    Raises:
        InputError: the source is no run, or a number or site cannot be used, or a budget is too small
            for the families that are allowed.
        AttnlabError: the corpus changed since the training.
    """
    device = usable_device(settings.device)
    if not isinstance(source, Run) and not is_run(source):
        raise no_run(source)
    subject = load_subject(source, sentences=settings.sentences)
    subject.model.to(device)
    evaluator = evaluator_of(subject, settings.batch_size)
    parts = parts_of(evaluator, settings.calibration, settings.validation)
    budgets = list(dict.fromkeys(settings.budgets))
    search = Search(budgets, settings.families)
    read = partial(observe_sentences, sites=settings.sites, progress=settings.progress)
    read("Calibrating", parts.calibration, search.learn)
    read("Choosing", parts.validation, search.measure)
    wanted = [(budget, name) for budget in budgets for name in (SEARCHED, *BASELINES)]
    steps = Steps("Searching plans", len(wanted), settings.progress)
    plans = {
        key: found
        for key in wanted
        if (found := steps.of(partial(_found, search, *key))()) is not None
    }
    measured = Measurements(_wanted(search, plans), detailed=True)
    read("Measuring", evaluator, measured.add)
    return Planning(
        heads=_head_rows(search, plans, measured),
        scores=_score_rows(parts, search, plans, measured, settings),
        plans={budget: _for_run(plans[budget, SEARCHED].plan(), subject) for budget in budgets},
        about=_about(parts, settings),
        notes=_notes(search, budgets, plans),
        weights=subject.weights,
    )


def _for_run(plan: AttentionPlan, subject: Subject) -> AttentionPlan:
    """The plan with the checksum of the run's source tokenizer, whose token ids are those of its keys."""
    assert subject.run is not None  # noqa: S101 - a run directory holds one
    return plan.for_tokenizer(checksum(subject.run.tokenizers.source))


def _about(parts: Parts, settings: PlanSettings) -> dict[str, Any]:
    """Run, corpus and sentences."""
    run = parts.test.subject.run
    return {
        "run": None if run is None else path_label(run.folder),
        "corpus_checksum": None if run is None else run.record["corpus"]["checksum"],
        "sentences": {name: len(one.examples) for name, one in parts._asdict().items()},
        "seed": settings.seed,
        "families": list(settings.families),
    }


def _found(search: Search, budget: int, name: str) -> FoundPlan | None:
    return search.searched(budget) if name == SEARCHED else search.baseline(name, budget)


def _wanted(search: Search, plans: Plans) -> dict[Layer, dict[Specification, list[int]]]:
    """The specifications of all plans by layer, with their heads."""
    heads = search.heads
    wanted: dict[Layer, dict[Specification, set[int]]] = {
        (head.site, head.layer): {} for head in heads
    }
    for found in plans.values():
        for head, candidate in found.entries.items():
            own = wanted[head.site, head.layer]
            own.setdefault(candidate.specification, set()).add(head.head)
    return {
        at: {specification: sorted(members) for specification, members in own.items()}
        for at, own in wanted.items()
    }


def _head_rows(search: Search, plans: Plans, measured: Measurements) -> pd.DataFrame:
    rows = []
    for (budget, name), found in plans.items():
        if name != SEARCHED:
            continue
        for head, candidate in found.entries.items():
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
    parts: Parts,
    search: Search,
    plans: Plans,
    measured: Measurements,
    settings: PlanSettings,
) -> pd.DataFrame:
    """One row a plan; `full` stands once, at no budget."""
    evaluator, seed = parts.test, settings.seed
    bleu = settings.bleu and evaluator.translates
    steps = Steps("Scoring plans", len(plans) + 1, settings.progress)
    before = steps.of(lambda: output_of(evaluator, None, bleu=bleu))()
    outputs: dict[tuple[int, str], Output] = {}
    for key, found in plans.items():
        own = found.plan()
        outputs[key] = steps.of(lambda own=own: output_of(evaluator, own, bleu=bleu))()  # type: ignore[misc]
    shared = {
        "sentences": len(parts.test.examples),
        "validation_sentences": len(parts.validation.examples),
        "calibration_sentences": len(parts.calibration.examples),
        "seed": seed,
    }
    keys = sum(measured.full_keys[head.site, head.layer] for head in search.heads)
    count = sum(measured.rows[head.site, head.layer] for head in search.heads)
    rows: list[dict[str, Any]] = [
        {"plan": FULL, "keys_per_row": keys / count, "error": 0.0}
        | changes(evaluator, before, before, seed=seed)
        | shared
    ]
    for (budget, name), found in plans.items():
        output = outputs[budget, name]
        row = {"budget": budget, "plan": name, "level": LEVEL, "written": _written(found)}
        row |= _distances(found.entries, measured, seed)
        row["error_bound"] = found.allocation.lower_bound / search.rows
        row |= changes(evaluator, before, output, seed=seed)
        if name != SEARCHED:
            row |= gains(evaluator, output, outputs[budget, SEARCHED], seed=seed)
        rows.append(row | shared)
    table = pd.DataFrame(rows).astype({"budget": "Int64"})
    declared = [column.name for column in SCORES.columns if column.name in table]
    return table[declared]


def _written(found: FoundPlan) -> str:
    if found.uniform:
        return "; ".join(f"{site}={specification}" for site, specification in found.uniform.items())
    families = Counter(candidate.family for candidate in found.entries.values())
    return ", ".join(f"{family} {count}" for family, count in families.most_common())


def _distances(
    entries: Mapping[Head, Candidate], measured: Measurements, seed: int
) -> dict[str, float]:
    """Keys per row and relative distance over all heads, with its interval over sentences."""
    sums: dict[int, Tensor] = {}
    for head, candidate in entries.items():
        at = head.site, head.layer
        own = measured.by_sentence(at, candidate.specification, head.head)
        for number, parts in own.items():
            sums[number] = sums[number] + parts if number in sums else parts
    table = torch.stack([sums[number] for number in sorted(sums)])
    generator = torch.Generator().manual_seed(seed)
    drawn = table[torch.randint(len(table), (DRAWS, len(table)), generator=generator)]
    l1, _, drawn_rows = drawn.sum(1).unbind(-1)
    quantiles = torch.tensor(INTERVAL, dtype=torch.float64)
    low, high = (l1 / drawn_rows).quantile(quantiles).tolist()
    total, keys, rows = table.sum(0).tolist()
    return {
        "keys_per_row": keys / rows,
        "error": total / rows,
        "error_low": low,
        "error_high": high,
    }


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
