"""Chosen heads beside other choices, defaults of engines, baselines, controls and a bound: rows of tables."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from attnlab.alignment import (
    ENGINE_ROW,
    Link,
    StatisticalAligner,
    count_heads,
    count_links,
    diagonal_links,
    engine_sets,
    head_properties,
    published_sets,
    score_differences,
    score_intervals,
    scored,
)
from attnlab.core import path_label
from attnlab.evaluation import Steps
from attnlab.labels import untrained_twin
from attnlab.models import Model
from attnlab.questions.align.chosen_heads import (
    alike_shares,
    best_set,
    choices,
    halves,
)
from attnlab.questions.align.question import (
    AER_CHANGE,
    CALIBRATION_SIZES,
    CHOICE_NAMES,
    DIAGONAL,
    HEADS,
    ORACLE,
    SCORES,
    SYSTEMS,
    AlignmentSettings,
    Choice,
)
from attnlab.questions.align.word_reading import AlignedPairs, Chosen, Counts, Part, WordPairs

# How often calibration pairs are drawn for one point of the curve.
DRAWN = 20


@dataclass(frozen=True)
class System:
    """A way to align, and how its links agree with gold in each pair.

    Attributes:
        name: of the way.
        kind: see the table `systems`.
        counts: how its links agree with gold.
        chosen: its heads; None: no attention is read, or that of two models.
    """

    name: str
    kind: str
    counts: Counts
    chosen: Chosen | None = None


def of_heads(name: str, kind: str, report: Part, chosen: Chosen) -> System:
    """The links of some heads in the reported pairs."""
    return System(name, kind, report.counts(chosen), chosen)


def other_heads(report: Part, chosen: Mapping[Choice, Chosen], taken: Choice) -> Iterator[System]:
    """The other choices, what engines take, and the bound.

    Args:
        report: the reported pairs.
        chosen: what can be chosen, by name.
        taken: which of these is.
    """
    for name, heads in chosen.items():
        if name != taken:
            yield of_heads(CHOICE_NAMES[name], "choice", report, heads)
    if ENGINE_ROW in report.weights:
        per_layer = report.per_layer
        shape = report.weights[ENGINE_ROW].weights.shape[1] // per_layer, per_layer
        for kind, sets in (("default", engine_sets(*shape)), ("baseline", published_sets(*shape))):
            for system, addresses in sets.items():
                numbers = (layer * per_layer + head for layer, head in addresses)
                yield of_heads(system, kind, report, report.heads(ENGINE_ROW, *numbers))
    yield of_heads(ORACLE, "bound", report, best_set(report))


def baselines(report: Part, statistical: StatisticalAligner | None) -> Iterator[System]:
    """The diagonal and the statistical aligner."""
    diagonal = [diagonal_links(len(source), len(target)) for source, target in report.words]
    yield System(DIAGONAL, "baseline", count_links(diagonal, report.links))
    if statistical is None:
        return
    forward = statistical.align(report.words, None)
    yield System("statistical aligner", "baseline", count_links(forward, report.links))
    name = "statistical aligner, both directions (grow-diag-final-and)"
    both = statistical.align(report.words)
    yield System(name, "baseline", count_links(both, report.links))


def links_given(
    report: Part, links: Sequence[frozenset[Link]] | None, settings: AlignmentSettings
) -> Iterator[System]:
    """The links of all pairs that another aligner gave, if any."""
    if links is not None and settings.baseline_links is not None:
        reported = [links[number] for number in report.numbers]
        name = f"file {path_label(settings.baseline_links)}"
        yield System(name, "baseline", count_links(reported, report.links))


def controls(
    model: Model,
    pairs: WordPairs,
    report: Part,
    chosen: Chosen,
    settings: AlignmentSettings,
    *,
    how: tuple[Choice, StatisticalAligner | None],
) -> Iterator[System]:
    """What is found where there is nothing to find: in an untrained twin, and between other sentences.

    Args:
        model: with its tokenizer.
        pairs: all that were given.
        report: those that are reported on.
        chosen: the heads.
        settings: those of the question.
        how: by what the heads were chosen, and the statistical aligner, for the twin.
    """
    if settings.quick:
        return
    choice, statistical = how
    twin = untrained_twin(model.model, model.seed)
    control = halves(model, pairs, settings, what="Control: untrained model", twin=twin)
    alike = choices(control.calibration, statistical)[choice]
    yield of_heads("untrained twin, chosen alike", "control", control.report, alike)
    if len(pairs) < 2:
        return
    others = AlignedPairs(model, pairs.with_other_sources(), settings)
    links = others.read(settings, "Control: shuffled pairs").links_of(chosen)
    shuffled = [links.get(number, {}) for number in report.numbers]
    name = "chosen heads, sources of other pairs"
    yield System(name, "control", count_links(shuffled, report.links), chosen)


def system_rows(systems: Sequence[System]) -> pd.DataFrame:
    """The table `systems`; the first of them is what the others are compared with."""
    counts = torch.stack([system.counts for system in systems])
    rows = [
        unscored(system.name, len(system.counts), int(system.counts[:, 0].sum()), system.chosen)
        | {"system_kind": system.kind}
        for system in systems
    ]
    add_scores(rows, counts)
    rows[0] |= AER_CHANGE.cells(float("nan"), p=float("nan"))
    changes = score_differences(counts[0], counts[1:], "aer")
    for row, change in zip(rows[1:], changes, strict=True):
        row.update(change.cells(AER_CHANGE))
    return pd.DataFrame(rows)[[name for name in SYSTEMS if name in rows[0]]]


def unscored(system: str, pairs: int, links: int, chosen: Chosen | None = None) -> dict[str, Any]:
    """A row of `systems` before any score; links of two models are of no one row, and no one's heads."""
    return {
        "system": system,
        "system_kind": "choice",
        "row": "" if chosen is None else chosen.row,
        "heads": "" if chosen is None else chosen.names,
        "pairs": pairs,
        "links_given": links,
    }


