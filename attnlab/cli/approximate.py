"""`attnlab approximate`: exact structured fits of matrices in a file."""

from pathlib import Path
from typing import Annotated, Any

import typer

from attnlab.cli.approximation_tables import print_approximation
from attnlab.cli.early import refuse_absent_matrices
from attnlab.cli.options import chosen, with_options
from attnlab.cli.output import (
    TEXT,
    messages,
    output,
    print_json,
    refuse_unknown_form,
    results,
)
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
    out: Annotated[Path | None, typer.Option(help="Folder to write approximation.csv to.")] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace approximation.csv in that folder.")
    ] = False,
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
    from attnlab.reporting.result_folder import APPROXIMATION, refuse_taken

    refuse_unknown_form(form)
    settings = chosen(ApproximationSettings, options)
    if out is not None:
        refuse_taken(out, APPROXIMATION, overwrite=overwrite)
    refuse_absent_matrices(file)

    from attnlab.extraction.matrix_files import load_arrays, prepared
    from attnlab.files import write_table
    from attnlab.reporting.export import declared_columns, formatted
    from attnlab.reporting.notes import describe_notes
    from attnlab.studies.approximation.approximation import approximate_arrays

    arrays = load_arrays(file, array=array)
    checked = {name: prepared(one, normalize) for name, one in arrays.items()}
    notes = describe_notes(note for _, note in checked.values() if note is not None)
    for text in notes:
        messages().print(f"Warning: {text}", soft_wrap=True, markup=False, highlight=False)
    found = approximate_arrays({name: matrix for name, (matrix, _) in checked.items()}, settings)
    if out is not None:
        write_table(out / APPROXIMATION.last, found.table)
    if output().as_json:
        print_json(approximation=found.table, notes=notes)
    elif form != TEXT:
        typer.echo(formatted(found.table, form, declared_columns(found.table)), nl=False)
    else:
        print_approximation(results(), found, {tuple(x.shape[-2:]) for x in arrays.values()})
    if out is not None:
        messages().print(f"Wrote {out / APPROXIMATION.last}.", soft_wrap=True)
