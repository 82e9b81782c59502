"""The folder of a study: its plan, a folder for each finished cell, a file for each that failed."""

import fcntl
import hashlib
import json
import os
import platform
import secrets
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from annotated_types import Ge

from attnlab.core import (
    MOST_FILE_BYTES,
    AttnlabError,
    InputError,
    fitting,
    open_regular,
    parse_json,
    read_json,
    write_json,
)
from attnlab.studies.computing import Attempted
from attnlab.studies.study import Cell

FORMAT: Literal["attnlab study 1"] = "attnlab study 1"
PLAN, RECORD, ROWS = "study.json", "cell.json", "rows.csv"
# Locked while a process computes cells.
RUNNING = ".running"
# So often, 20 ms apart, is tried to lock it, since somebody may be looking at it.
LOOKS = 10


@dataclass(frozen=True)
class Plan:
    """What a study was last asked for.

    Attributes:
        study: its name.
        options: by name, in the types of JSON.
        cells: in the order of the table.
    """

    study: str
    options: Mapping[str, Any]
    cells: tuple[Cell, ...]

    @property
    def varied(self) -> list[str]:
        """The settings in which cells differ; all where there is one cell."""
        columns = [cell.key_columns for cell in self.cells]
        names = list(columns[0]) if columns else []
        return [name for name in names if len({one[name] for one in columns}) > 1] or names


@dataclass(frozen=True)
class FinishedCell:
    """What lies in the folder of a finished cell.

    Attributes:
        rows: its table as CSV.
        seconds: how long it took.
        concurrent: whether other cells could run at the same time, so that `seconds` says little.
        versions: what it was computed with.
    """

    rows: str
    seconds: float
    concurrent: bool
    versions: Mapping[str, str]


@dataclass(frozen=True)
class Run:
    """A process that computes the cells of a folder now, so many at a time."""

    process: int
    host: str
    at_a_time: Annotated[int, Ge(0)]


@dataclass(frozen=True)
class _WrittenPlan:
    """What `study.json` holds."""

    format: Literal["attnlab study 1"]
    study: str
    options: dict[str, Any]
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class _Record:
    """What `cell.json` holds of a finished cell."""

    cell: Cell
    rows_checksum: str
    seconds: Annotated[float, Ge(0)]
    concurrent: bool
    versions: dict[str, str]


class StudyFolder:
    """Reads and writes the folder of a study, each cell whole or not at all.

    Args:
        path: of the folder; it need not exist.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def cell_folder(self, cell: Cell) -> Path:
        """Where a finished cell lies."""
        return self.path / "cells" / cell.address

    def failure_file(self, cell: Cell) -> Path:
        """Where the failure of a cell is written down."""
        return self.path / "failed" / f"{cell.address}.json"

    def read_cell(self, cell: Cell) -> FinishedCell | None:
        """What a finished cell holds; None where it is not there, or damaged."""
        folder = self.cell_folder(cell)
        try:
            with open_regular(folder / ROWS, most_bytes=MOST_FILE_BYTES) as file:
                rows = file.read()
            record = read_json(folder / RECORD, _Record)
            is_whole = (
                record.rows_checksum == hashlib.sha256(rows).hexdigest()
                and record.cell.address == cell.address
            )
            return (
                FinishedCell(rows.decode(), record.seconds, record.concurrent, record.versions)
                if is_whole
                else None
            )
        except (OSError, UnicodeDecodeError, InputError):
            return None

    def write(self, done: Attempted) -> None:
        """Writes what became of a cell: its folder, or the file that tells its failure.

        Raises:
            AttnlabError: the disk is full or the folder cannot be written.
        """
        failure = self.failure_file(done.cell)
        outcome = done.outcome
        # Where its data lay is the matter of one machine, and may be a path that nobody is to read.
        known = replace(done.cell, locations={})
        record = {"cell": known.as_dict(), "attempts": done.attempts}
        if outcome.rows is None:
            told = {"failure": (outcome.failure or "").splitlines(), "versions": outcome.versions}
            write_json(failure, record | told)
            return
        rows = outcome.rows.encode()
        record |= {
            "rows_checksum": hashlib.sha256(rows).hexdigest(),
            "seconds": outcome.seconds,
            "concurrent": done.at_a_time > 1,
            "versions": outcome.versions,
        }
        try:
            self._put(
                done.cell, {ROWS: rows, RECORD: json.dumps(record, indent=2).encode() + b"\n"}
            )
            failure.unlink(missing_ok=True)
        except OSError as error:
            msg = f"Could not write {self.cell_folder(done.cell)}: {error.strerror or error}."
            raise AttnlabError(msg) from error

    def _put(self, cell: Cell, files: Mapping[str, bytes]) -> None:
        folder = self.cell_folder(cell)
        folder.parent.mkdir(parents=True, exist_ok=True)
        made = folder.parent / f".{secrets.token_hex(8)}"
        made.mkdir()
        try:
            for name, content in files.items():
                (made / name).write_bytes(content)
            if folder.exists():  # damaged
                shutil.rmtree(folder)
            made.rename(folder)
        finally:
            shutil.rmtree(made, ignore_errors=True)

    def write_plan(self, plan: Plan) -> None:
        """Writes down what is asked for.

        Raises:
            AttnlabError: the disk is full or the folder cannot be written.
        """
        cells = [cell.as_dict() for cell in plan.cells]
        head = {"format": FORMAT, "study": plan.study, "options": dict(plan.options)}
        write_json(self.path / PLAN, head | {"cells": cells})

    def read_plan(self) -> Plan | None:
        """What the study in this folder was last asked for; None where there is none.

        Raises:
            InputError: the file is damaged.
        """
        path = self.path / PLAN
        if not path.exists():
            return None
        found = read_json(path, _WrittenPlan, advice="delete it, finished cells are kept")
        return Plan(found.study, found.options, found.cells)

    @contextmanager
    def running(self) -> Iterator[Callable[[int], None]]:
        """Keeps other processes from computing the cells of this folder.

        Yields a function that tells them how many cells run at a time.

        Raises:
            AttnlabError: one computes them already.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        with (self.path / RUNNING).open("a+b") as file:
            if not _lock(file.fileno(), alone=True):
                msg = f"Another process computes the cells of {self.path} now; wait for it or stop it."
                raise AttnlabError(msg)
            # What a process that was killed left half written.
            for left in (self.path / "cells").glob(".*"):
                shutil.rmtree(left)

            def tell(at_a_time: int) -> None:
                file.truncate(0)
                run = Run(os.getpid(), platform.node(), at_a_time)
                file.write(json.dumps(vars(run)).encode())
                file.flush()

            tell(0)
            try:
                yield tell
            finally:
                file.truncate(0)

    def run_now(self) -> Run | None:
        """The process that computes cells of this folder; None where there is none."""
        path = self.path / RUNNING
        if not path.exists():
            return None
        with open_regular(path, most_bytes=MOST_FILE_BYTES) as file:
            if _lock(file.fileno(), alone=False):
                return None
            told = file.read()
        try:
            return fitting(Run, parse_json(told.decode())) if told else None
        except (UnicodeDecodeError, InputError):
            return None


def _lock(file: int, *, alone: bool) -> bool:
    """Whether the file could be locked; it is until it is closed, or its process ends.

    Those who only look (`alone` False) do not keep each other out, and whoever is to run waits for them.
    """
    kind = fcntl.LOCK_EX if alone else fcntl.LOCK_SH
    for _ in range(LOOKS if alone else 1):
        try:
            fcntl.flock(file, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(0.02 if alone else 0)
        else:
            return True
    return False
