"""Broad heads: mean entropy above 0.9 of the largest possible, ln n with n the keys a row may look at."""

from dataclasses import dataclass

from jaxtyping import Float, Int
from torch import Tensor

from attnlab.heads.functions.counts import REPORTED, Counts, Scope, sum_by_half
from attnlab.heads.functions.intervals import RatioCounts, count_ratio
from attnlab.heads.functions.verdict import NO_CONTROL, Verdict

SHARE_OF_LARGEST = 0.9
LEAST_ROWS = 1000


@dataclass(frozen=True)
class BroadCounts(Counts):
    """Entropy of each head's rows, against the largest there could be.

    Attributes:
        entropy: summed entropy over summed ln n of the same rows, by sentence.
        rows: how many rows that is.
    """

    entropy: RatioCounts
    rows: Int[Tensor, " half"]


def count_broad(entropies: Float[Tensor, "batch head query"], scope: Scope) -> BroadCounts:
    """Counts of a batch from the entropies in nats of whole rows, special keys among the candidates."""
    entropy_nats = entropies.double() * scope.rows[:, None]
    largest = scope.seen.sum(-1).clamp_min(1).double().log() * scope.rows
    return BroadCounts(
        count_ratio(entropy_nats.sum(-1), largest.sum(-1), scope.halves),
        sum_by_half(scope.rows.sum(1), scope.halves),
    )


def judge_broad(
    counts: BroadCounts, share: float = SHARE_OF_LARGEST, least_rows: int = LEAST_ROWS
) -> list[Verdict]:
    """One verdict a head, on the mean entropy as a share of ln n."""
    ratio = counts.entropy.ratio[REPORTED]
    low, high = counts.entropy.interval()
    rows = int(counts.rows[REPORTED])
    verdicts = []
    for head, value in enumerate(ratio.tolist()):
        reason = "" if value > share else f"mean entropy not above {share:g} ln n"
        reason = reason if rows >= least_rows else f"fewer than {least_rows} rows"
        verdicts.append(
            Verdict(
                label="broad",
                head=head,
                detail="",
                statistic="mean_entropy_over_ln_n",
                value=value,
                low=float(low[REPORTED, head]),
                high=float(high[REPORTED, head]),
                threshold=share,
                control=NO_CONTROL,
                denominator=rows,
                holds=not reason,
                reason=reason,
            )
        )
    return verdicts
