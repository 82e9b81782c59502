"""The program `attnlab`: gathers the commands and turns errors into one sentence."""

import os
import sys
import traceback
from collections.abc import Callable
from typing import Annotated

import typer

from attnlab.cli.command_classes import Command, Group, help_of
from attnlab.cli.commands.corpora import corpora
from attnlab.cli.commands.demo import demo
from attnlab.cli.commands.doctor import doctor
from attnlab.cli.commands.embed import embed
from attnlab.cli.commands.mechanisms import mechanisms
from attnlab.cli.commands.questions import command_of
from attnlab.cli.commands.report import report
from attnlab.cli.commands.study import study
from attnlab.cli.commands.table import table
from attnlab.cli.commands.train import train
from attnlab.cli.commands.translate import generate, score, translate
from attnlab.cli.output import print_error, with_output
from attnlab.cli.terminal import check_output_open, flushed_output, outlive_terminal
from attnlab.core.errors import AttnlabError, InputError, ToldElsewhereError
from attnlab.core.installed import __version__
from attnlab.results.question import own_questions, questions

app = typer.Typer(
    name="attnlab",
    cls=Group,
    help="Train small translation and language models, see what every attention head does, "
    "and find out what could replace it. Results go to standard output, progress and notes to standard "
    "error.",
    epilog="Exit status: 0 done, 1 failed, 2 something given cannot be used, 130 interrupted. "
    "Completion of commands and options: attnlab --install-completion",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
_OWN = {
    "Models": (demo, train, translate, generate, score),
    "Words": (embed,),
    "Heads": (),
    "What could replace them": (),
    "Lists, tables and studies": (corpora, mechanisms, table, report, doctor),
}
# All others print tables, which --json gives as one object.
_WITHOUT_TABLES = {train, embed, translate, generate}


def _add(command: Callable[..., None], panel: str) -> None:
    shared = with_output(command, tables=command not in _WITHOUT_TABLES)
    app.command(cls=Command, help=help_of(command), rich_help_panel=panel)(shared)


for panel, commands in _OWN.items():
    for question in own_questions().values():
        if question.panel == panel:
            _add(command_of(question), panel)
    for command in commands:
        _add(command, panel)
app.add_typer(study, rich_help_panel="Lists, tables and studies")
# Of attnlab's own commands.
_NAMES = {"study", *(one.callback.__name__ for one in app.registered_commands if one.callback)}


def add_registered() -> None:
    """Adds the commands of questions that other distributions register.

    Raises:
        InputError: what is registered cannot be used, or has the name of a command.
    """
    taken = set(_NAMES)
    for name, question in questions().items():
        if name in own_questions():
            continue
        if name in taken:
            msg = f"The question '{name}' has the name of a command; uninstall what registers it."
            raise InputError(msg)
        try:
            _add(command_of(question), question.panel)
        except (TypeError, ValueError) as error:
            msg = (
                f"The question '{name}' cannot be a command ({error}); uninstall what registers it."
            )
            raise InputError(msg) from error


def _print_version(wanted: bool) -> bool:
    if wanted:
        typer.echo(f"attnlab {__version__}")
        raise typer.Exit
    return wanted


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback of an error (before the command).")
    ] = False,
) -> None:
    """Train small translation and language models and study their attention heads."""


def main() -> None:
    """Runs the command line; an error a user can mend is one sentence, anything else too unless --debug."""
    # Figures are written to files alone; what stands there for windows need not exist.
    os.environ["MPLBACKEND"] = "agg"
    outlive_terminal()
    debug = "--debug" in sys.argv
    if debug:
        sys.argv = ["attnlab", "--debug", *(word for word in sys.argv[1:] if word != "--debug")]
    try:
        check_output_open()
        add_registered()
        with flushed_output():
            app()
    except AttnlabError as error:
        if debug:
            traceback.print_exc()
        if not isinstance(error, ToldElsewhereError):
            print_error(f"Error: {error}")
        sys.exit(error.exit_status)
    except Exception as error:  # noqa: BLE001 - the last door before the user
        if debug:
            traceback.print_exc()
        print_error(
            f"Error: attnlab failed in a way it should not ({type(error).__name__}: {error}); "
            "run again with --debug to see where."
        )
        sys.exit(1)
