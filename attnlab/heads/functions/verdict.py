"""The verdict on one head and one label, with the figures it rests on."""

import math
from dataclasses import dataclass

import pandas as pd

LABELS = ("positional", "syntactic", "rare tokens", "sink", "broad", "monotone", "alignment")
UNKNOWN = "unknown"
# Neither this nor that: too little was counted for every label.
UNDECIDED = "undecided"
NOT_COUNTED = "fewer than"


@dataclass(frozen=True)
class Verdict:
    """Whether a head carries a label, measured on the reported half of the corpus.

    Attributes:
        label: one of `LABELS`.
        head: number in its layer, from 0.
        detail: what was picked on the choosing half: an offset, a relation, a token.
        statistic: what `value` is.
        value: the figure, with its 95 % interval `low` to `high`; NaN when nothing could be counted.
        threshold: what `value` is compared with.
        control: what the figure would be without the function, where the label has such a control.
        denominator: how many rows, arcs or sentences `value` rests on.
        holds: whether the head carries the label.
        reason: why it does not; empty when it does.
    """

    label: str
    head: int
    detail: str
    statistic: str
    value: float
    low: float
    high: float
    threshold: float
    control: float
    denominator: int
    holds: bool
    reason: str


NO_CONTROL = math.nan


def verdict_table(verdicts: list[Verdict]) -> pd.DataFrame:
    """One row a verdict."""
    return pd.DataFrame(verdicts, columns=list(Verdict.__dataclass_fields__))
