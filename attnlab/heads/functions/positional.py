"""Positional heads: the row's largest weight stands at one fixed offset in 90 % of the rows.

Arg-max rate, mass at the offset and confidence are three different things and are counted apart.
Source: Voita et al. 2019 (arXiv 1905.09418), section 4.1; heads.md says what the paper leaves open.
"""

from dataclasses import dataclass

import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor

from attnlab.heads.functions.counts import CHOOSING, REPORTED, Counts, Scope, sum_by_half
from attnlab.heads.functions.intervals import wilson_interval
from attnlab.heads.functions.verdict import NO_CONTROL, Verdict

MAX_OFFSET = 8
SHARE_OF_ROWS = 0.9
LEAST_ROWS = 1000


@dataclass(frozen=True)
class PositionalCounts(Counts):
    """How often and how strongly each head looks at each offset from -max to +max.

    Attributes:
        hits: rows whose largest weight, special tokens among the candidates, is at the offset.
        rows: rows that have an ordinary token at the offset.
        mass: summed weight at the offset over those rows.
        confidence: summed largest weight on an ordinary token, over all rows.
        all_rows: rows of ordinary tokens that may look at two keys or more.
    """

    hits: Int[Tensor, "half head offset"]
    rows: Int[Tensor, "half offset"]
    mass: Float[Tensor, "half head offset"]
    confidence: Float[Tensor, "half head"]
    all_rows: Int[Tensor, " half"]


def count_positional(
    weights: Float[Tensor, "batch head query key"], scope: Scope, max_offset: int = MAX_OFFSET
) -> PositionalCounts:
    """Counts of a batch. Cost: O(query * (key + offsets)) a head."""
    offsets = torch.arange(-max_offset, max_offset + 1, device=weights.device)
    queries, keys = weights.shape[-2:]
    target = torch.arange(queries, device=weights.device)[:, None] + offsets
    place = target.clamp(0, keys - 1)
    inside = (target >= 0) & (target < keys)
    rows = scope.rows[:, :, None] & inside & scope.keys[:, place]
    rows = rows & scope.seen.gather(2, place.expand(len(weights), -1, -1))
    best = weights.masked_fill(~scope.seen[:, None], -1).argmax(-1)
    hits = (best[..., None] == target) & rows[:, None]
    index = place.expand(*weights.shape[:2], -1, -1)
    mass = weights.gather(3, index).double() * rows[:, None]
    largest = weights.masked_fill(~scope.keys[:, None, None], 0).amax(-1).double()
    return PositionalCounts(
        hits=sum_by_half(hits.sum(2), scope.halves),
        rows=sum_by_half(rows.sum(1), scope.halves),
        mass=sum_by_half(mass.sum(2), scope.halves),
        confidence=sum_by_half((largest * scope.rows[:, None]).sum(2), scope.halves),
        all_rows=sum_by_half(scope.rows.sum(1), scope.halves),
    )


def judge_positional(
    counts: PositionalCounts, share: float = SHARE_OF_ROWS, least_rows: int = LEAST_ROWS
) -> list[Verdict]:
    """One verdict a head: at the offset with the highest arg-max rate in the choosing half.

    Offsets with fewer than `least_rows` rows in either half are no candidates, unless all are.
    """
    enough = (counts.rows >= least_rows).all(0)
    candidates = enough if enough.any() else (counts.rows > 0).all(0)
    rate = counts.hits[CHOOSING] / counts.rows[CHOOSING].clamp_min(1)
    chosen = rate.masked_fill(~candidates, -1).argmax(-1)
    low, high = wilson_interval(
        counts.hits[REPORTED], counts.rows[REPORTED].expand_as(counts.hits[REPORTED])
    )
    max_offset = counts.rows.shape[1] // 2
    verdicts = []
    for head, column in enumerate(chosen.tolist()):
        rows = int(counts.rows[REPORTED, column])
        value = int(counts.hits[REPORTED, head, column]) / rows if rows else float("nan")
        reason = "" if value >= share else f"arg-max rate below {share:g}"
        reason = reason if enough.any() else f"fewer than {least_rows} rows"
        verdicts.append(
            Verdict(
                label="positional",
                head=head,
                detail=f"offset {column - max_offset:+d}",
                statistic="argmax_rate",
                value=value,
                low=float(low[head, column]),
                high=float(high[head, column]),
                threshold=share,
                control=NO_CONTROL,
                denominator=rows,
                holds=not reason,
                reason=reason,
            )
        )
    return verdicts


def positional_table(counts: PositionalCounts) -> pd.DataFrame:
    """One row a head and offset: rows, arg-max rate, mass fraction; both halves together.

    `confidence` is the head's mean largest weight on an ordinary token, rows not renormalised.
    """
    hits, rows = counts.hits.sum(0), counts.rows.sum(0)
    mass = counts.mass.sum(0) / rows
    confidence = counts.confidence.sum(0) / counts.all_rows.sum()
    heads, offsets = hits.shape
    return pd.DataFrame(
        {
            "head": torch.arange(heads).repeat_interleave(offsets).numpy(),
            "offset": (torch.arange(offsets) - offsets // 2).repeat(heads).numpy(),
            "rows": rows.repeat(heads).cpu().numpy(),
            "argmax_rate": (hits / rows).flatten().cpu().numpy(),
            "mass_fraction": mass.flatten().cpu().numpy(),
            "confidence": confidence.repeat_interleave(offsets).cpu().numpy(),
        }
    )
