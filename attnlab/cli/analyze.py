"""`attnlab analyze`: what the heads of a model do, as tables, figures and a page."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from attnlab.cli.fit_tables import fit_tables
from attnlab.cli.head_table import head_table
from attnlab.cli.options import BatchSize, Device, OtherCorpus, OwnText, Pair, Sites
from attnlab.cli.progress import progress_bars
from attnlab.launcher import one_of_several
from attnlab.texts import shown

if TYPE_CHECKING:
    from rich.console import Console

    from attnlab.studies.analysis.analysis import Analysis


def analyze(
    source: Annotated[
        str,
        typer.Argument(
            help="A run of `attnlab train`, a folder of a transformers model, its name on the hub, "
            "or a file of matrices (.npz, .npy, .safetensors; --sites says what they are)."
        ),
    ],
    *,
    sentences: Annotated[
        int | None,
        typer.Option(
            "--sentences",
            "-n",
            help="How many held-out sentences to look at; default: 200, with labels 1000. "
            "Not for a file of matrices, which is read whole.",
        ),
    ] = None,
    text: OwnText = None,
    corpus: OtherCorpus = None,
    pair: Pair = None,
    treebank: Annotated[
        Path | None,
        typer.Option(
            help="Sentences with gold trees: a .conllu or .conllu.gz file. Labels the heads."
        ),
    ] = None,
    labels: Annotated[
        bool,
        typer.Option(
            "--labels",
            help="Say what each head does, beside an untrained model and shuffled words.",
        ),
    ] = False,
    structure_sentences: Annotated[
        int,
        typer.Option(help="How many sentences decide a head's structure; 0 for none."),
    ] = 100,
    ignore_special: Annotated[
        bool,
        typer.Option(
            "--ignore-special",
            help="Show first what heads do with special tokens ([CLS], [SEP], start, end) left out "
            "as keys. The tables hold both views either way.",
        ),
    ] = False,
    ablation: Annotated[
        bool | None,
        typer.Option(
            "--ablation/--no-ablation",
            help="With labels: set each head to zero too and measure the loss; "
            "default: where the model has a loss.",
        ),
    ] = None,
    sites: Sites = None,
    array: Annotated[str | None, typer.Option(help="Which array of a file of matrices.")] = None,
    normalize: Annotated[
        str, typer.Option(help="Divide every row of a file's matrices by its sum (rows), or not.")
    ] = "none",
    keep_matrices: Annotated[
        int, typer.Option(help="Of how many sentences to keep and draw every matrix.")
    ] = 3,
    fit_sentences: Annotated[
        int, typer.Option(help="How many sentences to fit structured matrices to; 0 for none.")
    ] = 100,
    batch_size: BatchSize = 32,
    device: Device = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Where to write; default: SOURCE/analysis, or ./analysis without one."),
    ] = None,
    overwrite: Annotated[
        bool,
        typer.Option(
            "--overwrite",
            help="Replace an analysis, or files of its names. The run is not touched.",
        ),
    ] = False,
) -> None:
    """Look at every attention head: statistics, structured fits, heat maps, one report page.

    Writes heads.csv, head_distances.csv, fits.csv, structure.csv, matrices.safetensors, figures/ and
    report.html; with labels also labels.csv, relations.csv, controls.csv and agreement.csv.
    """
    from attnlab.reporting.result_folder import ANALYSIS, refuse_taken

    folder = out or (Path(source) / "analysis" if Path(source).is_dir() else Path("analysis"))
    # Several processes must be told of a refusal together, which needs their libraries.
    if not one_of_several():
        refuse_taken(folder, ANALYSIS, overwrite=overwrite)

    from rich.console import Console

    from attnlab.addresses import sites_named
    from attnlab.extraction.processes import launched_processes
    from attnlab.reporting.analysis_folder import write_analysis
    from attnlab.studies.analysis.analysis import analyze as analyze_source
    from attnlab.translation.quiet import quiet

    processes = launched_processes()
    with quiet(), progress_bars(shown=processes.first) as tell:
        with processes.together():
            refuse_taken(folder, ANALYSIS, overwrite=overwrite)
            analysis = analyze_source(
                source,
                sentences=sentences,
                text=text,
                corpus=corpus,
                pair=pair,
                treebank=treebank,
                labels=labels,
                structure_sentences=structure_sentences,
                ignore_special=ignore_special,
                ablation=ablation,
                sites=sites_named(sites),
                array=array,
                normalize=normalize,
                keep_matrices=keep_matrices,
                fit_sentences=fit_sentences,
                batch_size=batch_size,
                device=device,
                progress=tell,
                processes=processes,
            )
        if not processes.first:
            return
        page = write_analysis(analysis, folder, title=f"Attention heads of {source}", progress=tell)
    _print(Console(), analysis, page)


def _print(console: "Console", analysis: "Analysis", page: Path) -> None:
    from rich.markup import escape

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
    for warning in analysis.warnings:
        console.print(f"[yellow]Note:[/yellow] {escape(shown(warning))}")
    console.print(f"Report: {page}", soft_wrap=True, markup=False)
