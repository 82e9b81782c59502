"""The rule of every label: what a figure must reach, and how much must be counted first.

heads.md says which of these numbers are published and which were chosen here.
"""

from dataclasses import dataclass

CONFIDENCE_LEVEL = 0.95


@dataclass(frozen=True)
class Rule:
    """What a head must show to carry a label.

    Attributes:
        threshold: what the figure must reach; of gold links, how far it must exceed its control.
        needed: least number of observations; below it nothing is decided.
        unit: what is counted: `rows`, `links` or `sentences`.
    """

    threshold: float
    needed: int
    unit: str


POSITIONAL = Rule(0.9, 1000, "rows")
LINKS = Rule(0.10, 100, "links")
RARE = Rule(0.5, 1000, "rows")
SINK = Rule(0.6, 1000, "rows")
BROAD = Rule(0.9, 1000, "rows")
MONOTONE = Rule(0.8, 100, "sentences")
MONOTONE_SLOPE = 0.5
# Two families whose code lengths differ by less describe a head equally well.
TIE_BITS_PER_ROW = 0.02
