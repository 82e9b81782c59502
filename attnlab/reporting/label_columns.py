"""What the columns of the tables about labels and relations mean, in plain words."""

from attnlab.functions.thresholds import LINKS, TIE_BITS_PER_ROW
from attnlab.reporting.column import Column

LABEL_COLUMNS = {
    "labels": Column("labels", "Everything the head does by the rules, or unknown."),
    "standing": Column(
        "stands",
        "Those of its labels that the same head of an untrained model does not carry (and, of "
        "relations, that shuffled words do not explain), or unknown.",
    ),
    "ablation_loss_change": Column(
        "loss without it",
        "Change of the loss when the head's output is set to zero before the output projection, in "
        "nats per target token: above 0 the model needs the head.",
        3,
    ),
    "ablation_low": Column(
        "from", "Lower end of its 95 % interval: paired bootstrap over sentences.", 3
    ),
    "ablation_high": Column("to", "Upper end of that interval.", 3),
    "structure": Column(
        "structure",
        "The family of matrices that describes the head's matrices, with the keys of the view, in "
        "the fewest bits; says what they look like, not what for.",
    ),
    "structure_margin_bits_per_row": Column(
        "margin (bits per row)", "How many bits per row more the next family costs.", 2
    ),
    "heads": Column("heads", "How many heads were compared."),
    "tied_heads": Column("tied", "Heads left out since two families describe them equally well."),
    "undecided_heads": Column(
        "undecided", "Heads left out since too little was counted for a label."
    ),
    "labelled_heads": Column(
        "with a label", "How many of them carry a label; the others agree with no family."
    ),
    "observed_fraction": Column(
        "agree", "Share of heads whose structure is the one that their label should leave.", 2
    ),
    "expected_fraction": Column(
        "agree by chance", "What that share would be if label and structure had no connection.", 2
    ),
    "kappa": Column(
        "kappa",
        "Cohen's kappa, agreement beyond chance: 1 for full agreement, 0 for what chance gives; "
        "missing where all heads are alike.",
        2,
    ),
    "label": Column("label", "What the head does by the rule of that label."),
    "phrase": Column(
        "strongest function",
        "The label that most speaks for: the figure with its 95 % interval, and the threshold that "
        "it lies above or below, or about where the interval holds the threshold.",
    ),
    "structure_phrase": Column(
        "structure",
        "The family of matrices that describes the head's matrices, with the keys of the view, in "
        "the fewest bits; a tie where the next family needs less than "
        f"{TIE_BITS_PER_ROW:g} bits per row more. It says what they look like, not what for.",
    ),
    "borderline": Column("borderline", "Labels whose interval holds their threshold."),
    "undecided": Column("undecided", "Labels for which too little was counted."),
    "detail": Column(
        "detail", "What was picked on the other half of the sentences: offset, relation, token."
    ),
    "statistic": Column(
        "statistic",
        "What the value is: a share of rows by their largest weight, a mean share of weight, an "
        "accuracy by the largest weight, or a mean over rows or sentences.",
    ),
    "value": Column("value", "The figure that the label rests on.", 2),
    "low": Column("low", "Lower end of the 95 % interval.", 2),
    "high": Column("high", "Upper end of the 95 % interval.", 2),
    "threshold": Column("threshold", "What the value must reach.", 2),
    "status": Column(
        "status",
        "holds: the interval lies above the threshold; below: it lies below; borderline: it holds "
        "the threshold; undecided: too little was counted. Some rules ask for a second figure, "
        "which is in controls.csv: then the lesser of both counts.",
    ),
    "stability": Column(
        "stability",
        "Share of bootstrap draws of the sentences in which the value reaches its threshold: near "
        "1 the label hardly depends on which sentences there are, near 0.5 it is a coin toss.",
        2,
    ),
    "untrained_value": Column(
        "untrained", "The same figure of the same head of an untrained model.", 2
    ),
    "untrained_status": Column(
        "untrained status", "How the untrained figure lies to its own threshold."
    ),
    "shuffled_value": Column(
        "shuffled", "The same figure on sentences whose words are shuffled.", 2
    ),
    "shuffled_status": Column(
        "shuffled status", "How the shuffled figure lies to its own threshold."
    ),
    "denominator": Column("counted", "How many rows, pairs or sentences the value rests on."),
    "stands_status": Column(
        "stands",
        "holds: the label holds, and the same head of an untrained model lies below the threshold; "
        "a relation must also be followed "
        f"{100 * LINKS.threshold:.0f} points more often than on shuffled words, by the interval of "
        "the difference. borderline: one of these is. below: one fails.",
    ),
    "relation": Column("relation", "Dependency between two words, or alignment of translations."),
    "direction": Column("direction", "Which of the two words looks > at which it should look."),
    "best_head": Column(
        "best head", "The head that follows the relation most often on the other half."
    ),
    "accuracy": Column(
        "accuracy", "Share of pairs in which the head's largest weight is on the right word.", 2
    ),
    "baseline": Column(
        "best offset", "What always looking at the relation's most frequent offset gives.", 2
    ),
    "chance": Column("chance", "What picking a visible word at random gives.", 2),
    "shuffled_accuracy": Column("shuffled", "The head's accuracy on shuffled words.", 2),
    "untrained_accuracy": Column(
        "untrained", "Accuracy of the same head of an untrained model.", 2
    ),
    "links": Column("pairs", "How many pairs of words were counted."),
}
