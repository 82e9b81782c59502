"""`attnlab analyze`: what the heads of a model do, as tables, figures and a page."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attnlab.cli.commands.summary_table import legend, summary_table
from attnlab.cli.early import check_source_there, check_texts_there
from attnlab.cli.notes import print_notes
from attnlab.cli.options import OVERWRITE, chosen, with_options
from attnlab.cli.output import output, print_json, print_table, results
from attnlab.cli.progress import progress_bars
from attnlab.core.launcher import one_of_several
from attnlab.core.texts import path_label
from attnlab.studies.analysis.settings import AnalysisSettings

if TYPE_CHECKING:
    from attnlab.studies.analysis.measuring import Analysis


@with_options(AnalysisSettings)
def analyze(
    source: Annotated[
        str,
        typer.Argument(
            help="A run of `attnlab train`, a folder of a transformers model, its name on the hub, "
            "or a file of matrices (.npz, .npy, .safetensors; --sites says what they are)."
        ),
    ],
    *,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder to write to (default: SOURCE/analysis; for a name or a file: analysis)."
        ),
    ] = None,
    overwrite: OVERWRITE = False,
    **options: Any,
) -> None:
    """Say what every attention head does, what it looks like and what is lost without it.

    Prints one table and writes it as summary.csv; beside it heads.csv, head_distances.csv, fits.csv,
    structure.csv, labels.csv, relations.csv, controls.csv, agreement.csv, matrices.safetensors,
    figures/ and report.html. --quick leaves out the controls of labels and the loss without each head.
    """
    from attnlab.core.files import is_matrix_file
    from attnlab.reporting.result_folder import ANALYSIS, check_not_taken

    settings = chosen(AnalysisSettings, options)
    folder = out or (Path(source) / "analysis" if Path(source).is_dir() else Path("analysis"))
    # Several processes must be told of a refusal together, which needs their libraries.
    if not one_of_several():
        check_not_taken(folder, ANALYSIS, overwrite=overwrite)
        check_source_there(source, matrices=True)
        # A file of matrices takes no texts at all, which is said where it is read.
        if not is_matrix_file(source):
            settings.check_options_of_files()
            check_texts_there(settings)

    from attnlab.core.library_state import quiet
    from attnlab.core.processes import launched_processes
    from attnlab.reporting.analysis_folder import write_analysis
    from attnlab.reporting.older_results import notes_on_weights
    from attnlab.studies.analysis.analysis import analyze_together

    processes = launched_processes()
    with quiet(), progress_bars(shown=processes.first) as tell:
        with processes.together():
            check_not_taken(folder, ANALYSIS, overwrite=overwrite)
            analysis = analyze_together(source, replace(settings, progress=tell), processes)
        if not processes.first:
            return
        if is_matrix_file(source):
            print_notes(notes_on_weights(Path(source).parent))
        page = write_analysis(
            analysis, folder, title=f"Attention heads of {name_of(source)}", progress=tell
        )
    print_analysis(analysis, page)


def name_of(source: str) -> str:
    """The name of a model or file: the last part of a path, or the whole name on the hub."""
    return Path(source).resolve().name if Path(source).exists() else path_label(source)


def print_analysis(analysis: "Analysis", page: Path, **beside: Any) -> None:
    """The table of heads, what its columns mean, how labels agree, notes, and the path of the page.

    Args:
        analysis: what was found.
        page: its report.
        beside: what else the JSON object holds.
    """
    from attnlab.reporting.notes import describe_notes

    print_notes(analysis.notes)
    if output().as_json:
        notes = describe_notes(analysis.notes)
        print_json(summary=analysis.summary, notes=notes, report=page, **beside)
        return
    console = results()
    print_table(summary_table(analysis))
    console.print(legend(analysis.summary), highlight=False, style="dim")
    if analysis.labelling is not None:
        from attnlab.reporting.heads_shown import describe_roles
        from attnlab.reporting.page.label_section import describe_agreement

        console.print(describe_roles(analysis.summary))
        if agreement := describe_agreement(analysis.labelling.agreement):
            console.print(agreement)
    console.print(f"Report: {page}", soft_wrap=True)
