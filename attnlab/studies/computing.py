"""Computes cells: a cell as JSON in, its rows as CSV in JSON out, so that nothing else has to travel."""

import json
import platform
import time
import traceback
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache

import torch

from attnlab.core import InputError, csv_of, seeded, versions, with_plugins
from attnlab.studies.plan_search import PLAN_SEARCH
from attnlab.studies.random_searches import RANDOM_SEARCH
from attnlab.studies.study import Cell, CellKind, Study, settings_of
from attnlab.studies.substitution import SUBSTITUTION

STUDIES = {study.name: study for study in (RANDOM_SEARCH, SUBSTITUTION, PLAN_SEARCH)}


@cache
def studies() -> Mapping[str, Study]:
    """All studies by name: attnlab's own, then those of other distributions.

    Another distribution registers a `Study` as an entry point of the group `attnlab.studies`; it must be
    installed wherever cells are computed.

    Raises:
        InputError: what is registered is no study, or has the name of another.
    """
    return with_plugins(
        "attnlab.studies",
        STUDIES,
        "an attnlab.studies.study.Study",
        lambda study: isinstance(study, Study),
        lambda study: study.name,
    )


def study_named(name: str) -> Study:
    """The study of that name.

    Raises:
        InputError: there is none.
    """
    if name not in studies():
        msg = f"There is no study '{name}'; choose from: {', '.join(studies())}."
        raise InputError(msg)
    return studies()[name]


def kind_named(name: str) -> CellKind:
    """The kind of cells of that name.

    Raises:
        InputError: no study here has such cells.
    """
    for study in studies().values():
        if study.kind.name == name:
            return study.kind
    msg = f"No study installed here has cells of the kind '{name}'; install what registers it."
    raise InputError(msg)


ATTEMPTS = 3


@dataclass(frozen=True)
class Outcome:
    """What computing a cell gave.

    Attributes:
        rows: its table as CSV; None where it failed.
        failure: the traceback, or what became of the worker; None where it did not fail.
        seconds: how long it took; None where nobody knows.
        versions: of Python and the libraries it was computed with.
    """

    rows: str | None = None
    failure: str | None = None
    seconds: float | None = None
    versions: Mapping[str, str] | None = None


@dataclass(frozen=True)
class Attempted:
    """A cell and what became of it.

    Attributes:
        cell: the cell.
        outcome: of the last attempt.
        attempts: how often it was begun.
        at_a_time: how many cells could run at a time while it ran.
    """

    cell: Cell
    outcome: Outcome
    attempts: int
    at_a_time: int


def compute_in_turn(cells: Iterable[Cell]) -> Generator[Attempted, None, None]:
    """Computes one cell after the other in this process, each up to `ATTEMPTS` times."""
    for cell in cells:
        attempts, outcome = 0, Outcome()
        while outcome.rows is None and attempts < ATTEMPTS:
            attempts += 1
            outcome = Outcome(**json.loads(compute(json.dumps(cell.as_dict()))))
        yield Attempted(cell, outcome, attempts, at_a_time=1)


def compute(cell: str) -> str:
    """The outcome of a cell, both as JSON; what the cell raises is part of it."""
    began = time.perf_counter()
    rows = failure = None
    try:
        rows = compute_rows(Cell(**json.loads(cell)))
    except Exception:  # noqa: BLE001 - whatever a study does, the other cells go on
        failure = traceback.format_exc()
    seconds = round(time.perf_counter() - began, 3)
    return json.dumps(vars(Outcome(rows, failure, seconds, versions())))


def compute_rows(cell: Cell) -> str:
    """The rows of a cell as CSV, every float with the digits that tell it from all others.

    Raises:
        InputError: no such kind is installed here, or in another version; the data here is not what
            the cell is to read; or the rows have a column that is a setting.
    """
    kind = kind_named(cell.kind)
    if kind.schema != cell.schema:
        msg = (
            f"The rows of {cell.kind} are version {kind.schema} here and version {cell.schema} is wanted; "
            "install one version of the study everywhere."
        )
        raise InputError(msg)
    settings = settings_of(kind, cell)
    found = None if kind.data_checksum is None else kind.data_checksum(settings)
    if found != cell.data:
        where = ", ".join(f"{name} {value}" for name, value in cell.locations.items())
        msg = (
            f"The data of this cell ({where}) has the checksum {found} on {platform.node()}, not "
            f"{cell.data}; put the same files everywhere."
        )
        raise InputError(msg)
    with _one_thread(), seeded(int(cell.address[:8], 16)):
        table = kind.rows(settings)
    both = set(table.columns) & set(cell.key_columns)
    if both or not table.columns.is_unique:
        msg = (
            f"Rows of {cell.kind} have the columns {', '.join(map(str, table.columns))}; each must be "
            "there once, and none that is a setting."
        )
        raise InputError(msg)
    return csv_of(table)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Sums come out in one order, however many processors there are."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
