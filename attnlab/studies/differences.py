"""Changes of a measure as columns of a table, as `attnlab.studies.change_columns` declares them."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from attnlab.ablation.significance import SIGNIFICANCE_LEVEL, Difference, holm_significant


def fill_changes(
    table: pd.DataFrame, stem: str, found: Mapping[Any, Difference], *, unit: str = ""
) -> None:
    """Fills the columns of `declared_changes` for rows by their index label; others are empty.

    Args:
        table: the table; it is changed.
        stem: what the columns' names begin with.
        found: the changes by index label.
        unit: what the name of the column of the change itself ends with.
    """
    for column, attribute in (
        (f"{stem}_change{unit}", "change"), (f"{stem}_low", "low"), (f"{stem}_high", "high"),
    ):  # fmt: skip
        table[column] = pd.Series(
            {row: getattr(one, attribute) for row, one in found.items()}, dtype=float
        ).reindex(table.index)


def fill_tests(table: pd.DataFrame, stem: str, found: Mapping[Any, Difference]) -> None:
    """Fills the columns of `declared_tests`; Holm's correction is over all that was found."""
    p_values = pd.Series({row: one.p_value for row, one in found.items()}, dtype=float)
    table[f"{stem}_p_value"] = p_values.reindex(table.index)
    significant = pd.Series(False, index=table.index)
    significant[p_values.index] = holm_significant(p_values.to_numpy(), SIGNIFICANCE_LEVEL)
    table[f"{stem}_significant"] = significant
