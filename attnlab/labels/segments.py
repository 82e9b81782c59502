"""Heads on pairs of texts: weight that crosses to the other text, and the same token found there.

Special tokens are of no text, so that weight on a separator does not cross. The controls: equal rows cross by
the share of keys that are in the other text, and one word in n of that text is hit by chance.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from attnlab.labels.counts import (
    REPORTED,
    Counts,
    Largest,
    RatioCounts,
    Scope,
    count_ratio,
    sum_by_group,
    sum_of_halves,
)
from attnlab.labels.label import BatchFacts, HeadLabel, LayerView
from attnlab.labels.label_columns import (
    BY_CHANCE,
    CROSSING,
    EQUAL_ROWS,
    LINKS,
    SAME_TOKEN,
    Rule,
)
from attnlab.labels.verdict import Verdict, ratio_condition, share_condition, verdicts_of


@dataclass(frozen=True)
class SegmentCounts(Counts):
    """A share of each head's rows by sentence, and what its control has on the same rows.

    Attributes:
        share: weight on the other text, or rows with the arg-max on the same token there, over rows.
        control: the same of equal rows, or of a random choice in the other text.
    """

    share: RatioCounts
    control: Float[Tensor, "group head"]


def crossing_pairs(
    scope: Scope, second: Bool[Tensor, "batch token"]
) -> Bool[Tensor, "batch query key"]:
    """True where an ordinary token may look at one of the other text; `second` is True in the second text."""
    ordinary = scope.queries[:, :, None] & scope.keys[:, None]
    return scope.seen & ordinary & (second[:, :, None] != second[:, None])


def count_crossing(
    weights: Float[Tensor, "batch head query key"],
    scope: Scope,
    crossing: Bool[Tensor, "batch query key"],
    mass: Float[Tensor, "batch head query"] | None = None,
) -> SegmentCounts:
    """Weight on the other text, of rows that see some of it; `mass` as in `count_sink`."""
    on_other = torch.einsum("bhqk,bqk->bhq", weights, crossing.to(weights.dtype)).double()
    rows = (scope.rows & crossing.any(-1))[:, None].expand_as(on_other)
    if mass is not None:
        rows = rows & (mass > 0)
        on_other = on_other / mass.double()
    even = crossing.sum(-1).double() / scope.seen.sum(-1).clamp_min(1)
    share = count_ratio(on_other.masked_fill(~rows, 0).sum(-1), rows.sum(-1), scope.groups)
    return SegmentCounts(share, sum_by_group((rows * even[:, None]).sum(-1), scope.groups))


def count_same_token(
    best: Largest,
    scope: Scope,
    crossing: Bool[Tensor, "batch query key"],
    same: Bool[Tensor, "batch query key"],
) -> SegmentCounts:
    """Rows whose arg-max is their own token in the other text, of rows that see it there."""
    same = same & crossing
    rows = scope.rows & same.any(-1)
    heads = best.key.shape[1]
    at_best = same[:, None].expand(-1, heads, -1, -1).gather(-1, best.key[..., None])[..., 0]
    hits = (at_best & best.found & rows[:, None]).sum(-1)
    chance = same.sum(-1).double() / crossing.sum(-1).clamp_min(1) * rows
    control = sum_by_group(chance.sum(-1), scope.groups)[:, None].expand(-1, heads)
    return SegmentCounts(count_ratio(hits.double(), rows.sum(-1), scope.groups), control)


def _controls(
    counts: SegmentCounts, rule: Rule
) -> tuple[Float[Tensor, " head"], Float[Tensor, " head"]]:
    """The control of each head in the reported half, and the threshold, 10 points above it at least."""
    rows = sum_of_halves(counts.share.denominator)[REPORTED]
    control = sum_of_halves(counts.control)[REPORTED] / rows
    return control, (control + LINKS.threshold).nan_to_num(0).clamp_min(rule.threshold)


def decide_crossing(counts: SegmentCounts, seed: int = 0) -> list[Verdict]:
    """One verdict per head: the mean share of weight on the other text, against equal rows."""
    control, threshold = _controls(counts, CROSSING)
    of_half = counts.share.by_half()
    return verdicts_of(
        "crossing",
        CROSSING,
        [""] * len(control),
        [
            ratio_condition(
                "mean_mass_fraction", counts.share, threshold, seed=seed, least=0.0, most=1.0
            )
        ],
        denominator=of_half.denominator[REPORTED].long(),
        counted=of_half.sentences[REPORTED],
        control=control,
        control_kind=EQUAL_ROWS,
    )


def decide_same_token(counts: SegmentCounts, seed: int = 0) -> list[Verdict]:
    """One verdict per head: the share of rows on their own token in the other text, against chance there."""
    control, threshold = _controls(counts, SAME_TOKEN)
    of_half = counts.share.by_half()
    required = counts.share.denominator * threshold
    return verdicts_of(
        "same token across",
        SAME_TOKEN,
        [""] * len(control),
        [share_condition("argmax_rate", counts.share, required, seed=seed)],
        denominator=of_half.denominator[REPORTED].long(),
        counted=of_half.sentences[REPORTED],
        control=control,
        control_kind=BY_CHANCE,
    )


def _crossing(facts: BatchFacts) -> Bool[Tensor, "batch query key"] | None:
    return None if facts.second is None else crossing_pairs(facts.scope, facts.second)


def _count_crossing(view: LayerView) -> SegmentCounts | None:
    crossing = view.facts.once(_crossing)
    if crossing is None:
        return None
    return count_crossing(view.layer.wide, view.facts.scope, crossing, view.mass)


def _count_same_token(view: LayerView) -> SegmentCounts | None:
    crossing = view.facts.once(_crossing)
    if crossing is None:
        return None
    queries, keys = view.layer.queries.ids, view.layer.keys.ids
    same = queries[:, :, None] == keys[:, None]
    return count_same_token(view.best, view.facts.scope, crossing, same)


SAME_TOKEN_LABEL = HeadLabel(
    name="same token across",
    meaning="largest weights on the same token in the other text of the pair",
    count=_count_same_token,
    decide=decide_same_token,
    precedence=8,
)
CROSSING_LABEL = HeadLabel(
    name="crossing",
    meaning="much weight on the other text of the pair",
    count=_count_crossing,
    decide=decide_crossing,
    precedence=9,
)
