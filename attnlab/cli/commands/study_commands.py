"""`attnlab study`: runs studies of many cells, here or on a cluster, and goes on where they stopped."""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attnlab.cli.command_classes import Command, Group, help_of
from attnlab.cli.command_options import chosen, typed, with_options
from attnlab.cli.output import (
    messages,
    new_table,
    output,
    print_error,
    print_json,
    print_table,
    results,
    with_output,
)
from attnlab.cli.progress import progress_bars
from attnlab.core import INTERRUPTED, InputError, counted, duration
from attnlab.studies import CellBegun, Connection, FolderSettings, RunningSettings

if TYPE_CHECKING:
    from pathlib import Path

    from attnlab.studies import Collected, Plan, Study

SHOWN_CELLS = 12

NAME = Annotated[str, typer.Argument(help="A study of: attnlab study list.")]

study = typer.Typer(
    name="study",
    cls=Group,
    help="Run studies of many independent cells, on one machine or many, and go on where they stopped.",
    no_args_is_help=True,
)


class _ACommandPerStudy(Group):
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

        wanted = study_named(cmd_name)
        command = type(self).make(wanted)
        program = typer.Typer(add_completion=False)
        text = f"{wanted.summary}\n\n{help_of(command)}"
        program.command(cmd_name, cls=Command, help=text)(with_output(command, tables=True))
        return typer.main.get_command(program)


def _command_of_run(wanted: "Study") -> Callable[..., None]:
    @with_options(wanted.options, RunningSettings, headings=("Study", "Run"))
    def command(**options: Any) -> None:
        """Computes the cells that are not finished, and collects what there is.

        Options of the study that are not given are those of its last run in the same folder. Ctrl-C,
        SIGTERM and SIGHUP leave everything finished in place; the same command goes on.
        """
        _run(wanted, options)

    return command


def _command_of_plan(wanted: "Study") -> Callable[..., None]:
    @with_options(wanted.options, FolderSettings, headings=("Study", "Folder"))
    def command(**options: Any) -> None:
        """Tells which cells there are and how many are finished; computes and writes nothing."""
        _plan(wanted, options)

    return command


class _RunCommands(_ACommandPerStudy):
    make = staticmethod(_command_of_run)


class _PlanCommands(_ACommandPerStudy):
    make = staticmethod(_command_of_plan)


for _name, _kind, _text in (
    ("plan", _PlanCommands, "Show the cells of a study and how many are finished."),
    ("run", _RunCommands, "Compute the cells of a study that are not finished."),
):
    _group = typer.Typer(name=_name, cls=_kind, help=_text, no_args_is_help=True)
    _group.callback()(lambda: None)
    study.add_typer(_group)


def list_studies() -> None:
    """List the studies there are."""
    from attnlab.studies import studies

    if output().as_json:
        print_json(studies={name: known.summary for name, known in studies().items()})
        return
    table = new_table("study", "question", prose=("question",))
    for name, known in studies().items():
        table.add_row(name, known.summary)
    print_table(table)
    results().print("See the options of one with: attnlab study run NAME --help")


def _plan(wanted: "Study", options: dict[str, Any]) -> None:
    from attnlab.studies import plan_study

    folder = chosen(FolderSettings, options).folder_of(wanted.name)
    plan = plan_study(wanted.name, folder, typed(wanted.options, options))
    if output().as_json:
        cells = [cell.key_columns for cell in plan.cells]
        print_json(settings=cells, **_status(plan, folder))
        return
    varied = plan.varied
    table = new_table(*varied, title="Cells")
    for cell in plan.cells[:SHOWN_CELLS]:
        table.add_row(*(str(cell.key_columns[name]) for name in varied))
    print_table(table)
    if len(plan.cells) > SHOWN_CELLS:
        results().print(f"{SHOWN_CELLS} of {len(plan.cells)} cells; --json shows all.")
    _print_status(plan, folder)


