"""`attnlab importance`: how important every head is to the model."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attnlab.cli.early import refuse_absent_source, refuse_absent_texts
from attnlab.cli.notes import print_notes
from attnlab.cli.options import OVERWRITE, chosen, with_options
from attnlab.cli.output import messages, new_table, output, print_json, print_table
from attnlab.results.terminal import MOST_ROWS
from attnlab.studies.importance.settings import ImportanceSettings
from attnlab.texts import counted, published

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
    overwrite: OVERWRITE = False,
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
    refuse_absent_texts(settings)

    from attnlab.cli.progress import progress_bars
    from attnlab.reporting.importance_folder import write_importance
    from attnlab.reporting.notes import describe_notes
    from attnlab.studies.importance.importance import importance as study
    from attnlab.translation.quiet import quiet

    with quiet(), progress_bars(announced=True) as tell:
        found = study(source, **replace(settings, progress=tell).keywords())
        write_importance(found, folder, title=f"Importance of the heads of {published(source)}")
    print_notes(found.notes)
    if output().as_json:
        notes = describe_notes(found.notes)
        print_json(heads=found.heads, cumulative=found.cumulative, notes=notes, folder=folder)
        return
    print_table(_heads(found))
    print_table(_curves(found))
    explained = folder / "importance.md"
    messages().print(f"Wrote {folder}; {explained} explains it.", soft_wrap=True)


def _heads(found: "Importance") -> "Table":
    """Change of loss and BLEU by head; a model of many heads shows the first ones only."""
    from attnlab.reporting.naming import head_names
    from attnlab.studies.importance.columns import CHANGES, IMPORTANCE_OF_HEADS

    heads = found.heads
    more = len(heads) - MOST_ROWS
    left_out = f"\nand {counted(more, 'more head')} in importance.csv" if more > 0 else ""
    gradient = IMPORTANCE_OF_HEADS["gradient_importance"]
    changes = [(change, proof) for change, proof in CHANGES if change.name in heads]
    numbers = [column.narrow for column in (gradient, *(change for change, _ in changes))]
    table = new_table(
        "head",
        *numbers,
        numbers=numbers,
        title="Each head replaced alone",
        caption="Loss in nats per token: above 0 the head is needed. * beyond chance (5%, corrected "
        f"for {counted(len(heads), 'head')}).{left_out}",
    )
    first = heads.head(MOST_ROWS)
    for name, row in zip(head_names(first), first.to_dict("records"), strict=True):
        cells = [
            f"{change.shown(row[change.name], signed=True)}{'*' if row[proof.name] else ' '}"
            for change, proof in changes
        ]
        table.add_row(name, gradient.shown(row[gradient.name]), *cells)
    return table


def _curves(found: "Importance") -> "Table":
    """Loss and BLEU with none, all and at most about ten numbers of heads between removed."""
    from attnlab.studies.importance.columns import CUMULATIVE

    curves = found.cumulative
    orders = list(dict.fromkeys(curves["order"]))
    measured = curves[curves["bleu"].notna()] if curves["bleu"].notna().any() else curves
    numbers = sorted(set(measured["heads_removed"]))
    step = max(1, round((len(numbers) - 1) / 9))
    loss, bleu = CUMULATIVE["loss_nats"], CUMULATIVE["bleu"]
    columns = [loss, bleu] if curves[bleu.name].notna().any() else [loss]
    scores = [f"{column.narrow},\n{_ORDERS[order]}" for column in columns for order in orders]
    numbers_too = [CUMULATIVE["heads_removed"].narrow, *scores]
    table = new_table(
        *numbers_too,
        numbers=numbers_too,
        title="\nHeads removed one after another",
        caption="Orders chosen on one half of the sentences, figures from the other.",
    )
    by_number = curves.set_index(["order", "heads_removed"])
    for number in sorted({*numbers[::step], numbers[-1]}):
        rows = [by_number.loc[(order, number)] for order in orders]
        cells = [column.shown(row[column.name]) for column in columns for row in rows]
        table.add_row(str(number), *cells)
    return table