def add_scores(rows: Sequence[dict[Any, Any]], counts: Tensor) -> None:
    """Adds AER, precision, recall and F1 with intervals to rows, each of the counts of one system."""
    for estimate in SCORES:
        metric: Any = estimate.name
        for row, score in zip(rows, score_intervals(counts, metric), strict=True):
            row.update(estimate.cells(score.change, score.low, score.high))


def head_rows(calibration: Part, report: Part, chosen: Chosen) -> pd.DataFrame:
    """The table `heads`: looks in the one part, and with gold links scores in the other."""
    rows: list[dict[str, Any]] = []
    for row, words in calibration.weights.items():
        properties, alike = head_properties(words), alike_shares(calibration, row)
        of_row = [
            {
                "site": "cross",
                "layer": head // report.per_layer,
                "head": head % report.per_layer,
                "row": row,
                "concentration": float(properties.confidence[head]),
                "coverage": float(properties.coverage[head]),
                "monotonicity": float(properties.monotonicity[head]),
                "agreement": float(properties.agreement[head]),
                "score_without_gold": float(properties.score[head]),
                "alike": float(alike[head]),
                "chosen_head": row == chosen.row and head in chosen.heads,
            }
            for head in range(len(alike))
        ]
        if report.pairs.links:
            add_scores(of_row, count_heads(report.weights[row], report.gold))
        rows += of_row
    return pd.DataFrame(rows)[[name for name in HEADS if name in rows[0]]]


def step_rows(calibration: Part, report: Part) -> pd.DataFrame:
    """The table `steps`: heads as they were added, with the AER of those so far."""
    return pd.DataFrame(
        [
            {
                "row": row,
                "heads_averaged": count,
                "site": "cross",
                "layer": head // report.per_layer,
                "head": head % report.per_layer,
                "calibration_aer": path.aers[count - 1],
                "aer": _aer(report, report.heads(row, *path.heads[:count])),
            }
            for row, path in calibration.paths.items()
            for count, head in enumerate(path.heads, start=1)
        ]
    )


def _aer(report: Part, chosen: Chosen) -> float:
    return float(scored(report.counts(chosen), "aer"))


def calibration_curve(calibration: Part, report: Part, settings: AlignmentSettings) -> pd.DataFrame:
    """AER of heads and row that were chosen on so many calibration pairs, drawn several times."""
    total = len(calibration.numbers)
    sizes = [size for size in CALIBRATION_SIZES if size < total]
    generator = torch.Generator().manual_seed(settings.seed)
    steps = Steps("Choosing heads on fewer pairs", DRAWN * len(sizes) + 1, settings.progress)

    def chosen(size: int) -> Chosen:
        drawn = torch.randperm(total, generator=generator)[:size].tolist()
        return best_set(calibration.of(drawn))

    rows = []
    for size in [*sizes, total]:
        sets = [steps.of(partial(chosen, size))() for _ in range(DRAWN if size < total else 1)]
        aers = [_aer(report, heads) for heads in sets]
        low, high = np.quantile(aers, [0.025, 0.975])
        rows.append(
            {
                "calibration_pairs": size,
                "draws": len(sets),
                "mean_aer": float(np.mean(aers)),
                "mean_aer_low": low,
                "mean_aer_high": high,
                "mean_heads": float(np.mean([len(heads.heads) for heads in sets])),
            }
        )
    return pd.DataFrame(rows)
