"""The page of any results folder, made again from what the folder holds."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from attnlab.core.errors import InputError, reason
from attnlab.core.files import delete_leftovers, check_writable
from attnlab.core.folders import locked
from attnlab.reporting.analysis_folder import write_analysis_page
from attnlab.reporting.approximation import approximation_contents
from attnlab.reporting.page.result_page import ContentsOf, write_result_page
from attnlab.reporting.planning import planning_contents
from attnlab.reporting.record import read_record
from attnlab.reporting.result_folder import (
    ANALYSIS,
    APPROXIMATION,
    PAGE,
    PLANNING,
    RECORD,
    STUDY,
)
from attnlab.reporting.study_folder import study_contents
from attnlab.results.notes import kinds_of_notes
from attnlab.results.question import question_of
from attnlab.results.result import Result

CONTENTS: Mapping[str, ContentsOf] = {
    APPROXIMATION.what: approximation_contents,
    PLANNING.what: planning_contents,
    STUDY.what: study_contents,
}


def write_report(
    folder: str | Path, *, progress: Callable[[str, int, int], None] | None = None
) -> Path:
    """Draws the figures and writes the page of a results folder; returns the path of the page.

    No table changes, though structures are fitted to the kept matrices again to be drawn:
    the page is made of the tables and of `result.json`.

    Args:
        folder: what `attnlab analyze` or another command wrote.
        progress: told what is drawn, how many figures are done, and how many there are.

    Raises:
        InputError: the folder lacks `result.json` or a table, or holds a result of another attnlab.
        InputError: another process writes there.
        AttnlabError: something could not be written.
    """
    result = read_record(folder, kinds_of_notes()).result
    question = question_of(result)
    if result not in (ANALYSIS.what, *CONTENTS) and question is None:
        msg = f"{Path(folder) / RECORD} is of '{result}', which this version of attnlab has no page for."
        raise InputError(msg)
    check_writable(folder)
    with locked(folder):
        for part in (Path(folder), Path(folder) / "figures"):
            delete_leftovers(part, [PAGE, *(path.name for path in part.glob("*.[sp][vn]g"))])
        with _fitting_together(folder):
            if question is not None:
                return Result.load(folder).report(folder)
            if result == ANALYSIS.what:
                return write_analysis_page(folder, progress=progress)
            return write_result_page(folder, CONTENTS[result])


@contextmanager
def _fitting_together(folder: str | Path) -> Iterator[None]:
    """Tells of a page that cannot be drawn because the tables, each of them whole, contradict each other.

    Raises:
        InputError: a row, a column or a fact that the page needs is missing, or there twice.
    """
    try:
        yield
    except (LookupError, ValueError, TypeError, AttributeError, ArithmeticError) as error:
        told = f"{type(error).__name__}: {reason(error)}"
        msg = f"The files of the result in {folder} contradict each other ({told}); make the result again."
        raise InputError(msg) from error
