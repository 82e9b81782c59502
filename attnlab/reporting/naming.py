"""How heads are called."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from attnlab.core.addresses import HEAD_COLUMNS, Head, Site
from attnlab.families import FAMILIES
from attnlab.reading.weights import ALL, CONTENT, View
from attnlab.studies.analysis.roles import marked

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


def titled_heads(summary: pd.DataFrame) -> dict[Head, str]:
    """The name of each head with its role where that is confirmed, else what it looks like.

    Such as `encoder.0.3: positional`; confirmed is what `attnlab.studies.analysis.roles.marked` says.

    Args:
        summary: see `Analysis.summary`.
    """
    rows = summary.assign(mark=marked(summary) if "role" in summary else False).to_dict("records")
    return {Head(*(row[name] for name in HEAD_COLUMNS)): _titled(row) for row in rows}


def family_words(family: str) -> str:
    """A family of matrices as tables and pages write it; `none` where equal weights need no more bits.

    >>> family_words("rare_columns"), family_words("column_band"), family_words("diffuse")
    ('rare columns', 'column + band', 'none')
    """
    return FAMILIES[family].label if family in FAMILIES else family.replace("_", " ")


def _titled(row: Mapping[Any, Any]) -> str:
    name = str(Head(*(row[column] for column in HEAD_COLUMNS)))
    said = str(row["role"]) if row["mark"] else family_words(str(row.get("structure", "")))
    return f"{name}: {said}" if said else name
