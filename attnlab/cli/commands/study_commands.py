"""`attnlab study`: runs studies of many cells, here or on a cluster, and goes on where they stopped."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attnlab.cli.command_classes import Command, Group, help_of, made_command
from attnlab.cli.command_options import chosen, typed, with_options
from attnlab.cli.commands import STUDY
from attnlab.cli.output import (
    messages,
    output,
    print_error,
    print_json,
    results,
    with_output,
)
from attnlab.cli.progress import progress_bars
from attnlab.core import INTERRUPTED, InputError, counted, duration, new_table, print_table
from attnlab.studies import FolderSettings, RunningSettings

if TYPE_CHECKING:
    from pathlib import Path

    from attnlab.studies import Cell, Collected, Plan, Study

SHOWN_CELLS = 12

NAME = Annotated[str, typer.Argument(help="A study of: attnlab study list.")]

study = typer.Typer(name=STUDY.name, cls=Group, help=STUDY.help, no_args_is_help=True)


class _CommandPerStudy(Group):
    """Looks studies up when they are asked for, so that each has its own options in the help."""

    make: Callable[["Study"], Callable[..., None]]

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - the signature is typer's
        """The names of all studies."""
        from attnlab.studies import studies

        return list(studies())

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002 - as above
        """The command of a study.

        Raises:
            InputError: there is no such study.
        """
        from attnlab.studies import study_named

        definition = study_named(cmd_name)
        command = type(self).make(definition)
        text = f"{definition.summary}\n\n{help_of(command)}"
        return made_command(command, cmd_name, text)


def _plan_command(definition: "Study") -> Callable[..., None]:
    @with_options(definition.options, FolderSettings, headings=("Study", "Folder"))
    def command(**options: Any) -> None:
        """Tells which cells there are and how many are finished; computes and writes nothing."""
        from attnlab.studies import collect, plan_study

        folder = chosen(FolderSettings, options).folder_of(definition.name)
        plan = plan_study(definition.name, folder, typed(definition.options, options))
        collected = collect(folder, plan)
        if output().as_json:
            print_json(
                settings=[cell.key_columns for cell in plan.cells], **_status(collected, folder)
            )
            return
        table = new_table(*plan.varied, title="Cells")
        for cell in plan.cells[:SHOWN_CELLS]:
            table.add_row(*(str(cell.key_columns[name]) for name in plan.varied))
        print_table(table)
        if len(plan.cells) > SHOWN_CELLS:
            results().print(f"{SHOWN_CELLS} of {len(plan.cells)} cells; --json shows all.")
        _print_status(collected, folder)

    return command


def _run_command(definition: "Study") -> Callable[..., None]:
    @with_options(definition.options, RunningSettings, headings=("Study", "Run"))
    def command(**options: Any) -> None:
        """Computes the cells that are not finished, and collects what there is.

        Options of the study that are not given are those of its last run in the same folder. Ctrl-C,
        SIGTERM and SIGHUP leave everything finished in place; the same command goes on.
        """
        from attnlab.studies import run_study

        settings = chosen(RunningSettings, options)
        folder = settings.folder_of(definition.name)
        try:
            with progress_bars(announced=True) as tell:
                run_settings = replace(
                    settings,
                    options=typed(definition.options, options),
                    progress=tell,
                    begun=lambda plan, cell: tell.name(_cell_in_words(plan, cell)),
                    connected=partial(_print_connection, settings),
                )
                collected = run_study(definition.name, **run_settings.keywords())
        except KeyboardInterrupt:
            message = (
                f"Interrupted; finished cells are kept in {folder}. Go on with the same command."
            )
            print_error(message)
            raise typer.Exit(INTERRUPTED) from None
        _write(collected, folder)
        if collected.failed:
            raise typer.Exit(1)

    return command


for _name, _make, _text in (
    ("plan", _plan_command, "Show the cells of a study and how many are finished."),
    ("run", _run_command, "Compute the cells of a study that are not finished."),
):
    _kind = type("_Commands", (_CommandPerStudy,), {"make": staticmethod(_make)})
    _group = typer.Typer(name=_name, cls=_kind, help=_text, no_args_is_help=True)
    _group.callback()(lambda: None)
    study.add_typer(_group)


def list_studies() -> None:
    """List the studies there are."""
    from attnlab.studies import studies

    if output().as_json:
        print_json(studies={name: definition.summary for name, definition in studies().items()})
        return
    table = new_table("study", "question", prose=("question",))
    for name, definition in studies().items():
        table.add_row(name, definition.summary)
    print_table(table)
    results().print("See the options of one with: attnlab study run NAME --help")


def _cell_in_words(plan: "Plan", cell: "Cell") -> str:
    """The number of a cell, and the settings in which it differs from the others."""
    varied = ", ".join(f"{name} {cell.key_columns[name]}" for name in plan.varied)
    return f"Cell {plan.cells.index(cell) + 1:,} of {len(plan.cells):,} ({varied})"


def _print_connection(settings: RunningSettings, client: Any) -> None:
    connection = f"Dask: {counted(len(client.nthreads()), 'worker')} so far"
    # That of a scheduler that somebody else started is whatever they made it.
    if settings.dashboard or settings.cluster is not None:
        connection += f"; dashboard: {client.dashboard_link}"
    messages().print(connection, soft_wrap=True)


def _write(collected: "Collected", folder: "Path") -> None:
    from attnlab.studies import study_named, write_study

    done = len(collected.outcomes)
    page = write_study(collected, folder, question=study_named(collected.plan.study).summary)
    rows = collected.text.count("\n") - 1 if collected.text else 0
    if output().as_json:
        print_json(
            cells=len(collected.cells),
            finished=done,
            failed=collected.failed,
            rows=rows,
            folder=folder,
            report=page,
        )
        return
    console = results()
    console.print(
        f"{done} of {counted(len(collected.cells), 'cell')} finished, {collected.failed} failed; wrote "
        f"{counted(rows, 'row')} to "
        f"{folder}/table.csv, timings to {folder}/cells.csv; {page} shows them.",
        soft_wrap=True,
    )
    concurrent = int((collected.cells["concurrent"] == True).sum())  # noqa: E712 - None for missing ones
    if concurrent:
        cells = counted(concurrent, "cell")
        console.print(f"The timings of {cells} were taken while others could run.")
    if collected.failed:
        console.print(f"Why cells failed is written in {folder}/failed/.", soft_wrap=True)


@with_options(FolderSettings)
def status(name: NAME, **options: Any) -> None:
    """Tell how many cells of a study are done, running and failed, and the time left."""
    collected, folder = _collected(name, options)
    if output().as_json:
        print_json(**_status(collected, folder))
    else:
        _print_status(collected, folder)


@with_options(FolderSettings)
def collect(name: NAME, **options: Any) -> None:
    """Join the rows of finished cells into FOLDER/table.csv, with their settings as columns."""
    _write(*_collected(name, options))


for _name, _command in (("list", list_studies), ("status", status), ("collect", collect)):
    _text = help_of(_command)
    study.command(_name, cls=Command, help=_text)(with_output(_command, tables=True))


def _collected(name: str, options: dict[str, Any]) -> "tuple[Collected, Path]":
    """The finished cells of the study, and its folder.

    Raises:
        InputError: it was never run there, or the folder is another study's.
    """
    from attnlab.studies import collect as collected
    from attnlab.studies import read_plan, study_named

    study_named(name)
    folder = chosen(FolderSettings, options).folder_of(name)
    plan = read_plan(folder)
    if plan is None or plan.study != name:
        msg = (
            f"{folder} does not hold the study '{name}'; begin it with: attnlab study run {name} --out "
            f"{folder}"
        )
        raise InputError(msg)
    return collected(folder, plan), folder


def _status(collected: "Collected", folder: "Path") -> dict[str, Any]:
    """The progress of a study as values."""
    return {
        "cells": len(collected.cells),
        "done": len(collected.outcomes),
        "failed": collected.failed,
        "running": collected.running,
        "seconds_left": collected.seconds_left,
        "folder": folder,
    }


def _print_status(collected: "Collected", folder: "Path") -> None:
    console = results()
    console.print(
        f"{counted(len(collected.cells), 'cell')} in {folder}: {len(collected.outcomes)} done, "
        f"{collected.running} running, {collected.failed} failed, "
        f"{collected.missing - collected.running} to do.",
        soft_wrap=True,
    )
    if collected.missing and collected.seconds_left is not None:
        at_a_time = "as now" if collected.running else "one at a time"
        console.print(f"Time left: about {duration(collected.seconds_left)}, {at_a_time}.")
