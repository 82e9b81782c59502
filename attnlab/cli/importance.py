"""`attnlab importance`: how important every head is to the model."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attnlab.cli.early import refuse_absent_source
from attnlab.cli.notes import print_notes
from attnlab.cli.options import chosen, with_options
from attnlab.cli.output import messages, output, print_json, results
from attnlab.cli.summary_table import MOST_HEADS
from attnlab.studies.importance.settings import ImportanceSettings

if TYPE_CHECKING:
    from rich.table import Table

    from attnlab.studies.importance.importance import Importance

_ORDERS = {"gradient": "by gradient", "loss": "by loss", "random": "at random"}


@with_options(ImportanceSettings)
def importance(
    source: Annotated[
        str,
        typer.Argument(
            help="A run of `attnlab train`, or a transformers encoder-decoder or language model "
            "(folder, or name on the hub)."
        ),
    ],
    *,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder to write to (default: SOURCE/importance; for a name: importance)."
        ),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace an older study, or files of its names.")
    ] = False,
    **options: Any,
) -> None:
    """Measure the importance of every head: gradients, heads removed alone, heads removed in turn.

    Writes importance.csv, cumulative.csv, rank_agreement.csv, importance.svg, importance.png and
    importance.md, which explains the columns.
    """
    from attnlab.reporting.result_folder import IMPORTANCE, refuse_taken

    settings = chosen(ImportanceSettings, options)
    folder = out or (Path(source) / "importance" if Path(source).is_dir() else Path("importance"))
    refuse_taken(folder, IMPORTANCE, overwrite=overwrite)
    refuse_absent_source(source)

    from attnlab.cli.progress import progress_bars
    from attnlab.reporting.importance_folder import write_importance
    from attnlab.reporting.notes import describe_notes
    from attnlab.studies.importance.importance import importance as study
    from attnlab.translation.quiet import quiet

    with quiet(), progress_bars() as tell:
        found = study(source, **replace(settings, progress=tell).keywords())
        write_importance(found, folder, title=f"Importance of the heads of {source}")
    print_notes(found.notes)
    if output().as_json:
        notes = describe_notes(found.notes)
        print_json(heads=found.heads, cumulative=found.cumulative, notes=notes, folder=folder)
        return
    console = results()
    console.print(_heads(found))
    console.print(_curves(found))
    explained = folder / "importance.md"
    messages().print(f"Wrote {folder}; {explained} explains it.", soft_wrap=True)


def _heads(found: "Importance") -> "Table":
    """Change of loss and BLEU by head; a model of many heads shows the first ones only."""
    from rich.table import Table

    from attnlab.reporting.naming import head_names
    from attnlab.studies.importance.columns import CHANGES, IMPORTANCE_OF_HEADS

    heads = found.heads
    more = len(heads) - MOST_HEADS
    left_out = f"\nand {more} more heads in importance.csv" if more > 0 else ""
    table = Table(
        title="Each head replaced alone",
        caption="Loss in nats a token: above 0 the head is needed. * beyond chance (5%, corrected "
        f"for {len(heads)} heads).{left_out}",
    )
    gradient = IMPORTANCE_OF_HEADS["gradient_importance"]
    changes = [(change, proof) for change, proof in CHANGES if change.name in heads]
    table.add_column("head", no_wrap=True)
    for column in (gradient, *(change for change, _ in changes)):
        table.add_column(column.narrow, justify="right", no_wrap=True)
    first = heads.head(MOST_HEADS)
    for name, row in zip(head_names(first), first.to_dict("records"), strict=True):
        cells = [
            f"{change.shown(row[change.name], signed=True)}{'*' if row[proof.name] else ' '}"
            for change, proof in changes
        ]
        table.add_row(name, gradient.shown(row[gradient.name]), *cells)
    return table


def _curves(found: "Importance") -> "Table":
    """Loss and BLEU with none, all and at most about ten numbers of heads between removed."""
    from rich.table import Table

    from attnlab.studies.importance.columns import CUMULATIVE

    curves = found.cumulative
    orders = list(dict.fromkeys(curves["order"]))
    measured = curves[curves["bleu"].notna()] if curves["bleu"].notna().any() else curves
    numbers = sorted(set(measured["heads_removed"]))
    step = max(1, round((len(numbers) - 1) / 9))
    table = Table(
        title="Heads removed one after another",
        caption="Orders chosen on one half of the sentences, figures from the other.",
    )
    loss, bleu = CUMULATIVE["loss_nats"], CUMULATIVE["bleu"]
    columns = [loss, bleu] if curves[bleu.name].notna().any() else [loss]
    table.add_column(CUMULATIVE["heads_removed"].narrow, justify="right")
    for column in columns:
        for order in orders:
            table.add_column(f"{column.narrow},\n{_ORDERS[order]}", justify="right")
    by_number = curves.set_index(["order", "heads_removed"])
    for number in sorted({*numbers[::step], numbers[-1]}):
        rows = [by_number.loc[(order, number)] for order in orders]
        cells = [column.shown(row[column.name]) for column in columns for row in rows]
        table.add_row(str(number), *cells)
    return table
