"""Joins the rows of a study's finished cells into one tidy table."""

import io
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from attnlab.errors import InputError
from attnlab.files import inert_texts, write_table, write_text
from attnlab.representations import OneLine
from attnlab.studies.engine.cells import Cell
from attnlab.studies.engine.folder import FinishedCell, Plan, StudyFolder
from attnlab.tables import table_of

TABLE, CELLS = "table.csv", "cells.csv"


@dataclass(frozen=True, repr=False)
class Collected(OneLine):
    """The rows of a study.

    Attributes:
        plan: what it was asked for.
        text: the rows of all finished cells as CSV, with the digits that the cells have and texts as
            `inert_texts` has them; the first columns are the settings, and the checksum of the data where
            cells read data.
        cells: a row per cell: its settings, state (`done`, `failed` or `missing`), seconds, and
            whether others could run beside it, so that its seconds say little.
    """

    plan: Plan
    text: str
    cells: pd.DataFrame

    @cached_property
    def table(self) -> pd.DataFrame:
        """The rows as a frame."""
        if not self.text:
            return pd.DataFrame()
        return table_of(self.text)

    @property
    def missing(self) -> int:
        """How many cells are not finished, failed ones among them."""
        return int((self.cells["state"] != "done").sum())

    @property
    def failed(self) -> int:
        """How many cells failed in the last run."""
        return int((self.cells["state"] == "failed").sum())

    def write(self, folder: str | Path) -> None:
        """Writes table.csv and cells.csv.

        Raises:
            AttnlabError: the disk is full or the folder cannot be written.
        """
        write_text(Path(folder) / TABLE, self.text)
        write_table(Path(folder) / CELLS, self.cells)


def collect(folder: str | Path) -> Collected:
    """The rows of all finished cells of the study in `folder`, in the order of its plan.

    Raises:
        InputError: there is no study.
    """
    at = StudyFolder(folder)
    plan = at.read_plan()
    if plan is None:
        msg = (
            f"There is no study in {folder}; begin one with: attnlab study run NAME --out {folder}"
        )
        raise InputError(msg)
    found = {cell: at.read_cell(cell) for cell in plan.cells}
    tables = [_rows(cell, one) for cell, one in found.items() if one is not None]
    joined = pd.concat(tables, ignore_index=True) if tables else None
    return Collected(
        plan=plan,
        text="" if joined is None else joined.to_csv(index=False, lineterminator="\n"),
        cells=pd.DataFrame([_state(at, cell, one) for cell, one in found.items()]),
    )


def _keys(cell: Cell) -> dict[str, Any]:
    return cell.key_columns | ({} if cell.data is None else {"data_checksum": cell.data})


def _rows(cell: Cell, found: FinishedCell) -> pd.DataFrame:
    """The rows as text, so that no number is written in other digits than the cell has.

    Texts in them are as `csv_of` wrote them; those of the settings become so here.
    """
    rows = pd.read_csv(io.StringIO(found.rows), dtype=str, keep_default_na=False)
    keys = pd.DataFrame([_keys(cell)] * len(rows), index=rows.index, dtype=object)
    return pd.concat([inert_texts(keys), rows], axis=1)


def _state(at: StudyFolder, cell: Cell, found: FinishedCell | None) -> Mapping[str, Any]:
    if found is None:
        state = "failed" if at.failure_file(cell).exists() else "missing"
        return {**_keys(cell), "state": state, "seconds": None, "beside_others": None}
    timing = {"seconds": found.seconds, "beside_others": found.beside_others}
    return {**_keys(cell), "state": "done", **timing}
