"""`attnlab prune`: which heads a run can do without, and at what price."""

import sys
from dataclasses import replace
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attnlab.addresses import SITES
from attnlab.cli.notes import print_notes
from attnlab.cli.options import chosen, with_options
from attnlab.cli.output import messages, output, print_json, results
from attnlab.cli.progress import progress_bars
from attnlab.studies.pruning.settings import PruningSettings

if TYPE_CHECKING:
    from rich.table import Table

    from attnlab.studies.pruning.pruning import Pruning


@with_options(PruningSettings)
def prune(
    run: Annotated[
        Path, typer.Argument(help="A run directory of attnlab train; it is not changed.")
    ],
    *,
    out: Annotated[
        Path | None, typer.Option(help="Folder to write to (default: RUN/pruning).")
    ] = None,
    overwrite: Annotated[
        bool,
        typer.Option(
            "--overwrite",
            help="Replace an earlier pruning and the models it saved, or files of its names.",
        ),
    ] = False,
    **options: Any,
) -> None:
    """Learn which heads a run can do without: heads left against BLEU, a model a penalty.

    Gates on the heads are trained along with the model; heads whose gate ends nearer to 0 than to 1
    are closed for good. Writes curve.csv, gates.csv, training.csv, the figure curve (svg, png) and
    pruning.md, which explains the columns.
    """
    from attnlab.reporting.result_folder import refuse_pruning
    from attnlab.translation.runs.folder import read_record

    settings = chosen(PruningSettings, options)
    folder = out or run / "pruning"
    saved = settings.penalties if settings.keep_models else ()
    refuse_pruning(folder, overwrite=overwrite, saved=saved)
    read_record(run)

    from attnlab.reporting.notes import describe_notes
    from attnlab.reporting.pruning_folder import write_pruning
    from attnlab.studies.pruning.pruning import prune as study
    from attnlab.translation.quiet import quiet

    with quiet(), progress_bars() as tell:
        found = study(run, **replace(settings, progress=tell).keywords())
        runs = write_pruning(found, folder, command=" ".join(["attnlab", *sys.argv[1:]]))
    print_notes(found.notes)
    if output().as_json:
        notes = describe_notes(found.notes)
        print_json(curve=found.curve, notes=notes, runs=runs, folder=folder)
        return
    console = results()
    console.print(_summary(found))
    console.print(_advice(found), soft_wrap=True)
    for path in runs.values():
        console.print(f"Pruned run: {path}", soft_wrap=True)
    messages().print(f"Wrote {folder}", soft_wrap=True)


def _summary(found: "Pruning") -> "Table":
    """The test part of the curve in at most 80 columns."""
    from rich.table import Table

    from attnlab.studies.pruning.columns import CURVE

    test = found.curve[found.curve["split"] == "test"]
    sites = [site for site in SITES if f"{site}_left" in test]
    table = Table(
        title=f"{found.curve['heads'].iloc[0]} heads, {test['sentences'].iloc[0]} test sentences",
        title_justify="left",
        # Nine columns fit 80 characters only without lines between them.
        box=None,
        padding=(0, 1),
        pad_edge=False,
        collapse_padding=True,
    )
    kind, penalty, change = CURVE["kind"], CURVE["penalty"], CURVE["bleu_change"]
    left = [CURVE[name] for name in ("heads_left", *(f"{site}_left" for site in sites))]
    scores = [CURVE["loss_nats"], CURVE["bleu"]]
    table.add_column(kind.narrow, no_wrap=True)
    for column in (penalty, *left, *scores):
        table.add_column(column.narrow, justify="right")
    table.add_column(change.narrow, justify="right", no_wrap=True)
    for row in test.to_dict("records"):
        low, high = (
            change.shown(row[f"bleu_change_{end}"], signed=True) for end in ("low", "high")
        )
        changed = f"{change.shown(row[change.name], signed=True)} \\[{low}, {high}]"
        table.add_row(
            row[kind.name],
            "" if isnan(row[penalty.name]) else f"{row[penalty.name]:g}",
            *(str(row[column.name]) for column in left),
            *(column.shown(row[column.name]) for column in scores),
            "" if row[kind.name] == "unpruned" else changed,
        )
    return table


def _advice(found: "Pruning") -> str:
    """The smallest model that costs little, chosen on validation."""
    from attnlab.studies.pruning.curve import TOLERANCE, fewest_heads

    pruned = found.curve[found.curve["kind"] == "pruned"]
    if (pruned["heads_left"] == pruned["heads"]).all():
        return "No penalty closed a head."
    penalty = fewest_heads(found.curve)
    if penalty is None:
        return f"No penalty that closed heads kept validation BLEU within {TOLERANCE} of the unpruned run."
    test = pruned[(pruned["penalty"] == penalty) & (pruned["split"] == "test")].iloc[0]
    return (
        f"Fewest heads within {TOLERANCE} BLEU of the run on validation: {test['heads_left']} "
        f"(penalty {penalty:g}); test BLEU {test['bleu']:.1f}."
    )
