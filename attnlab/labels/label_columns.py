"""The columns of the tables about labels, relations and structure."""

from dataclasses import dataclass, replace

from attnlab.core import (
    HEAD,
    HEAD_KEYS,
    KEYS,
    LOSS_CHANGE,
    SENTENCE_COUNT,
    Column,
    Estimate,
    Table,
    read_columns,
)
from attnlab.matrices import FAMILIES, NO_FAMILY

COLUMNS = read_columns(__file__)

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
CROSSING = Rule(0.5, SENTENCES, "sentences")
SAME_TOKEN = Rule(0.5, SENTENCES, "sentences")
# Two families whose code lengths differ by less describe a head equally well.
TIE_BITS_PER_ROW = 0.02

POINTS = f"{100 * LINKS.threshold:.0f} points"
# Of the structure `diffuse`, as readers are told of it.
NO_STRUCTURE = FAMILIES[NO_FAMILY].label
NO_STRUCTURE_MEANS = "no family of matrices needs fewer bits than equal weights"
STRUCTURE_SAID = f"{NO_STRUCTURE} (diffuse in files): {NO_STRUCTURE_MEANS}"
LABEL = COLUMNS["label"]
DETAIL = COLUMNS["detail"]
COUNTED = COLUMNS["counted"]
NEEDED = COLUMNS["needed"]
UNIT = COLUMNS["unit"]
STATUS = COLUMNS["status"]
STABILITY = COLUMNS["stability"]
SIGNIFICANCE = Column(
    "significance",
    "significance",
    "Against controls: confirmed where the label is, and the same head of an untrained model lies below "
    f"the threshold; a relation must also be followed {POINTS} more often than on shuffled words, by "
    "the interval of the difference. borderline: one of these is. rejected: one fails. not compared: "
    "the controls were left out, or none is compared with the label, such as broad.",
)
SIGNIFICANT = COLUMNS["significant"]
STRENGTH = COLUMNS["strength"]
OVER_SENTENCES = "over sentences"
VALUE = Estimate(COLUMNS["value"], OVER_SENTENCES)
SECOND_VALUE = Estimate(COLUMNS["second_value"], OVER_SENTENCES)
STATISTIC = COLUMNS["statistic"]
SECOND_STATISTIC = COLUMNS["second_statistic"]
THRESHOLD = Column(
    "threshold",
    "threshold",
    f"What the value must reach; of relations, {POINTS} above the better of best offset and chance.",
    2,
)
VALUE_COLUMNS = (
    STATISTIC,
    *VALUE,
    THRESHOLD,
)
SECOND_VALUE_COLUMNS = (
    SECOND_STATISTIC,
    *SECOND_VALUE,
    COLUMNS["second_threshold"],
)
# Kinds of controls: what a figure is without the function.
BEST_OFFSET, BY_CHANCE, EQUAL_ROWS = "best offset", "chance", "equal rows"
UNTRAINED_TWIN, SHUFFLED_WORDS = "untrained twin", "shuffled words"
# What is counted: the model, and controls.
MODEL, UNTRAINED, SHUFFLED = "model", "untrained", "shuffled"
CONTROL = COLUMNS["control"]
CONTROL_KIND = COLUMNS["control_kind"]
SECOND_CONTROL = COLUMNS["second_control"]


def _status(name: str) -> Column:
    return Column(
        f"{name}_status", f"{name} status", f"How the {name} figure lies to its own threshold."
    )


def _control(name: str, value: str) -> tuple[Column, ...]:
    """The figure of a control with its interval and status."""
    return (
        *Estimate(Column(f"{name}_value", name, f"The same figure {value}.", 2), OVER_SENTENCES),
        _status(name),
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
        CONTROL,
        CONTROL_KIND,
        COLUMNS["denominator"],
        *SECOND_VALUE_COLUMNS,
        SECOND_CONTROL,
        UNIT,
        COUNTED,
        NEEDED,
        STATUS,
        STABILITY,
        *_control(UNTRAINED, "of the same head of an untrained model"),
        *_control(SHUFFLED, "on sentences whose words are shuffled"),
        SIGNIFICANCE,
        SIGNIFICANT,
        STRENGTH,
    ),
    keys=(*HEAD_KEYS, "keys", "label", "control"),
)
BEST_FAMILY = Column(
    "structure",
    "structure",
    "The family that describes the matrices in the fewest bits, with the keys of the view where there is "
    f"one: what they look like, not what for; {STRUCTURE_SAID}.",
)
FAMILY = COLUMNS["family"]
MEMBER = COLUMNS["member"]
BITS_PER_ROW = COLUMNS["bits_per_row"]
FAMILY_MARGIN = COLUMNS.of("structure_runner_up structure_margin_bits_per_row")
STRUCTURE_TIE = Column(
    "structure_tie",
    "tie",
    f"Whether the next family needs less than {TIE_BITS_PER_ROW:g} bits per row more.",
)
STRUCTURE_OF_HEAD = (replace(BEST_FAMILY, short="family"), *FAMILY_MARGIN, STRUCTURE_TIE)
LABELS = Table(
    "labels.csv",
    "head and view of the keys",
    (
        *HEAD,
        KEYS,
        *COLUMNS.of("labels label borderline undecided significant_labels function"),
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
        COLUMNS["mass_on_special"],
        *LOSS_CHANGE,
    ),
    keys=(*HEAD_KEYS, "keys"),
)
GAIN = Estimate(COLUMNS["gain_over_shuffled"], "Newcombe's")
AER = Estimate(COLUMNS["aer"])
RELATIONS = Table(
    "relations.csv",
    "head, relation and direction",
    (
        *HEAD,
        *COLUMNS.of("relation direction links"),
        *Estimate(COLUMNS["accuracy"], OVER_SENTENCES),
        *AER,
        *COLUMNS.of("baseline chance"),
        THRESHOLD,
        COLUMNS["choosing_links"],
        *Estimate(COLUMNS["choosing_accuracy"], OVER_SENTENCES),
        *COLUMNS.of("choosing_baseline choosing_chance choosing_threshold baseline_offset"),
        COUNTED,
        NEEDED,
        STABILITY,
        STATUS,
        *Estimate(COLUMNS["shuffled_accuracy"], OVER_SENTENCES),
        _status(SHUFFLED),
        *Estimate(COLUMNS["untrained_accuracy"], OVER_SENTENCES),
        _status(UNTRAINED),
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
        FAMILY,
        BITS_PER_ROW,
        COLUMNS["noise_fraction"],
        MEMBER,
        COLUMNS["chosen"],
        SENTENCE_COUNT,
        *COLUMNS.of("rows_coded rows_left_out"),
    ),
    keys=(*HEAD_KEYS, "keys", "family"),
)

# Of patterns.
PATTERN = COLUMNS["pattern"]
HIT = Estimate(COLUMNS["hit"], "over texts, simultaneous for all heads and patterns asked about")
MASS = COLUMNS["mass"]
TRANSFORMER_LENS = COLUMNS["transformer_lens"]
ROWS_COUNTED = COLUMNS.of("rows_counted rows_without")
BAR = COLUMNS["bar"]
CONTROLS_OF_HIT = COLUMNS.of(
    "chance_hit offset_hit best_offset untrained_hit untrained_most shuffled_hit"
)
