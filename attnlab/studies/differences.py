"""Changes of a measure as columns of a table, as `attnlab.studies.change_columns` declares them."""

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from attnlab.attribution.significance import SIGNIFICANCE_LEVEL, Difference, holm_significant


def fill_changes(
    table: pd.DataFrame,
    stem: str,
    found: Mapping[Any, Difference],
    *,
    unit: str = "",
    together: Mapping[Any, Hashable] | None = None,
) -> None:
    """Fills the columns of `declared_changes` for rows by their index label; others are empty.

    Args:
        table: the table; it is changed.
        stem: what the columns' names begin with.
        found: the changes by index label.
        unit: what the name of the column of the change itself ends with.
        together: the family of tests of each label, within which Holm's correction is made; without
            it all are one family.
    """
    for column, attribute in (
        (f"{stem}_change{unit}", "change"), (f"{stem}_low", "low"), (f"{stem}_high", "high"),
        (f"{stem}_p_value", "p_value"),
    ):  # fmt: skip
        table[column] = pd.Series(
            {row: getattr(one, attribute) for row, one in found.items()}, dtype=float
        ).reindex(table.index)
    significant = pd.Series(False, index=table.index)
    families = pd.Series({row: None if together is None else together[row] for row in found})
    for rows in families.groupby(families, dropna=False).groups.values():
        p_values = np.array([found[row].p_value for row in rows])
        significant[rows] = holm_significant(p_values, SIGNIFICANCE_LEVEL)
    table[f"{stem}_significant"] = significant
