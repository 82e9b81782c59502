"""`attnlab analyze`: what the heads of a model do, as tables, figures and a page."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attnlab.cli.fit_tables import fit_tables
from attnlab.cli.head_table import head_table
from attnlab.cli.notes import print_notes
from attnlab.cli.options import chosen, with_options
from attnlab.cli.progress import progress_bars
from attnlab.launcher import one_of_several
from attnlab.studies.analysis.settings import AnalysisSettings

if TYPE_CHECKING:
    from rich.console import Console

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
    overwrite: Annotated[
        bool,
        typer.Option(
            "--overwrite",
            help="Replace an analysis, or files of its names. The run is not touched.",
        ),
    ] = False,
    **options: Any,
) -> None:
    """Look at every attention head: statistics, structured fits, heat maps, one report page.

    Writes heads.csv, head_distances.csv, fits.csv, structure.csv, matrices.safetensors, figures/ and
    report.html; with labels also labels.csv, relations.csv, controls.csv and agreement.csv.
    """
    from attnlab.reporting.result_folder import ANALYSIS, refuse_taken

    settings = chosen(AnalysisSettings, options)
    folder = out or (Path(source) / "analysis" if Path(source).is_dir() else Path("analysis"))
    # Several processes must be told of a refusal together, which needs their libraries.
    if not one_of_several():
        refuse_taken(folder, ANALYSIS, overwrite=overwrite)

    from rich.console import Console

    from attnlab.processes import launched_processes
    from attnlab.reporting.analysis_folder import write_analysis
    from attnlab.studies.analysis.analysis import analyze_together
    from attnlab.translation.quiet import quiet

    processes = launched_processes()
    with quiet(), progress_bars(shown=processes.first) as tell:
        with processes.together():
            refuse_taken(folder, ANALYSIS, overwrite=overwrite)
            analysis = analyze_together(source, replace(settings, progress=tell), processes)
        if not processes.first:
            return
        page = write_analysis(analysis, folder, title=f"Attention heads of {source}", progress=tell)
    _print(Console(), analysis, page)


def _print(console: "Console", analysis: "Analysis", page: Path) -> None:
    from attnlab.reporting.fit_sections import BUDGET
    from attnlab.reporting.label_section import (
        ABLATION,
        STANDING,
        describe_agreement,
        describe_labels,
    )

    console.print(head_table(analysis))
    for table in fit_tables(analysis):
        console.print(table)
    if not analysis.fits.empty:
        console.print(BUDGET)
    if analysis.labelling is not None:
        console.print(f"{describe_labels(analysis.labelling)}\n{STANDING}")
        if "ablation_loss_change" in analysis.labelling.labels:
            console.print(ABLATION)
        if not analysis.labelling.agreement.empty:
            console.print(describe_agreement(analysis.labelling.agreement))
    print_notes(console, analysis.notes)
    console.print(f"Report: {page}", soft_wrap=True, markup=False)
