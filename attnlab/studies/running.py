"""Runs a study in its folder, where each cell is kept as it finishes, and collects what there is.

The folder holds the plan, a folder for each finished cell, and a file for each that failed.
"""

import hashlib
import io
import json
import os
import secrets
import shutil
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from statistics import mean
from typing import Any

import pandas as pd

from attnlab.core import (
    MOST_FILE_BYTES,
    AttnlabError,
    InputError,
    ShortRepr,
    check_no_links,
    check_not_read,
    delete,
    inert_texts,
    is_locked,
    locked,
    open_regular,
    option_fields,
    options_of,
    paths_in,
    read_json,
    stopped_by_signals,
    write_json,
    write_table,
    write_text,
)
from attnlab.models import LOCAL, LocalPaths
from attnlab.results import STUDY, check_not_taken, table_html, table_of, together
from attnlab.studies.cluster import check_cluster, compute_on_cluster
from attnlab.studies.computing import Outcome, compute_in_turn, study_named
from attnlab.studies.study import Cell, Plan, RunningSettings, cell_of, labels, plain_settings

PLAN, RECORD, ROWS = "study.json", "cell.json", "rows.csv"
TABLE, CELLS = "table.csv", "cells.csv"
# Folders, of cells that are finished and of those that failed; the first is locked while a process computes.
FINISHED, FAILED = "cells", "failed"
# How many cells it computes at a time.
AT_A_TIME = ".at_a_time.json"


@dataclass(frozen=True, repr=False)
class Collected(ShortRepr):
    """The finished cells of a study.

    Attributes:
        plan: what it was asked for.
        outcomes: of the finished cells, in the order of the plan.
        cells: a row per cell: its settings, state (`done`, `failed` or `missing`), seconds, and
            whether others could run beside it, so that its seconds say little.
        at_a_time: how many cells a process computes now; 0 where none does.
    """

    plan: Plan
    outcomes: tuple[Outcome, ...]
    cells: pd.DataFrame
    at_a_time: int

    @cached_property
    def text(self) -> str:
        """The rows of all finished cells as CSV, with the digits that the cells have.

        Texts are as `inert_texts` has them; the first columns are the settings, and the checksum of the
        data where cells read data.
        """
        if not self.outcomes:
            return ""
        joined = pd.concat([_rows(outcome) for outcome in self.outcomes], ignore_index=True)
        return joined.to_csv(index=False, lineterminator="\n")

    @cached_property
    def table(self) -> pd.DataFrame:
        """The rows as a frame."""
        return table_of(self.text) if self.text else pd.DataFrame()

    def _repr_html_(self) -> str:
        return together(table_html(self.cells))

    @property
    def missing(self) -> int:
        """Number of cells that are not finished, failed ones among them."""
        return len(self.cells) - len(self.outcomes)

    @property
    def failed(self) -> int:
        """Number of cells that failed in the last run; the next one tries them again."""
        return int((self.cells["state"] == "failed").sum())

    @property
    def running(self) -> int:
        """Number of cells that are being computed now."""
        return min(self.at_a_time, self.missing)

    @property
    def seconds_left(self) -> float | None:
        """Seconds for the missing cells at the mean of the others, as many at a time as now or else one.

        None where none is finished.
        """
        if not self.outcomes:
            return None
        return mean(done.seconds for done in self.outcomes) * self.missing / max(self.at_a_time, 1)

    def write(self, folder: str | Path) -> None:
        """Writes table.csv and cells.csv.

        Raises:
            AttnlabError: the disk is full or the folder cannot be written.
        """
        write_text(Path(folder) / TABLE, self.text)
        write_table(Path(folder) / CELLS, self.cells)


def collect(folder: str | Path, plan: Plan | None = None) -> Collected:
    """The finished cells of the study in `folder`, in the order of its plan, and which are missing.

    Args:
        folder: of the study.
        plan: the cells to look for; without it those that the study was last asked for.

    Raises:
        InputError: there is no study.
    """
    plan = plan or read_plan(folder)
    if plan is None:
        msg = (
            f"There is no study in {folder}; begin one with: attnlab study run NAME --out {folder}"
        )
        raise InputError(msg)
    outcomes = {cell: read_cell(folder, cell) for cell in plan.cells}
    return Collected(
        plan=plan,
        outcomes=tuple(outcome for outcome in outcomes.values() if outcome is not None),
        cells=pd.DataFrame([_state(folder, cell, outcome) for cell, outcome in outcomes.items()]),
        at_a_time=_running_processes(Path(folder)),
    )


