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
        needed: least number of observations that confirm a label; fewer can only reject one.
        unit: what is counted: `sentences` or `links`.
    """

    threshold: float
    needed: int
    unit: str


# Intervals are over sentences, so these are what a label needs enough of. Of 50 sentences each half has 25.
SENTENCES = 20
POSITIONAL = Rule(0.9, SENTENCES, "sentences")
LINKS = Rule(0.10, 100, "links")
RARE = Rule(0.5, SENTENCES, "sentences")
SINK = Rule(0.3, SENTENCES, "sentences")
# A count of sinks is a choice of threshold, so the counts at these stand beside it.
SINK_THRESHOLDS = (0.3, 0.4, 0.5, 0.6)
BROAD = Rule(0.9, SENTENCES, "sentences")
MONOTONE = Rule(0.8, SENTENCES, "sentences")
MONOTONE_SLOPE = 0.5
# Two families whose code lengths differ by less describe a head equally well.
TIE_BITS_PER_ROW = 0.02
