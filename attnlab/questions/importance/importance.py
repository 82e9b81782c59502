"""How much a model's heads matter: gradients, heads ablated alone, heads removed one after another."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pandas as pd
from torch import Tensor

from attnlab.ablation import (
    REPLACEMENTS,
    Difference,
    GradientImportance,
    Means,
    Replacement,
    ablate_cumulatively,
    ablate_each,
    ablated,
    add_changes,
    all_heads,
    bleu_differences,
    gradient_importance,
    loss_differences,
    mean_outputs,
    rank_agreement,
)
from attnlab.core import (
    FEWEST_FOR_INTERVAL,
    AttnlabError,
    Estimate,
    Head,
    InputError,
    Note,
    layer_name,
    options_of,
)
from attnlab.evaluation import (
    ENOUGH_FOR_INTERVALS,
    LOSS_IN_WORDS,
    Evaluator,
    FewForIntervals,
    Progress,
    ScoredBatch,
    Steps,
    load_evaluator,
    notes_on_texts,
    training_texts,
    versions_in_words,
)
from attnlab.models import Source, leaving_modes, score
from attnlab.questions.importance.question import (
    BLEU,
    FEWEST_SENTENCES,
    LOSS,
    QUESTION,
    REMOVED_CHANGE,
    ImportanceSettings,
    NoGradients,
    NoMeans,
    NotUniform,
)
from attnlab.reading import Sentences
from attnlab.results import Result


def removal_curves(
    evaluator: Evaluator,
    orders: Mapping[str, Sequence[Head]],
    replacement: Replacement,
    means: Means | None,
    *,
    points: int,
    bleu: bool,
    losses: Steps,
    translations: Steps,
) -> pd.DataFrame:
    """Loss, and BLEU at a few points, with none, one, two, ... and all heads of an order removed.

    Args:
        evaluator: on sentences that the orders were not chosen on.
        orders: heads by the name of the order, the first to be removed first.
        replacement: what stands in for a removed head.
        means: mean outputs, for `mean`.
        points: at how many numbers of heads BLEU is measured, none and all among them.
        bleu: whether it is measured at all.
        losses: told of every number of heads.
        translations: told of every point.

    Returns:
        The columns of `attnlab.questions.importance.question.CUMULATIVE`; an interval is for one step at a
        time, uncorrected, and `bleu` NaN between the points.
    """
    tables = []
    for name, order in orders.items():
        steps = ablate_cumulatively(
            evaluator.projections, order, replacement, losses.of(evaluator.losses), means
        )
        found = loss_differences(steps[0], steps, evaluator.tokens)
        tables.append(_curve(name, order, found).assign(replacement=replacement))
    table = pd.concat(tables, ignore_index=True)
    table["bleu"] = np.nan
    if bleu:
        known: dict[frozenset[Head], float] = {}
        for name, order in orders.items():
            for count in bleu_points(len(order), points):
                removed = frozenset(order[:count])
                if removed not in known:
                    with ablated(evaluator.projections, sorted(removed), replacement, means):
                        written = translations.of(evaluator.translations)()
                    known[removed] = score(written, evaluator.references).bleu
                row = (table["order"] == name) & (table["heads_removed"] == count)
                table.loc[row, "bleu"] = known[removed]
    return table


def _curve(name: str, order: Sequence[Head], found: Sequence[Difference]) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "order": name,
            "heads_removed": range(len(found)),
            "removed": ["", *map(str, order)],
            "loss": [step.after for step in found],
            REMOVED_CHANGE.name: [step.change for step in found],
            REMOVED_CHANGE.low: [step.low for step in found],
            REMOVED_CHANGE.high: [step.high for step in found],
        }
    )


def bleu_points(heads: int, points: int) -> list[int]:
    """Numbers of heads, evenly from none to all.

    >>> bleu_points(24, 5)
    [0, 6, 12, 18, 24]
    >>> bleu_points(2, 10)
    [0, 1, 2]
    """
    return sorted({round(index) for index in np.linspace(0, heads, min(points, heads + 1))})


def count_translations(orders: Mapping[str, Sequence[Head]], points: int) -> int:
    """How many different models the points of all orders translate with."""
    return len(
        {
            frozenset(order[:count])
            for order in orders.values()
            for count in bleu_points(len(order), points)
        }
    )


def orders_of(heads: Sequence[Head], measures: pd.DataFrame, *, seed: int) -> dict[str, list[Head]]:
    """The heads in rising order of every column of `measures` (a row a head), and at random."""
    orders = {
        str(name): [heads[index] for index in column.argsort(kind="stable")]
        for name, column in measures.items()
    }
    shuffled = list(heads)
    random.Random(seed).shuffle(shuffled)
    return {**orders, "random": shuffled}


# Columns of `GradientImportance.table`, as they are called beside those of ablation.
_OF_GRADIENTS = {
    "importance": "gradient_importance",
    "standard_error": "gradient_standard_error",
    "importance_in_layer": "gradient_in_layer",
}


@options_of(ImportanceSettings)
@leaving_modes
def importance(source: Source, settings: ImportanceSettings) -> Result:
    """Importance of every head of a model, by its gradient and by ablation.

    The orders in which heads are removed are chosen on every other held-out sentence, the curves
    are measured on the rest; mean outputs come from training sentences.

    Cost: for every head and replacement one pass over the sentences (decoder and cross heads spare
    the encoder), for each of three orders as many over half of them, and the translations.

    Args:
        source: a run or its folder, a transformers encoder-decoder or language model, or a pair (model,
            tokenizer), see `attnlab.evaluation.evaluator.load_evaluator`.
        settings: as keyword arguments.

    Returns:
        The tables `importance` (a row per head, NaN where a head cannot be replaced), `cumulative` (a row
        per order and number of heads removed) and `rank_agreement` (a row per pair of measures).

    Raises:
        InputError: the source, the sentences or an option cannot be used.
    """
    seed, progress = settings.seed, settings.progress
    evaluator = load_evaluator(
        source, sentences=settings.wanted, text=settings.text, corpus=settings.corpus,
        pair=settings.pair, batch_size=settings.batch_size, device=settings.device,
        loss=settings.loss, seed=seed,
    )  # fmt: skip
    before = evaluator.whole_losses()
    evaluator = _at_sites(evaluator, settings.sites)
    bleu = _bleu(evaluator, settings)
    ablations, notes = _possible_ablations(evaluator, settings)
    halves = [evaluator.half(first) for first in (0, 1)]
    slopes = _gradients(halves, progress) if evaluator.scores else None
    losses = _ablated_losses(evaluator, ablations, progress)
    if slopes is None:
        notes.append(NoGradients())
        table = pd.DataFrame([head._asdict() for head in all_heads(evaluator.projections)])
    else:
        table = (slopes[0] + slopes[1]).table().rename(columns=_OF_GRADIENTS)
    for ablation in ablations:
        after = losses[ablation.replacement]
        changes = loss_differences(before, list(after.values()), evaluator.tokens)
        found = dict(zip(after, changes, strict=True))
        _add_changes(table, LOSS[ablation.replacement], found)
        if not evaluator.scores:
            # A distance is above 0 whatever is replaced: there is nothing to test.
            estimate = LOSS[ablation.replacement]
            table = table.drop(columns=[estimate.p, estimate.significant])
    for ablation, found in _bleu_changes(evaluator, ablations, bleu, progress):
        _add_changes(table, BLEU[ablation.replacement], found)
    cumulative = _cumulative(
        halves, slopes[0] if slopes else None, losses, before, ablations,
        bleu=bool(bleu), points=settings.points, seed=seed, progress=progress,
    )  # fmt: skip
    if len(halves[1]) < FEWEST_FOR_INTERVAL:
        notes.append(FewForIntervals(len(halves[1]), "reporting"))
    return Result(
        QUESTION.name,
        f"Importance of the heads of {evaluator.loaded.label}",
        {
            "importance": table,
            "cumulative": cumulative,
            "rank_agreement": rank_agreement(_measures(table)),
        },
        _about(evaluator, ablations, float(before.sum() / evaluator.tokens.sum())),
        (*notes, *_on_texts(evaluator, ablations, settings)),
        {"loss": evaluator.loss},
        weights=evaluator.loaded.weights,
    )


def _on_texts(
    evaluator: Evaluator, ablations: Sequence["_Ablation"], settings: ImportanceSettings
) -> list[Note]:
    assert evaluator.texts is not None  # noqa: S101 - it was loaded from them
    learning = _learning(ablations)
    parts = {"held-out": evaluator.sentences}
    if learning is not None:
        parts["training"] = learning
    return notes_on_texts(
        evaluator.loaded, evaluator.texts, parts, settings.sentences, settings.sites
    )


def _learning(ablations: Sequence["_Ablation"]) -> Sentences | None:
    """The training sentences that means are of."""
    return next((one.learning for one in ablations if one.learning is not None), None)


@dataclass(frozen=True)
class _Ablation:
    """One way to replace heads: those that it can replace, and what it needs, of which sentences."""

    replacement: Replacement
    heads: tuple[Head, ...]
    means: Means | None
    learning: Sentences | None


def _possible_ablations(
    evaluator: Evaluator, settings: ImportanceSettings
) -> tuple[list[_Ablation], list[Note]]:
    """The replacements with what they need; heads and means that cannot be had are left out."""
    heads, replacements = all_heads(evaluator.projections), settings.replacements
    notes: list[Note] = []
    if len(evaluator) < ENOUGH_FOR_INTERVALS:
        notes.append(FewForIntervals(len(evaluator)))
    found = []
    # In the order in which they are asked for: heads are removed by the first.
    for name in sorted(set(REPLACEMENTS) & {*replacements}, key=list(replacements).index):
        means, learning, replaceable = None, None, heads
        if name == "mean":
            try:
                means, learning = _means(evaluator, settings)
            except AttnlabError as error:
                if settings.brings_calibration:
                    raise
                notes.append(NoMeans(str(error)))
                continue
        if name == "uniform":
            replaceable = [head for head in heads if _can_be_uniform(evaluator, head)]
            if len(replaceable) < len(heads):
                layers = dict.fromkeys(
                    layer_name(h.site, h.layer) for h in heads if h not in replaceable
                )
                notes.append(NotUniform(tuple(layers)))
        found.append(_Ablation(name, tuple(replaceable), means, learning))
    if not any(len(ablation.heads) == len(heads) for ablation in found):
        reasons = [note.reason for note in notes if isinstance(note, NoMeans)]
        msg = "No replacement that was named can be done for every head here; add zero."
        whole = " ".join([msg, *(f"The mean cannot be had: {one}" for one in reasons)])
        raise InputError(whole, options=["calibration_text"])
    return found, notes


def _means(evaluator: Evaluator, settings: ImportanceSettings) -> tuple[Means, Sentences]:
    """Mean outputs of all heads, and the training sentences that they are of."""
    assert evaluator.texts is not None  # noqa: S101 - it was loaded from them
    texts = training_texts(
        evaluator.loaded,
        evaluator.texts,
        settings.calibration,
        settings.calibration_text,
    )
    learning = evaluator.on(texts, "training sentences")
    means = mean_outputs(evaluator.projections, learning.batches, learning.run, learning.real)
    return means, learning.sentences


def _can_be_uniform(evaluator: Evaluator, head: Head) -> bool:
    try:
        with ablated(evaluator.projections, [head], "uniform"):
            return True
    except InputError:
        return False


def _ablated_losses(
    evaluator: Evaluator, ablations: Sequence[_Ablation], progress: Progress | None
) -> dict[Replacement, dict[Head, Tensor]]:
    """Losses of all sentences with each head replaced alone."""
    steps = Steps("Ablating heads", sum(len(one.heads) for one in ablations), progress)
    behind = evaluator.reading_once()
    found: dict[Replacement, dict[Head, Tensor]] = {}
    for one in ablations:
        by_reader = [
            (evaluator, [head for head in one.heads if head.site == "encoder"]),
            (behind, [head for head in one.heads if head.site != "encoder"]),
        ]
        found[one.replacement] = {}
        for reader, heads in by_reader:
            found[one.replacement] |= ablate_each(
                evaluator.projections, heads, one.replacement, steps.of(reader.losses), one.means
            )
    return found


def _bleu_changes(
    evaluator: Evaluator,
    ablations: Sequence[_Ablation],
    bleu: Sequence[str],
    progress: Progress | None,
) -> list[tuple[_Ablation, dict[Head, Difference]]]:
    """Changes of BLEU with each head replaced alone, for the replacements that were asked for."""
    chosen = [one for one in ablations if one.replacement in bleu]
    if not chosen:
        return []
    steps = Steps("Translating without one head", sum(len(one.heads) for one in chosen), progress)
    before, gold = evaluator.translations(), evaluator.references
    found = []
    for one in chosen:
        written = ablate_each(
            evaluator.projections,
            one.heads,
            one.replacement,
            steps.of(evaluator.translations),
            one.means,
        )
        changes = bleu_differences(before, list(written.values()), gold)
        found.append((one, dict(zip(written, changes, strict=True))))
    return found


def _add_changes(table: pd.DataFrame, estimate: Estimate, found: Mapping[Head, Difference]) -> None:
    rows = dict(
        zip(
            zip(table["site"], table["layer"], table["head"], strict=True), table.index, strict=True
        )
    )
    changes = {rows[head.site, head.layer, head.head]: one for head, one in found.items()}
    add_changes(table, estimate, changes)


def _bleu(evaluator: Evaluator, settings: ImportanceSettings) -> Sequence[str]:
    """The replacements whose change of BLEU is measured.

    Raises:
        InputError: BLEU of a model that does not translate.
    """
    if settings.bleu and not evaluator.translates:
        msg = f"{type(evaluator.model).__name__} translates nothing; leave BLEU out (none)."
        raise InputError(msg)
    usual = settings.replacements[:1] if evaluator.translates else ()
    return usual if settings.bleu is None else settings.bleu


def _at_sites(evaluator: Evaluator, sites: Sequence[str] | None) -> Evaluator:
    """The evaluator with the heads of the wanted sites alone."""
    if len(evaluator) < FEWEST_SENTENCES:
        msg = (
            f"Only {len(evaluator)} sentences can be used; importance needs at least "
            f"{FEWEST_SENTENCES}."
        )
        raise InputError(msg)
    if sites is None:
        return evaluator
    there = {site for site, _ in evaluator.projections}
    missing = [site for site in sites if site not in there]
    if missing:
        msg = f"The model has no {missing[0]} attention; it has: {', '.join(sorted(there))}."
        raise InputError(msg)
    kept = {layer: part for layer, part in evaluator.projections.items() if layer[0] in sites}
    return replace(evaluator, find_projections=lambda: kept)


def _gradients(halves: Sequence[Evaluator], progress: Progress | None) -> list[GradientImportance]:
    """Of both halves."""
    steps = Steps("Gradients of batches", sum(len(half.batches) for half in halves), progress)
    found = []
    for half in halves:

        def measure(batch: ScoredBatch, half: Evaluator = half) -> GradientImportance:
            return gradient_importance(half.projections, batch, half.example_losses)

        first, *rest = [steps.of(partial(measure, batch))() for batch in half.batches]
        found.append(sum(rest, start=first))
    return found


def _cumulative(
    halves: Sequence[Evaluator],
    slopes: GradientImportance | None,
    losses: Mapping[Replacement, Mapping[Head, Tensor]],
    before: Tensor,
    ablations: Sequence[_Ablation],
    *,
    bleu: bool,
    points: int,
    seed: int,
    progress: Progress | None,
) -> pd.DataFrame:
    """Curves on the second half, orders from the first."""
    choosing, reporting = halves
    heads = all_heads(reporting.projections)
    one = next(found for found in ablations if len(found.heads) == len(heads))
    measures = pd.DataFrame(
        {"loss": [float((losses[one.replacement][h] - before)[::2].sum()) for h in heads]}
    )
    if slopes is not None:
        table = slopes.table()
        keys = map(Head, table["site"], table["layer"], table["head"])
        by_head = dict(zip(keys, table["importance"], strict=True))
        measures.insert(0, "gradient", [by_head[head] for head in heads])
    orders = orders_of(heads, measures, seed=seed)
    passes = len(orders) * (len(heads) + 1)
    curves = removal_curves(
        reporting,
        orders,
        one.replacement,
        one.means,
        points=points,
        bleu=bleu,
        losses=Steps("Removing heads", passes, progress),
        translations=Steps(
            "Translating with heads removed", count_translations(orders, points), progress
        ),
    )
    number = len(choosing)
    return curves.assign(
        chosen_on=f"{number} sentences: 1st, 3rd, ...",
        reported_on=f"{len(reporting)} sentences: 2nd, 4th, ...",
    )


def _measures(table: pd.DataFrame) -> pd.DataFrame:
    """Every measure by its size where a head is needed: what helps the model counts as large."""
    gradients = {"gradient": "gradient_importance", "gradient in layer": "gradient_in_layer"}
    columns = {measure: table[name] for measure, name in gradients.items() if name in table}
    for name in REPLACEMENTS:
        if LOSS[name].name in table:
            columns[f"{name}: loss"] = table[LOSS[name].name]
        if BLEU[name].name in table:
            columns[f"{name}: BLEU"] = -table[BLEU[name].name]
    return pd.DataFrame(columns)


def _left_out(sentences: Sentences) -> str:
    reasons = [f"{one.count} {one.reason}" for one in sentences.dropped]
    return f", left out: {', '.join(reasons)}" if reasons else ""


def _about(evaluator: Evaluator, ablations: Sequence[_Ablation], loss: float) -> dict[str, str]:
    model = evaluator.loaded
    learning = _learning(ablations)
    of_means = (
        {} if learning is None else {"Training sentences": f"{len(learning)}{_left_out(learning)}"}
    )
    return {
        **model.facts,
        **model.history,
        "Sentences": f"{len(evaluator)} from {evaluator.sentences.origin}{_left_out(evaluator.sentences)}",
        **of_means,
        "Loss of the whole model": f"{loss:.4f} ({LOSS_IN_WORDS[evaluator.loss]})",
        "Significant": "at 5% after Holm's correction for the number of heads",
        "Device": str(evaluator.model.device),
        **versions_in_words(),
    }
