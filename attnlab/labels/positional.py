"""Positional heads: the row's largest weight stands at one fixed offset in nearly all rows.

Arg-max rate, mass at the offset and confidence are three different things: this is the first.
Source: Voita et al. 2019 (arXiv 1905.09418), section 4.1; heads.md says what the paper leaves open.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from attnlab.labels.counts import (
    CHOOSING,
    REPORTED,
    Counts,
    Largest,
    RatioCounts,
    Scope,
    count_ratio,
)
from attnlab.labels.label import HeadLabel, LayerView
from attnlab.labels.label_columns import POSITIONAL
from attnlab.labels.verdict import Verdict, share_condition, verdicts_of

MAX_OFFSET = 8


@dataclass(frozen=True)
class PositionalCounts(Counts):
    """How often each head's largest weight is at each offset from -max to +max.

    Attributes:
        at_offset: `[group, head, offset]`, rows whose largest weight is at the offset, over rows that
            have an ordinary token there; a row without weight on any key is a miss.
    """

    at_offset: RatioCounts


def count_positional(best: Largest, scope: Scope, max_offset: int = MAX_OFFSET) -> PositionalCounts:
    """Counts of a batch.

    Args:
        best: the key with the largest weight of every row.
        scope: what is counted.
        max_offset: the largest distance that is looked at.
    """
    heads, queries = best.key.shape[1:]
    offsets = 2 * max_offset + 1
    position = torch.arange(queries, device=best.key.device)
    rows = [_rows_at(scope, offset) for offset in range(-max_offset, max_offset + 1)]
    shifted = best.key - position + max_offset
    ordinary = scope.keys.gather(1, best.key.flatten(1)).view_as(best.key) & best.found
    counted = scope.rows[:, None] & ordinary & (shifted >= 0) & (shifted < offsets)
    batch = len(best.key)
    cells = batch * heads * offsets
    cell = torch.arange(batch * heads, device=best.key.device).view(batch, heads, 1)
    index = torch.where(counted, cell * offsets + shifted, cells)
    hits = torch.bincount(index.flatten(), minlength=cells + 1)[:-1].view(batch, heads, offsets)
    possible = torch.stack(rows, 1)[:, None].expand_as(hits)
    return PositionalCounts(count_ratio(hits.double(), possible, scope.groups))


def _rows_at(scope: Scope, offset: int) -> Int[Tensor, " batch"]:
    """How many counted rows of each sentence may look at an ordinary key at the offset."""
    shape = scope.seen.shape[1:]
    if not -shape[0] < offset < shape[1]:
        return torch.zeros_like(scope.groups)
    seen = scope.seen.diagonal(offset, dim1=1, dim2=2)
    first, length = max(-offset, 0), seen.shape[1]
    rows = scope.rows[:, first : first + length]
    keys = scope.keys[:, first + offset : first + offset + length]
    return (seen & rows & keys).sum(1)


def decide_positional(counts: PositionalCounts, seed: int = 0) -> list[Verdict]:
    """One verdict per head: at the offset with the highest arg-max rate in the choosing half.

    Offsets that fewer than `POSITIONAL.needed` sentences of either half have are no candidates; where all
    offsets are such, those that fewer have than half as many as the most frequent one.
    """
    of_half = counts.by_half().at_offset
    sentences = of_half.sentences.amin(0)
    most = sentences.amax(-1, keepdim=True)
    candidates = (sentences > 0) & (
        sentences >= torch.where(most < POSITIONAL.needed, most / 2, POSITIONAL.needed)
    )
    rate = of_half.numerator[CHOOSING] / of_half.denominator[CHOOSING].clamp_min(1)
    chosen = rate.masked_fill(~candidates, -1).argmax(-1)
    at_chosen = counts.at_offset.of_each_head(chosen)
    of_head = at_chosen.by_half()
    return verdicts_of(
        "positional",
        POSITIONAL,
        [f"offset {column - rate.shape[-1] // 2:+d}" for column in chosen.tolist()],
        [share_condition("argmax_rate", at_chosen, POSITIONAL.threshold, seed=seed)],
        denominator=of_head.denominator[REPORTED].long(),
        counted=of_head.sentences.amin(0),
    )


def _count(view: LayerView) -> PositionalCounts | None:
    return None if view.cross else count_positional(view.best, view.facts.scope)


POSITIONAL_LABEL = HeadLabel(
    name="positional",
    meaning="most largest weights at one offset: -1 is the token before, +0 the token itself",
    count=_count,
    decide=decide_positional,
    precedence=0,
)
