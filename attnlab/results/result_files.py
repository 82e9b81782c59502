"""The files of a result in its folder, and whether they may be written; nothing heavy is imported."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attnlab.core import (
    RESULT_MARK,
    InputError,
    check_writable,
    read_json,
    similar_folder,
)
from attnlab.models import check_not_run, check_not_run_file
from attnlab.results.question import Question

# What a page is made of, and the page, which is written last.
RECORD = RESULT_MARK
PAGE = "report.html"
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


STUDY = ResultFiles(
    "study", ("table.csv", "cells.csv", f"{PARETO_FIGURE}.svg", f"{PARETO_FIGURE}.png")
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
    other = _recorded(folder)
    if other not in {None, result.what}:
        msg = (
            f"{folder} holds another result ({other}), of which some files would stay beside those of the "
            f"{result.what}; name another folder with --out."
        )
        raise InputError(msg)
    if not overwrite:
        _check_not_there(folder, result)
    check_writable(folder)


def _check_not_there(folder: Path, result: ResultFiles) -> None:
    if _holds_finished(folder, result):
        msg = (
            f"{folder} holds a finished {result.what}; add --overwrite (in Python: overwrite=True) to "
            "replace it, or name another folder with --out."
        )
        raise InputError(msg)
    taken = result.taken(folder)
    if taken:
        msg = (
            f"{folder} already holds {', '.join(taken)}, which the {result.what} would write; name "
            "another folder with --out, or add --overwrite (in Python: overwrite=True) to replace them."
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
        msg = (
            f"There is no folder {folder}; name one that a command wrote its results to."
            f"{similar_folder(folder)}"
        )
    raise InputError(msg)


def _holds_finished(folder: Path, result: ResultFiles) -> bool:
    """Whether a whole result of this kind stands in a folder."""
    return (folder / result.last).exists() and _recorded(folder) == result.what


def _recorded(folder: Path) -> str | None:
    """The kind of result whose record stands in a folder; None where there is none that can be read."""
    if not (folder / RECORD).is_file():
        return None
    try:
        kind = read_json(folder / RECORD, dict[str, Any], finite=False).get("result")
    except InputError:
        return None
    return kind if isinstance(kind, str) else None


def check_file_free(path: str | Path, *, overwrite: bool, option: str = "--out") -> None:
    """Raises when a file to be written exists and may not be replaced, is a folder, or of a run.

    Args:
        path: of the file.
        overwrite: whether it may be replaced.
        option: that names it.

    Raises:
        InputError: see above, or nothing can be written there.
    """
    path = Path(path)
    check_not_run_file(path)
    if path.is_dir():
        msg = f"{path} is a folder; name a file to write to."
        raise InputError(msg)
    if path.exists() and not overwrite:
        msg = (
            f"{path} exists; add --overwrite (in Python: overwrite=True) to replace it, or name another file "
            f"with {option}."
        )
        raise InputError(msg)
    check_writable(path.parent)


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
