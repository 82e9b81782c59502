"""The program `attnlab`: gathers the commands and turns errors into one sentence."""

import sys
import traceback
from typing import Annotated

import typer

from attnlab import __version__
from attnlab.cli.analyze import analyze
from attnlab.cli.approximate import approximate
from attnlab.cli.commands import Command, Group, help_of
from attnlab.cli.compare import compare
from attnlab.cli.corpora import corpora
from attnlab.cli.demo import demo
from attnlab.cli.doctor import doctor
from attnlab.cli.importance import importance
from attnlab.cli.mechanisms import mechanisms
from attnlab.cli.output import with_output
from attnlab.cli.plan import plan
from attnlab.cli.prune import prune
from attnlab.cli.study import study
from attnlab.cli.substitute import substitute
from attnlab.cli.table import table
from attnlab.cli.train import train
from attnlab.cli.translate import score, translate
from attnlab.errors import INTERRUPTED, AttnlabError, ToldElsewhereError

app = typer.Typer(
    name="attnlab",
    cls=Group,
    help="Train small translation models, see what every attention head does, "
    "and find out what could replace it. Results go to standard output, progress and notes to standard "
    "error.",
    epilog="Exit status: 0 done, 1 failed, 2 something given cannot be used, 130 interrupted. "
    "Completion of commands and options: attnlab --install-completion",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
# Each with whether it prints tables, which --json gives as one object.
for command, tables in (
    (demo, True),
    (train, False),
    (translate, False),
    (score, True),
    (analyze, True),
    (importance, True),
    (approximate, True),
    (compare, True),
    (substitute, True),
    (corpora, True),
    (plan, True),
    (prune, True),
    (mechanisms, True),
    (table, True),
    (doctor, True),
):
    app.command(cls=Command, help=help_of(command))(with_output(command, tables=tables))
app.add_typer(study)


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
    """Train small translation models and study their attention heads."""


def main() -> None:
    """Runs the command line; an error a user can mend is one sentence, anything else too unless --debug."""
    debug = "--debug" in sys.argv
    if debug:
        sys.argv = ["attnlab", "--debug", *(word for word in sys.argv[1:] if word != "--debug")]
    try:
        app()
    except AttnlabError as error:
        if debug:
            traceback.print_exc()
        if not isinstance(error, ToldElsewhereError):
            typer.echo(f"Error: {error}", err=True)
        sys.exit(error.exit_status)
    except KeyboardInterrupt:
        typer.echo(
            "Interrupted before anything was finished; nothing that existed changed.", err=True
        )
        sys.exit(INTERRUPTED)
    except Exception as error:  # noqa: BLE001 - the last door before the user
        if debug:
            traceback.print_exc()
        typer.echo(
            f"Error: attnlab failed in a way it should not ({type(error).__name__}: {error}); "
            "run again with --debug to see where.",
            err=True,
        )
        sys.exit(1)
