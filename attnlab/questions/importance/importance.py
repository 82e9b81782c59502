"""How much a model's heads matter: gradients, heads ablated alone, heads removed one after another."""

import math
import random
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import NamedTuple

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


class _Way(NamedTuple):
    """One way to replace heads: those that it can replace, and the means that it needs."""

    name: Replacement
    heads: Sequence[Head]
    means: Means | None = None


class _Study(NamedTuple):
    """A model with what its heads are replaced by, and the sentences on which that is measured.

    Attributes:
        evaluator: of the heads that are asked about.
        settings: of the study.
        ways: in the order in which they are named.
        parts: the sentences by what they are for.
        notes: what cannot be replaced.
    """

    evaluator: Evaluator
    settings: ImportanceSettings
    ways: Sequence[_Way]
    parts: Mapping[str, Sentences]
    notes: Sequence[Note]

    @property
    def removal(self) -> _Way:
        """The way by which heads are removed one after another: the first that all of them take."""
        heads = len(all_heads(self.evaluator.projections))
        return next(way for way in self.ways if len(way.heads) == heads)

    @property
    def translated(self) -> set[str]:
        """The ways whose change of BLEU is measured."""
        named = {*(self.settings.bleu or ())}
        first = FIRST in named and self.evaluator.translates
        return named - {FIRST} | {*(self.settings.replacements[:1] if first else ())}

    def steps(self, what: str, total: int) -> Steps:
        """Steps of work that are told."""
        return Steps(what, total, self.settings.progress)


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
    study = _study(evaluator, settings)
    halves = [study.evaluator.half(first) for first in (0, 1)]
    slopes = _gradients(study, halves) if evaluator.scores else []
    losses = _losses(study)
    replaced = _replaced(study, before, losses)
    heads = _heads(study, slopes, replaced)
    rises = {head: loss - before.losses for head, loss in losses[study.removal.name].items()}
    curves = _removal_curves(study, halves, _orders(rises, slopes[:1], seed=settings.seed))
    return Result(
        QUESTION.name,
        f"Importance of the heads of {evaluator.loaded.label}",
        {
            "importance": heads,
            "replaced": pd.concat(replaced.values(), ignore_index=True),
            "cumulative": curves,
            "rank_agreement": rank_agreement(_measures(heads, replaced)),
        },
        _about(study, float(before.losses.sum() / before.tokens.sum())),
        tuple(_notes(study)),
        {"loss": evaluator.loss},
        weights=evaluator.loaded.weights,
    )


def _study(evaluator: Evaluator, settings: ImportanceSettings) -> _Study:
    """The heads of the sites with the replacements; heads and means that cannot be had are left out.

    Raises:
        InputError: too few sentences, BLEU of a model that does not translate, or no replacement for all.
    """
    if len(evaluator) < FEWEST_SENTENCES:
        msg = f"Only {len(evaluator)} sentences can be used; importance needs at least {FEWEST_SENTENCES}."
        raise InputError(msg)
    if {*(settings.bleu or ())} - {FIRST} and not evaluator.translates:
        msg = f"{type(evaluator.model).__name__} translates nothing; leave BLEU out (none)."
        raise InputError(msg)
    sites = evaluator.sites_among(settings.sites)
    layers = {layer: part for layer, part in evaluator.projections.items() if layer[0] in sites}
    evaluator = replace(evaluator, find_projections=lambda: layers)
    heads, ways, notes = all_heads(layers), list[_Way](), list[Note]()
    parts = {"held-out": evaluator.sentences}
    named = [name for name in REPLACEMENTS if name in settings.replacements]
    for name in sorted(named, key=settings.replacements.index):
        if name == "mean":
            try:
                learning = _training_part(evaluator, settings)
                means = mean_outputs(layers, learning.batches, learning.run, learning.real)
            except AttnlabError as error:
                if settings.brings_calibration:
                    raise
                notes.append(NoMeans(str(error)))
            else:
                ways.append(_Way(name, heads, means))
                parts["training"] = learning.sentences
        else:
            kept = [head for head in heads if _can_replace(evaluator, head, name)]
            others = [layer_name(h.site, h.layer) for h in heads if h not in kept]
            ways += [_Way(name, kept)] if kept else []
            notes += [NotUniform(tuple(dict.fromkeys(others)))] if others else []
    if not any(len(way.heads) == len(heads) for way in ways):
        why = " ".join(map(str, notes))
        msg = f"No replacement that was named can be done for every head here; add zero. {why}"
        raise InputError(msg, options=["calibration_text"])
    return _Study(evaluator, settings, ways, parts, notes)


