"""Which rows of a comparison can be held against each other, how they are called, and which costs least."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from attnlab.budget import FULL, MASS, ORACLE, VISIBLE_KEYS, keys_allowed, over_budget, same_figures
from attnlab.core import BLEU_CHANGE, Estimate

# Of these more is better.
_LARGER = (MASS, BLEU_CHANGE)
MORE_KEYS = "more keys"


def best_of(known: pd.DataFrame, estimate: Estimate, against: str | None) -> dict[Any, Any] | None:
    """The row of the winner or, where it attends alike, of the mechanism that others are held against."""
    row = winner(known, estimate)
    named = known[known["mechanism"] == against].to_dict("records")
    return next((other for other in named if row is not None and same_figures(other, row)), row)


def winner(rows: pd.DataFrame, estimate: Estimate) -> dict[Any, Any] | None:
    """The row of the best mechanism that could be used, by one figure; None where there is none."""
    usable = rows[(rows["level"] != ORACLE) & (rows["mechanism"] != FULL)]
    order = (
        usable[estimate.name].dropna().sort_values(ascending=estimate not in _LARGER, kind="stable")
    )
    return None if order.empty else usable.loc[order.index[0]].to_dict()


def fitting(rows: pd.DataFrame, budget: int) -> pd.DataFrame:
    """The rows that can be held against each other at a budget.

    Those are the mechanisms that were set for it, and plans that are known to see no more keys than it or
    than one of these.
    """
    planned = rows["level"].eq("") & rows["mechanism"].ne(FULL)
    set_for_it = ~planned & rows["level"].ne(ORACLE) & rows["mechanism"].ne(FULL)
    keys = rows[VISIBLE_KEYS.name].astype(float)
    return rows[~planned | (keys <= keys_allowed(keys[set_for_it].tolist(), budget))]


def _is_beyond(row: Mapping[Any, Any], budget: int) -> bool:
    """Whether a row that could be used sees more keys than this budget."""
    could = row["level"] != ORACLE and row["mechanism"] != FULL
    return could and over_budget(row[VISIBLE_KEYS.name], budget)


def row_label(row: Mapping[Any, Any], budget: int) -> str:
    """The mechanism of a row, with what sets it apart."""
    if row["level"] == ORACLE:
        return f"{row['mechanism']} ({ORACLE})"
    if _is_beyond(row, budget):
        return f"{row['mechanism']} ({MORE_KEYS})"
    if row["level"] == "" and row["mechanism"] != FULL and pd.isna(row[VISIBLE_KEYS.name]):
        return f"{row['mechanism']} (keys not counted)"
    return str(row["mechanism"])
