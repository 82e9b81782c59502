"""What every column of a table means, in plain words: the one place that says so."""

import math
from dataclasses import dataclass

from attnlab.heads.functions.thresholds import LINKS, TIE_BITS_PER_ROW

OFFSET_PREFIX = "mass_at_offset_"
CONTENT_OFFSET_PREFIX = f"content_{OFFSET_PREFIX}"


@dataclass(frozen=True)
class Column:
    """How a column is headed, explained and written.

    Attributes:
        heading: short, with the unit.
        meaning: one or two sentences for a reader who knows what attention is.
        digits: decimals shown; None for text and whole numbers.
    """

    heading: str
    meaning: str
    digits: int | None = None


_COLUMNS = {
    "head_name": Column("head", "Site, layer and head, each counted from 0."),
    "site": Column("site", "Encoder and decoder self-attention, or cross-attention between them."),
    "layer": Column("layer", "Layer, counted from 0 at the input."),
    "head": Column("head", "Head within the layer, counted from 0."),
    "sentences": Column("sentences", "How many sentences the means are taken over."),
    "rows": Column(
        "rows",
        "How many rows of attention were counted: one for each token that looks, special tokens "
        "and padding left out.",
    ),
    "empty_rows": Column("empty rows", "Counted rows that see no key at all."),
    "entropy_nats": Column(
        "entropy (nats)",
        "How widely a row spreads its weight: 0 when all goes to one token. Whole rows, special "
        "tokens among the keys.",
        2,
    ),
    "normalised_entropy": Column(
        "entropy / largest",
        "Entropy as a share of the largest that a row of this length can have; near 1 the head "
        "looks everywhere alike.",
        2,
    ),
    "confidence": Column(
        "confidence",
        "Mean over rows of the largest weight on one token, special tokens left out.",
        2,
    ),
    "mass_on_sink_logit": Column(
        "mass on the sink logit",
        "Share of a row that a learned logit beside the keys takes; it is no token, so all other "
        "figures are of what is left, not renormalised. Only of models that have one.",
        2,
    ),
    "mean_offset": Column(
        "mean offset (tokens)",
        "Where attention lies on average, between content tokens: negative looks back, positive "
        "looks ahead.",
        2,
    ),
    "mean_absolute_offset": Column(
        "mean distance (tokens)", "How far away attention lies on average, back or ahead.", 2
    ),
    "mass_on_special": Column(
        "on special tokens",
        "Mean share of a row on special tokens (start, end, separators), over rows that see one.",
        2,
    ),
    "mass_on_punctuation": Column(
        "on punctuation", "Mean share of a row on punctuation, over rows that see some.", 2
    ),
    "mass_on_opening": Column(
        "on start token",
        "Mean share of a row on the special token at the start (BOS, [CLS], a decoder's start "
        "token), over rows that see one.",
        2,
    ),
    "mass_on_closing": Column(
        "on end token",
        "Mean share of a row on the end of the sentence (EOS, [SEP]), over rows that see one.",
        2,
    ),
    "js_distance_to_others": Column(
        "distance to other heads",
        "Mean Jensen-Shannon distance to the other heads of the layer: 0 when all look alike, 1 "
        "when no two ever look at the same token.",
        2,
    ),
    "content_entropy_nats": Column(
        "entropy among content (nats)",
        "Entropy with special tokens left out as keys, each row divided by its weight on the others.",
        2,
    ),
    "content_normalised_entropy": Column(
        "content entropy / largest",
        "The same as a share of the largest that a row can have among the content tokens it sees.",
        2,
    ),
    "content_confidence": Column(
        "confidence among content",
        "Mean over rows of the largest share on one content token of the weight on all of them.",
        2,
    ),
    "content_mass_on_punctuation": Column(
        "on punctuation, among content",
        "Mean share on punctuation of the weight on content tokens, over rows that see some.",
        2,
    ),
    "rows_without_content_mass": Column(
        "rows without content",
        "Counted rows with no weight on any content token, left out of figures among content.",
    ),
    "rows_seeing_special": Column(
        "rows that see special tokens", "Over how many rows the share on special tokens is a mean."
    ),
    "rows_seeing_punctuation": Column(
        "rows that see punctuation", "Over how many rows the share on punctuation is a mean."
    ),
    "rows_seeing_opening": Column(
        "rows that see the start token",
        "Over how many rows the share on the start token is a mean.",
    ),
    "rows_seeing_closing": Column(
        "rows that see the end token", "Over how many rows the share on the end token is a mean."
    ),
    "keys": Column(
        "keys", "All keys, or content tokens alone, with special tokens left out as keys."
    ),
    "zero": Column(
        "zero matrix",
        "Relative distance of a matrix of zeros: 1 by definition. What is above 1 is worse than "
        "nothing.",
        2,
    ),
    "uniform": Column(
        "uniform", "Relative distance of the matrix that gives every key the same weight.", 2
    ),
    "mean_by_offset": Column(
        "mean by offset (static)",
        "Relative distance of this head's mean weight by offset, taken from other sentences: what "
        "a module without any attention could do.",
        2,
    ),
    "diagonal": Column(
        "diagonal + E",
        "Relative distance of the best single offset within 3 tokens, and the sparse error E.",
        2,
    ),
    "kept_band": Column(
        "band entries + E",
        "Relative distance of the largest entries within 3 tokens of the diagonal, as many as the "
        "matrix has rows, and E.",
        2,
    ),
    "rare_columns": Column(
        "rare columns + E",
        "Relative distance of the identity with at most 2 blocks of rows that look at one token, "
        "and E.",
        2,
    ),
    "additive": Column(
        "additive",
        "Relative distance of a band, at most 2 whole columns and E that share the same number of "
        "entries in the best way.",
        2,
    ),
    "top": Column(
        "top entries",
        "Relative distance of the largest entries, as many as the budget: no approximation of so "
        "many entries is nearer.",
        2,
    ),
    "structure_runner_up": Column("next", "The family of the second fewest bits."),
    "bits_diffuse": Column("diffuse (bits a row)", "Every key alike.", 2),
    "bits_diagonal": Column("diagonal (bits a row)", "One offset within 5 tokens.", 2),
    "bits_band": Column("band (bits a row)", "A band within 5 tokens.", 2),
    "bits_rare_columns": Column(
        "rare columns (bits a row)",
        "Blocks of rows that look at one token, placed per sentence.",
        2,
    ),
    "bits_sink": Column(
        "sink (bits a row)", "One of the first or last two tokens, for all rows.", 2
    ),
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


def rounded(value: float, digits: int, *, signed: bool = False) -> str:
    """A number as tables show it; one that rounds to 0 has no sign, a missing one is empty.

    >>> rounded(-0.001, 2), rounded(0.125, 2, signed=True), rounded(float("nan"), 2)
    ('0.00', '+0.12', '')
    """
    if math.isnan(value):
        return ""
    text = f"{value:+.{digits}f}" if signed else f"{value:.{digits}f}"
    return text if text.strip("+-0.") else text.lstrip("+-")


def column(name: str) -> Column:
    """The description of a column of `heads` or of the summary of `fits`.

    Raises:
        KeyError: a column that nobody has described.
    """
    if name.startswith(CONTENT_OFFSET_PREFIX):
        offset = int(name.removeprefix(CONTENT_OFFSET_PREFIX))
        return Column(
            f"content at {offset:+d}" if offset else "content at 0",
            f"Mean share on the token {_place(offset)} of the weight on content tokens, over rows "
            "that have a content token there.",
            2,
        )
    if name.startswith(OFFSET_PREFIX):
        offset = int(name.removeprefix(OFFSET_PREFIX))
        return Column(
            f"at {offset:+d}" if offset else "at 0",
            f"Mean weight on the token {_place(offset)}, over rows that have a content token there.",
            2,
        )
    if name.startswith("band_"):
        window = int(name.removeprefix("band_"))
        return Column(
            f"w = {window}",
            f"Share of all attention farther than {_tokens(window)} away: the relative distance from "
            "the nearest matrix of that band (oracle: fitted to each matrix itself).",
            2,
        )
    return _COLUMNS[name]


def _place(offset: int) -> str:
    if offset == 0:
        return "itself"
    return f"{_tokens(abs(offset))} {'back' if offset < 0 else 'ahead'}"


def _tokens(count: int) -> str:
    return "1 token" if count == 1 else f"{count} tokens"
