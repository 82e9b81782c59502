"""The tables of an alignment: ways to align, heads, the greedy choice, and how many pairs it takes."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from attnlab.alignment import (
    GreedyPath,
    Row,
    count_heads,
    head_properties,
    score_differences,
    score_intervals,
    scored,
)
from attnlab.evaluation import Steps
from attnlab.questions.align.chosen_heads import (
    Chosen,
    Part,
    alike_shares,
    best_set,
    greedy_paths,
)
from attnlab.questions.align.compared_systems import System
from attnlab.questions.align.question import (
    AER_CHANGE,
    CALIBRATION_SIZES,
    QUESTION,
    SCORES,
    SYSTEMS,
    AlignmentSettings,
)

# How often calibration pairs are drawn for one point of the curve.
DRAWN = 20


def system_rows(systems: Sequence[System], heads_per_layer: int) -> pd.DataFrame:
    """The table `systems`; the first of them is what the others are compared with."""
    counts = torch.stack([one.counts for one in systems])
    rows: list[dict[str, Any]] = [
        {
            "system": one.name,
            "kind": one.kind,
            "row": "" if one.chosen is None else one.chosen.row,
            "heads": ""
            if one.chosen is None
            else addresses(one.chosen.heads, one.heads_per_layer or heads_per_layer),
            "pairs": len(one.counts),
            "links": int(one.counts[:, 0].sum()),
        }
        for one in systems
    ]
    add_scores(rows, counts)
    changes = score_differences(counts[0], counts[1:], "aer")
    none = AER_CHANGE.cells(float("nan"), p=float("nan"))
    for row, change in zip(rows, [None, *changes], strict=True):
        row.update(none if change is None else change.cells(AER_CHANGE))
    return pd.DataFrame(rows)[[name for name in SYSTEMS if name in rows[0]]]


def add_scores(rows: Sequence[dict[Any, Any]], counts: Tensor) -> None:
    """Adds AER, precision, recall and F1 with intervals to rows, each of the counts of one system."""
    for estimate in SCORES:
        metric: Any = estimate.name
        intervals = score_intervals(counts, metric)
        for row, one in zip(rows, intervals, strict=True):
            row.update(estimate.cells(one.change, one.low, one.high))


def addresses(heads: Sequence[int], per_layer: int) -> str:
    """The names of heads: `0.2, 1.3`."""
    return ", ".join(f"{head // per_layer}.{head % per_layer}" for head in heads)


def head_rows(calibration: Part, report: Part, chosen: Chosen, per_layer: int) -> pd.DataFrame:
    """The table `heads`: what they look like in the one part, and their scores in the other."""
    tables = []
    for row, words in report.weights.items():
        table = _of_row(calibration, row, chosen, per_layer)
        rows = table.to_dict("records")
        add_scores(rows, count_heads(words, report.gold))
        tables.append(pd.DataFrame(rows))
    return _ordered(tables)


def property_rows(part: Part, chosen: Chosen, per_layer: int) -> pd.DataFrame:
    """The table `heads` without gold links."""
    return _ordered([_of_row(part, row, chosen, per_layer) for row in part.weights])


def _of_row(part: Part, row: Row, chosen: Chosen, per_layer: int) -> pd.DataFrame:
    properties = head_properties(part.weights[row])
    count = len(properties.score)
    return pd.DataFrame(
        {
            "layer": [head // per_layer for head in range(count)],
            "head": [head % per_layer for head in range(count)],
            "row": row,
            "confidence": properties.confidence,
            "coverage": properties.coverage,
            "monotonicity": properties.monotonicity,
            "agreement": properties.agreement,
            "score_without_gold": properties.score,
            "alike": alike_shares(part, row),
            "chosen": [row == chosen.row and head in chosen.heads for head in range(count)],
        }
    )


def _ordered(tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    table = pd.concat(tables, ignore_index=True)
    return table[[name for name in QUESTION.table("heads") if name in table]]


def step_rows(paths: Mapping[Row, GreedyPath], report: Part, per_layer: int) -> pd.DataFrame:
    """The table `steps`: heads as they were added, with the AER of those so far."""
    return pd.DataFrame(
        [
            {
                "row": row,
                "step": step,
                "layer": head // per_layer,
                "head": head % per_layer,
                "calibration_aer": path.aers[step - 1],
                "aer": float(scored(report.counts(Chosen(row, path.heads[:step])), "aer")),
            }
            for row, path in paths.items()
            for step, head in enumerate(path.heads, start=1)
        ]
    )


def calibration_curve(calibration: Part, report: Part, settings: AlignmentSettings) -> pd.DataFrame:
    """AER of heads and row that were chosen on so many calibration pairs, drawn several times."""
    there = len(calibration.numbers)
    sizes = [size for size in CALIBRATION_SIZES if size < there]
    generator = torch.Generator().manual_seed(settings.seed)
    steps = Steps("Choosing heads on fewer pairs", DRAWN * len(sizes) + 1, settings.progress)

    def chosen(size: int) -> Chosen:
        drawn = torch.randperm(there, generator=generator)[:size].tolist()
        return best_set(greedy_paths(calibration.of(drawn)))

    rows = []
    for size in [*sizes, there]:
        draws = DRAWN if size < there else 1
        sets = [steps.of(partial(chosen, size))() for _ in range(draws)]
        found = [float(scored(report.counts(one), "aer")) for one in sets]
        low, high = np.quantile(found, [0.025, 0.975])
        rows.append(
            {
                "pairs": size,
                "draws": draws,
                "aer": float(np.mean(found)),
                "aer_low": low,
                "aer_high": high,
                "heads": float(np.mean([len(one.heads) for one in sets])),
            }
        )
    return pd.DataFrame(rows)
