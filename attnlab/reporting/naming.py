"""How heads are called."""

import pandas as pd

from attnlab.core.addresses import HEAD_COLUMNS, Head, Site
from attnlab.families import FAMILIES
from attnlab.reading.weights import ALL, CONTENT, View

# How the views of `attnlab.reading.weights` are called on pages and terminals.
VIEW_NAMES: dict[View, str] = {ALL: "all keys", CONTENT: "special tokens left out as keys"}
# What stands above the matrices of a site.
SITE_NAMES: dict[Site, str] = {
    "encoder": "encoder self-attention (queries and keys from the source)",
    "decoder": "decoder self-attention (the row of a token predicts the next one)",
    "cross": "cross-attention (queries from the target, keys from the source; the row of a token "
    "predicts the next one)",
    "unknown": "matrices of a file",
}


def head_names(table: pd.DataFrame) -> list[str]:
    """Names such as `encoder.0.3`, a row each."""
    rows = zip(*(table[column] for column in HEAD_COLUMNS), strict=True)
    return [str(Head(*row)) for row in rows]


def family_words(family: str) -> str:
    """A family of matrices as tables and pages write it; `none` where equal weights need no more bits.

    >>> family_words("rare_columns"), family_words("column_band"), family_words("diffuse")
    ('rare columns', 'column + band', 'none')
    """
    return FAMILIES[family].label if family in FAMILIES else family.replace("_", " ")
