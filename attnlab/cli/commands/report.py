"""`attnlab report`: the page of a results folder, made again."""

from pathlib import Path
from typing import Annotated

import typer

from attnlab.cli.notes import print_notes
from attnlab.cli.output import output, print_json, results
from attnlab.cli.progress import progress_bars


def report(
    folder: Annotated[
        Path,
        typer.Argument(
            help="Results of analyze, approximate, compare, importance, plan, prune or study, "
            "such as RUN/analysis."
        ),
    ],
) -> None:
    """Make the page of a results folder again, from its tables and result.json.

    Draws the figures and writes report.html as the command that made the results does at its end.
    No model is loaded and nothing is computed again.
    """
    from attnlab.reporting.result_folder import check_record_there

    check_record_there(folder)

    from attnlab.reporting.record import notes_on_weights
    from attnlab.reporting.result_folder import STUDY
    from attnlab.reporting.study_folder import study_contents
    from attnlab.results.report import write_report

    with progress_bars():
        page = write_report(folder, {STUDY.what: study_contents})
    print_notes(notes_on_weights(folder))
    if output().as_json:
        print_json(report=page)
    else:
        results().print(f"Report: {page}", soft_wrap=True)
