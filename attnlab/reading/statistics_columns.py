"""The columns of the statistics of heads, see `attnlab.reading.statistics`."""

from attnlab.core import HEAD, HEAD_KEYS, SENTENCE_COUNT, Column, Table, read_columns

COLUMNS = read_columns(__file__)

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


def _offset_column(offset: int) -> Column:
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
        *COLUMNS.of(
            "rows empty_rows entropy_nats normalised_entropy confidence mean_offset "
            "mean_absolute_offset mass_on_sink_logit contribution weight_on_first mass_on_first "
            "weight_on_special weight_on_punctuation"
        ),
        *map(_offset_column, OFFSETS),
        *COLUMNS.of(
            "mass_on_special mass_on_punctuation mass_on_opening mass_on_closing "
            "rows_seeing_special rows_seeing_punctuation rows_seeing_opening "
            "rows_seeing_closing rows_without_content_mass content_entropy_nats "
            "content_normalised_entropy content_confidence content_mass_on_punctuation"
        ),
        *map(_content_at_offset, OFFSETS),
        COLUMNS["js_distance_to_others"],
    ),
    keys=HEAD_KEYS,
    heading="Heads, by layer",
)
DISTANCES = Table(
    "head_distances.csv",
    "pair of heads of a layer",
    (
        *HEAD,
        *COLUMNS.of("other_head js_distance"),
    ),
    keys=(*HEAD_KEYS, "other_head"),
)