def _keys(cell: Cell) -> dict[str, Any]:
    return cell.key_columns | ({} if cell.data is None else {"data_checksum": cell.data})


def _rows(outcome: Outcome) -> pd.DataFrame:
    """The rows as text, so that no number is written in other digits than the cell has.

    Texts in them are as `csv_of` wrote them; those of the settings become so here.
    """
    rows = pd.read_csv(io.StringIO(outcome.rows), dtype=str, keep_default_na=False)
    keys = pd.DataFrame([_keys(outcome.cell)] * len(rows), index=rows.index, dtype=object)
    return pd.concat([inert_texts(keys), rows], axis=1)


def _state(folder: str | Path, cell: Cell, outcome: Outcome | None) -> Mapping[str, Any]:
    if outcome is None:
        state = "failed" if failure_file(folder, cell).exists() else "missing"
        return {**_keys(cell), "state": state, "seconds": None, "concurrent": None}
    timing = {"seconds": outcome.seconds, "concurrent": outcome.concurrent}
    return {**_keys(cell), "state": "done", **timing}


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
    check_cluster(settings)
    folder = settings.folder_of(study)
    _check_free(folder)
    plan = plan_study(study, folder, settings.options)
    written = (folder / name for name in (*STUDY.taken(folder), PLAN))
    check_not_read(written, paths_in(plan.options), result=folder)
    with _alone_in(folder) as tell_others, stopped_by_signals():
        _write_plan(folder, plan)
        missing = [cell for cell in plan.cells if read_cell(folder, cell) is None]
        tell_others(settings.jobs or 1)
        _tell(settings, 0, missing)
        with closing(_computed(missing, plan, settings)) as outcomes:
            for ended, (outcome, at_a_time) in enumerate(outcomes, start=1):
                write_cell(folder, outcome)
                _tell(settings, ended, missing)
                tell_others(at_a_time)
    return collect(folder, plan)


def _check_free(folder: Path) -> None:
    """Raises InputError where no study can be kept in `folder`, or files of others have its names."""
    check_no_links(folder, [f"{name}/*" for name in (FINISHED, FAILED)])
    names = (FINISHED, FAILED, AT_A_TIME)
    files = replace(STUDY, others=(*STUDY.others, *names), marks=(PLAN,))
    check_not_taken(folder, files, overwrite=True)


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
    definition = study_named(study)
    before = read_plan(folder)
    if before is not None and before.study != study:
        msg = f"{folder} holds the study '{before.study}'; name another folder."
        raise InputError(msg)
    fields = {option.name for option in option_fields(definition.options)}
    kept = {} if before is None else before.options
    kept = {name: value for name, value in kept.items() if name in fields}
    chosen = definition.options(**{**kept, **(options or {})})
    cells = dict.fromkeys(cell_of(definition, settings) for settings in definition.cells(chosen))
    return Plan(study, plain_settings(chosen), tuple(cells))


def _computed(
    missing: Sequence[Cell], plan: Plan, settings: RunningSettings
) -> Generator[tuple[Outcome, int], None, None]:
    if not missing or (settings.jobs is None and settings.cluster is None):
        return compute_in_turn(_announced(missing, plan, settings))
    return compute_on_cluster(missing, settings)


def _announced(cells: Sequence[Cell], plan: Plan, settings: RunningSettings) -> Iterator[Cell]:
    for cell in cells:
        if settings.begun is not None:
            settings.begun(plan, cell)
        yield cell


def _tell(settings: RunningSettings, ended: int, missing: Sequence[Cell]) -> None:
    if settings.progress is not None and missing:
        settings.progress("Cells", ended, len(missing))


@contextmanager
def _alone_in(folder: Path) -> Iterator[Callable[[int], None]]:
    """Keeps other processes from computing the cells of this folder.

    Yields a function that tells them how many cells run at a time.

    Raises:
        InputError: one computes them already.
    """
    announced = 0

    def tell(at_a_time: int) -> None:
        nonlocal announced
        if at_a_time != announced:
            write_json(folder / AT_A_TIME, at_a_time)
        announced = at_a_time

    with locked(folder / FINISHED):
        try:
            # What a process that was killed left half written.
            for left in (folder / FINISHED).glob(".*"):
                delete(left)
            yield tell
        finally:
            (folder / AT_A_TIME).unlink(missing_ok=True)


