"""How much a model's heads matter: gradients, heads ablated alone, heads removed one after another."""

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pandas as pd
from torch import Tensor

from attnlab.ablation import (
    REPLACEMENTS,
    GradientImportance,
    Means,
    Replacement,
    ablate_cumulatively,
    ablate_each,
    ablated,
    add_significance,
    all_heads,
    gradient_importance,
    mean_outputs,
    rank_agreement,
)
from attnlab.core import (
    BLEU,
    BLEU_CHANGE,
    FEWEST_FOR_INTERVAL,
    HEAD_COLUMNS,
    LOSS_CHANGE,
    AttnlabError,
    Head,
    InputError,
    Note,
    Progress,
    layer_name,
    options_of,
)
from attnlab.evaluation import (
    ENOUGH_FOR_INTERVALS,
    LOSS_IN_WORDS,
    Change,
    Evaluator,
    FewForIntervals,
    Quality,
    Steps,
    load_evaluator,
    notes_on_texts,
    training_texts,
)
from attnlab.models import Source, leaving_modes, score
from attnlab.questions.importance.question import (
    CUMULATIVE,
    FEWEST_SENTENCES,
    FIRST,
    QUESTION,
    TESTED,
    ImportanceSettings,
    NoGradients,
    NoMeans,
    NotUniform,
)
from attnlab.reading import Sentences
from attnlab.results import Result

# By the name of a way or an order.
Losses = Mapping[str, Mapping[Head, Tensor]]
Orders = Mapping[str, Sequence[Head]]


