"""Plans and runs a study in its folder, and tells how far it is."""

import io
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import mean
from typing import Any

import pandas as pd

from attnlab.core import (
    InputError,
    ShortRepr,
    check_writable,
    inert_texts,
    option_fields,
    options_of,
    stopped_by_signals,
    table_of,
    write_table,
    write_text,
)
from attnlab.models import check_not_run
from attnlab.results import table_html, together
from attnlab.studies.cluster import compute_on_cluster
from attnlab.studies.computing import Attempted, compute_in_turn, study_named
from attnlab.studies.engine_settings import CellBegun, RunningSettings
from attnlab.studies.study import Cell, cell_of, plain_settings
from attnlab.studies.study_folder import FinishedCell, Plan, StudyFolder

TABLE, CELLS = "table.csv", "cells.csv"


@dataclass(frozen=True, repr=False)
class Collected(ShortRepr):
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

    def _repr_html_(self) -> str:
        return together(table_html(self.cells))

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
        return {**_keys(cell), "state": state, "seconds": None, "concurrent": None}
    timing = {"seconds": found.seconds, "concurrent": found.concurrent}
    return {**_keys(cell), "state": "done", **timing}


@dataclass(frozen=True)
class Status:
    """How far a study is.

    Attributes:
        cells: how many it has.
        done: how many are finished.
        failed: how many failed in the last run; the next one tries them again.
        running: how many are being computed now.
        seconds_left: what the others will take at the mean of the finished ones, as many at a time as
            run now or else one; None where none is finished.
    """

    cells: int
    done: int
    failed: int
    running: int
    seconds_left: float | None


@options_of(RunningSettings)
def run_study(study: str, settings: RunningSettings) -> Collected:
    """The rows of a study: cells that are finished in its folder are read, all others are computed.

    Ctrl-C, SIGTERM and SIGHUP leave everything finished in place, and raise KeyboardInterrupt.

    Args:
        study: its name, see `attnlab study list`.
        settings: as keyword arguments.

    Raises:
        InputError: no such study, or an option, the corpus, the folder or the cluster cannot be used.
        AttnlabError: another process runs the study, the cluster went away, or the disk is full.
    """
    folder = StudyFolder(settings.folder_of(study))
    check_not_run(folder.path, "study")
    check_writable(folder.path)
    plan = plan_study(study, folder.path, settings.options)
    with folder.running() as tell_others, stopped_by_signals():
        folder.write_plan(plan)
        missing = [cell for cell in plan.cells if folder.read_cell(cell) is None]
        ended = 0
        _tell(settings, ended, missing)
        tell_others(settings.jobs or 1)
        with closing(_computed(missing, plan, settings)) as attempts:
            for attempted in attempts:
                folder.write(attempted)
                ended += 1
                _tell(settings, ended, missing)
                tell_others(attempted.at_a_time)
    return collect(folder.path)


def plan_study(study: str, folder: str | Path, options: Mapping[str, Any] | None = None) -> Plan:
    """The cells of a study; data that they read is read for its checksum, and nothing is written.

    Args:
        study: its name.
        folder: of the study; options that are not given are those of its last run.
        options: of the study, by name.

    Raises:
        InputError: no such study, an option or the corpus cannot be used, or the folder is another
            study's.
    """
    known = study_named(study)
    before = StudyFolder(folder).read_plan()
    if before is not None and before.study != study:
        msg = f"{folder} holds the study '{before.study}'; name another folder."
        raise InputError(msg)
    fields = {option.name for option in option_fields(known.options)}
    kept = {} if before is None else before.options
    kept = {name: value for name, value in kept.items() if name in fields}
    chosen = known.options(**{**kept, **(options or {})})
    cells = dict.fromkeys(cell_of(known.kind, one) for one in known.cells(chosen))
    return Plan(study, plain_settings(chosen), tuple(cells))


def status_of(plan: Plan, folder: str | Path) -> Status:
    """How far the cells of a plan are in the folder of the study."""
    at = StudyFolder(folder)
    found = {cell: at.read_cell(cell) for cell in plan.cells}
    seconds = [one.seconds for one in found.values() if one is not None]
    missing = len(found) - len(seconds)
    now = at.run_now()
    at_a_time = 0 if now is None else now.at_a_time
    return Status(
        cells=len(found),
        done=len(seconds),
        failed=sum(found[cell] is None and at.failure_file(cell).exists() for cell in found),
        running=min(at_a_time, missing),
        seconds_left=mean(seconds) * missing / max(at_a_time, 1) if seconds else None,
    )


def _computed(
    missing: Sequence[Cell], plan: Plan, settings: RunningSettings
) -> Generator[Attempted, None, None]:
    if not missing or (settings.jobs is None and settings.cluster is None):
        return compute_in_turn(_named(missing, plan, settings))
    return compute_on_cluster(
        missing, jobs=settings.jobs, cluster=settings.cluster, connected=settings.connected
    )


def _named(missing: Sequence[Cell], plan: Plan, settings: RunningSettings) -> Iterator[Cell]:
    """The cells, each told of when it is asked for."""
    number = {cell: index for index, cell in enumerate(plan.cells, start=1)}
    for cell in missing:
        if settings.begun is not None:
            varied = {name: cell.key_columns[name] for name in plan.varied}
            settings.begun(CellBegun(number[cell], len(plan.cells), varied))
        yield cell


def _tell(settings: RunningSettings, ended: int, missing: Sequence[Cell]) -> None:
    if settings.progress is not None and missing:
        settings.progress("Cells", ended, len(missing))
