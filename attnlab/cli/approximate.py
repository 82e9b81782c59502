"""`attnlab approximate`: exact structured fits of matrices in a file."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from attnlab.cli.approximation_tables import print_approximation

if TYPE_CHECKING:
    from torch import Tensor

    from attnlab.studies.approximation.approximation import Approximation, Settings


def approximate(
    file: Annotated[
        Path,
        typer.Argument(
            help="Attention matrices: .npz, .npy or .safetensors, [*batch, query, key], "
            "or matrices.safetensors of an analysis."
        ),
    ],
    *,
    array: Annotated[str | None, typer.Option(help="Which array of the file.")] = None,
    window: Annotated[
        str, typer.Option(help="Reach of the offsets: one number, or LEFT,RIGHT.")
    ] = "3",
    num_pos: Annotated[int, typer.Option(help="Most rare columns in a matrix.")] = 2,
    budget: Annotated[
        int,
        typer.Option(
            help="Maximum number of entries per row, E apart. Diagonal and rare columns have one."
        ),
    ] = 1,
    values: Annotated[
        str, typer.Option(help="Entries of the support: binary, free or stochastic.")
    ] = "free",
    error_nnz: Annotated[
        str,
        typer.Option(help="Maximum number of non-zeros of the sparse error: a number, n or 2n."),
    ] = "n",
    error_bound: Annotated[float, typer.Option(help="Largest entry of the sparse error.")] = 0.5,
    families: Annotated[
        str | None,
        typer.Option(
            help="Any of diagonal, band, rare_columns, sink, additive, union; commas between. "
            "Default: diagonal, band, rare_columns and, with free values, additive."
        ),
    ] = None,
    dropout: Annotated[
        float | None,
        typer.Option(
            help="Share of the band that stays empty (0: the whole band, whatever the budget); "
            "default: its largest entries are used, as many as the budget allows."
        ),
    ] = None,
    causal: Annotated[bool, typer.Option("--causal", help="No query attends a later key.")] = False,
    normalize: Annotated[
        str, typer.Option(help="Divide every row by its sum (rows), or not (none).")
    ] = "none",
    out: Annotated[Path | None, typer.Option(help="Folder in which fits.csv is written.")] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace fits.csv in that folder.")
    ] = False,
    output_format: Annotated[
        str, typer.Option("--format", help="What is printed: table, csv or json.")
    ] = "table",
) -> None:
    """Fit every family exactly to the matrices of a file, at equal budget, with references beside them.

    Distances are sums of absolute differences (l1); zero, uniform, mean by offset, svd and top say
    what they mean. Support and values come from the matrix itself: a lower bound (level: oracle).
    Which family describes a matrix is decided by bits per row, not by distance.
    """
    from attnlab.reporting.result_folder import APPROXIMATION, refuse_taken

    if out is not None:
        refuse_taken(out, APPROXIMATION, overwrite=overwrite)

    from attnlab.extraction.matrix_files import load_arrays, prepared
    from attnlab.files import write_table
    from attnlab.studies.approximation import approximation
    from attnlab.studies.approximation.options import chosen_format, read_settings

    shown = chosen_format(output_format)
    arrays = load_arrays(file, array=array)

    def settings(matrices: "Tensor") -> "Settings":
        return read_settings(
            matrices.shape[-2],
            window=window,
            num_pos=num_pos,
            budget=budget,
            values=values,
            dropout=dropout,
            error_nnz=error_nnz,
            error_bound=error_bound,
            causal=causal,
            families=families,
        )

    for matrices in arrays.values():
        settings(matrices)
    checked = {name: prepared(one, normalize, warn=_warn) for name, one in arrays.items()}
    found = approximation.approximate_arrays(checked, settings)
    if out is not None:
        write_table(out / APPROXIMATION.last, found.table)
    _print(found, {tuple(one.shape[-2:]) for one in arrays.values()}, shown)
    if out is not None:
        typer.echo(f"Wrote {out / APPROXIMATION.last}.", err=True)


def _warn(sentence: str) -> None:
    typer.echo(f"Warning: {sentence}", err=True)


def _print(found: "Approximation", sizes: set[tuple[int, ...]], shown: str) -> None:
    if shown == "csv":
        typer.echo(found.table.to_csv(index=False, lineterminator="\n"), nl=False)
    elif shown == "json":
        typer.echo(found.table.to_json(orient="records", indent=2))
    else:
        print_approximation(Console(width=None if Console().is_terminal else 120), found, sizes)
