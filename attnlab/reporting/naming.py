"""How heads are called."""

import pandas as pd


def head_names(table: pd.DataFrame) -> list[str]:
    """Names such as `encoder.0.3`, a row each."""
    rows = zip(table["site"], table["layer"], table["head"], strict=True)
    return [f"{site}.{layer}.{head}" for site, layer, head in rows]
