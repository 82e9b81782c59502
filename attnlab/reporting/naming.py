"""How heads are called."""

import pandas as pd

from attnlab.addresses import HEAD_COLUMNS, Head
from attnlab.extraction.views import ALL, CONTENT, View

# How the views of `attnlab.extraction.views` are called on pages and terminals.
VIEW_NAMES: dict[View, str] = {ALL: "all keys", CONTENT: "special tokens left out as keys"}


def head_names(table: pd.DataFrame) -> list[str]:
    """Names such as `encoder.0.3`, a row each."""
    rows = zip(*(table[column] for column in HEAD_COLUMNS), strict=True)
    return [str(Head(*row)) for row in rows]