def _training_part(evaluator: Evaluator, settings: ImportanceSettings) -> Evaluator:
    """The model on training sentences."""
    texts = training_texts(
        evaluator.loaded, evaluator.texts, settings.calibration, settings.calibration_text
    )
    return evaluator.on(texts, "training sentences")


def _can_replace(evaluator: Evaluator, head: Head, way: Replacement) -> bool:
    with suppress(InputError), ablated(evaluator.projections, [head], way):
        return True
    return False


def _gradients(study: _Study, halves: Sequence[Evaluator]) -> list[GradientImportance]:
    """Gradient importance on each half."""
    steps = study.steps("Gradients of batches", sum(len(half.batches) for half in halves))
    measured = []
    for half in halves:
        of_batch = partial(gradient_importance, half.projections, losses=half.example_losses)
        first, *rest = [steps.of(partial(of_batch, batch))() for batch in half.batches]
        measured.append(sum(rest, start=first))
    return measured


def _losses(study: _Study) -> dict[str, dict[Head, Tensor]]:
    """Losses of all sentences with each head replaced alone, by the name of the way."""
    steps = study.steps("Ablating heads", sum(len(way.heads) for way in study.ways))
    without = study.evaluator.losses_without
    return {way.name: without(way.heads, way.name, steps, way.means) for way in study.ways}


def _replaced(
    study: _Study, before: Quality, losses: Mapping[str, Mapping[Head, Tensor]]
) -> dict[str, pd.DataFrame]:
    """The rows of the table `replaced` by way: what changes with each head replaced alone."""
    evaluator = study.evaluator
    count = sum(len(way.heads) for way in study.ways if way.name in study.translated)
    translate = study.steps("Translating without one head", count).of(evaluator.translations)
    whole = evaluator.translations() if count else []
    # A distance is above 0 whatever is replaced: there is nothing to test.
    estimates = TESTED if evaluator.scores else (LOSS_CHANGE, BLEU_CHANGE)
    tables: dict[str, pd.DataFrame] = {}
    for way in study.ways:
        heads = way.heads if way.name in study.translated else ()
        texts = ablate_each(evaluator.projections, heads, way.name, translate, way.means)
        after = [
            replace(before, losses=losses[way.name][head], translations=texts.get(head, ()))
            for head in way.heads
        ]
        untouched = replace(before, translations=whole if texts else ())
        table = pd.DataFrame(way.heads, columns=HEAD_COLUMNS).assign(way=way.name)
        tables[way.name] = table.join(Change.table(untouched, after, *estimates))
    return tables


def _heads(
    study: _Study, slopes: Sequence[GradientImportance], replaced: Mapping[str, pd.DataFrame]
) -> pd.DataFrame:
    """The table `importance`: gradients of every head, and what changes with the head zeroed."""
    table = pd.DataFrame(all_heads(study.evaluator.projections), columns=HEAD_COLUMNS)
    if slopes:
        table = sum(slopes[1:], start=slopes[0]).table()
    zeroed = replaced.get("zero")
    return table if zeroed is None else table.merge(zeroed.drop(columns="way"), on=HEAD_COLUMNS)


def _orders(
    rises: Mapping[Head, Tensor], slopes: Sequence[GradientImportance], *, seed: int
) -> dict[str, list[Head]]:
    """The orders in which heads are removed, by what was measured on the first half."""
    measures = pd.DataFrame({"loss": [float(rise[::2].sum()) for rise in rises.values()]})
    for slope in slopes:
        values = slope.table().set_index(HEAD_COLUMNS)["gradient_importance"]
        measures.insert(0, "gradient", [values[tuple(head)] for head in rises])
    return orders_of(list(rises), measures, seed=seed)


