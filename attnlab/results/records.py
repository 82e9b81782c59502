"""What a results folder says of itself: facts in `result.json`, from which its page is made again."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any
from attnlab.core import read_json
from attnlab.core import InputError
from attnlab.core import check_writable
from attnlab.core import RESULT_MARK
from attnlab.models import check_not_run, check_not_run_file
import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal
import pandas as pd
from annotated_types import Ge
from attnlab.core import Table
from attnlab.core import fitting, read_json
from attnlab.core import InputError, Note, reason
from attnlab.core import file_checksum, write_json
from attnlab.core import BOOLEAN, INTEGER, NUMBER, TEXT, Kind, read_table
from attnlab.core import briefly, path_label
from attnlab.evaluation import OlderWeights
from attnlab.models import WEIGHTS
from attnlab.results.export import declared_table
from attnlab.results.note_words import WORDS
from collections.abc import Callable, Iterable, Mapping
from attnlab.results.question import Question

# What a page is made of, and the page, which is written last.
RECORD = RESULT_MARK
PAGE = "report.html"
SCALING_FIGURE = "scaling"
PARETO_FIGURE = "pareto"


@dataclass(frozen=True)
class ResultFiles:
    """The files of a result.

    Attributes:
        what: the result in a word or two, such as `analysis`.
        others: every file and folder that the result writes beside its record and its page.
        last: the file that is written last: a folder with it always holds the whole result.
    """

    what: str
    others: tuple[str, ...]
    last: str = PAGE

    @property
    def all(self) -> tuple[str, ...]:
        """Every file and folder that the result writes."""
        return (*self.others, RECORD, self.last)

    def taken(self, folder: str | Path) -> list[str]:
        """The names in `folder` that this result would write."""
        return [name for name in self.all if (Path(folder) / name).exists()]

    def older(self, folder: str | Path) -> list[Path]:
        """The files in `folder` that have the names of this result; what stands in folders is left out."""
        return [path for name in self.all if (path := Path(folder) / name).is_file()]


def _drawn(name: str) -> tuple[str, str]:
    return (f"{name}.svg", f"{name}.png")


STUDY = ResultFiles(
    "study", ("table.csv", "cells.csv", *_drawn(SCALING_FIGURE), *_drawn(PARETO_FIGURE))
)


def check_not_taken(folder: str | Path, result: ResultFiles, *, overwrite: bool) -> None:
    """Raises when `folder` holds a finished result, or files of its names, that may not be replaced.

    Args:
        folder: where the result is to be written.
        result: what is to be written.
        overwrite: whether it may replace what is there.

    Raises:
        InputError: see above, or `folder` or one that it is to be in is a file, or cannot be written, or
            `folder` is a run itself.
    """
    folder = Path(folder)
    nearest = next(path for path in (folder, *folder.parents) if path.exists())
    if not nearest.is_dir():
        msg = f"{nearest} is a file; name a folder to write the {result.what} to."
        raise InputError(msg)
    check_not_run(folder, result.what)
    if not overwrite:
        _check_not_there(folder, result)
    check_writable(folder)


def _check_not_there(folder: Path, result: ResultFiles) -> None:
    if _holds_finished(folder, result):
        msg = (
            f"{folder} holds a finished {result.what}; add --overwrite to replace it, "
            "or name another folder with --out."
        )
        raise InputError(msg)
    taken = result.taken(folder)
    if taken:
        msg = (
            f"{folder} already holds {', '.join(taken)}, which the {result.what} would write; name "
            "another folder with --out, or add --overwrite to replace them."
        )
        raise InputError(msg)


def check_record_there(folder: str | Path) -> None:
    """Raises when a folder does not say which result it holds, naming results in it.

    Raises:
        InputError: see above.
    """
    folder = Path(folder)
    if (folder / RECORD).is_file():
        return
    inner = ", ".join(str(path.parent) for path in sorted(folder.glob(f"*/{RECORD}")))
    if inner:
        msg = f"{folder} holds no {RECORD}; name one of the results in it: {inner}."
    elif folder.is_dir():
        msg = (
            f"{folder} holds no {RECORD}, from which a page is made; a result of an older attnlab must "
            "be made again by its command."
        )
    elif folder.is_file():
        of = folder.parent
        advice = f"give {of}" if (of / RECORD).is_file() else "give the folder of a result"
        msg = f"{folder} is a file; {advice}."
    else:
        msg = f"There is no folder {folder}; name one that a command wrote its results to."
    raise InputError(msg)


def _holds_finished(folder: Path, result: ResultFiles) -> bool:
    """Whether a whole result of this kind stands in a folder."""
    if not (folder / result.last).exists():
        return False
    try:
        found = read_json(folder / RECORD, dict[str, Any], finite=False)
    except InputError:
        return False
    return found.get("result") == result.what


def check_file_free(path: str | Path, *, overwrite: bool) -> None:
    """Raises when a file to be written exists and may not be replaced, is a folder, or of a run.

    Raises:
        InputError: see above, or nothing can be written there.
    """
    path = Path(path)
    check_not_run_file(path)
    if path.is_dir():
        msg = f"{path} is a folder; name a file to write to."
        raise InputError(msg)
    if path.exists() and not overwrite:
        msg = f"{path} exists; add --overwrite to replace it, or name another file with --out."
        raise InputError(msg)
    check_writable(path.parent)

FORMAT: Literal["attnlab result 1"] = "attnlab result 1"
_KINDS: Mapping[str, Kind] = {
    "boolean": BOOLEAN,
    "integer": INTEGER,
    "floating": NUMBER,
    "mixed-integer-float": NUMBER,
    # Nothing was measured in any row.
    "empty": NUMBER,
}
_NOTES = {kind.__name__: kind for kind in WORDS}


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
    """

    result: str
    title: str
    about: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[Note, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)
    tables: Mapping[str, Mapping[str, Kind]] = field(default_factory=dict)
    weights: str | None = None
    rows: Mapping[str, int] = field(default_factory=dict)


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
        "notes": [{"note": type(one).__name__, **_fields(one)} for one in record.notes],
        "details": dict(record.details),
        "tables": {name: _by_kind(columns) for name, columns in kinds.items()},
        "rows": {name: len(frame) for name, frame in tables.items()},
        "weights": record.weights,
    }
    write_json(Path(folder) / RECORD, values)


