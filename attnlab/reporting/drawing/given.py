"""What a figure is given, refused before anything is drawn where it is something else."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from attnlab.core.errors import InputError
from attnlab.core.texts import briefly

# Some tables have a hundred columns.
_MOST_NAMES = 12


def check_table(
    table: Any, columns: Sequence[str], wanted: str, *, empty: str | None = None
) -> None:
    """Refuses what is no table with these columns and at least one row.

    Args:
        table: what a figure was asked of.
        columns: that it needs.
        wanted: where a user finds such a table, such as `Analysis.fits or fits.csv`.
        empty: what an empty table means and what to do about it; None: that there are no rows.

    Raises:
        InputError: see above.
    """
    if isinstance(table, str | Path):
        msg = (
            f"A figure is drawn from a table and not from a path such as {briefly(str(table))}; give "
            f"{wanted}, files read with pandas.read_csv."
        )
        raise InputError(msg)
    if not isinstance(table, pd.DataFrame):
        msg = (
            "A figure is drawn from a table (a pandas.DataFrame) and not from an object of the class "
            f"{type(table).__name__}; give {wanted}."
        )
        raise InputError(msg)
    missing = [name for name in columns if name not in table]
    if missing:
        msg = f"The table lacks {_listed(missing)}; it has: {_listed(table)}; give {wanted}."
        raise InputError(msg)
    if table.empty:
        msg = empty or f"The table has no rows to draw; give {wanted}."
        raise InputError(msg)


def _listed(names: Iterable[Any]) -> str:
    texts = [str(name) for name in names]
    more = len(texts) - _MOST_NAMES
    if more > 0:
        return f"{', '.join(texts[:_MOST_NAMES])} and {more} more"
    return ", ".join(texts) or "no columns"
