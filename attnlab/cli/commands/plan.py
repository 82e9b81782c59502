"""`attnlab plan`: the best mechanism for each head under one budget of keys."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attnlab.cli.notes import print_notes
from attnlab.cli.options import OVERWRITE, check_overwrite, chosen, with_options
from attnlab.cli.output import messages, new_table, output, print_json, print_table, results
from attnlab.cli.progress import progress_bars
from attnlab.core.texts import counted
from attnlab.studies.planning.settings import PlanSettings

if TYPE_CHECKING:
    import pandas as pd
    from rich.table import Table


@with_options(PlanSettings)
def plan(
    run: Annotated[
        Path, typer.Argument(help="A run directory of attnlab train; it is not changed.")
    ],
    *,
    out: Annotated[
        Path | None,
        typer.Option(
            help="File for the plan, ready for `train --attention`; with several budgets each is "
            "added to its name (plan_9.json)."
        ),
    ] = None,
    tables: Annotated[
        Path | None,
        typer.Option(
            help="Folder to write to: plan_heads.csv, plan_scores.csv, a figure and plan.md, which "
            "explains them (default: none is written)."
        ),
    ] = None,
    overwrite: OVERWRITE = False,
    **options: Any,
) -> None:
    """Search which mechanism each head should have under one budget of keys for all heads.

    Candidates are learned on training sentences, chosen on validation sentences, and reported on test
    sentences beside one band, Longformer and BigBird for all heads.
    """
    from attnlab.models.run_folder import read_record
    from attnlab.reporting.result_folder import (
        PLANNING,
        check_file_free,
        check_not_taken,
        plan_path,
    )

    settings = chosen(PlanSettings, options)
    check_overwrite(overwrite, out=out, tables=tables)
    if out is not None:
        for budget in settings.budgets:
            path = plan_path(out, budget, settings.budgets)
            check_file_free(path, overwrite=overwrite)
    if tables is not None:
        check_not_taken(tables, PLANNING, overwrite=overwrite)
    read_record(run)

    from attnlab.budget.bounds import TOLERANCE
    from attnlab.core.library_state import quiet
    from attnlab.reporting.notes import describe_notes
    from attnlab.reporting.planning import write_planning, write_plans
    from attnlab.reporting.planning_answers import planning_answers
    from attnlab.studies.planning.planning import plan as study

    with quiet(), progress_bars(announced=True) as tell:
        found = study(run, **replace(settings, progress=tell).keywords())
    if out is not None:
        for path in write_plans(found.plans, out):
            messages().print(f"Wrote {path}.", soft_wrap=True)
    if tables is not None:
        write_planning(found, tables)
        messages().print(f"Wrote {tables}.", soft_wrap=True)
    print_notes(found.notes)
    if output().as_json:
        print_json(scores=found.scores, heads=found.heads, notes=describe_notes(found.notes))
        return
    console = results()
    for number, own in found.heads.groupby("budget", sort=False):
        console.print(
            f"\n{counted(int(str(number)), 'key')} per row: {_families(own)}", soft_wrap=True
        )
    print_table(_shown(found.scores))
    console.print(
        f"Budgets are counted on validation sentences, and a plan may use up to {TOLERANCE:.0%} more keys; "
        "the table has those of the test sentences.",
        highlight=False,
    )
    for answer in planning_answers(found.scores, found.heads):
        console.print(answer, highlight=False)


def _families(heads: "pd.DataFrame") -> str:
    """How many heads got each family."""
    counts = heads["family"].value_counts()
    return ", ".join(f"{counted(count, 'head')} {family}" for family, count in counts.items())


def _shown(scores: "pd.DataFrame") -> "Table":
    """Plans by budget in at most 80 columns."""
    from attnlab.reporting.planning_answers import goodness_of
    from attnlab.studies.planning.columns import SCORES

    names = ("keys_per_row", "error", "loss_nats", "bleu")
    columns = [SCORES[name] for name in names if name in scores]
    budget, plan, gain = SCORES["budget"], SCORES["plan"], goodness_of(scores).gain
    numbers = [column.narrow for column in (*columns, gain)]
    table = new_table(
        budget.narrow,
        plan.narrow,
        *numbers,
        numbers=numbers,
        title=f"\n{counted(scores['sentences'].iloc[0], 'test sentence')}",
        caption=f"{SCORES['error'].narrow}: {SCORES['error'].meaning}\ngain: {gain.meaning}",
    )
    for row in scores.to_dict("records"):
        table.add_row(
            "" if row[plan.name] == "full" else str(row[budget.name]),
            row[plan.name],
            *(column.shown(row[column.name]) for column in columns),
            gain.with_interval(row),
        )
    return table
