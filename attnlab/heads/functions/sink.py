"""Sink heads: on average more than 0.6 of a row's weight lies on one special token or on punctuation.

Mass, not arg-max. For cross-attention the sink to expect is the end-of-sentence token.
"""

from dataclasses import dataclass

from jaxtyping import Bool, Float
from torch import Tensor

from attnlab.heads.functions.counts import CHOOSING, REPORTED, Counts, Scope
from attnlab.heads.functions.intervals import RatioCounts, count_ratio
from attnlab.heads.functions.verdict import NO_CONTROL, Verdict

MEAN_MASS = 0.6
LEAST_ROWS = 1000


@dataclass(frozen=True)
class SinkCounts(Counts):
    """Mass of each head on each kind of key, over the rows of ordinary tokens.

    Attributes:
        kinds: names of the kinds, such as `closing` ([SEP], EOS) and `punctuation`.
        mass: summed weight on the kind over rows, by sentence.
    """

    kinds: tuple[str, ...]
    mass: RatioCounts


def count_sink(
    weights: Float[Tensor, "batch head query key"],
    scope: Scope,
    kinds: tuple[str, ...],
    marked: Bool[Tensor, "batch key kind"],
) -> SinkCounts:
    """Counts of a batch; `marked` says which keys are of which kind."""
    column_mass = scope.rows[:, None, None].to(weights.dtype) @ weights
    mass = column_mass[:, :, 0].double() @ marked.double()
    return SinkCounts(kinds, count_ratio(mass, scope.rows.sum(1), scope.halves))


def judge_sink(
    counts: SinkCounts, mean_mass: float = MEAN_MASS, least_rows: int = LEAST_ROWS
) -> list[Verdict]:
    """One verdict a head: on the kind with the largest mean mass in the choosing half."""
    mean = counts.mass.ratio
    low, high = counts.mass.interval()
    verdicts = []
    for head, kind in enumerate(mean[CHOOSING].nan_to_num(-1).argmax(-1).tolist()):
        rows = int(counts.mass.denominator[REPORTED, head, kind])
        value = float(mean[REPORTED, head, kind])
        reason = "" if value > mean_mass else f"mean mass not above {mean_mass:g}"
        reason = reason if rows >= least_rows else f"fewer than {least_rows} rows"
        verdicts.append(
            Verdict(
                label="sink",
                head=head,
                detail=counts.kinds[kind],
                statistic="mean_mass_fraction",
                value=value,
                low=float(low[REPORTED, head, kind]),
                high=float(high[REPORTED, head, kind]),
                threshold=mean_mass,
                control=NO_CONTROL,
                denominator=rows,
                holds=not reason,
                reason=reason,
            )
        )
    return verdicts
