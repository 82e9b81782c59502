"""Positional heads: the row's largest weight stands at one fixed offset in 90 % of the rows.

Arg-max rate, mass at the offset and confidence are three different things: this is the first.
Source: Voita et al. 2019 (arXiv 1905.09418), section 4.1; heads.md says what the paper leaves open.
"""

from dataclasses import dataclass

import pandas as pd
import torch
from jaxtyping import Int
from torch import Tensor

from attnlab.heads.functions.counts import CHOOSING, REPORTED, Counts, Scope
from attnlab.heads.functions.intervals import wilson_interval
from attnlab.heads.functions.verdict import NO_CONTROL, Verdict

MAX_OFFSET = 8
SHARE_OF_ROWS = 0.9
LEAST_ROWS = 1000


@dataclass(frozen=True)
class PositionalCounts(Counts):
    """How often each head looks at each offset from -max to +max.

    Attributes:
        hits: rows whose largest weight, special tokens among the candidates, is at the offset.
        rows: rows that have an ordinary token at the offset.
    """

    hits: Int[Tensor, "half head offset"]
    rows: Int[Tensor, "half offset"]


def count_positional(
    best: Int[Tensor, "batch head query"], scope: Scope, max_offset: int = MAX_OFFSET
) -> PositionalCounts:
    """Counts of a batch.

    Args:
        best: the key with the largest weight of every row.
        scope: what is counted.
        max_offset: the largest distance that is looked at.
    """
    heads, queries = best.shape[1:]
    offsets = 2 * max_offset + 1
    position = torch.arange(queries, device=best.device)
    columns = torch.arange(scope.keys.shape[1], device=best.device)
    # Offsets out of range share a last column that is cut off.
    column = (columns - position[:, None] + max_offset).clamp(-1, offsets)
    column = torch.where(column < 0, offsets, column).flatten()
    rows = torch.zeros(2, offsets + 1, dtype=torch.long, device=best.device)
    rows.index_add_(1, column, scope.pairs.flatten(1))
    found = best - position + max_offset
    ordinary = scope.keys.gather(1, best.flatten(1)).view_as(best)
    counted = scope.rows[:, None] & ordinary & (found >= 0) & (found < offsets)
    cell = (scope.halves[:, None] * heads + torch.arange(heads, device=best.device))[..., None]
    place = torch.where(counted, cell * offsets + found, 2 * heads * offsets)
    hits = torch.bincount(place.flatten(), minlength=2 * heads * offsets + 1)[:-1]
    return PositionalCounts(hits.view(2, heads, offsets), rows[:, :-1])


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
    """One row a head and offset: `head, offset, rows, argmax_rate`; both halves together."""
    hits, rows = counts.hits.sum(0).cpu(), counts.rows.sum(0).cpu()
    heads, offsets = hits.shape
    return pd.DataFrame(
        {
            "head": torch.arange(heads).repeat_interleave(offsets).numpy(),
            "offset": (torch.arange(offsets) - offsets // 2).repeat(heads).numpy(),
            "rows": rows.repeat(heads).numpy(),
            "argmax_rate": (hits / rows).flatten().numpy(),
        }
    )
