"""`attnlab substitute`: what a run loses when its heads are replaced by other mechanisms."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attnlab.cli.early import check_plans
from attnlab.cli.options import OVERWRITE, chosen, with_options
from attnlab.cli.output import messages, new_table, output, print_json, print_table, results
from attnlab.core.columns import rounded
from attnlab.core.texts import counted, path_label
from attnlab.studies.substitution.settings import SubstitutionSettings

if TYPE_CHECKING:
    import pandas as pd
    from rich.table import Table

    from attnlab.studies.substitution.substitution import Substitution

_ORACLES = "oracle: chosen from the full matrix that it replaces, a bound and no method"


@with_options(SubstitutionSettings)
def substitute(
    source: Annotated[Path, typer.Argument(help="A run of `attnlab train` with full attention.")],
    *,
    out: Annotated[
        Path | None, typer.Option(help="Folder to write to (default: SOURCE/substitution).")
    ] = None,
    overwrite: OVERWRITE = False,
    **options: Any,
) -> None:
    """Replace heads, sites and all heads by other mechanisms; measure loss, BLEU and time.

    Without retraining, and with --fine-tune STEPS again after so many training batches beside the
    model with full attention trained as long. Writes substitutions.csv, prediction.csv,
    substitution.svg, substitution.png and substitution.md, which explains the columns.
    """
    from attnlab.models.run_folder import read_record
    from attnlab.reporting.result_folder import SUBSTITUTION, check_not_taken

    settings = chosen(SubstitutionSettings, options)
    folder = out or source / "substitution"
    check_not_taken(folder, SUBSTITUTION, overwrite=overwrite)
    check_plans(map(str, settings.plans))
    read_record(source)

    from attnlab.cli.notes import print_notes
    from attnlab.cli.progress import progress_bars
    from attnlab.core.library_state import quiet
    from attnlab.reporting.notes import describe_notes
    from attnlab.reporting.substitution import answers, write_substitution
    from attnlab.studies.substitution.substitution import substitute as study

    with quiet(), progress_bars(announced=True) as tell:
        found = study(source, **replace(settings, progress=tell).keywords())
        write_substitution(found, folder, title=f"Heads of {path_label(source)} replaced")
    print_notes(found.notes)
    if output().as_json:
        notes = describe_notes(found.notes)
        rows = found.substitutions
        print_json(
            substitutions=rows, answers=answers(rows, found.prediction), notes=notes, folder=folder
        )
        return
    console = results()
    for table in _tables(found):
        print_table(table)
    for answer in answers(found.substitutions, found.prediction):
        console.print(answer, highlight=False)
    explained = folder / "substitution.md"
    messages().print(f"Wrote {folder}; {explained} explains it.", soft_wrap=True)


def _tables(found: "Substitution") -> list["Table"]:
    """Changes of loss and BLEU with a site, all heads or a plan replaced; a table a budget and steps."""
    rows = found.substitutions
    rows = rows[(rows["scope"] != "head") & (rows["replaced_heads"] > 0)]
    return [
        _shown(int(str(steps)), budget, own)
        for (steps, budget), own in rows.groupby(["steps", "budget"], sort=False, dropna=False)
    ]


def _shown(steps: int, budget: Any, rows: "pd.DataFrame") -> "Table":
    from pandas import isna

    from attnlab.studies.substitution.columns import ORACLE

    columns = list(dict.fromkeys(rows["replaced"]))
    trained = f"after {counted(steps, 'batch')} of fine-tuning" if steps else "without retraining"
    what = "plans" if isna(budget) else f"{counted(budget, 'key')} per row"
    bleu = ", of BLEU" if rows["bleu_change"].notna().any() else ""
    oracles = (rows["level"] == ORACLE).any()
    table = new_table(
        "mechanism",
        *columns,
        numbers=columns,
        title=f"\n{what}, {trained}: change of loss (nats per token){bleu}",
        caption=_ORACLES if oracles else None,
    )
    for (mechanism, level), own in rows.groupby(["mechanism", "level"], sort=False):
        marked = f"{mechanism} ({level})" if level == ORACLE else str(mechanism)
        by_target = {row["replaced"]: row for row in own.to_dict("records")}
        table.add_row(marked, *(_cell(by_target.get(name)) for name in columns))
    return table


def _cell(row: Mapping[Any, Any] | None) -> str:
    if row is None:
        return "-"
    # Fewer decimals than on the page, so that four targets fit 80 characters.
    loss = rounded(row["loss_change_nats"], 3, signed=True)
    bleu = rounded(row["bleu_change"], 1, signed=True)
    return f"{loss} {bleu:>5}" if bleu else loss
