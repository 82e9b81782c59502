"""The verdict on one head and one label, with the figures it rests on."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from attnlab.labels.counts import REPORTED, RatioCounts, resampled, sum_of_halves
from attnlab.labels.label_columns import Rule

UNKNOWN = "unknown"

# How a figure lies to its threshold, from the least to the most that can be said for a label.
REJECTED, UNDECIDED, BORDERLINE, CONFIRMED = "rejected", "undecided", "borderline", "confirmed"
STATUSES = (REJECTED, UNDECIDED, BORDERLINE, CONFIRMED)
# Of a label whose controls were left out: whether it is significant is not known.
NOT_COMPARED = "not compared"


def least_status(*statuses: str) -> str:
    """The status of all conditions together: the least of their statuses.

    >>> least_status("confirmed", "borderline"), least_status("undecided", "rejected")
    ('borderline', 'rejected')
    """
    return min(statuses, key=STATUSES.index)


def decided(statuses: Sequence[str], *, enough: bool) -> str:
    """The status of a label from those of its conditions.

    One condition that fails rejects the label, however little was counted; without `enough` observations
    nothing confirms it, and a threshold within an interval may only be for want of them.

    >>> decided(["confirmed", "rejected"], enough=False), decided(["confirmed", "borderline"], enough=False)
    ('rejected', 'undecided')
    >>> decided(["confirmed", "borderline"], enough=True), decided(["confirmed"], enough=True)
    ('borderline', 'confirmed')
    """
    least = least_status(*statuses)
    return least if enough or least == REJECTED else UNDECIDED


def status_of(low: float, high: float, threshold: float) -> str:
    """The status of an interval: `confirmed` above a threshold, `rejected` below, `borderline` across it.

    Without an interval (NaN) it is `undecided`.

    >>> status_of(0.91, 0.95, 0.9), status_of(0.88, 0.92, 0.9), status_of(0.1, 0.2, 0.9)
    ('confirmed', 'borderline', 'rejected')
    """
    if math.isnan(low) or math.isnan(high) or math.isnan(threshold):
        return UNDECIDED
    if low >= threshold:
        return CONFIRMED
    return REJECTED if high < threshold else BORDERLINE


@dataclass(frozen=True)
class Verdict:
    """How far a head carries a label, measured on the reported half of the corpus.

    Its fields are columns of `attnlab.labels.label_columns.CONTROLS`, which say what each means;
    `detail` was picked on the choosing half. What is missing is NaN or empty.
    """

    label: str
    head: int
    detail: str
    statistic: str
    value: float
    value_low: float
    value_high: float
    threshold: float
    control: float
    control_kind: str
    denominator: int
    second_statistic: str
    second_value: float
    second_value_low: float
    second_value_high: float
    second_threshold: float
    second_control: float
    unit: str
    counted: int
    needed: int
    status: str
    stability: float


NO_CONTROL = math.nan


@dataclass(frozen=True)
class Condition:
    """A figure of every head beside what it must reach.

    Attributes:
        statistic: what the figure is.
        value: of each head.
        low: lower end of its interval.
        high: upper end.
        threshold: what it must reach.
        reached: whether it reaches that in each bootstrap draw.
    """

    statistic: str
    value: Float[Tensor, " head"]
    low: Float[Tensor, " head"]
    high: Float[Tensor, " head"]
    threshold: Float[Tensor, " head"]
    reached: Bool[Tensor, "draw head"]


@dataclass(frozen=True)
class _Figure:
    """One condition of one head; NaN where there is none."""

    statistic: str = ""
    value: float = math.nan
    low: float = math.nan
    high: float = math.nan
    threshold: float = math.nan

    @property
    def status(self) -> str:
        return status_of(self.low, self.high, self.threshold)


def verdicts_of(
    label: str,
    rule: Rule,
    details: Sequence[str],
    conditions: Sequence[Condition],
    *,
    denominator: Int[Tensor, " head"],
    counted: Int[Tensor, " head"],
    control: float | Float[Tensor, " head"] = NO_CONTROL,
    control_kind: str = "",
    second_control: float = NO_CONTROL,
) -> list[Verdict]:
    """One verdict per head from the one or two figures that the rule asks for.

    Args:
        label: the name of the label.
        rule: what it asks for.
        details: what was picked for each head.
        conditions: the figures, one or two.
        denominator: what the first value rests on.
        counted: how many observations the rule can use.
        control: what the first figure would be without the function.
        control_kind: what gives that figure, such as `equal rows`.
        second_control: what the second figure would be.
    """
    controls = torch.as_tensor(control, dtype=torch.float64).expand(len(details)).tolist()
    stability = torch.stack([one.reached for one in conditions]).all(0).double().mean(0).tolist()
    verdicts = []
    for head, detail in enumerate(details):
        figures = [_figure(condition, head) for condition in conditions]
        enough = int(counted[head]) >= rule.needed
        status = decided([figure.status for figure in figures], enough=enough)
        first, second = (*figures, _Figure())[:2]
        verdicts.append(
            Verdict(
                label=label,
                head=head,
                detail=detail,
                statistic=first.statistic,
                value=first.value,
                value_low=first.low,
                value_high=first.high,
                threshold=first.threshold,
                control=controls[head],
                control_kind=control_kind,
                denominator=int(denominator[head]),
                second_statistic=second.statistic,
                second_value=second.value,
                second_value_low=second.low,
                second_value_high=second.high,
                second_threshold=second.threshold,
                second_control=second_control,
                unit=rule.unit,
                counted=int(counted[head]),
                needed=rule.needed,
                status=status,
                stability=stability[head] if enough else math.nan,
            )
        )
    return verdicts


def _figure(condition: Condition, head: int) -> _Figure:
    value = float(condition.value[head])
    low, high = float(condition.low[head]), float(condition.high[head])
    if math.isnan(value):
        low = high = math.nan
    return _Figure(condition.statistic, value, low, high, float(condition.threshold[head]))


def verdict_table(verdicts: Sequence[Verdict]) -> pd.DataFrame:
    """One row per verdict."""
    return pd.DataFrame(verdicts, columns=list(Verdict.__dataclass_fields__))


def share_condition(
    statistic: str,
    counts: RatioCounts,
    least: float | Float[Tensor, "group head"],
    *,
    seed: int,
) -> Condition:
    """The share of hits in the reported half, with an interval over its sentences.

    Args:
        statistic: what the share is.
        counts: hits by group, one figure a head, such as rows whose largest weight is at an offset;
            as denominators out of how many.
        least: the share that it must reach, or how many hits a control has of the same observations.
        seed: of the bootstrap draws.
    """
    total = counts.denominator
    required = total * least if isinstance(least, float) else least
    of_half = counts.by_half()
    share = of_half.ratio[REPORTED]
    low, high = (end[REPORTED] for end in of_half.share_interval())
    return Condition(
        statistic,
        share,
        low,
        high,
        torch.full_like(share, least)
        if isinstance(least, float)
        else sum_of_halves(least)[REPORTED] / sum_of_halves(total)[REPORTED],
        (resampled(counts.numerator, seed) >= resampled(required, seed))[:, REPORTED],
    )


def ratio_condition(
    statistic: str,
    counts: RatioCounts,
    threshold: float | Float[Tensor, " head"],
    *,
    seed: int,
    least: float = -math.inf,
    most: float = math.inf,
) -> Condition:
    """A ratio of sums over the sentences of the reported half; it must reach `threshold`.

    Args:
        statistic: what the ratio is.
        counts: by group, one figure a head.
        threshold: a number for all heads, or one for each.
        seed: of the bootstrap draws.
        least: the smallest value that the ratio can have; the interval of a few sentences ends there.
        most: the largest.
    """
    of_half = counts.by_half()
    value = of_half.ratio[REPORTED]
    low, high = (end.clamp(least, most) for end in of_half.interval())
    drawn = resampled(counts.numerator, seed) / resampled(counts.denominator, seed)
    return Condition(
        statistic,
        value,
        low[REPORTED],
        high[REPORTED],
        torch.as_tensor(threshold, dtype=value.dtype, device=value.device).expand_as(value),
        drawn[:, REPORTED] >= threshold,
    )
