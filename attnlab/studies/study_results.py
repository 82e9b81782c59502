"""A study of many cells as a folder: its tables and its page."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from attnlab.ablation import over_models
from attnlab.budget import ORACLE
from attnlab.core import Column, counted, read_columns, replacing_result
from attnlab.figures import PAGE as PAGE_WIDTH
from attnlab.figures import draw_pareto
from attnlab.results import (
    PARETO_FIGURE,
    STUDY,
    Contents,
    DrawnFigure,
    ResultRecord,
    ShownTable,
    Tables,
    cell,
    declared_columns,
    write_record,
    write_result_page,
)
from attnlab.studies.computing import studies
from attnlab.studies.running import CELLS, TABLE, Collected
from attnlab.studies.study import labels
from attnlab.studies.substitution import TABLES

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
    definition = studies().get(study)
    primary = None if definition is None else definition.primary
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
        each[group.index].idxmax() if primary.larger else each[group.index].idxmin()
        for _, group in groups
    ]
    varying = [name for name in keys if name not in within and means[name].nunique() > 1]
    rows = means.to_dict("index")
    parts = [_row(rows[at], primary.column, within, varying, columns) for at in best[:_MOST]]
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
    varying: Sequence[str],
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
        for names in (within, varying)
    )
    named = f"{what}, " if what else ""
    return f"{where}: {named}{value}{interval}" if where else f"{named}{value}{interval}"


# What is known of a cell beside its settings.
STATE = read_columns(__file__).of("state seconds concurrent")
# What tells rows of a cell apart, and what is another for each seed.
_ROWS = (
    "site", "layer", "head", "scope", "replaced", "mechanism", "plan", "level", "family", "budget",
    "tokens", "keys", "steps",
)  # fmt: skip
_OF_A_SEED = ("seed", "data_checksum", *(column.name for column in STATE))
# Columns that the figure needs.
_PARETO = {"mechanism", "budget", "output_error"}


def write_study(collected: Collected, folder: str | Path, *, question: str) -> Path:
    """Writes `table.csv`, `cells.csv`, the figure where the columns allow one and, last, the page.

    Args:
        collected: the rows of the finished cells.
        folder: that of the study.
        question: that the study answers.

    Raises:
        AttnlabError: something could not be written.
    """
    with replacing_result(folder, STUDY.last, STUDY.older) as aside:
        collected.write(aside)
        about = {name: _worded(value) for name, value in labels(collected.plan.options).items()}
        record = ResultRecord(STUDY.what, question, {"Study": collected.plan.study, **about})
        write_record(aside, record, {TABLE: collected.table, CELLS: collected.cells})
        page = write_result_page(aside, study_contents)
    return Path(folder) / page.name


def study_contents(record: ResultRecord, tables: Tables) -> Contents:
    """Contents of the page of a study."""
    table, cells = tables[TABLE], tables[CELLS]
    study, settings = str(record.about["Study"]), [str(name) for name in cells]
    counts = cells["state"].value_counts()
    states = ", ".join(f"{count} {state}" for state, count in counts.items())
    facts = {"Study": study, "Cells": states}
    names = (*_settings(cells), *STATE, *TABLES[0].columns[:2])
    means = means_over_seeds(table, settings)
    shown = (
        *([ShownTable(TABLE, "Means over seeds", own=names, frame=means)] if len(means) else []),
        ShownTable(TABLE, "Rows of all cells", own=names),
        ShownTable(CELLS, "Cells and their times", own=names),
    )
    answers = best_rows(table, _keys(table, settings), study)
    return Contents(_figures(table), facts, shown, answers=[*answers, _finished(cells, table)])


def means_over_seeds(table: pd.DataFrame, settings: Sequence[str]) -> pd.DataFrame:
    """Mean of every figure over the seeds of a study; no rows where there are not several seeds.

    Rows that are alike in their settings and in what `_ROWS` names are one; of how many seeds, `seeds`
    says. Ends of intervals and p-values are left out: their means are neither.

    Args:
        table: rows of all cells.
        settings: columns that cells were asked for.
    """
    if "seed" not in table or table["seed"].nunique() < 2:
        return pd.DataFrame()
    keys = _keys(table, settings)
    figures = [
        str(name)
        for name in table.select_dtypes("number")
        if name not in (*keys, *_OF_A_SEED) and not str(name).endswith(("_low", "_high", "_p"))
    ]
    if not keys or not figures:
        return pd.DataFrame()
    groups = table.groupby(keys, dropna=False, sort=False)
    seeds = groups["seed"].nunique().rename("seeds")
    return pd.concat([groups[figures].mean(), seeds], axis=1).reset_index()


def _keys(table: pd.DataFrame, settings: Sequence[str]) -> list[str]:
    """Columns that tell rows of one seed apart."""
    return [
        str(name)
        for name in table
        if (name in settings or name in _ROWS)
        and name not in _OF_A_SEED
        and table[name].notna().any()
    ]


def _finished(cells: pd.DataFrame, table: pd.DataFrame) -> str:
    done = int((cells["state"] == "done").sum())
    finished = f"{done} of {counted(len(cells), 'cell')} {'is' if done == 1 else 'are'} finished"
    return f"{finished}, with {counted(len(table), 'row')}."


def _settings(cells: pd.DataFrame) -> list[Column]:
    """Columns of the settings of cells; other tables have columns of the same names for results."""
    others = {column.name for column in STATE}
    return [
        Column(name, name.replace("_", " "), "A setting of the cell.")
        for name in map(str, cells)
        if name not in others
    ]


def _worded(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _figures(table: pd.DataFrame) -> list[DrawnFigure]:
    if not set(table) >= _PARETO or table["budget"].nunique() < 2:
        return []
    caption = "Output error by keys per row; the line joins what nothing beats."
    return [DrawnFigure(PARETO_FIGURE, draw_pareto(table, width=PAGE_WIDTH), caption)]
