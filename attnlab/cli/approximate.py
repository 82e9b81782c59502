"""`attnlab approximate`: exact structured fits of matrices in a file."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from attnlab.cli.approximation_tables import print_approximation
from attnlab.cli.options import chosen, with_options
from attnlab.errors import InputError
from attnlab.studies.approximation.settings import ApproximationSettings

if TYPE_CHECKING:
    from attnlab.studies.approximation.approximation import Approximation

FORMATS = ("table", "csv", "json")


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
    output_format: Annotated[
        str, typer.Option("--format", help="Form of what is printed: table, csv or json.")
    ] = "table",
    **options: Any,
) -> None:
    """Fit every family exactly to the matrices of a file, at equal budget, with references beside them.

    Distances are sums of absolute differences (l1); zero, uniform, mean by offset, svd and top say
    what they mean. Support and values come from the matrix itself: a lower bound (level: oracle).
    Which family describes a matrix is decided by bits per row, not by distance.
    """
    from attnlab.reporting.result_folder import APPROXIMATION, refuse_taken

    if output_format not in FORMATS:
        msg = f"There is no format '{output_format}'; choose from: {', '.join(FORMATS)}."
        raise InputError(msg)
    settings = chosen(ApproximationSettings, options)
    if out is not None:
        refuse_taken(out, APPROXIMATION, overwrite=overwrite)

    from attnlab.extraction.matrix_files import load_arrays, prepared
    from attnlab.files import write_table
    from attnlab.reporting.notes import describe_notes
    from attnlab.studies.approximation.approximation import approximate_arrays

    arrays = load_arrays(file, array=array)
    checked = {name: prepared(one, normalize) for name, one in arrays.items()}
    for text in describe_notes(note for _, note in checked.values() if note is not None):
        typer.echo(f"Warning: {text}", err=True)
    found = approximate_arrays({name: matrix for name, (matrix, _) in checked.items()}, settings)
    if out is not None:
        write_table(out / APPROXIMATION.last, found.table)
    _print(found, {tuple(one.shape[-2:]) for one in arrays.values()}, output_format)
    if out is not None:
        typer.echo(f"Wrote {out / APPROXIMATION.last}.", err=True)


def _print(found: "Approximation", sizes: set[tuple[int, ...]], shown: str) -> None:
    if shown == "csv":
        typer.echo(found.table.to_csv(index=False, lineterminator="\n"), nl=False)
    elif shown == "json":
        typer.echo(found.table.to_json(orient="records", indent=2))
    else:
        print_approximation(Console(width=None if Console().is_terminal else 120), found, sizes)
