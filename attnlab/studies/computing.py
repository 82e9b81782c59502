"""The studies there are, and the computation of their cells in one process."""

import hashlib
import platform
import time
import traceback
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Annotated

import torch
from pydantic import Field

from attnlab.core import InputError, csv_of, seeded, versions, with_plugins
from attnlab.studies.plan_search import PLAN_SEARCH
from attnlab.studies.random_searches import RANDOM_SEARCH
from attnlab.studies.study import Cell, Study, settings_of
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
        "an attnlab.studies.Study",
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


ATTEMPTS = 3


@dataclass(frozen=True)
class Outcome:
    """The outcome of a cell: its rows, or why it failed.

    Attributes:
        cell: the cell.
        rows: its table as CSV; None where it failed.
        rows_checksum: SHA-256 of the rows; None where it failed.
        failure: the traceback, or what became of the worker; None where it did not fail.
        seconds: how long the last attempt took; 0 where its worker died.
        versions: of Python and the libraries it was computed with; none where its worker died.
        attempts: how often it was begun.
        concurrent: whether other cells could run at the same time, so that `seconds` says little.
    """

    cell: Cell
    rows: str | None = None
    rows_checksum: str | None = None
    failure: str | None = None
    seconds: Annotated[float, Field(ge=0)] = 0.0
    versions: Mapping[str, str] = field(default_factory=dict)
    attempts: int = 1
    concurrent: bool = False


def compute_in_turn(cells: Iterable[Cell]) -> Generator[tuple[Outcome, int], None, None]:
    """Computes one cell after the other in this process, each up to `ATTEMPTS` times.

    Yields the outcome of each, and how many run at a time: one.
    """
    for cell in cells:
        outcome = compute(cell)
        while outcome.rows is None and outcome.attempts < ATTEMPTS:
            outcome = replace(compute(cell), attempts=outcome.attempts + 1)
        yield outcome, 1


def compute(cell: Cell) -> Outcome:
    """The outcome of one attempt at a cell; what the cell raises is part of it."""
    began = time.perf_counter()
    rows = checksum = failure = None
    try:
        rows = compute_rows(cell)
        checksum = hashlib.sha256(rows.encode()).hexdigest()
    except Exception:  # noqa: BLE001 - whatever a study does, the other cells go on
        failure = traceback.format_exc()
    seconds = round(time.perf_counter() - began, 3)
    return Outcome(cell, rows, checksum, failure, seconds, versions())


def compute_rows(cell: Cell) -> str:
    """The rows of a cell as CSV, every float with the digits that tell it from all others.

    Raises:
        InputError: its study is not installed here, or in another version; the data here is not what
            the cell is to read; or the rows have a column that is a setting.
    """
    study = study_named(cell.kind)
    if study.schema != cell.schema:
        msg = (
            f"The rows of {cell.kind} are version {study.schema} here and version {cell.schema} is wanted; "
            "install one version of the study everywhere."
        )
        raise InputError(msg)
    settings = settings_of(study, cell)
    data_checksum = None if study.data_checksum is None else study.data_checksum(settings)
    if data_checksum != cell.data:
        where = ", ".join(f"{name} {value}" for name, value in cell.locations.items())
        msg = (
            f"The data of this cell ({where}) has the checksum {data_checksum} on {platform.node()}, not "
            f"{cell.data}; put the same files everywhere."
        )
        raise InputError(msg)
    with _single_thread(), seeded(int(cell.address[:8], 16)):
        table = study.rows(settings)
    both = set(table.columns) & set(cell.key_columns)
    if both or not table.columns.is_unique:
        msg = (
            f"Rows of {cell.kind} have the columns {', '.join(map(str, table.columns))}; each must be "
            "there once, and none that is a setting."
        )
        raise InputError(msg)
    return csv_of(table)


@contextmanager
def _single_thread() -> Iterator[None]:
    """Runs the block on one thread, so that sums have one order on any machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
