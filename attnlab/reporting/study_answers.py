"""What a study found, as a sentence: the best rows by its primary measure."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from attnlab.ablation.significance import over_models
from attnlab.budget.columns import ORACLE
from attnlab.core.columns import Column
from attnlab.core.texts import counted
from attnlab.reporting.export import cell, declared_columns
from attnlab.studies.computing import studies
from attnlab.studies.running import TABLE

# More cannot be read in one sentence; the tables below hold them.
_MOST = 8
_PICKED = "Each is the best of several rows, which its interval does not account for."


def best_rows(table: pd.DataFrame, keys: Sequence[str], study: str) -> list[str]:
    """The best rows by the primary measure of a study, means over seeds, as at most one sentence.

    Oracles are left out: they look at what they are measured on.

    Args:
        table: rows of all cells, one for each seed.
        keys: columns that tell rows of one seed apart.
        study: its name; one that is not installed here has no primary measure.
    """
    known = studies().get(study)
    primary = None if known is None else known.primary
    if primary is None or primary.column not in table:
        return []
    within = [name for name in primary.within if name in keys]
    usable = table.dropna(subset=[primary.column, *within])
    if "level" in usable:
        usable = usable[usable["level"] != ORACLE]
    if usable.empty or not keys:
        return []
    means = over_models(usable, keys, [primary.column])
    columns = {column.name: column for column in declared_columns(table, TABLE)}
    groups = means.groupby(within, sort=False) if within else [((), means)]
    each = means[primary.column]
    best = [
        each[own.index].idxmax() if primary.larger else each[own.index].idxmin()
        for _, own in groups
    ]
    told = [name for name in keys if name not in within and means[name].nunique() > 1]
    rows = means.to_dict("index")
    parts = [_row(rows[at], primary.column, within, told, columns) for at in best[:_MOST]]
    size = "Largest" if primary.larger else "Smallest"
    more = f"; {len(best) - _MOST} more are in the table" if len(best) > _MOST else ""
    several = means["models"].max() > 1
    over = f", mean over {_seeds(means)} with its 95 % interval" if several else ", one seed"
    return [f"{size} {primary.words}{over}: {'; '.join(parts)}{more}. {_PICKED}"]


def _seeds(means: pd.DataFrame) -> str:
    fewest, most = means["models"].min(), means["models"].max()
    return counted(most, "seed") if fewest == most else f"{fewest} to {most} seeds"


def _row(
    row: Mapping[Any, Any],
    measure: str,
    within: Sequence[str],
    told: Sequence[str],
    columns: Mapping[str, Column],
) -> str:
    """A row as `budget 4: mechanism band, 0.12 [0.10, 0.14]`."""
    value, low, high = (
        cell(row[f"{measure}{end}"], columns[measure]) for end in ("", "_low", "_high")
    )
    interval = f" [{low}, {high}]" if low and high else ""
    where, what = (
        ", ".join(
            f"{columns[name].heading} {cell(row[name], columns[name])}"
            for name in names
            if not pd.isna(row[name])
        )
        for names in (within, told)
    )
    named = f"{what}, " if what else ""
    return f"{where}: {named}{value}{interval}" if where else f"{named}{value}{interval}"
