"""What a results folder says of itself: facts in `result.json`, from which its page is made again."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal

import pandas as pd
from pydantic import Field

from attnlab.core import (
    InputError,
    Note,
    Table,
    briefly,
    file_checksum,
    fitting,
    kinds_of_notes,
    path_label,
    read_json,
    reason,
    write_json,
)
from attnlab.evaluation import OlderWeights
from attnlab.models import WEIGHTS
from attnlab.results.csv_tables import BOOLEAN, INTEGER, NUMBER, TEXT, Kind, read_table
from attnlab.results.export import declared_table
from attnlab.results.question import question_of
from attnlab.results.result_files import RECORD, check_record_there

FORMAT: Literal["attnlab result 2"] = "attnlab result 2"
_KINDS: Mapping[str, Kind] = {
    "boolean": BOOLEAN,
    "integer": INTEGER,
    "floating": NUMBER,
    "mixed-integer-float": NUMBER,
    # Nothing was measured in any row.
    "empty": NUMBER,
}


@dataclass(frozen=True)
class ResultRecord:
    """The facts of a result beside its tables.

    Attributes:
        result: which result it is, such as `analysis`.
        title: of its page.
        about: what was studied and how, in the order to print it.
        notes: what a reader must know before trusting a number.
        details: what else its page needs.
        tables: kind of every column, by file.
        weights: checksum of the weights of the run that it is of; None where it is of no run.
        rows: how many each table has, by file.
        call: how it was asked for, see `attnlab.results.provenance.call_of`.
        making: when and on what it was made; results that are compared may differ in it.
    """

    result: str
    title: str
    about: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[Note, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)
    tables: Mapping[str, Mapping[str, Kind]] = field(default_factory=dict)
    weights: str | None = None
    rows: Mapping[str, int] = field(default_factory=dict)
    call: Mapping[str, Any] = field(default_factory=dict)
    making: Mapping[str, Any] = field(default_factory=dict)


def write_record(
    folder: str | Path, record: ResultRecord, tables: Mapping[str, pd.DataFrame]
) -> None:
    """Writes `result.json` atomically, with the kinds of the columns of `tables`, which are by file.

    Raises:
        AttnlabError: it could not be written.
    """
    kinds = {name: {str(c): _kind(frame[c]) for c in frame} for name, frame in tables.items()}
    values = {
        "format": FORMAT,
        "result": record.result,
        "title": record.title,
        "about": dict(record.about),
        "notes": [{"note": type(note).__name__, **_fields(note)} for note in record.notes],
        "details": dict(record.details),
        "tables": {name: _by_kind(columns) for name, columns in kinds.items()},
        "rows": {name: len(frame) for name, frame in tables.items()},
        "weights": record.weights,
        "call": dict(record.call),
        "making": dict(record.making),
    }
    write_json(Path(folder) / RECORD, values)


def read_record(folder: str | Path) -> ResultRecord:
    """What `write_record` wrote, and a note more where the run that it lies in has other weights now.

    Raises:
        InputError: there is none, or the file is not as this version of attnlab writes it.
    """
    check_record_there(folder)
    path = Path(folder) / RECORD
    fault, advice = "is not a result of this version of attnlab", "make the result again"
    # A number that nobody could measure is NaN.
    values = read_json(path, dict[str, Any], fault=fault, advice=advice, finite=False)
    try:
        record = _record(values)
    except InputError as error:
        msg = f"{path} {fault} ({reason(error)}); {advice}."
        raise InputError(msg) from error
    return dataclasses.replace(record, notes=(*notes_on_weights(folder), *record.notes))


def read_tables(
    folder: str | Path, record: ResultRecord, declared: Sequence[Table] = ()
) -> dict[str, pd.DataFrame]:
    """The tables that a record names, by file, with every digit and the types that they were made with.

    Raises:
        InputError: a file is absent, or has other columns, values or rows than were written.
    """
    return {
        name: _read(Path(folder) / name, kinds, record.rows.get(name), declared)
        for name, kinds in record.tables.items()
    }


def _read(
    path: Path, kinds: Mapping[str, Kind], rows: int | None, tables: Sequence[Table]
) -> pd.DataFrame:
    if not kinds:
        return pd.DataFrame()
    declared = declared_table(kinds, path.name, tables)
    keys = () if declared is None or not set(declared.keys) <= set(kinds) else declared.keys
    return read_table(path, kinds, keys=keys, rows=rows)


def notes_on_weights(folder: str | Path) -> list[Note]:
    """A note where the result in `folder` is not of the weights that its run has now."""
    # A folder given as `.` has a parent too.
    run = Path(folder).resolve().parent
    try:
        record = read_json(Path(folder) / RECORD, dict[str, Any], finite=False)
        weights = file_checksum(run / WEIGHTS)
    except (OSError, InputError):  # no result, none of this version, or no run
        return []
    # What is of no run has none.
    older = record.get("weights") not in (None, weights)
    return [OlderWeights(path_label(Path(folder).parent))] if older else []


def older_results(run: str | Path) -> list[Path]:
    """The results in a run that are of other weights than it has now."""
    folders = (path.parent for path in sorted(Path(run).glob(f"*/{RECORD}")))
    return [folder for folder in folders if notes_on_weights(folder)]


@dataclass(frozen=True)
class _StoredRecord:
    """What `result.json` holds."""

    format: Literal["attnlab result 2"]
    result: str
    title: str
    about: dict[str, Any]
    notes: tuple[dict[str, Any], ...]
    details: dict[str, Any]
    tables: dict[str, dict[Kind, tuple[str, ...]]]
    rows: dict[str, Annotated[int, Field(ge=0)]]
    weights: str | None
    call: dict[str, Any] = field(default_factory=dict)
    making: dict[str, Any] = field(default_factory=dict)


_READING_NOTES = ("attnlab.corpora.table_notes", "attnlab.reading.reading_notes")


def _record(values: Any) -> ResultRecord:
    stored = fitting(_StoredRecord, values)
    # Notes are known once the modules that declare them are imported: of the question, and of what it reads.
    question_of(stored.result)
    for name in _READING_NOTES:
        import_module(name)
    kinds = kinds_of_notes()
    _check_known(values, _StoredRecord, "it")
    outside = [name for name in stored.tables if Path(name).name != name]
    if outside:
        msg = f"tables names {briefly(outside[0])}, which is no file in its folder"
        raise InputError(msg)
    return ResultRecord(
        stored.result,
        stored.title,
        stored.about,
        tuple(_note(note, f"notes.{number}", kinds) for number, note in enumerate(stored.notes)),
        stored.details,
        {name: _by_column(kinds) for name, kinds in stored.tables.items()},
        stored.weights,
        stored.rows,
        stored.call,
        stored.making,
    )


def _fields(note: Any) -> dict[str, Any]:
    # Every kind of note is a dataclass, see `Note`.
    return dataclasses.asdict(note)


def _note(values: Mapping[str, Any], where: str, kinds: Mapping[str, type[Note]]) -> Any:
    name = values.get("note")
    kind = kinds.get(name) if isinstance(name, str) else None
    if kind is None:
        msg = f"{where}.note must be one of {', '.join(kinds)}, not {briefly(name)}"
        raise InputError(msg)
    fields = {field: value for field, value in values.items() if field != "note"}
    _check_known(fields, kind, where)
    try:
        return fitting(kind, fields)
    except InputError as error:
        msg = f"{where}.{reason(error)}"
        raise InputError(msg) from error


def _check_known(values: Mapping[str, Any], kind: Any, where: str) -> None:
    unknown = set(values) - {field.name for field in dataclasses.fields(kind)}
    if unknown:
        msg = f"{where} has the unknown key {briefly(min(unknown))}"
        raise InputError(msg)


def _kind(values: "pd.Series[Any]") -> Kind:
    return _KINDS.get(pd.api.types.infer_dtype(values, skipna=True), TEXT)


def _by_kind(columns: Mapping[str, Kind]) -> dict[str, list[str]]:
    return {
        kind: names
        for kind in (TEXT, INTEGER, NUMBER, BOOLEAN)
        if (names := [name for name, declared in columns.items() if declared == kind])
    }


def _by_column(kinds: Mapping[Kind, Sequence[str]]) -> dict[str, Kind]:
    return {name: kind for kind, names in kinds.items() for name in names}