@dataclass(frozen=True)
class _Way:
    """One way to replace heads: those that it can replace, and what it needs, of which sentences."""

    name: Replacement
    heads: Sequence[Head]
    means: Means | None = None
    learning: Sentences | None = None


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
        The tables `importance` (a row per head), `replaced` (a row per head and way to replace it),
        `cumulative` (a row per order and number of heads removed) and `rank_agreement` (a row per pair of
        measures).

    Raises:
        InputError: the source, the sentences or an option cannot be used.
    """
    evaluator = load_evaluator(
        source, sentences=settings.sentences_to_read, text=settings.text, corpus=settings.corpus,
        pair=settings.pair, batch_size=settings.batch_size, device=settings.device,
        loss=settings.loss, seed=settings.seed,
    )  # fmt: skip
    before = Quality(evaluator.whole_losses(), evaluator.tokens, (), evaluator.references)
    evaluator = _at_sites(evaluator, settings.sites)
    translated = _ways_translated(evaluator, settings)
    ways, notes = _possible_ways(evaluator, settings)
    halves = [evaluator.half(first) for first in (0, 1)]
    slopes = _gradients(halves, settings.progress) if evaluator.scores else []
    losses = _losses(evaluator, ways, settings.progress)
    whole = next(way for way in ways if len(way.heads) == len(all_heads(evaluator.projections)))
    rises = {head: (losses[whole.name][head] - before.losses)[::2] for head in whole.heads}
    replaced = _replaced(evaluator, before, ways, losses, translated, progress=settings.progress)
    heads = _heads(evaluator, slopes, replaced)
    if not slopes:
        notes.append(NoGradients())
    orders = _orders(rises, slopes[:1], seed=settings.seed)
    if len(halves[1]) < FEWEST_FOR_INTERVAL:
        notes.append(FewForIntervals(len(halves[1]), "reporting"))
    return Result(
        QUESTION.name,
        f"Importance of the heads of {evaluator.loaded.label}",
        {
            "importance": heads,
            "replaced": pd.concat(replaced.values(), ignore_index=True),
            "cumulative": removal_curves(halves, orders, whole, settings, bleu=bool(translated)),
            "rank_agreement": rank_agreement(_measures(heads, replaced)),
        },
        _about(evaluator, ways, float(before.losses.sum() / before.tokens.sum())),
        (*notes, *_on_texts(evaluator, ways, settings)),
        {"loss": evaluator.loss},
        weights=evaluator.loaded.weights,
    )


def _at_sites(evaluator: Evaluator, sites: Sequence[str] | None) -> Evaluator:
    """The evaluator with the heads of these sites alone."""
    if len(evaluator) < FEWEST_SENTENCES:
        msg = f"Only {len(evaluator)} sentences can be used; importance needs at least {FEWEST_SENTENCES}."
        raise InputError(msg)
    kept = evaluator.sites_among(sites)
    layers = {layer: part for layer, part in evaluator.projections.items() if layer[0] in kept}
    return replace(evaluator, find_projections=lambda: layers)


def _ways_translated(evaluator: Evaluator, settings: ImportanceSettings) -> Sequence[str]:
    """The replacements whose change of BLEU is measured.

    Raises:
        InputError: BLEU of a model that does not translate.
    """
    named = [name for name in settings.bleu or () if name != FIRST]
    if named and not evaluator.translates:
        msg = f"{type(evaluator.model).__name__} translates nothing; leave BLEU out (none)."
        raise InputError(msg)
    first = (
        settings.replacements[:1] if FIRST in (settings.bleu or ()) and evaluator.translates else ()
    )
    return [*first, *named]


def _possible_ways(
    evaluator: Evaluator, settings: ImportanceSettings
) -> tuple[list[_Way], list[Note]]:
    """The replacements with what they need; heads and means that cannot be had are left out."""
    heads = all_heads(evaluator.projections)
    notes: list[Note] = []
    if len(evaluator) < ENOUGH_FOR_INTERVALS:
        notes.append(FewForIntervals(len(evaluator)))
    ways, why = [], ""
    # In the order in which they are asked for: heads are removed by the first.
    for name in sorted(REPLACEMENTS, key=[*settings.replacements, *REPLACEMENTS].index):
        if name not in settings.replacements:
            continue
        way = _Way(name, heads)
        if name == "mean":
            try:
                way = _with_means(way, evaluator, settings)
            except AttnlabError as error:
                if settings.brings_calibration:
                    raise
                why = f" The mean cannot be had: {error}"
                notes.append(NoMeans(str(error)))
                continue
        elif name == "uniform":
            way = _Way(name, [head for head in heads if _can_be_uniform(evaluator, head)])
            others = [layer_name(h.site, h.layer) for h in heads if h not in way.heads]
            notes += [NotUniform(tuple(dict.fromkeys(others)))] if others else []
        ways += [way] if way.heads else []
    if not any(len(way.heads) == len(heads) for way in ways):
        msg = f"No replacement that was named can be done for every head here; add zero.{why}"
        raise InputError(msg, options=["calibration_text"])
    return ways, notes


def _with_means(way: _Way, evaluator: Evaluator, settings: ImportanceSettings) -> _Way:
    """The way with mean outputs of all heads, and the training sentences that they are of."""
    assert evaluator.texts is not None  # noqa: S101 - it was loaded from them
    texts = training_texts(
        evaluator.loaded, evaluator.texts, settings.calibration, settings.calibration_text
    )
    learning = evaluator.on(texts, "training sentences")
    means = mean_outputs(evaluator.projections, learning.batches, learning.run, learning.real)
    return replace(way, means=means, learning=learning.sentences)


def _can_be_uniform(evaluator: Evaluator, head: Head) -> bool:
    try:
        with ablated(evaluator.projections, [head], "uniform"):
            return True
    except InputError:
        return False


def _gradients(halves: Sequence[Evaluator], progress: Progress | None) -> list[GradientImportance]:
    """Gradient importance on each half."""
    steps = Steps("Gradients of batches", sum(len(half.batches) for half in halves), progress)
    measured = []
    for half in halves:
        of_batch = partial(gradient_importance, half.projections, losses=half.example_losses)
        first, *rest = [steps.of(partial(of_batch, batch))() for batch in half.batches]
        measured.append(sum(rest, start=first))
    return measured


def _losses(evaluator: Evaluator, ways: Sequence[_Way], progress: Progress | None) -> Losses:
    """Losses of all sentences with each head replaced alone."""
    steps = Steps("Ablating heads", sum(len(way.heads) for way in ways), progress)
    behind = evaluator.reading_once()
    losses: dict[str, dict[Head, Tensor]] = {}
    for way in ways:
        losses[way.name] = {}
        for reader, of_encoder in ((evaluator, True), (behind, False)):
            heads = [head for head in way.heads if (head.site == "encoder") == of_encoder]
            losses[way.name] |= ablate_each(
                evaluator.projections, heads, way.name, steps.of(reader.losses), way.means
            )
    return losses


def _replaced(
    evaluator: Evaluator,
    before: Quality,
    ways: Sequence[_Way],
    losses: Losses,
    translated: Sequence[str],
    *,
    progress: Progress | None,
) -> dict[str, pd.DataFrame]:
    """The rows of the table `replaced` by way: what changes with each head replaced alone."""
    count = sum(len(way.heads) for way in ways if way.name in translated)
    steps = Steps("Translating without one head", count, progress)
    whole = evaluator.translations() if count else []
    # A distance is above 0 whatever is replaced: there is nothing to test.
    estimates = TESTED if evaluator.scores else (LOSS_CHANGE, BLEU_CHANGE)
    translate = steps.of(evaluator.translations)
    tables: dict[str, pd.DataFrame] = {}
    for way in ways:
        texts = (
            ablate_each(evaluator.projections, way.heads, way.name, translate, way.means)
            if way.name in translated
            else {}
        )
        qualities = [
            replace(before, losses=losses[way.name][head], translations=texts.get(head, ()))
            for head in way.heads
        ]
        untouched = replace(before, translations=whole if texts else ())
        cells = [change.cells(*estimates) for change in Change.each(untouched, qualities)]
        heads = pd.DataFrame(way.heads, columns=HEAD_COLUMNS)
        table = heads.assign(way=way.name).join(pd.DataFrame(cells))
        for estimate in estimates:
            if estimate.p in table:
                add_significance(table, estimate)
        tables[way.name] = table
    return tables


def _heads(
    evaluator: Evaluator,
    slopes: Sequence[GradientImportance],
    replaced: Mapping[str, pd.DataFrame],
) -> pd.DataFrame:
    """The table `importance`: gradients of every head, and what changes with the head zeroed."""
    table = pd.DataFrame(all_heads(evaluator.projections), columns=HEAD_COLUMNS)
    if slopes:
        table = sum(slopes[1:], start=slopes[0]).table()
    zeroed = [rows.drop(columns="way") for way, rows in replaced.items() if way == "zero"]
    return table.merge(zeroed[0], on=HEAD_COLUMNS) if zeroed else table


def _orders(
    rises: Mapping[Head, Tensor], slopes: Sequence[GradientImportance], *, seed: int
) -> Orders:
    """The orders in which heads are removed, by what was measured on the first half."""
    heads = list(rises)
    measures = pd.DataFrame({"loss": [float(rises[head].sum()) for head in heads]})
    for slope in slopes:
        values = slope.table().set_index(HEAD_COLUMNS)["gradient_importance"]
        measures.insert(0, "gradient", [values[tuple(head)] for head in heads])
    return orders_of(heads, measures, seed=seed)


def orders_of(heads: Sequence[Head], measures: pd.DataFrame, *, seed: int) -> Orders:
    """The heads in rising order of every column of `measures` (a row a head), and at random."""
    orders = {
        str(name): [heads[index] for index in column.argsort(kind="stable")]
        for name, column in measures.items()
    }
    shuffled = list(heads)
    random.Random(seed).shuffle(shuffled)
    return {**orders, "random": shuffled}


def removal_curves(
    halves: Sequence[Evaluator],
    orders: Orders,
    way: _Way,
    settings: ImportanceSettings,
    *,
    bleu: bool,
) -> pd.DataFrame:
    """Loss, and BLEU at a few points, with none, one, two, ... and all heads of an order removed.

    Args:
        halves: the sentences that the orders were chosen on, and others.
        orders: heads by the name of the order, the first to be removed first.
        way: what stands in for a removed head.
        settings: of the study.
        bleu: whether BLEU is measured.

    Returns:
        The columns of `attnlab.questions.importance.question.CUMULATIVE`; an interval is for one step at a
        time, uncorrected, and `bleu` NaN between the points.
    """
    choosing, reporting = halves
    passes = sum(len(order) + 1 for order in orders.values())
    losses = Steps("Removing heads", passes, settings.progress).of(reporting.losses)
    tables = []
    for name, order in orders.items():
        each = ablate_cumulatively(reporting.projections, order, way.name, losses, way.means)
        qualities = [Quality(one, reporting.tokens) for one in each]
        changes = Change.each(qualities[0], qualities)
        table = pd.DataFrame([change.scores | change.cells() for change in changes])
        removed = ["", *map(str, order)]
        tables.append(table.assign(order=name, heads_removed=table.index, removed=removed))
    curves = pd.concat(tables, ignore_index=True).assign(
        replacement=way.name,
        chosen_on=f"{len(choosing)} sentences: 1st, 3rd, ...",
        reported_on=f"{len(reporting)} sentences: 2nd, 4th, ...",
    )
    scores = _scores_of_points(reporting, orders, way, settings) if bleu else {}
    steps = zip(curves["order"], curves["heads_removed"], strict=True)
    curves[BLEU.name] = [scores.get(step, math.nan) for step in steps]
    return curves[[*CUMULATIVE]]


def _scores_of_points(
    evaluator: Evaluator, orders: Orders, way: _Way, settings: ImportanceSettings
) -> dict[tuple[str, int], float]:
    """BLEU by order and number of heads removed; of the same heads it is measured once."""
    removed = {
        (name, count): frozenset(order[:count])
        for name, order in orders.items()
        for count in bleu_points(len(order), settings.points)
    }
    different = dict.fromkeys(removed.values())
    steps = Steps("Translating with heads removed", len(different), settings.progress)
    scores = {}
    for heads in different:
        with ablated(evaluator.projections, sorted(heads), way.name, way.means):
            written = steps.of(evaluator.translations)()
        scores[heads] = score(written, evaluator.references).bleu
    return {step: scores[heads] for step, heads in removed.items()}


def bleu_points(heads: int, points: int) -> list[int]:
    """Numbers of heads, evenly from none to all.

    >>> bleu_points(24, 5)
    [0, 6, 12, 18, 24]
    >>> bleu_points(2, 10)
    [0, 1, 2]
    """
    return sorted({round(index) for index in np.linspace(0, heads, min(points, heads + 1))})


def _measures(heads: pd.DataFrame, replaced: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Every measure by its size where a head is needed: what helps the model counts as large."""
    gradients = {"gradient": "gradient_importance", "gradient in layer": "gradient_in_layer"}
    columns = {measure: heads[name] for measure, name in gradients.items() if name in heads}
    for way in (name for name in REPLACEMENTS if name in replaced):
        rows = heads[HEAD_COLUMNS].merge(replaced[way], how="left")
        for measure, name, sign in (("loss", LOSS_CHANGE.name, 1), ("BLEU", BLEU_CHANGE.name, -1)):
            if name in rows:
                columns[f"{way}: {measure}"] = sign * rows[name]
    return pd.DataFrame(columns)


