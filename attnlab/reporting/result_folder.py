"""What each result writes, and whether a folder may be written to; nothing heavy is imported.

What a user already has is not replaced unasked, and that is said before anything is loaded.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attnlab.core.documents import read_json
from attnlab.core.errors import InputError
from attnlab.core.files import check_writable
from attnlab.core.folders import RESULT_MARK
from attnlab.models.run_folder import check_not_run, check_not_run_file

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
