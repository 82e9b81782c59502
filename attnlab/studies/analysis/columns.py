"""The columns of the fits of an analysis, in its file and as shown by head."""

from attnlab.core.columns import HEAD, HEAD_KEYS, Column, Table
from attnlab.families import AT_EQUAL_BUDGET, CODED, FAMILIES
from attnlab.labels.label_columns import (
    AGREEMENT,
    CONTROLS,
    DETAIL,
    LABELS,
    OFFSET_OR_CHANCE,
    RELATIONS,
    STRUCTURE,
    STRUCTURE_SAID,
    TIE_BITS_PER_ROW,
)
from attnlab.reading.statistics_columns import DISTANCES, HEADS

WIDEST_WINDOW = 10
FITS = Table(
    "fits.csv",
    "head, sentence and approximation",
    (
        *HEAD,
        Column("sentence", "sentence", "Number of the sentence, from 0."),
        Column("queries", "queries", "Rows of the matrix."),
        Column("keys", "keys", "Columns of the matrix."),
        Column(
            "approximation", "approximation", "The family, the largest entries, or a reference."
        ),
        Column("window", "window", "Tokens on either side, of a whole band."),
        Column(
            "level",
            "level",
            "oracle: fitted to the matrix itself; static: taken from other sentences; none.",
        ),
        Column("budget", "budget", "How many entries the approximation may use."),
        Column("l1", "l1 distance", "Sum of all absolute differences.", 2),
        Column("mean_error", "mean error", "The l1 distance by queries times keys.", 3),
        Column("relative", "relative", "The l1 distance divided by the sum of the matrix.", 2),
    ),
    keys=(*HEAD_KEYS, "sentence", "approximation", "window"),
)
SUMMARY = Table(
    "summary.csv",
    "head",
    (
        *HEAD,
        Column(
            "role",
            "closest role",
            "The label that is closest to its threshold; none where no figure is beyond its control.",
        ),
        DETAIL,
        Column("statistic", "statistic", "What the value is.", short="statistic"),
        Column("value", "value", "The figure that the role rests on.", 2),
        Column(
            "control",
            OFFSET_OR_CHANCE,
            "What that figure would be without the role: by the best offset or by chance; of rare tokens, by "
            "chance on the rows that see more uncommon tokens than the two rarest.",
            2,
        ),
        Column(
            "second_statistic",
            "deciding statistic",
            "What else the rule asks for, where that figure decides the strength.",
        ),
        Column("second_value", "deciding figure", "That other figure.", 2),
        Column(
            "second_control",
            f"deciding figure, {OFFSET_OR_CHANCE}",
            "What that other figure would be without the role.",
            2,
        ),
        Column(
            "strength",
            "strength",
            "How near the figure is to its threshold: 0 at its control, 1 at the threshold or beyond; "
            "the least where the rule asks for several figures.",
            2,
        ),
        Column(
            "confirmed",
            "confirmed",
            "Whether the whole 95 % interval lies above the threshold, of every figure of the rule.",
        ),
        Column(
            "significant",
            "significant",
            "Whether it is confirmed and significant against controls: the same head of an untrained "
            "model and, for relations, shuffled words.",
        ),
        Column(
            "structure",
            "structure",
            "The family of matrices that describes the head's matrices in the fewest bits: what they "
            f"look like, not what for; {STRUCTURE_SAID}.",
        ),
        Column(
            "structure_tie",
            "tie",
            f"Whether the next family needs less than {TIE_BITS_PER_ROW:g} bits per row more.",
        ),
        Column(
            "ablation_loss_change",
            "loss without it",
            "Change of the loss when the head's output is set to zero, in nats per target token: "
            "above 0 the model needs the head.",
            3,
            "loss",
        ),
        Column("ablation_low", "from", "Lower end of its 95 % interval.", 3),
        Column("ablation_high", "to", "Upper end of that interval.", 3),
        Column(
            "output",
            "output",
            "What is left of the head's output: pruned where it was pruned away, none where its matrices "
            "hold no weight; empty where it is whole.",
        ),
    ),
    keys=HEAD_KEYS,
)
TABLES = (SUMMARY, HEADS, DISTANCES, FITS, LABELS, RELATIONS, CONTROLS, STRUCTURE, AGREEMENT)


def _band(window: int) -> Column:
    reach = "1 token" if window == 1 else f"{window} tokens"
    return Column(
        f"band_{window}",
        f"w = {window}",
        f"Share of all attention farther than {reach} away: the relative distance from the "
        "nearest matrix of that band (oracle: fitted to each matrix itself).",
        2,
    )


# Of `RELATIVE`: the families that are compared at equal budget, and what they are compared with.
SIGMA = ("diagonal", "kept_band", "rare_columns")
EQUAL_BUDGET = (*(column.name for column in AT_EQUAL_BUDGET), "top")
# Of `summarise`: mean relative distances, a column an approximation.
RELATIVE = (
    *AT_EQUAL_BUDGET,
    Column(
        "union",
        "union + E",
        "Relative distance of the nearest of these three for each matrix, that is of the union of "
        "Sigma1, Sigma2 and Sigma3 with E.",
        2,
        "union",
    ),
    Column(
        "top",
        "top entries",
        "Relative distance of the largest entries, as many as the budget: no approximation of so "
        "many entries is nearer.",
        2,
        "top",
    ),
    Column(
        "zero",
        "zero matrix",
        "Relative distance of a matrix of zeros: 1 by definition. What is above 1 is worse than "
        "nothing.",
        2,
        "zero",
    ),
    Column(
        "uniform",
        "uniform",
        "Relative distance of the matrix that gives every key the same weight.",
        2,
    ),
    Column(
        "mean_by_offset",
        "mean by offset (static)",
        "Relative distance of this head's mean weight by offset, taken from other sentences: what "
        "a module without any attention could do.",
        2,
        "mean by offset",
    ),
    *map(_band, range(WIDEST_WINDOW + 1)),
)
# Of `structure_of_heads`: bits per row, a column a family.
BITS = tuple(
    Column(
        f"bits_{name}",
        f"{FAMILIES[name].label} (bits a row)",
        FAMILIES[name].members,
        2,
        FAMILIES[name].label,
    )
    for name in CODED
)
