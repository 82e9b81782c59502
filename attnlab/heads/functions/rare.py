"""Rare-token heads: most rows have their largest weight on one of the sentence's two rarest tokens.

Counted on sentences whose rarest token is outside the corpus's 500 most frequent types. A head that
looks at uncommon words in general would often hit the rarest by chance, so the share is compared
with that of a head that picks at random among the sentence's tokens outside those 500 types, on the
rows where that is a difference. Source: Voita et al. 2019 (arXiv 1905.09418), section 4.3.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from attnlab.heads.functions.counts import REPORTED, Counts, Scope, sum_by_half
from attnlab.heads.functions.intervals import wilson_interval
from attnlab.heads.functions.verdict import Verdict

FREQUENT_TYPES = 500
SHARE_OF_ROWS = 0.5
LEAST_ROWS = 1000


@dataclass(frozen=True)
class RareCounts(Counts):
    """How often each head's arg-max is the rarest, or one of the two rarest, tokens of a sentence.

    Attributes:
        rows: rows that may look at the two rarest tokens, in sentences that qualify.
        rarest: of those, rows whose largest weight is on the rarest type.
        two_rarest: the same for the two rarest types.
        contested_rows: rows that may also look at some other uncommon token.
        contested_two_rarest: of those, rows whose largest weight is on one of the two rarest.
        contested_expected: how many that would be when picking at random among uncommon tokens.
    """

    rows: Int[Tensor, " half"]
    rarest: Int[Tensor, "half head"]
    two_rarest: Int[Tensor, "half head"]
    contested_rows: Int[Tensor, " half"]
    contested_two_rarest: Int[Tensor, "half head"]
    contested_expected: Float[Tensor, " half"]


def frequency_ranks(counts: Int[Tensor, " type"]) -> Int[Tensor, " type"]:
    """The rank of every type, 0 for the most frequent; among equals the smaller number comes first.

    >>> frequency_ranks(torch.tensor([2, 9, 0, 2])).tolist()
    [1, 0, 3, 2]
    """
    return counts.argsort(descending=True, stable=True).argsort()


def count_rare(
    weights: Float[Tensor, "batch head query key"],
    scope: Scope,
    ranks: Int[Tensor, "batch key"],
    frequent_types: int = FREQUENT_TYPES,
) -> RareCounts:
    """Counts of a batch.

    Args:
        weights: token by token.
        scope: what is counted; special tokens are never the rarest but may win the arg-max.
        ranks: each key's frequency rank in the corpus, 0 for the most frequent type.
        frequent_types: how many types are called frequent.
    """
    rank = ranks.masked_fill(~scope.keys, -1)
    first = rank.amax(1, keepdim=True)
    second = rank.masked_fill(rank == first, -1).amax(1, keepdim=True)
    rarest = scope.keys & (rank == first)
    two_rarest = rarest | (scope.keys & (rank == second))
    qualifies = first >= frequent_types
    rows = scope.rows & qualifies & (scope.seen | ~two_rarest[:, None]).all(-1)
    uncommon = ((rank >= frequent_types)[:, None] & scope.seen).sum(-1)
    size = two_rarest.sum(1, keepdim=True).expand_as(uncommon)
    contested = rows & (uncommon > size)
    expected = (size / uncommon.clamp_min(1)).double() * contested
    best = weights.masked_fill(~scope.seen[:, None], -1).argmax(-1)

    def hits(wanted: Tensor, counted: Tensor) -> Tensor:
        found = wanted[:, None].expand(-1, best.shape[1], -1).gather(2, best) & counted[:, None]
        return sum_by_half(found.sum(-1), scope.halves)

    return RareCounts(
        rows=sum_by_half(rows.sum(1), scope.halves),
        rarest=hits(rarest, rows),
        two_rarest=hits(two_rarest, rows),
        contested_rows=sum_by_half(contested.sum(1), scope.halves),
        contested_two_rarest=hits(two_rarest, contested),
        contested_expected=sum_by_half(expected.sum(1), scope.halves),
    )


def judge_rare(
    counts: RareCounts, share: float = SHARE_OF_ROWS, least_rows: int = LEAST_ROWS
) -> list[Verdict]:
    """One verdict a head: above `share` on all rows, and on contested rows above picking at random.

    `value` is the share on all rows; `low`, `high` and `control` are of the contested rows.
    """
    rows, contested = int(counts.rows[REPORTED]), int(counts.contested_rows[REPORTED])
    hits = counts.contested_two_rarest[REPORTED]
    low, high = wilson_interval(hits, torch.full_like(hits, contested))
    chance = float(counts.contested_expected[REPORTED]) / contested if contested else float("nan")
    verdicts = []
    for head, found in enumerate(counts.two_rarest[REPORTED].tolist()):
        value = found / rows if rows else float("nan")
        if contested < least_rows:
            reason = f"fewer than {least_rows} rows with a third uncommon token"
        elif value <= share:
            reason = f"two-rarest share not above {share:g}"
        else:
            reason = "" if low[head] > chance else "no more than any uncommon token gets by chance"
        verdicts.append(
            Verdict(
                label="rare tokens",
                head=head,
                detail="two rarest",
                statistic="argmax_rate",
                value=value,
                low=float(low[head]),
                high=float(high[head]),
                threshold=share,
                control=chance,
                denominator=rows,
                holds=not reason,
                reason=reason,
            )
        )
    return verdicts
