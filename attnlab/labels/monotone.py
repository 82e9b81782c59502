"""Monotone cross-attention: the expected source position moves on with the target position.

Rank correlation alone would be fooled by a nearly uniform head whose expectation drifts by a hair,
so the slope must be there too. Neither threshold is published.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from scipy.stats import rankdata
from torch import Tensor

from attnlab.labels.counts import REPORTED, Counts, RatioCounts, Scope, count_ratio
from attnlab.labels.label import HeadLabel, LayerView
from attnlab.labels.label_columns import MONOTONE, MONOTONE_SLOPE
from attnlab.labels.verdict import Verdict, ratio_condition, verdicts_of

LEAST_ROWS = 3
TIE_TOKENS = 1e-3


@dataclass(frozen=True)
class MonotoneCounts(Counts):
    """Means over sentences of at least three rows and two ordinary keys.

    Attributes:
        correlation: Spearman's rank correlation of expected key position and query position.
        slope: least-squares slope of the expected key position on the query position, both
            counted from 0 (first) to 1 (last).
    """

    correlation: RatioCounts
    slope: RatioCounts


def count_monotone(weights: Float[Tensor, "batch head query key"], scope: Scope) -> MonotoneCounts:
    """Counts of a batch; expectations are over ordinary keys, renormalised.

    Cost: O(query * (log(query) + key)) a head.
    """
    order = (scope.keys.cumsum(1) - 1).double()
    mass = weights.double() * scope.keys[:, None, None]
    total = mass.sum(-1)
    expected = (mass @ order[:, None, :, None])[..., 0] / total.clamp_min(1e-300)
    rows = scope.rows[:, None] & (total > 0)
    position = (scope.queries.cumsum(1) - 1).double()[:, None].expand_as(expected)
    ties = (expected / TIE_TOKENS).round()
    correlation = _slope(_ranks(position, rows), _ranks(ties, rows), rows, normalised=True)
    source = (scope.keys.sum(1).double() - 1).clamp_min(1)[:, None, None]
    target = (scope.queries.sum(1).double() - 1).clamp_min(1)[:, None, None]
    slope = _slope(position / target, expected / source, rows, normalised=False)
    counted = (rows.sum(-1) >= LEAST_ROWS) & (scope.keys.sum(1) >= 2)[:, None]
    return MonotoneCounts(
        *(
            count_ratio(figure * counted, counted.double(), scope.groups)
            for figure in (correlation, slope)
        )
    )


def _ranks(
    values: Float[Tensor, "batch head row"], rows: Bool[Tensor, "batch head row"]
) -> Float[Tensor, "batch head row"]:
    """Ranks among the counted rows; equals share the mean of their ranks."""
    # Rows that are not counted come last, where they change no rank before them.
    ranks = rankdata(values.masked_fill(~rows, torch.inf).cpu().numpy(), axis=-1)
    return torch.from_numpy(ranks).to(values.device)


def _slope(
    x: Float[Tensor, "batch head row"],
    y: Float[Tensor, "batch head row"],
    rows: Bool[Tensor, "batch head row"],
    *,
    normalised: bool,
) -> Float[Tensor, "batch head"]:
    """Slope of y on x over the counted rows, or Pearson's correlation; 0 where either is constant."""
    count = rows.sum(-1, keepdim=True).clamp_min(1)
    dx = (x - (x * rows).sum(-1, keepdim=True) / count) * rows
    dy = (y - (y * rows).sum(-1, keepdim=True) / count) * rows
    spread = (dx * dx).sum(-1)
    if normalised:
        spread = (spread * (dy * dy).sum(-1)).sqrt()
    return torch.where(spread > 0, (dx * dy).sum(-1) / spread.clamp_min(1e-300), 0.0)


def decide_monotone(counts: MonotoneCounts, seed: int = 0) -> list[Verdict]:
    """One verdict per head: mean rank correlation and mean slope at least as large as asked for."""
    rises = ratio_condition(
        "mean_rank_correlation",
        counts.correlation,
        MONOTONE.threshold,
        seed=seed,
        least=-1.0,
        most=1.0,
    )
    steep = ratio_condition("mean_slope", counts.slope, MONOTONE_SLOPE, seed=seed)
    sentences = counts.correlation.by_half().sentences[REPORTED]
    return verdicts_of(
        "monotone",
        MONOTONE,
        [""] * len(rises.value),
        [rises, steep],
        denominator=sentences,
        counted=sentences,
    )


def _count(view: LayerView) -> MonotoneCounts | None:
    return count_monotone(view.layer.wide, view.facts.scope) if view.cross else None


MONOTONE_LABEL = HeadLabel(
    name="monotone",
    meaning="the source positions that it looks at rise with the position in the target",
    count=_count,
    decide=decide_monotone,
    precedence=5,
    by_view=False,
)
