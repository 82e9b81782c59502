"""Loss and BLEU of a run whose heads are replaced by other mechanisms, at once and after fine-tuning."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from attnlab.ablation.projections import all_heads
from attnlab.ablation.significance import (
    Difference,
    bleu_differences,
    loss_differences,
)
from attnlab.attention.bridge.installing import use
from attnlab.attention.plan import load_plan
from attnlab.budget.notes import MechanismLeftOut
from attnlab.budget.scores import MEASURED, Scores
from attnlab.budget.sizes import Measured, types_of_site
from attnlab.core.addresses import Head
from attnlab.core.errors import InputError, Note
from attnlab.core.options import options_of
from attnlab.core.representations import ShortRepr
from attnlab.evaluation.evaluator import (
    Evaluator,
    Parts,
    encoded,
    load_evaluator,
    observe_sentences,
    parts_of,
)
from attnlab.evaluation.shared_settings import ENOUGH_FOR_INTERVALS, FewerThanAsked, FewForIntervals
from attnlab.evaluation.sources import type_counts_of
from attnlab.models.run import Run
from attnlab.models.run_folder import is_run, no_run
from attnlab.models.tokenizer import checksum
from attnlab.reading.batches import SentencesDropped
from attnlab.reading.observing import additive_sites, sites_of
from attnlab.studies.differences import fill_changes
from attnlab.studies.substitution.choosing import (
    Candidates,
    Choosing,
    mechanism_names,
    refusals,
)
from attnlab.studies.substitution.columns import SUBSTITUTIONS, UNITS
from attnlab.studies.substitution.measuring import Outcome, Trial, Trials
from attnlab.studies.substitution.notes import NoSettingAtSite
from attnlab.studies.substitution.prediction import prediction
from attnlab.studies.substitution.settings import SubstitutionSettings
from attnlab.studies.substitution.targets import Replacement, Target, replacements, targets


@dataclass(frozen=True, repr=False)
class Substitution(ShortRepr):
    """Tables of one study.

    Attributes:
        substitutions: one row per target, mechanism, budget and number of fine-tuning steps; see
            `attnlab.studies.substitution.columns.SUBSTITUTIONS`. The rows without a mechanism are
            the model with full attention.
        prediction: how well captured mass and output error rank the change of loss of single
            heads; empty where heads were not replaced alone.
        run: the run, its model as it was.
        settings: what was asked for.
        sentences: number of `test`, `validation` and `calibration` (training) sentences.
        notes: what was left out, see `attnlab.reporting.notes`.
    """

    substitutions: pd.DataFrame
    prediction: pd.DataFrame
    run: Run
    settings: SubstitutionSettings
    sentences: Mapping[str, int]
    notes: tuple[Note, ...]


@options_of(SubstitutionSettings)
def substitute(source: str | Path | Run, settings: SubstitutionSettings) -> Substitution:
    """What a run loses when heads are replaced by other mechanisms, at equal budgets of keys per row.

    Every mechanism replaces one head, all heads of a site and all heads, and every plan stands in the
    model as a whole. Tables of sigma and the best fixed pattern are learned on training sentences; the
    setting that each mechanism has at a site is the one nearest to full attention on validation
    sentences whose rows see at most the budget there, counted; without a support the work of as many
    keys counts. Losses, BLEU, captured mass and output error are measured on test sentences. With
    `steps` each replaced site, model and plan is trained that many batches further on the run's
    training pairs, beside the model with full attention trained as long.

    Cost: the matrices of every setting on the validation sentences, a pass over the test sentences for
    every target and mechanism, a round of translation for
    every site and model, and `steps` training steps for each of those.

    Args:
        source: a run or its folder; neither is changed.
        settings: as keyword arguments.

    Raises:
        InputError: the source is no run with full attention, or an option cannot be used.
        AttnlabError: the corpus is no longer the one of the training.
    """
    plans = {path.name: load_plan(path) for path in map(Path, settings.plans)}
    if not isinstance(source, Run) and not is_run(source):
        raise no_run(source)
    evaluator = load_evaluator(source, sentences=settings.sentences, device=settings.device)
    run = evaluator.subject.run
    assert run is not None  # noqa: S101 - a run directory holds one
    for name, plan in plans.items():
        plan.check_same_tokenizer(checksum(run.tokenizers.source), f"The plan {name}")
        # Raises where the plan does not fit the model, before hours of work rather than after them.
        with use(evaluator.model, plan):
            pass
    parts = parts_of(evaluator, settings.calibration, settings.validation)
    choosing = _chosen(parts, run, settings)
    candidates = choosing.candidates()
    figures = _figures(evaluator, choosing, candidates, settings)
    trials = _trials(evaluator, replacements(candidates), settings)
    trials += [
        Trial(Target("plan", name, frozenset(all_heads(evaluator.projections))), None, plan)
        for name, plan in plans.items()
    ]
    outcomes = Trials(evaluator, run, settings).outcomes(trials)
    rows = [_row(outcome, figures, choosing) for outcome in outcomes]
    table = _table(parts, outcomes, rows, settings)
    heads = table[table["scope"] == "head"]
    heads = heads.assign(site=[str(name).partition(".")[0] for name in heads["replaced"]])
    return Substitution(
        table,
        prediction(heads, seed=settings.seed),
        run,
        settings,
        {name: len(part.examples) for name, part in parts._asdict().items()},
        _notes(evaluator, choosing, settings),
    )


def _chosen(parts: Parts, run: Run, settings: SubstitutionSettings) -> Choosing:
    """Every mechanism with what it learned on training sentences and its setting from validation ones."""
    validation, learning = encoded(parts.validation), encoded(parts.calibration)
    sites = sites_of(parts.test.model, validation, settings.sites)
    additive = additive_sites(parts.test.model)
    choosing = Choosing(
        {
            site: types_of_site(
                site,
                type_counts_of(run),
                validation,
                learning,
                whole=True,
                additive=site in additive,
            )
            for site in sites
        },
        settings.budgets,
        _known(settings.mechanisms),
        longest=parts.test.most_tokens,
    )
    _check_possible(choosing, settings)
    observed = partial(observe_sentences, sites=sites, progress=settings.progress)
    observed("calibrating", parts.calibration, choosing.learn)
    observed("choosing", parts.validation, choosing.measure)
    return choosing


def _check_possible(choosing: Choosing, settings: SubstitutionSettings) -> None:
    """Raises InputError for a mechanism that was asked for and that no site allows."""
    by_site = [
        refusals(site, additive=types.statistics.additive)
        for site, types in choosing.by_site.items()
    ]
    for name in settings.mechanisms or ():
        if all(name in refused for refused in by_site):
            msg = (
                f"The mechanism '{name}' cannot stand in {' or '.join(choosing.by_site)}: "
                f"{by_site[0][name]}; choose other mechanisms or other sites."
            )
            raise InputError(msg)


def _known(names: Sequence[str] | None) -> Sequence[str] | None:
    """The names of mechanisms that are wanted.

    Raises:
        InputError: there is no mechanism of one of them.
    """
    there = mechanism_names()
    unknown = [name for name in names or () if name not in there]
    if unknown:
        msg = f"There is no mechanism '{unknown[0]}' here; choose from: {', '.join(there)}."
        raise InputError(msg)
    return names


def _figures(
    test: Evaluator, choosing: Choosing, candidates: Candidates, settings: SubstitutionSettings
) -> pd.DataFrame:
    """Attention captured, output error and keys of every candidate on the test sentences, by head."""
    numbers = [one.number for one in encoded(test).sentences]
    measured = Measured(choosing.by_site, candidates, Scores(numbers))
    sites, progress = tuple(choosing.by_site), settings.progress
    observe_sentences("measuring", test, measured.add, sites=sites, progress=progress)
    return measured.scores.heads()


def _trials(
    evaluator: Evaluator, found: Iterable[Replacement], settings: SubstitutionSettings
) -> list[Trial]:
    """Every target with every mechanism that all its heads can have."""
    heads = [
        head
        for head in all_heads(evaluator.projections)
        if settings.sites is None or head.site in settings.sites
    ]
    counts = {layer: part.heads for layer, part in evaluator.projections.items()}
    there = list(found)
    trials = [
        Trial(target, one, one.plan(target, counts, evaluator.model.dtype))
        for target in targets(heads, settings.scopes)
        for one in there
        if one.has(target)
    ]
    tried = {trial.replacement.name for trial in trials if trial.replacement is not None}
    for name in settings.mechanisms or ():
        if settings.scopes and name not in tried:
            msg = (
                f"The mechanism '{name}' is not applicable within the budget to all heads of a "
                f"{' or '.join(settings.scopes)} here; add a smaller scope, choose other sites, or raise "
                "the budget."
            )
            raise InputError(msg)
    return trials


def _notes(
    evaluator: Evaluator, choosing: Choosing, settings: SubstitutionSettings
) -> tuple[Note, ...]:
    """Sentences that are lacking, and mechanisms that have no form or no setting for a site."""
    count, read = len(evaluator.examples), len(evaluator.subject.texts)
    notes: list[Note] = []
    if count < ENOUGH_FOR_INTERVALS:
        notes.append(FewForIntervals(count))
    if read < settings.sentences:
        notes.append(FewerThanAsked(settings.sentences, evaluator.origin, read))
    if evaluator.dropped:
        notes.append(SentencesDropped(evaluator.dropped, read, evaluator.most_tokens, "test"))
    notes += [
        MechanismLeftOut(site, name, reason)
        for site, types in choosing.by_site.items()
        for name, reason in refusals(site, additive=types.statistics.additive).items()
        if settings.mechanisms is None or name in settings.mechanisms
    ]
    return (*notes, *(NoSettingAtSite(*lacking) for lacking in choosing.without_setting()))


def _table(
    parts: Parts,
    outcomes: Sequence[Outcome],
    rows: Sequence[Mapping[str, Any]],
    settings: SubstitutionSettings,
) -> pd.DataFrame:
    """A row an outcome, with its changes from the model with full attention and as many steps."""
    evaluator, table = parts.test, pd.DataFrame(rows)
    table["sentences"] = len(evaluator.examples)
    table["validation_sentences"] = len(parts.validation.examples)
    table["calibration_sentences"] = len(parts.calibration.examples)
    found: dict[str, dict[int, Difference]] = {stem: {} for stem in UNITS}
    for steps in sorted({outcome.steps for outcome in outcomes}):
        same = [index for index, one in enumerate(outcomes) if one.steps == steps]
        whole = next(outcomes[index] for index in same if outcomes[index].trial is None)
        others = [index for index in same if outcomes[index].trial is not None]
        losses = loss_differences(
            whole.losses, [outcomes[index].losses for index in others], evaluator.tokens,
            seed=settings.seed,
        )  # fmt: skip
        found["loss"] |= zip(others, losses, strict=True)
        written = {index: outcomes[index].translations for index in others}
        known = {index: texts for index, texts in written.items() if texts is not None}
        if known and whole.translations is not None:
            scores = bleu_differences(
                whole.translations, list(known.values()), evaluator.references,
                seed=settings.seed,
            )  # fmt: skip
            found["bleu"] |= zip(known, scores, strict=True)
    for stem, unit in UNITS.items():
        fill_changes(table, stem, found[stem], unit=unit)
    return table[[column.name for column in SUBSTITUTIONS.columns]].astype(
        {"budget": "Int64", "settings_tried": "Int64"}
    )


def _row(outcome: Outcome, figures: pd.DataFrame, choosing: Choosing) -> dict[str, Any]:
    """What is known of an outcome before it is compared."""
    row: dict[str, Any] = {
        "scope": "model", "replaced": "", "budget": pd.NA, "mechanism": "full", "level": "",
        "written": "", "settings_tried": pd.NA, "replaced_heads": 0, "steps": outcome.steps,
        **dict.fromkeys(MEASURED, np.nan),
        "loss_nats": float(outcome.losses.sum() / outcome.tokens),
        "bleu": np.nan if outcome.bleu is None else outcome.bleu, "time_ratio": outcome.time_ratio,
    }  # fmt: skip
    if outcome.trial is None:
        return row
    target, one = outcome.trial.target, outcome.trial.replacement
    row |= {"scope": target.scope, "replaced": target.name, "replaced_heads": len(target.heads)}
    if one is None:
        return row | {"mechanism": target.name, "replaced": "all"}
    own = figures[(figures["budget"] == one.budget) & (figures["mechanism"] == one.name)]
    addresses = map(Head, own["site"], own["layer"], own["head"])
    means = own[[head in target.heads for head in addresses]][list(MEASURED)].mean()
    return row | {
        "budget": one.budget, "mechanism": one.name, "level": one.level,
        "written": one.written_at(target),
        "settings_tried": sum(choosing.tried(one.name, site) for site in target.sites),
        **dict(zip(MEASURED, means.tolist(), strict=True)),
    }  # fmt: skip
