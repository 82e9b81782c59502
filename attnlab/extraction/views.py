"""Which keys of a row are looked at: all of them, or content tokens alone.

Many models of one stack park most of their attention on [CLS], [SEP] or the start token, which then
takes the arg-max and hides what the head does among words. In the view `all` every key counts. In
the view `content` special tokens are left out as keys: the arg-max of a row is its largest content
key, and what is a share of a row is a share of its weight on content keys. Special tokens are left
out as queries in both views of functions and statistics; in those of structure in `content` only.
"""

from collections.abc import Sequence
from typing import Literal

import pandas as pd

from attnlab.addresses import HEAD_COLUMNS
from attnlab.columns import KEYS

View = Literal["all", "content"]
ALL: View = "all"
CONTENT: View = "content"
VIEWS: tuple[View, ...] = (ALL, CONTENT)


def stacked(tables: Sequence[pd.DataFrame], views: Sequence[View]) -> pd.DataFrame:
    """The tables of all views one after another, with the view as column `keys` behind the head."""
    named = []
    for table, keys in zip(tables, views, strict=True):
        if not table.empty:
            behind = sum(name in table for name in HEAD_COLUMNS)
            named.append(table.copy())
            named[-1].insert(behind, KEYS.name, keys)
    return pd.concat(named, ignore_index=True) if named else pd.DataFrame()


def rows_of_view(table: pd.DataFrame, keys: View) -> pd.DataFrame:
    """The rows of one view of a table that `stacked` gave; an empty table is returned as it is."""
    return table if table.empty else table[table[KEYS.name] == keys].reset_index(drop=True)