def _on_texts(
    evaluator: Evaluator, ways: Sequence[_Way], settings: ImportanceSettings
) -> list[Note]:
    assert evaluator.texts is not None  # noqa: S101 - it was loaded from them
    parts = {"held-out": evaluator.sentences}
    for learning in _learning(ways):
        parts["training"] = learning
    return notes_on_texts(
        evaluator.loaded, evaluator.texts, parts, settings.sentences, settings.sites
    )


def _about(evaluator: Evaluator, ways: Sequence[_Way], loss: float) -> dict[str, str]:
    model, sentences = evaluator.loaded, evaluator.sentences
    of_means = [f"{len(one)}{_left_out(one)}" for one in _learning(ways)]
    return {
        **model.facts,
        **model.history,
        "Sentences": f"{len(evaluator)} from {sentences.origin}{_left_out(sentences)}",
        **dict(zip(["Training sentences"], of_means, strict=False)),
        "Loss of the whole model": f"{loss:.4f} ({LOSS_IN_WORDS[evaluator.loss]})",
        "Significant": "at 5% after Holm's correction for the number of heads",
        "Device": str(evaluator.model.device),
    }


def _learning(ways: Sequence[_Way]) -> list[Sentences]:
    """The training sentences that means are of; none without means."""
    return [way.learning for way in ways if way.learning is not None]


def _left_out(sentences: Sentences) -> str:
    reasons = [f"{one.count} {one.reason}" for one in sentences.dropped]
    return f", left out: {', '.join(reasons)}" if reasons else ""
