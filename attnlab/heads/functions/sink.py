"""Sink heads: on average most of a row's weight lies on one special token or on punctuation.

Mass, not arg-max. For cross-attention the sink to expect is the end-of-sentence token.
"""

from dataclasses import dataclass

from jaxtyping import Bool, Float
from torch import Tensor

from attnlab.heads.functions.conditions import ratio_condition
from attnlab.heads.functions.counts import CHOOSING, REPORTED, Counts, Scope
from attnlab.heads.functions.intervals import RatioCounts, count_ratio
from attnlab.heads.functions.thresholds import SINK, Rule
from attnlab.heads.functions.verdict import Verdict, verdicts_of


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
    return SinkCounts(kinds, count_ratio(mass, scope.rows.sum(1), scope.groups))


def judge_sink(counts: SinkCounts, rule: Rule = SINK, seed: int = 0) -> list[Verdict]:
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