def _run(wanted: "Study", options: dict[str, Any]) -> None:
    from attnlab.studies import run_study

    settings = chosen(RunningSettings, options)
    folder = settings.folder_of(wanted.name)
    try:
        with progress_bars(announced=True) as tell:
            found = run_study(
                wanted.name,
                **replace(
                    settings,
                    options=typed(wanted.options, options),
                    progress=tell,
                    begun=lambda cell: tell.name(_cell_in_words(cell)),
                    connected=_print_connection,
                ).keywords(),
            )
    except KeyboardInterrupt:
        told = f"Interrupted; finished cells are kept in {folder}. Go on with the same command."
        print_error(told)
        raise typer.Exit(INTERRUPTED) from None
    _write(found, str(folder))
    if found.failed:
        raise typer.Exit(1)


def _cell_in_words(begun: CellBegun) -> str:
    """Which cell it is, and in what it differs from the others."""
    varied = ", ".join(f"{name} {value}" for name, value in begun.varied.items())
    return f"Cell {begun.number:,} of {begun.cells:,} ({varied})"


def _print_connection(connection: Connection) -> None:
    workers = "1 worker" if connection.workers == 1 else f"{connection.workers} workers"
    messages().print(f"Dask dashboard: {connection.dashboard} ({workers} so far)", soft_wrap=True)


def _write(found: "Collected", folder: str) -> None:
    from attnlab.studies import study_named, write_study

    done = len(found.cells) - found.missing
    page = write_study(found, folder, question=study_named(found.plan.study).summary)
    rows = found.text.count("\n") - 1 if found.text else 0
    if output().as_json:
        print_json(
            cells=len(found.cells),
            finished=done,
            failed=found.failed,
            rows=rows,
            folder=folder,
            report=page,
        )
        return
    console = results()
    console.print(
        f"{done} of {counted(len(found.cells), 'cell')} finished, {found.failed} failed; wrote "
        f"{counted(rows, 'row')} to "
        f"{folder}/table.csv, timings to {folder}/cells.csv; {page} shows them.",
        soft_wrap=True,
    )
    beside = int((found.cells["concurrent"] == True).sum())  # noqa: E712 - None for missing ones
    if beside:
        cells = counted(beside, "cell")
        console.print(f"The timings of {cells} were taken while others could run.")
    if found.failed:
        console.print(f"Why cells failed is written in {folder}/failed/.", soft_wrap=True)


@with_options(FolderSettings)
def status(name: NAME, **options: Any) -> None:
    """Tell how many cells of a study are done, running and failed, and the time left."""
    folder = chosen(FolderSettings, options).folder_of(name)
    plan = _planned(name, folder)
    if output().as_json:
        print_json(**_status(plan, folder))
    else:
        _print_status(plan, folder)


@with_options(FolderSettings)
def collect(name: NAME, **options: Any) -> None:
    """Join the rows of finished cells into FOLDER/table.csv, with their settings as columns."""
    from attnlab.studies import collect as joined

    folder = chosen(FolderSettings, options).folder_of(name)
    _planned(name, folder)
    _write(joined(folder), str(folder))


for _name, _command in (("list", list_studies), ("status", status), ("collect", collect)):
    _text = help_of(_command)
    study.command(_name, cls=Command, help=_text)(with_output(_command, tables=True))


def _planned(name: str, folder: "Path") -> "Plan":
    """What the study in the folder was last asked for.

    Raises:
        InputError: it was never run there, or the folder is another study's.
    """
    from attnlab.studies import StudyFolder, study_named

    study_named(name)
    plan = StudyFolder(folder).read_plan()
    if plan is None or plan.study != name:
        msg = (
            f"{folder} does not hold the study '{name}'; begin it with: attnlab study run {name} --out "
            f"{folder}"
        )
        raise InputError(msg)
    return plan


def _status(plan: "Plan", folder: "Path") -> dict[str, Any]:
    """How far a study is, as values."""
    from attnlab.studies import status_of

    return {**vars(status_of(plan, folder)), "folder": folder}


def _print_status(plan: "Plan", folder: "Path") -> None:
    from attnlab.studies import status_of

    now = status_of(plan, folder)
    left = now.cells - now.done
    console = results()
    console.print(
        f"{counted(now.cells, 'cell')} in {folder}: {now.done} done, {now.running} running, "
        f"{now.failed} failed, {left - now.running} to do.",
        soft_wrap=True,
    )
    if left and now.seconds_left is not None:
        at_a_time = "as now" if now.running else "one at a time"
        console.print(f"Time left: about {duration(now.seconds_left)}, {at_a_time}.")
