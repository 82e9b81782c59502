"""`attnlab prune`: which heads a run can do without, and at what price."""

import sys
from dataclasses import replace
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attnlab.addresses import SITES
from attnlab.cli.notes import print_notes
from attnlab.cli.options import OVERWRITE, chosen, with_options
from attnlab.cli.output import messages, new_table, output, print_json, print_table, results
from attnlab.cli.progress import progress_bars
from attnlab.studies.pruning.settings import PruningSettings
from attnlab.texts import counted

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
    overwrite: OVERWRITE = False,
    **options: Any,
) -> None:
    """Learn which heads a run can do without: heads left against BLEU, one model per penalty.

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
    from attnlab.reporting.pruning_folder import smallest_model, write_pruning
    from attnlab.studies.pruning.pruning import prune as study
    from attnlab.translation.quiet import quiet

    with quiet(), progress_bars(announced=True) as tell:
        found = study(run, **replace(settings, progress=tell).keywords())
        runs = write_pruning(found, folder, command=" ".join(["attnlab", *sys.argv[1:]]))
    print_notes(found.notes)
    if output().as_json:
        notes = describe_notes(found.notes)
        print_json(curve=found.curve, notes=notes, runs=runs, folder=folder)
        return
    console = results()
    print_table(_summary(found))
    console.print(smallest_model(found.curve), soft_wrap=True)
    for path in runs.values():
        console.print(f"Pruned run: {path}", soft_wrap=True)
    messages().print(f"Wrote {folder}", soft_wrap=True)


def _summary(found: "Pruning") -> "Table":
    """The test part of the curve in at most 80 columns."""
    from attnlab.studies.pruning.columns import CURVE
    from attnlab.studies.pruning.curve import has_bleu

    test = found.curve[found.curve["split"] == "test"]
    heads, sentences = (test[name].iloc[0] for name in ("heads", "sentences"))
    sites = [site for site in SITES if f"{site}_left" in test]
    translates = has_bleu(test)
    change = CURVE["bleu_change" if translates else "loss_change"]
    kind, penalty = CURVE["kind"], CURVE["penalty"]
    left = [CURVE[name] for name in ("heads_left", *(f"{site}_left" for site in sites))]
    scores = [CURVE["loss_nats"], *([CURVE["bleu"]] if translates else [])]
    numbers = [column.narrow for column in (penalty, *left, *scores, change)]
    table = new_table(
        kind.narrow,
        *numbers,
        numbers=numbers,
        title=f"{counted(heads, 'head')}, {counted(sentences, 'test sentence')}",
        # Nine columns fit 80 characters only so.
        gap=1,
    )
    for row in test.to_dict("records"):
        table.add_row(
            row[kind.name],
            "" if isnan(row[penalty.name]) else f"{row[penalty.name]:g}",
            *(str(row[column.name]) for column in left),
            *(column.shown(row[column.name]) for column in scores),
            "" if row[kind.name] == "unpruned" else change.with_interval(row),
        )
    return table
