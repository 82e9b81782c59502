"""The columns of the tables about labels, relations and structure."""

from dataclasses import dataclass

from attnlab.core import (
    HEAD,
    HEAD_KEYS,
    KEYS,
    LOSS_CHANGE,
    SENTENCE_COUNT,
    Column,
    Estimate,
    Table,
)
from attnlab.matrices import FAMILIES, NO_FAMILY

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

POINTS = f"{100 * LINKS.threshold:.0f} points"
# Of the structure `diffuse`, as readers are told of it.
NO_STRUCTURE = FAMILIES[NO_FAMILY].label
NO_STRUCTURE_MEANS = "no family of matrices needs fewer bits than equal weights"
STRUCTURE_SAID = f"{NO_STRUCTURE} (diffuse in files): {NO_STRUCTURE_MEANS}"
LABEL = Column("label", "label", "What the head does by the rule of that label.")
DETAIL = Column(
    "detail",
    "detail",
    "What was picked on the other half of the sentences: offset, relation, token.",
)
COUNTED = Column("counted", "counted", "How many observations the rule can use.")
NEEDED = Column("needed", "needed", "How many observations it takes to confirm the label.")
UNIT = Column("unit", "unit", "What is counted: sentences or links.")
STATUS = Column(
    "status",
    "status",
    "confirmed: the interval lies above the threshold; rejected: it lies below; borderline: it contains "
    "the threshold; undecided: it contains the threshold, or lies above, and too little was counted to "
    "confirm the label. Some rules ask for a second figure, which is in controls.csv: then the "
    "lesser of both counts.",
)
STABILITY = Column(
    "stability",
    "stability",
    "Share of bootstrap draws of the sentences in which the value reaches its threshold: near 1 "
    "the label hardly depends on which sentences there are, near 0.5 it is a coin toss.",
    2,
)
SIGNIFICANCE = Column(
    "significance",
    "significance",
    "Against controls: confirmed where the label is, and the same head of an untrained model lies below "
    f"the threshold; a relation must also be followed {POINTS} more often than on shuffled words, by "
    "the interval of the difference. borderline: one of these is. rejected: one fails. not compared: "
    "the controls were left out, or none is compared with the label, such as broad.",
)
SIGNIFICANT = Column(
    "significant", "significant", "Whether the label is significant, see significance."
)
STRENGTH = Column(
    "strength",
    "strength",
    "How far the head is on its way to the label, from what its controls reach (0) to the threshold (1).",
    2,
)
OVER_SENTENCES = "over sentences"
VALUE = Estimate(Column("value", "value", "The figure that the label rests on.", 2), OVER_SENTENCES)
SECOND_VALUE = Estimate(
    Column("second_value", "second value", "That second figure.", 2), OVER_SENTENCES
)
VALUE_COLUMNS = (
    Column(
        "statistic",
        "statistic",
        "What the value is: a share of rows by their largest weight, a mean share of weight, an "
        "accuracy by the largest weight, or a mean over rows or sentences.",
    ),
    *VALUE,
    Column("threshold", "threshold", "What the value must reach.", 2),
)
SECOND_VALUE_COLUMNS = (
    Column(
        "second_statistic", "second statistic", "What else the rule asks for; empty if nothing."
    ),
    *SECOND_VALUE,
    Column("second_threshold", "second threshold", "What the second figure must reach.", 2),
)
# What a figure is held against that comes without the function.
BASELINE = "baseline"
SECOND_CONTROL = Column(
    "second_control",
    f"second {BASELINE}",
    "What the second figure would be without the function.",
    2,
)


def _control(name: str, value: str, of: str) -> tuple[Column, ...]:
    """The figure of a control with its interval and status."""
    return (
        *Estimate(Column(f"{name}_value", name, f"The same figure {value}.", 2), OVER_SENTENCES),
        Column(f"{name}_status", f"{name} status", f"How {of} lies to its own threshold."),
    )


