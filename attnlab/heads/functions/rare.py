"""Rare-token heads: most rows have their largest weight on one of the sentence's two rarest tokens.

Counted on sentences whose rarest token is outside the corpus's 500 most frequent types. A head that
looks at uncommon words in general would often hit the rarest by chance, so the share is compared
with that of a head that picks at random among the sentence's tokens outside those 500 types, on the
rows where that is a difference. Source: Voita et al. 2019 (arXiv 1905.09418), section 4.3.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
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


@dataclass(frozen=True)
class RarePlaces:
    """Where the rarest tokens of a batch stand and which rows count, the same in all layers.

    Attributes:
        place: for each key 2 if it is of the rarest type, 1 if of the second rarest, else 0.
        rows: rows that count.
        contested: of those, rows that may also look at some other uncommon token.
        expected: what a row picking at random among uncommon tokens would hit on average.
        halves: 0 or 1 for each sentence.
    """

    place: Int[Tensor, "batch key"]
    rows: Bool[Tensor, "batch query"]
    contested: Bool[Tensor, "batch query"]
    expected: Float[Tensor, "batch query"]
    halves: Int[Tensor, " batch"]


def rare_places(
    scope: Scope, ranks: Int[Tensor, "batch key"], frequent_types: int = FREQUENT_TYPES
) -> RarePlaces:
    """Where the rarest tokens stand; special tokens are never among them.

    Args:
        scope: what is counted.
        ranks: each key's frequency rank in the corpus, 0 for the most frequent type.
        frequent_types: how many types are called frequent.
    """
    rank = ranks.masked_fill(~scope.keys, -1)
    first = rank.amax(1, keepdim=True)
    second = rank.masked_fill(rank == first, -1).amax(1, keepdim=True)
    rarest = scope.keys & (rank == first)
    two_rarest = rarest | (scope.keys & (rank == second))
    rows = scope.rows & (first >= frequent_types)
    rows = rows & (scope.seen | ~two_rarest[:, None]).all(-1)
    uncommon = ((rank >= frequent_types)[:, None] & scope.seen).sum(-1)
    size = two_rarest.sum(1, keepdim=True).expand_as(uncommon)
    contested = rows & (uncommon > size)
    expected = (size / uncommon.clamp_min(1)).double() * contested
    return RarePlaces(two_rarest.long() + rarest.long(), rows, contested, expected, scope.halves)


def count_rare(best: Int[Tensor, "batch head query"], places: RarePlaces) -> RareCounts:
    """Counts of a batch; `best` is the key with the largest weight of every row, special or not."""
    found = places.place.gather(1, best.flatten(1)).view_as(best)

    def total(hits: Tensor, counted: Bool[Tensor, "batch query"]) -> Tensor:
        return sum_by_half((hits & counted[:, None]).sum(-1), places.halves)

    return RareCounts(
        rows=sum_by_half(places.rows.sum(1), places.halves),
        rarest=total(found == 2, places.rows),
        two_rarest=total(found > 0, places.rows),
        contested_rows=sum_by_half(places.contested.sum(1), places.halves),
        contested_two_rarest=total(found > 0, places.contested),
        contested_expected=sum_by_half(places.expected.sum(1), places.halves),
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
