"""`attnlab approximate`: exact structured fits of matrices in a file."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from attnlab.cli.commands.approximation_tables import print_approximation
from attnlab.cli.early import check_matrices_there
from attnlab.cli.notes import print_notes
from attnlab.cli.options import OVERWRITE, check_overwrite, chosen, with_options
from attnlab.cli.output import (
    AS_TEXT,
    check_form,
    messages,
    output,
    print_json,
    print_text,
    results,
)
from attnlab.cli.progress import progress_bars
from attnlab.core.texts import path_label
from attnlab.studies.approximation.settings import ApproximationSettings


@with_options(ApproximationSettings)
def approximate(
    file: Annotated[
        Path,
        typer.Argument(
            help="Attention matrices: .npz, .npy or .safetensors, [*batch, query, key], "
            "or matrices.safetensors of an analysis."
        ),
    ],
    *,
    array: Annotated[
        str | None, typer.Option(help="Name of the array, in a file of several.")
    ] = None,
    normalize: Annotated[
        str, typer.Option(help="Divide every row by its sum (rows), or not (none).")
    ] = "none",
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder for approximation.csv and the page report.html (default: nothing is written)."
        ),
    ] = None,
    overwrite: OVERWRITE = False,
    form: Annotated[
        str, typer.Option("--format", help="Form of the table: text, csv, markdown or latex.")
    ] = "text",
    **options: Any,
) -> None:
    """Fit every family exactly to the matrices of a file, at equal budget, with references beside them.

    Distances are sums of absolute differences (l1); zero, uniform, mean by offset, svd and top say
    what they mean. Support and values come from the matrix itself: a lower bound (level: oracle).
    Which family describes a matrix is decided by bits per row, not by distance.
    """
    from attnlab.reporting.result_folder import APPROXIMATION, check_not_taken

    check_form(form)
    settings = chosen(ApproximationSettings, options)
    check_overwrite(overwrite, out=out)
    if out is not None:
        check_not_taken(out, APPROXIMATION, overwrite=overwrite)
    check_matrices_there(file)

    from attnlab.evaluation.sources import versions_in_words
    from attnlab.reading.matrix_files import load_arrays, prepared
    from attnlab.reporting.approximation import write_approximation
    from attnlab.reporting.export import declared_columns, formatted
    from attnlab.reporting.notes import describe_notes
    from attnlab.reporting.record import notes_on_weights
    from attnlab.studies.approximation.approximation import approximate_arrays
    from attnlab.studies.approximation.columns import APPROXIMATIONS

    print_notes(notes_on_weights(file.parent))
    arrays = load_arrays(file, array=array)
    checked = {name: prepared(one, normalize) for name, one in arrays.items()}
    noted = [note for _, note in checked.values() if note is not None]
    notes = describe_notes(noted)
    for text in notes:
        messages().print(f"Warning: {text}", soft_wrap=True, highlight=False)
    matrices = {name: matrix for name, (matrix, _) in checked.items()}
    with progress_bars() as tell:
        found = approximate_arrays(matrices, replace(settings, progress=tell))
    if out is not None:
        about = {"File": path_label(file), "Normalized": normalize, **versions_in_words()}
        title = f"Structured fits of {path_label(file)}"
        write_approximation(found, out, title=title, about=about, notes=noted)
    if output().as_json:
        print_json(approximation=found.table, notes=notes)
    elif form != AS_TEXT:
        columns = declared_columns(found.table, APPROXIMATIONS.file)
        print_text(formatted(found.table, form, columns).removesuffix("\n"))
    else:
        print_approximation(results(), found, {tuple(x.shape[-2:]) for x in arrays.values()})
    if out is not None:
        messages().print(f"Wrote {out}; {out / APPROXIMATION.last} shows it.", soft_wrap=True)