def orders_of(heads: Sequence[Head], measures: pd.DataFrame, *, seed: int) -> dict[str, list[Head]]:
    """The heads in rising order of every column of `measures` (a row a head), and at random."""
    orders = {
        str(name): [heads[index] for index in column.argsort(kind="stable")]
        for name, column in measures.items()
    }
    shuffled = list(heads)
    random.Random(seed).shuffle(shuffled)
    return {**orders, "random": shuffled}


def _removal_curves(
    study: _Study, halves: Sequence[Evaluator], orders: Mapping[str, Sequence[Head]]
) -> pd.DataFrame:
    """Loss, and BLEU at a few points, with none, one, two, ... and all heads of an order removed.

    Orders were chosen on the first half, and all is measured on the other. An interval is for one step at a
    time, uncorrected, and `bleu` NaN between the points.
    """
    (choosing, reporting), way = halves, study.removal
    steps = study.steps("Removing heads", sum(len(order) + 1 for order in orders.values()))
    losses = steps.of(reporting.losses)
    tables = []
    for name, order in orders.items():
        each = ablate_cumulatively(reporting.projections, order, way.name, losses, way.means)
        qualities = [Quality(loss, reporting.tokens) for loss in each]
        changes = Change.each(qualities[0], qualities)
        table = pd.DataFrame([change.scores | change.cells() for change in changes])
        removed = ["", *map(str, order)]
        tables.append(table.assign(order=name, heads_removed=table.index, removed=removed))
    curves = pd.concat(tables, ignore_index=True).assign(
        replacement=way.name,
        chosen_on=f"{len(choosing)} sentences: 1st, 3rd, ...",
        reported_on=f"{len(reporting)} sentences: 2nd, 4th, ...",
    )
    scores = _scores_of_points(study, reporting, orders) if study.translated else {}
    points = zip(curves["order"], curves["heads_removed"], strict=True)
    curves[BLEU.name] = [scores.get(point, math.nan) for point in points]
    return curves[[*CUMULATIVE]]


def _scores_of_points(
    study: _Study, evaluator: Evaluator, orders: Mapping[str, Sequence[Head]]
) -> dict[tuple[str, int], float]:
    """BLEU by order and number of heads removed; of the same heads it is measured once."""
    removed = {
        (name, count): frozenset(order[:count])
        for name, order in orders.items()
        for count in bleu_points(len(order), study.settings.points)
    }
    different, way = dict.fromkeys(removed.values()), study.removal
    steps = study.steps("Translating with heads removed", len(different))
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


def _about(study: _Study, loss: float) -> dict[str, str]:
    evaluator, training = study.evaluator, study.parts.get("training", ())
    return {
        **evaluator.loaded.facts,
        **evaluator.loaded.history,
        "Sentences": f"{len(evaluator)} from {evaluator.sentences.origin}",
        "Training sentences": str(len(training) or ""),
        "Loss of the whole model": f"{loss:.4f} ({LOSS_IN_WORDS[evaluator.loss]})",
    }


def _notes(study: _Study) -> list[Note]:
    """How many sentences there are, what is left out, and what is to be said of the texts."""
    evaluator, settings, parts = study.evaluator, study.settings, study.parts
    notes: list[Note] = [] if evaluator.scores else [NoGradients()]
    if len(evaluator) < ENOUGH_FOR_INTERVALS:
        notes.append(FewForIntervals(len(evaluator)))
    notes += study.notes
    if len(evaluator) // 2 < FEWEST_FOR_INTERVAL:
        notes.append(FewForIntervals(len(evaluator) // 2, "reporting"))
    notes += [replace(group, part=name) for name, part in parts.items() for group in part.dropped]
    return notes + notes_on_texts(
        evaluator.loaded, evaluator.texts, parts, settings.sentences, settings.sites
    )