def read_record(
    folder: str | Path, kinds_of_notes: Mapping[str, type[Note]] = _NOTES
) -> ResultRecord:
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
        record = _record(values, kinds_of_notes)
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
class _Written:
    """What `result.json` holds."""

    format: Literal["attnlab result 1"]
    result: str
    title: str
    about: dict[str, Any]
    notes: tuple[dict[str, Any], ...]
    details: dict[str, Any]
    tables: dict[str, dict[Kind, tuple[str, ...]]]
    rows: dict[str, Annotated[int, Ge(0)]]
    weights: str | None


def _record(values: Any, kinds_of_notes: Mapping[str, type[Note]]) -> ResultRecord:
    found = fitting(_Written, values)
    _check_known(values, _Written, "it")
    outside = [name for name in found.tables if Path(name).name != name]
    if outside:
        msg = f"tables names {briefly(outside[0])}, which is no file in its folder"
        raise InputError(msg)
    return ResultRecord(
        found.result,
        found.title,
        found.about,
        tuple(
            _note(one, f"notes.{number}", kinds_of_notes) for number, one in enumerate(found.notes)
        ),
        found.details,
        {name: _by_column(kinds) for name, kinds in found.tables.items()},
        found.weights,
        found.rows,
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
    own = {field: value for field, value in values.items() if field != "note"}
    _check_known(own, kind, where)
    try:
        return fitting(kind, own)
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
        if (names := [name for name, one in columns.items() if one == kind])
    }


def _by_column(kinds: Mapping[Kind, Sequence[str]]) -> dict[str, Kind]:
    return {name: kind for kind, names in kinds.items() for name in names}

# What the columns of the tables mean.
EXPLANATION = "tables.md"
FIGURES = "figures"
# What a result has beside its tables, by its path in the folder: each writes itself to the path it is given.
Extra = Mapping[str, Callable[[Path], Any]]


@dataclass(frozen=True)
class QuestionFiles(ResultFiles):
    """The files of a result of a question.

    A question whose result has more than tables, such as models, has a class of its own, with `taken` and
    `older` for what lies beside these, and the three methods that do nothing here.

    Attributes:
        figures: names of its figures in `FIGURES`, as `Question.figures`; other pictures there are not its.
    """

    figures: tuple[str, ...] = ()

    def taken(self, folder: str | Path) -> list[str]:
        """The names in `folder` that this result would write, or may."""
        figures = (f"{FIGURES}/{path.name}" for path in self._drawn(folder))
        return [*super().taken(folder), *figures]

    def older(self, folder: str | Path) -> list[Path]:
        """The files in `folder` that have the names of this result, its figures among them."""
        return [*super().older(folder), *self._drawn(folder)]

    def named(self, settings: Any) -> Iterable[str]:
        """The paths of what a result with these settings has beside its tables."""
        del settings
        return ()

    def refuse(self, folder: str | Path, extra: Iterable[str]) -> None:
        """Raises where what an older result has beside its tables may not be replaced, overwrite or not.

        Args:
            folder: where the result is to be written.
            extra: paths in it of what the result has beside its tables.

        Raises:
            InputError: see above.
        """

    def load(self, folder: str | Path) -> Extra:
        """What the result in a folder has beside its tables."""
        del folder
        return {}

    def _drawn(self, folder: str | Path) -> list[Path]:
        drawn = Path(folder) / FIGURES
        return sorted(path for name in self.figures for path in drawn.glob(f"{name}.[sp][vn]g"))


def files_of(question: Question) -> QuestionFiles:
    """What a result of the question writes to its folder."""
    kind: type[QuestionFiles] = question.files_kind
    return kind(question.what, (*question.files, EXPLANATION), figures=question.figures)


def check_free(
    folder: str | Path, files: QuestionFiles, extra: Iterable[str], *, overwrite: bool
) -> None:
    """Raises where a result cannot be written to a folder, before it is computed or when it is saved.

    Args:
        folder: where the result is to be written.
        files: those of its question.
        extra: paths in the folder of what it has beside its tables.
        overwrite: whether an older result may be replaced.

    Raises:
        InputError: see `check_not_taken` and `QuestionFiles.refuse`.
    """
    check_not_taken(folder, files, overwrite=overwrite)
    files.refuse(folder, extra)