CONTROLS = Table(
    "controls.csv",
    "head, view of the keys and label",
    (
        *HEAD,
        KEYS,
        LABEL,
        DETAIL,
        *VALUE_COLUMNS,
        Column(
            "control",
            BASELINE,
            "What the figure would be without the function: by the best offset, by chance, or of equal "
            "weights.",
            2,
        ),
        Column("denominator", "counted", "How many rows, pairs or sentences the value rests on."),
        *SECOND_VALUE_COLUMNS,
        SECOND_CONTROL,
        UNIT,
        COUNTED,
        NEEDED,
        STATUS,
        STABILITY,
        *_control("untrained", "of the same head of an untrained model", "the untrained figure"),
        *_control("shuffled", "on sentences whose words are shuffled", "the shuffled figure"),
        SIGNIFICANCE,
        SIGNIFICANT,
        STRENGTH,
    ),
    keys=(*HEAD_KEYS, "keys", "label", "control"),
)
STRUCTURE_OF_HEAD = (
    Column(
        "structure",
        "structure",
        "The family of matrices that describes the head's matrices, with the keys of the view, in "
        f"the fewest bits; says what they look like, not what for; {STRUCTURE_SAID}.",
        short="family",
    ),
    Column("structure_runner_up", "next", "The family of the second fewest bits."),
    Column(
        "structure_margin_bits_per_row",
        "margin (bits per row)",
        "How many bits per row more the next family costs.",
        2,
        "margin",
    ),
    Column(
        "structure_tie",
        "tie",
        f"Whether the next family needs less than {TIE_BITS_PER_ROW:g} bits per row more.",
    ),
)
LABELS = Table(
    "labels.csv",
    "head and view of the keys",
    (
        *HEAD,
        KEYS,
        Column(
            "labels",
            "confirmed",
            "Everything the head does by the rules; where that is nothing, unknown, or undecided while "
            "too little was counted for some label.",
        ),
        Column("label", "label", "The first of them."),
        Column("borderline", "borderline", "Labels whose interval contains their threshold."),
        Column("undecided", "undecided", "Labels for which too little was counted."),
        Column(
            "significant_labels",
            "significant labels",
            "Those of its labels that the same head of an untrained model does not carry (and, of "
            "relations, that shuffled words do not explain); or unknown or undecided as there. A label that "
            "no control is compared with, such as broad, is none of them.",
        ),
        Column("function", "function", "The strongest label."),
        DETAIL,
        *VALUE_COLUMNS,
        *SECOND_VALUE_COLUMNS,
        UNIT,
        COUNTED,
        NEEDED,
        STATUS,
        STABILITY,
        STRENGTH,
        SIGNIFICANCE,
        *STRUCTURE_OF_HEAD,
        Column(
            "mass_on_special",
            "on special tokens",
            "Mean share of a row on special tokens (start, end, separators), over rows with one "
            "as a key.",
            2,
            "special",
        ),
        *LOSS_CHANGE,
    ),
    keys=(*HEAD_KEYS, "keys"),
)
GAIN = Estimate(
    Column("gain_over_shuffled", "gain over shuffled", "Accuracy minus that on shuffled words.", 2),
    "Newcombe's",
)
AER = Estimate(
    Column(
        "aer",
        "AER",
        "Alignment error rate of the links against gold links, over all pairs together: 0 where they are the "
        "sure links, 1 where none is right.",
        3,
    )
)
RELATIONS = Table(
    "relations.csv",
    "head, relation and direction",
    (
        *HEAD,
        Column(
            "relation", "relation", "Dependency between two words, or alignment of translations."
        ),
        Column(
            "direction", "direction", "Query > key: which of the two words should attend to which."
        ),
        Column("links", "pairs", "How many pairs of words were counted."),
        *Estimate(
            Column(
                "accuracy",
                "accuracy",
                "Share of pairs in which the head's largest weight is on the right word.",
                2,
            ),
            OVER_SENTENCES,
        ),
        *AER,
        Column(
            "baseline",
            "best offset",
            "Accuracy of always picking the relation's most frequent offset.",
            2,
        ),
        Column("chance", "chance", "Accuracy of picking a visible word at random.", 2),
        Column(
            "threshold",
            "threshold",
            f"What the accuracy must reach: {POINTS} above the better of best offset and chance.",
            2,
        ),
        Column("choosing_links", "pairs, choosing half", "Pairs in the half that picks."),
        *Estimate(
            Column("choosing_accuracy", "accuracy, choosing half", "Accuracy in that half.", 2),
            OVER_SENTENCES,
        ),
        Column(
            "choosing_baseline", "best offset, choosing half", "The offset's accuracy there.", 2
        ),
        Column("choosing_chance", "chance, choosing half", "Chance in that half.", 2),
        Column("choosing_threshold", "threshold, choosing half", "What must be reached there.", 2),
        Column("baseline_offset", "offset", "The relation's most frequent offset."),
        COUNTED,
        NEEDED,
        STABILITY,
        STATUS,
        *Estimate(
            Column("shuffled_accuracy", "shuffled", "The head's accuracy on shuffled words.", 2),
            OVER_SENTENCES,
        ),
        Column("shuffled_status", "shuffled status", "How it lies to its own threshold."),
        *Estimate(
            Column(
                "untrained_accuracy",
                "untrained",
                "Accuracy of the same head of an untrained model.",
                2,
            ),
            OVER_SENTENCES,
        ),
        Column("untrained_status", "untrained status", "How it lies to its own threshold."),
        *GAIN,
        SIGNIFICANCE,
        SIGNIFICANT,
    ),
)
STRUCTURE = Table(
    "structure.csv",
    "head, view of the keys and family of matrices",
    (
        *HEAD,
        KEYS,
        Column("family", "family", "The family of matrices, see docs/math.md."),
        Column(
            "bits_per_row",
            "bits per row",
            "What a row costs under the best member of the family, its name among the bits.",
            2,
        ),
        Column("noise_fraction", "noise", "Share of noise that gives the fewest bits, eta.", 2),
        Column("member", "member", "The parameters of that member."),
        Column("chosen", "chosen", "Whether this family has the fewest bits."),
        SENTENCE_COUNT,
        Column("rows", "rows", "How many rows were coded."),
        Column(
            "rows_left_out", "rows left out", "Rows with no weight on any of the keys of the view."
        ),
    ),
    keys=(*HEAD_KEYS, "keys", "family"),
)
