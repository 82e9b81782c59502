"""What every column of a table means, in plain words: those about labels in `label_columns`."""

import math

from attnlab.reporting.column import Column
from attnlab.reporting.label_columns import LABEL_COLUMNS

OFFSET_PREFIX = "mass_at_offset_"
CONTENT_OFFSET_PREFIX = f"content_{OFFSET_PREFIX}"


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
    return LABEL_COLUMNS[name] if name in LABEL_COLUMNS else _COLUMNS[name]


def _place(offset: int) -> str:
    if offset == 0:
        return "itself"
    return f"{_tokens(abs(offset))} {'back' if offset < 0 else 'ahead'}"


def _tokens(count: int) -> str:
    return "1 token" if count == 1 else f"{count} tokens"
