"""`attnlab approximate`: exact structured fits of matrices in a file."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    import pandas as pd
    from torch import Tensor

    from attnlab.studies.approximation import Approximation, Settings

# A longer table scrolls away; --format csv and --out have every row.
_ROWS_SHOWN = 24
_NON_ZEROS = (
    "non-zeros: entries of the approximation other than 0, mean over matrices; entries of a member where "
    "the matrix itself is exactly 0, as dropout leaves them, are not counted."
)


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
    values: Annotated[
        str, typer.Option(help="Entries of the support: binary, free or stochastic.")
    ] = "free",
    error_nnz: Annotated[
        str, typer.Option(help="Most non-zeros of the sparse error: a number, n or 2n.")
    ] = "0",
    error_bound: Annotated[float, typer.Option(help="Largest entry of the sparse error.")] = 0.5,
    families: Annotated[
        str, typer.Option(help="Any of diagonal, band, rare_columns, sink, union; commas between.")
    ] = "diagonal,band,rare_columns,union",
    dropout: Annotated[float, typer.Option(help="Share of the band that stays empty.")] = 0.0,
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
    """Fit every family exactly to the matrices of a file, with references beside them.

    Distances are sums of absolute differences (l1); `zero`, `uniform`, `top` and `svd` say what they
    are worth. Support and values come from the matrix itself: a lower bound (level: oracle).
    """
    from attnlab.files import write_table
    from attnlab.reporting.result_folder import refuse_taken
    from attnlab.studies import approximation
    from attnlab.studies.approximation_options import chosen_format, read_settings
    from attnlab.studies.matrix_files import load_arrays, prepared

    shown = chosen_format(output_format)
    if out is not None:
        refuse_taken(
            out, what="approximation", finished=None, written=("fits.csv",), overwrite=overwrite
        )
    arrays = load_arrays(file, array=array)

    def settings(matrices: "Tensor") -> "Settings":
        return read_settings(
            matrices.shape[-2],
            window=window,
            num_pos=num_pos,
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
        write_table(out / "fits.csv", found.table)
    _print(found, {tuple(one.shape[-2:]) for one in arrays.values()}, shown)
    if out is not None:
        typer.echo(f"Wrote {out / 'fits.csv'}.", err=True)


def _warn(sentence: str) -> None:
    typer.echo(f"Warning: {sentence}", err=True)


def _print(found: "Approximation", sizes: set[tuple[int, ...]], shown: str) -> None:
    if shown == "csv":
        typer.echo(found.table.to_csv(index=False, lineterminator="\n"), nl=False)
    elif shown == "json":
        typer.echo(found.table.to_json(orient="records", indent=2))
    else:
        _print_tables(found, sizes)


def _print_tables(found: "Approximation", sizes: set[tuple[int, ...]]) -> None:
    size = " x ".join(map(str, *sizes)) if len(sizes) == 1 else f"{len(sizes)} sizes"
    table = found.table
    names = table["matrix"].unique().tolist()
    console = Console(width=None if Console().is_terminal else 120)
    by_family = table.pivot_table(index="matrix", columns="family", values="l1", sort=False)
    title = f"l1 distance, {len(names)} matrices of {size}"
    # Narrow, so that ten columns fit into a terminal of 80.
    distances = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=0)
    distances.add_column("matrix", overflow="fold")
    for family in by_family.columns:
        distances.add_column(family.replace("_", " "), justify="right", overflow="fold")
    for name in names[:_ROWS_SHOWN]:
        distances.add_row(name, *(f"{value:.2f}" for value in by_family.loc[name]))
    _add_means(distances, table)
    console.print(distances)
    console.print(_NON_ZEROS)
    _print_members(console, found, names)
    if len(names) > _ROWS_SHOWN:
        console.print(f"{len(names) - _ROWS_SHOWN} more matrices; --out DIR writes them all.")


def _add_means(distances: Table, table: "pd.DataFrame") -> None:
    by_family = table.groupby("family", sort=False)
    distances.add_section()
    distances.add_row("mean l1", *(f"{value:.2f}" for value in by_family["l1"].mean()))
    distances.add_row("relative", *(f"{value:.3f}" for value in by_family["relative"].mean()))
    distances.add_row("non-zeros", *(f"{value:.0f}" for value in by_family["nnz"].mean()))


def _print_members(console: Console, found: "Approximation", names: list[str]) -> None:
    members = Table(title="chosen members", title_justify="left")
    for heading in ("matrix", *found.members):
        members.add_column(heading.replace("_", " "), overflow="fold")
    for index, name in enumerate(names[:_ROWS_SHOWN]):
        members.add_row(name, *(phrases[index] for phrases in found.members.values()))
    console.print(members)
