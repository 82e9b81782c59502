"""The columns of the statistics of heads, see `attnlab.reading.statistics`."""

from attnlab.core import HEAD, HEAD_KEYS, SENTENCE_COUNT, Column, Table

OFFSETS = range(-5, 6)
TARGETS = ("special", "punctuation", "opening", "closing")
OFFSET_PREFIX = "mass_at_offset_"
CONTENT_OFFSET_PREFIX = f"content_{OFFSET_PREFIX}"


def _tokens(count: int) -> str:
    """A number of tokens in words."""
    return "1 token" if count == 1 else f"{count} tokens"


def _position(offset: int) -> str:
    if offset == 0:
        return "itself"
    return f"{_tokens(abs(offset))} {'back' if offset < 0 else 'ahead'}"


def _at_offset(offset: int) -> Column:
    return Column(
        f"{OFFSET_PREFIX}{offset}",
        f"at {offset:+d}" if offset else "at 0",
        f"Mean weight on the token {_position(offset)}, over rows that have a content token there.",
        2,
    )


def _content_at_offset(offset: int) -> Column:
    return Column(
        f"{CONTENT_OFFSET_PREFIX}{offset}",
        f"content at {offset:+d}" if offset else "content at 0",
        f"Mean share on the token {_position(offset)} of the weight on content tokens, over rows "
        "that have a content token there.",
        2,
    )


HEADS = Table(
    "heads.csv",
    "head",
    (
        *HEAD,
        SENTENCE_COUNT,
        Column(
            "rows",
            "rows",
            "How many rows of attention were counted: one for each query, special "
            "tokens and padding left out.",
        ),
        Column("empty_rows", "empty rows", "Counted rows without any visible key."),
        Column(
            "entropy_nats",
            "entropy (nats)",
            "How widely a row spreads its weight: 0 when all goes to one token. Whole rows, "
            "special tokens among the keys.",
            2,
            "entropy",
        ),
        Column(
            "normalised_entropy",
            "entropy / largest",
            "Entropy as a share of the largest that a row of this length can have; near 1 the "
            "weights are nearly equal.",
            2,
        ),
        Column(
            "confidence",
            "confidence",
            "Mean over rows of the largest weight on one token, special tokens left out.",
            2,
        ),
        Column(
            "mean_offset",
            "mean offset (tokens)",
            "Where attention lies on average, between content tokens: negative is to the left, "
            "positive to the right.",
            2,
            "offset",
        ),
        Column(
            "mean_absolute_offset",
            "mean distance (tokens)",
            "How far away attention lies on average, back or ahead.",
            2,
        ),
        Column(
            "mass_on_sink_logit",
            "mass on the sink logit",
            "Share of a row that a learned logit beside the keys takes; it is no token, so all "
            "other figures are of what is left, not renormalised. Only of models that have one.",
            2,
        ),
        *map(_at_offset, OFFSETS),
        Column(
            "mass_on_special",
            "on special tokens",
            "Mean share of a row on special tokens (start, end, separators), over rows with one as a key.",
            2,
            "special",
        ),
        Column(
            "mass_on_punctuation",
            "on punctuation",
            "Mean share of a row on punctuation, over rows with some as a key.",
            2,
            "punct.",
        ),
        Column(
            "mass_on_opening",
            "on start token",
            "Mean share of a row on the special token at the start (BOS, [CLS], a decoder's start "
            "token), over rows with one as a key.",
            2,
        ),
        Column(
            "mass_on_closing",
            "on end token",
            "Mean share of a row on the end of the sentence (EOS, [SEP]), over rows with one as a key.",
            2,
        ),
        Column(
            "rows_seeing_special",
            "rows with special tokens",
            "Over how many rows the share on special tokens is a mean.",
        ),
        Column(
            "rows_seeing_punctuation",
            "rows with punctuation",
            "Over how many rows the share on punctuation is a mean.",
        ),
        Column(
            "rows_seeing_opening",
            "rows with a start token",
            "Over how many rows the share on the start token is a mean.",
        ),
        Column(
            "rows_seeing_closing",
            "rows with an end token",
            "Over how many rows the share on the end token is a mean.",
        ),
        Column(
            "rows_without_content_mass",
            "rows without content",
            "Counted rows with no weight on any content token, left out of figures among content.",
        ),
        Column(
            "content_entropy_nats",
            "entropy among content (nats)",
            "Entropy with special tokens left out as keys, each row divided by its weight on the "
            "others.",
            2,
            "entropy",
        ),
        Column(
            "content_normalised_entropy",
            "content entropy / largest",
            "The same as a share of the largest that a row can have among the content "
            "tokens that are its keys.",
            2,
        ),
        Column(
            "content_confidence",
            "confidence among content",
            "Mean over rows of the largest share on one content token of the weight on all of "
            "them.",
            2,
            "confidence",
        ),
        Column(
            "content_mass_on_punctuation",
            "on punctuation, among content",
            "Mean share on punctuation of the weight on content tokens, over rows with some as a key.",
            2,
            "punct.",
        ),
        *map(_content_at_offset, OFFSETS),
        Column(
            "js_distance_to_others",
            "distance to other heads",
            "Mean Jensen-Shannon distance to the other heads of the layer: 0 when all look alike, "
            "1 when no two ever attend to the same token.",
            2,
        ),
    ),
    keys=HEAD_KEYS,
)
DISTANCES = Table(
    "head_distances.csv",
    "pair of heads of a layer",
    (
        *HEAD,
        Column("other_head", "other head", "The other head of the layer, counted from 0."),
        Column(
            "js_distance",
            "distance",
            "Jensen-Shannon distance of their rows, 0 to 1, see js_distance_to_others in "
            "heads.csv.",
            2,
        ),
    ),
    keys=(*HEAD_KEYS, "other_head"),
)