def _running_processes(folder: Path) -> int:
    """Number of cells that a process computes in this folder now; 0 where none does."""
    if not is_locked(folder / FINISHED):
        return 0
    try:
        return max(read_json(folder / AT_A_TIME, int), 1)
    except InputError:  # not told yet
        return 1


@dataclass(frozen=True)
class _StudyPaths:
    """The content of `local_paths.json` of a study, whose plan has labels instead.

    Attributes:
        options: that hold paths.
        locations: of each cell, by its address.
        note: what a reader of the file is told.
    """

    options: Mapping[str, Any] = field(default_factory=dict)
    locations: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    note: str = LocalPaths.note


def _write_plan(folder: Path, plan: Plan) -> None:
    cells = tuple(replace(cell, locations=labels(cell.locations)) for cell in plan.cells)
    shown = replace(plan, options=labels(plan.options), cells=cells)
    write_json(folder / PLAN, asdict(shown))
    paths = _StudyPaths(
        {name: value for name, value in plan.options.items() if value != shown.options[name]},
        {
            cell.address: cell.locations
            for cell, other in zip(plan.cells, cells, strict=True)
            if cell.locations != other.locations
        },
    )
    if paths != _StudyPaths():
        write_json(folder / LOCAL, asdict(paths))
    else:
        (folder / LOCAL).unlink(missing_ok=True)


def read_plan(folder: str | Path) -> Plan | None:
    """The plan that the study in this folder was last run with; None where there is none.

    Raises:
        InputError: the file is damaged.
    """
    path = Path(folder) / PLAN
    advice = "delete it, finished cells are kept"
    if not path.exists():
        return None
    plan, paths = read_json(path, Plan, advice=advice), _StudyPaths()
    if (Path(folder) / LOCAL).exists():
        paths = read_json(Path(folder) / LOCAL, _StudyPaths, advice=advice)
    cells = tuple(
        replace(cell, locations=paths.locations.get(cell.address, cell.locations))
        for cell in plan.cells
    )
    return replace(plan, options={**plan.options, **paths.options}, cells=cells)


def cell_folder(folder: str | Path, cell: Cell) -> Path:
    """The folder of a finished cell."""
    return Path(folder) / FINISHED / cell.address


def failure_file(folder: str | Path, cell: Cell) -> Path:
    """The file that tells why a cell failed."""
    return Path(folder) / FAILED / f"{cell.address}.json"


def read_cell(folder: str | Path, cell: Cell) -> Outcome | None:
    """The outcome of a finished cell; None where it is not there, or damaged."""
    path = cell_folder(folder, cell)
    try:
        with open_regular(path / ROWS, most_bytes=MOST_FILE_BYTES) as file:
            rows = file.read()
        outcome = read_json(path / RECORD, Outcome)
        is_whole = (
            outcome.rows_checksum == hashlib.sha256(rows).hexdigest()
            and outcome.cell.address == cell.address
        )
        return replace(outcome, cell=cell, rows=rows.decode()) if is_whole else None
    except (OSError, UnicodeDecodeError, InputError):
        return None


def write_cell(folder: str | Path, outcome: Outcome) -> None:
    """Writes the outcome of a cell, whole or not at all: its folder, or the file that tells its failure.

    Raises:
        AttnlabError: the disk is full or the folder cannot be written.
    """
    path, failure = cell_folder(folder, outcome.cell), failure_file(folder, outcome.cell)
    record = asdict(outcome)
    # Where its data lay is the matter of one machine, and may be a path that nobody is to read.
    record["cell"]["locations"] = {}
    rows, lines = record.pop("rows"), (record.pop("failure") or "").splitlines()
    if rows is None:
        write_json(failure, record | {"failure": lines})
        return
    made = path.with_name(f".{secrets.token_hex(8)}")
    try:
        made.mkdir(parents=True)
        (made / ROWS).write_bytes(rows.encode())
        (made / RECORD).write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
        if os.path.lexists(path):  # damaged
            delete(path)
        made.rename(path)
        failure.unlink(missing_ok=True)
    except OSError as error:
        msg = f"Could not write {path}: {error.strerror or error}."
        raise AttnlabError(msg) from error
    finally:
        shutil.rmtree(made, ignore_errors=True)
