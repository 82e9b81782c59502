"""How heads are called."""

import pandas as pd

from attnlab.addresses import HEAD_COLUMNS, Head, Site
from attnlab.extraction.views import ALL, CONTENT, View

# How the views of `attnlab.extraction.views` are called on pages and terminals.
VIEW_NAMES: dict[View, str] = {ALL: "all keys", CONTENT: "special tokens left out as keys"}
# What stands above the matrices of a site.
SITE_NAMES: dict[Site, str] = {
    "encoder": "encoder self-attention (source looks at source)",
    "decoder": "decoder self-attention (the row of a token predicts the next one)",
    "cross": "cross-attention (target looks at source; the row of a token predicts the next one)",
    "unknown": "matrices of a file",
}


def head_names(table: pd.DataFrame) -> list[str]:
    """Names such as `encoder.0.3`, a row each."""
    rows = zip(*(table[column] for column in HEAD_COLUMNS), strict=True)
    return [str(Head(*row)) for row in rows]


def titled_heads(summary: pd.DataFrame) -> dict[Head, str]:
    """The name of each head with what it does, or else looks like, such as `encoder.0.3: positional`.

    Args:
        summary: see `Analysis.summary`.
    """
    return {
        Head(*(row[name] for name in HEAD_COLUMNS)): _titled(row) for _, row in summary.iterrows()
    }


def _titled(row: "pd.Series") -> str:
    name = str(Head(*(row[column] for column in HEAD_COLUMNS)))
    labelled = row.get("function_status", "none") != "none"
    said = row["function"] if labelled else str(row.get("structure", "")).replace("_", " ")
    return f"{name}: {said.replace(';', ',')}" if said else name
