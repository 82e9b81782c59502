"""`attnlab compare`: every mechanism against full attention at the same number of visible keys."""

from pathlib import Path
from typing import Annotated

import typer


def compare(
    source: Annotated[str, typer.Argument(help="A run directory, or a transformers model.")],
    *,
    budget: Annotated[
        list[int], typer.Option(help="Visible keys a row, 5 or more; may be given again.")
    ],
    sentences: Annotated[int, typer.Option(help="Held-out sentences at most.")] = 200,
    calibration: Annotated[int, typer.Option(help="Training sentences to learn tables on.")] = 500,
    text: Annotated[
        Path | None, typer.Option(help="Held-out sentences, one a line; a run brings its own.")
    ] = None,
    calibration_text: Annotated[
        Path | None, typer.Option(help="Training sentences, one a line; a run brings its own.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for heads.csv, summary.csv and the figure.")
    ] = None,
) -> None:
    """Compare mechanisms with the encoder's full attention: mass captured and output error.

    Every row says its level: oracle (chosen from the matrices it is measured on), calibrated (on
    training sentences) or static.
    """
    from attnlab.files import write_table
    from attnlab.reporting.canvas import write_figure
    from attnlab.reporting.comparison import draw_comparison
    from attnlab.studies import comparison
    from attnlab.translation.quiet import quiet

    with quiet():
        found = comparison.compare(
            source,
            budget,
            sentences=sentences,
            calibration=calibration,
            text=text,
            calibration_text=calibration_text,
        )
    shown = found.summary[["budget", "mechanism", "level", "mass_fraction", "output_error"]]
    typer.echo(shown.to_string(index=False, float_format="{:.3f}".format))
    if out is not None:
        write_table(out / "heads.csv", found.heads)
        write_table(out / "summary.csv", found.summary)
        write_figure(draw_comparison(found.summary), out, "figure")
        typer.echo(f"Wrote {out}.", err=True)
