"""How heads are called."""

import pandas as pd

from attnlab.extraction.views import ALL, CONTENT, View

# How the views of `attnlab.extraction.views` are called on pages and terminals.
VIEW_NAMES: dict[View, str] = {ALL: "all keys", CONTENT: "special tokens left out as keys"}


def head_names(table: pd.DataFrame) -> list[str]:
    """Names such as `encoder.0.3`, a row each."""
    rows = zip(table["site"], table["layer"], table["head"], strict=True)
    return [f"{site}.{layer}.{head}" for site, layer, head in rows]
