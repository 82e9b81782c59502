"""The files of a result in its folder, and whether they may be written; nothing heavy is imported."""

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attnlab.core import (
    EXPORT,
    RESULT_MARK,
    UNFINISHED,
    InputError,
    Settings,
    check_no_links,
    check_not_read,
    check_writable,
    interrupted_result,
    is_of_attnlab,
    paths_in,
    recorded_result,
    similar_folder,
)
from attnlab.corpora import corpus_paths
from attnlab.models import check_not_run, check_not_run_file, corpus_paths_of, is_model
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
        marks: files that tell of what is not finished, where there is no record yet.
    """

    what: str
    others: tuple[str, ...]
    last: str = PAGE
    marks: tuple[str, ...] = ()

    @property
    def all(self) -> tuple[str, ...]:
        """Every file and folder that the result writes."""
        return (*self.others, RECORD, self.last)

    def taken(self, folder: str | Path) -> list[str]:
        """The names in `folder` that this result would write."""
        return [name for name in self.all if os.path.lexists(Path(folder) / name)]

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
    if is_model(folder):
        msg = f"{folder} is the folder of a model; name another folder, or one in it."
        raise InputError(msg)
    check_no_links(folder, [path.relative_to(folder) for path in result.older(folder)])
    other = recorded_result(folder) or interrupted_result(folder)
    if other not in {None, result.what}:
        msg = (
            f"{folder} holds another result ({other}), of which some files would stay beside those of the "
            f"{result.what}; name another folder (--out)."
        )
        raise InputError(msg)
    taken = result.taken(folder)
    if taken and not is_of_attnlab(folder, result.marks):
        msg = (
            f"{folder} holds {', '.join(taken)} and no {RECORD} of attnlab, so something else wrote that; "
            "name another folder (--out)."
        )
        raise InputError(msg)
    if not overwrite:
        _check_not_there(folder, result)
    check_writable(folder)


def _check_not_there(folder: Path, result: ResultFiles) -> None:
    if _holds_finished(folder, result):
        msg = (
            f"{folder} holds a finished {result.what}; add --overwrite (in Python: overwrite=True) to "
            "replace it, or name another folder (--out)."
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
    if recorded_result(folder) == EXPORT:
        msg = f"{folder} holds a model that attnlab exported, not a result; name the folder of a result."
        raise InputError(msg)
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
    return (folder / result.last).exists() and recorded_result(folder) == result.what


def check_page_name(path: str | Path) -> None:
    """Raises InputError for a file that a page of heads cannot be, such as a picture."""
    if Path(path).suffix.lower() not in {".html", ".htm"}:
        msg = (
            f"The page of heads is HTML, and {path} does not end in .html; the page saves each of its heads "
            "as a picture, and attnlab.plot.head draws one."
        )
        raise InputError(msg)


def check_file_free(
    path: str | Path, inputs: Mapping[Path, str], *, overwrite: bool, option: str = "--out"
) -> None:
    """Raises when a file to be written exists and may not be replaced, is a folder, or of a model.

    Args:
        path: of the file.
        inputs: what is read, by path, with the name of its setting; nothing of it is ever replaced.
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
    if os.path.lexists(path):
        check_not_read([path], inputs)
    if os.path.lexists(path) and is_model(path.parent):
        msg = (
            f"{path} stands in the folder of a model, where no file is replaced; name another file with "
            f"{option}."
        )
        raise InputError(msg)
    if os.path.lexists(path) and not overwrite:
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
    folder: str | Path,
    files: QuestionFiles,
    extra: Iterable[str],
    *,
    overwrite: bool,
    inputs: Mapping[Path, str] | None = None,
) -> None:
    """Raises where a result cannot be written to a folder, before it is computed or when it is saved.

    Args:
        folder: where the result is to be written.
        files: those of its question.
        extra: paths in the folder of what it has beside its tables.
        overwrite: whether an older result may be replaced.
        inputs: what is read, by path, with the name of its setting; nothing of it is replaced.

    Raises:
        InputError: see `check_not_taken` and `QuestionFiles.refuse`, or a link leads out of the folder.
    """
    extra = list(extra)
    check_no_links(folder, [*extra, f"{FIGURES}/*"])
    if inputs:
        check_not_read(files.older(folder), inputs, result=folder)
    check_not_taken(folder, files, overwrite=overwrite)
    files.refuse(folder, extra)


def check_writes(
    question: Question,
    source: object,
    settings: Settings,
    *,
    overwrite: bool,
    out: str | Path | None = None,
) -> None:
    """Raises where a file that answering a question writes may not be written, or is one of its result.

    Args:
        question: with the names of the settings that name such files.
        source: what it is asked about.
        settings: its settings.
        overwrite: whether a file that exists may be replaced, where it is no input.
        out: the folder of the result; None: there is none.

    Raises:
        InputError: see above.
    """
    inputs = inputs_of(question, source, settings)
    for name in question.writes:
        path = getattr(settings, name)
        if path is None:
            continue
        if out is not None:
            _check_apart(Path(path), Path(out), question, settings, f"--{name}")
        check_file_free(path, inputs, overwrite=overwrite, option=f"--{name}")


def _check_apart(
    path: Path, out: Path, question: Question, settings: Settings, option: str
) -> None:
    files, place, folder = files_of(question), path.resolve(), out.resolve()
    names = {*files.all, *files.named(settings), FIGURES, UNFINISHED}
    if place in {folder, *folder.parents} or any(
        folder / name in {place, *place.parents} for name in names
    ):
        msg = f"{path} is where the {question.what} is written ({out}); name another file with {option}."
        raise InputError(msg)


def inputs_of(question: Question, source: object, settings: Settings) -> dict[Path, str]:
    """What answering a question reads, by path, with the name of its setting: the corpora of runs too."""
    named = settings.keywords() | {"source": getattr(source, "name", source)}
    paths = paths_in({name: value for name, value in named.items() if name not in question.writes})
    for path, name in list(paths.items()):
        paths |= dict.fromkeys(corpus_paths_of(path), name)
    corpus = named.get("corpus")
    return paths | dict.fromkeys(corpus_paths(corpus) if isinstance(corpus, str) else (), "corpus")
