"""`attnlab compare`: every mechanism against full attention at the same number of visible keys."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attnlab.cli.early import refuse_absent_source, refuse_absent_texts
from attnlab.cli.notes import print_notes
from attnlab.cli.options import OVERWRITE, chosen, refuse_vain_overwrite, with_options
from attnlab.cli.output import messages, new_table, output, print_json, print_table
from attnlab.cli.progress import progress_bars
from attnlab.studies.comparison.settings import ComparisonSettings
from attnlab.texts import published

if TYPE_CHECKING:
    import pandas as pd
    from rich.table import Table

    from attnlab.columns import Column

# So many budgets stand side by side on a terminal of 80 columns.
_BESIDE = 2


@with_options(ComparisonSettings)
def compare(
    source: Annotated[
        str,
        typer.Argument(
            help="A run of `attnlab train`, a folder of a transformers model, or its name on the hub."
        ),
    ],
    *,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder to write to: mechanisms_by_head.csv, summary.csv, figures and comparison.md, "
            "which explains them (default: nothing is written)."
        ),
    ] = None,
    overwrite: OVERWRITE = False,
    **options: Any,
) -> None:
    """Compare mechanisms with a model's full attention: mass captured and output error.

    Every row says its level: oracle (chosen from the matrices it is measured on), calibrated (on
    training sentences) or static.
    """
    from attnlab.reporting.result_folder import COMPARISON, refuse_taken

    settings = chosen(ComparisonSettings, options)
    refuse_vain_overwrite(overwrite, out=out)
    if out is not None:
        refuse_taken(out, COMPARISON, overwrite=overwrite)
    refuse_absent_source(source)
    refuse_absent_texts(settings)

    from attnlab.reporting.comparison import write_comparison
    from attnlab.reporting.notes import describe_notes
    from attnlab.studies.comparison.comparison import compare as study
    from attnlab.translation.quiet import quiet

    with quiet(), progress_bars() as tell:
        found = study(source, **replace(settings, progress=tell).keywords())
    if out is not None:
        write_comparison(
            found, out, title=f"Mechanisms beside full attention of {published(source)}"
        )
        messages().print(f"Wrote {out}.", soft_wrap=True)
    print_notes(found.notes)
    if output().as_json:
        print_json(summary=found.summary, notes=describe_notes(found.notes))
        return
    budgets = list(dict.fromkeys(settings.budgets))
    for name, table in found.summary.groupby("site", sort=False):
        for first in range(0, len(budgets), _BESIDE):
            print_table(_shown(str(name), table, budgets[first : first + _BESIDE]))


def _shown(site: str, summary: "pd.DataFrame", budgets: list[int]) -> "Table":
    """Mechanisms of one site by mean output error; a column a budget."""
    from attnlab.studies.comparison.columns import SUMMARY

    shown = [SUMMARY[name] for name in ("mass_fraction", "output_error", "visible_keys")]
    title = f"\n{site}: {', '.join(column.narrow for column in shown)}"
    names = [SUMMARY[name].narrow for name in ("mechanism", "level")]
    keys = [f"{budget} keys" for budget in budgets]
    table = new_table(*names, *keys, numbers=keys, title=title)
    rows = summary[summary["budget"].isin(budgets)]
    order = rows.groupby("mechanism")["output_error"].mean().sort_values().index
    for name in order:
        own = rows[rows["mechanism"] == name].set_index("budget")
        cells = [
            " ".join(_figure(column, own.at[budget, column.name]) for column in shown)
            for budget in budgets
        ]
        table.add_row(name, own["level"].iloc[0], *cells)
    return table


def _figure(column: "Column", value: float) -> str:
    """A figure below 10; a dash as wide where there is none."""
    return column.shown(value) or "-".rjust(2 + (column.digits or 0))
