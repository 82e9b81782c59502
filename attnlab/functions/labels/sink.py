"""Sink heads: on average most of a row's weight lies on one special token or on punctuation.

Mass, not arg-max. For cross-attention the sink to expect is the end-of-sentence token.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from attnlab.extraction.views import ALL, CONTENT, View
from attnlab.functions.conditions import ratio_condition
from attnlab.functions.counts import CHOOSING, REPORTED, Counts, Scope
from attnlab.functions.intervals import RatioCounts, count_ratio
from attnlab.functions.label import HeadLabel, LayerView
from attnlab.functions.thresholds import SINK, Rule
from attnlab.functions.verdict import Verdict, verdicts_of

# The kinds of keys by view; among content there are no special tokens.
SINK_KINDS: dict[View, tuple[str, ...]] = {
    ALL: ("opening", "closing", "punctuation"),
    CONTENT: ("punctuation",),
}


@dataclass(frozen=True)
class SinkCounts(Counts):
    """Mass of each head on each kind of key, over the rows of ordinary tokens.

    Attributes:
        kinds: names of the kinds, such as `closing` ([SEP], EOS) and `punctuation`.
        mass: summed weight, or share of weight, on the kind over rows, by sentence.
    """

    kinds: tuple[str, ...]
    mass: RatioCounts


def count_sink(
    weights: Float[Tensor, "batch head query key"],
    scope: Scope,
    kinds: tuple[str, ...],
    marked: Bool[Tensor, "batch key kind"],
    mass: Float[Tensor, "batch head query"] | None = None,
) -> SinkCounts:
    """Counts of a batch.

    Args:
        weights: of all heads.
        scope: what is counted.
        kinds: names of the kinds.
        marked: which keys are of which kind.
        mass: what is divided by, row by row, for shares of it; rows where it is 0 are left out.
            None: the weights are the shares.
    """
    if mass is None:
        columns = (scope.rows[:, None, None].to(weights.dtype) @ weights)[:, :, 0]
        on_kinds = columns.double() @ marked.double()
        return SinkCounts(kinds, count_ratio(on_kinds, scope.rows.sum(1), scope.groups))
    rows = scope.rows[:, None] & (mass > 0)
    on_kinds = (weights.flatten(1, 2) @ marked.to(weights.dtype)).unflatten(1, mass.shape[1:])
    shares = on_kinds.double() / mass.double().masked_fill(~rows, torch.inf)[..., None]
    return SinkCounts(kinds, count_ratio(shares.sum(2), rows.sum(-1), scope.groups))


def decide_sink(counts: SinkCounts, rule: Rule = SINK, seed: int = 0) -> list[Verdict]:
    """One verdict per head: on the kind with the largest mean mass in the choosing half."""
    chosen = counts.mass.by_half().ratio[CHOOSING].nan_to_num(-1).argmax(-1)
    mass = counts.mass.of_each_head(chosen)
    rows = mass.by_half().denominator[REPORTED].long()
    return verdicts_of(
        "sink",
        rule,
        [counts.kinds[kind] for kind in chosen.tolist()],
        [ratio_condition("mean_mass_fraction", mass, rule.threshold, seed=seed)],
        denominator=rows,
        counted=rows,
    )


def _count(view: LayerView) -> SinkCounts:
    kinds = SINK_KINDS[view.keys]
    marked = torch.stack([getattr(view.layer.keys, kind) for kind in kinds], -1)
    return count_sink(view.layer.wide, view.facts.scope, kinds, marked, view.mass)


SINK_LABEL = HeadLabel(
    name="sink",
    family="sink",
    count=_count,
    decide=lambda counts, seed: decide_sink(counts, seed=seed),
    precedence=3,
)
