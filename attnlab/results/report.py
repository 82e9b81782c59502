"""The page of any results folder, made again from what the folder holds."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from attnlab.core import (
    InputError,
    Progress,
    check_no_links,
    check_writable,
    delete_leftovers,
    locked,
    reason,
)
from attnlab.results.page.result_page import ContentsOf, write_result_page
from attnlab.results.question import question_of
from attnlab.results.records import read_record
from attnlab.results.result import Result
from attnlab.results.result_files import FIGURES, PAGE, RECORD


def write_report(
    folder: str | Path,
    others: Mapping[str, ContentsOf] | None = None,
    progress: Progress | None = None,
) -> Path:
    """Draws the figures and writes the page of a results folder; returns the path of the page.

    No table changes, and nothing is computed again: the page is made of what the folder holds.

    Args:
        folder: what `attnlab analyze` or another command wrote.
        others: what makes the page of results that answer no question, by what these are called.
        progress: called with (what is being done, done, in all).

    Raises:
        InputError: the folder lacks `result.json` or a table, or holds a result of another attnlab.
        InputError: its figures stand behind a link.
        InputError: another process writes there.
        AttnlabError: something could not be written.
    """
    result = read_record(folder).result
    question = question_of(result)
    others = others or {}
    if result not in others and question is None:
        msg = f"{Path(folder) / RECORD} is of '{result}', which this version of attnlab has no page for."
        raise InputError(msg)
    check_no_links(folder, [f"{FIGURES}/*"])
    check_writable(folder)
    with locked(folder):
        for part in (Path(folder), Path(folder) / FIGURES):
            delete_leftovers(part, [PAGE, *(path.name for path in part.glob("*.[sp][vn]g"))])
        with _fitting_together(folder):
            if question is not None:
                return Result.load(folder).report(folder, progress)
            return write_result_page(folder, others[result])


@contextmanager
def _fitting_together(folder: str | Path) -> Iterator[None]:
    """Tells of a page that cannot be drawn because the tables, each of them whole, contradict each other.

    Raises:
        InputError: a row, a column or a fact that the page needs is missing, or there twice.
    """
    try:
        yield
    except (LookupError, ValueError, TypeError, AttributeError, ArithmeticError) as error:
        cause = f"{type(error).__name__}: {reason(error)}"
        msg = f"The files of the result in {folder} contradict each other ({cause}); make the result again."
        raise InputError(msg) from error
