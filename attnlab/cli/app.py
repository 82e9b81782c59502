"""The program `attnlab`: gathers the commands and turns errors into one sentence."""

import io
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from errno import EBADF, EIO, ENOSPC
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from attnlab.cli.command_classes import (
    Command,
    DeferredCommand,
    DeferredGroup,
    Group,
    help_of,
    made_command,
)
from attnlab.cli.commands import COMMANDS, STUDY, CommandEntry
from attnlab.cli.loading import announced_loading
from attnlab.cli.output import print_error, with_output
from attnlab.core import (
    AttnlabError,
    InputError,
    ReportedElsewhereError,
    briefly,
    panics,
    plugins,
    ran_out_of_memory,
)
from attnlab.core.installed import __version__
from attnlab.results import GROUP, listed_questions


class _Terminal(io.FileIO):
    """A terminal that takes everything when it is closed, as a file would."""

    def write(self, data: Any, /) -> int:
        """Writes to the terminal, or nowhere.

        Raises:
            OSError: anything but a closed terminal keeps it from being written.
        """
        try:
            return super().write(data)
        except OSError as error:
            if error.errno != EIO:
                raise
            return memoryview(data).nbytes


def outlive_terminal() -> None:
    """Lets standard output and error, where they are a terminal, be written after it is closed.

    A training then ends with a checkpoint, as SIGHUP asks for, and not at its next line of progress.
    """
    sys.stdout, sys.stderr = _outliving(sys.stdout), _outliving(sys.stderr)


def check_output_open() -> None:
    """Raises where a shell's `>&-` has closed standard output, so that no result would be read.

    Standard error, closed in that way, is dropped.

    Raises:
        InputError: see above.
    """
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - until the end
    if sys.stdout is None:
        sys.stdout = sys.stderr
        msg = "Standard output is closed, so no result can be written; leave >&- out, or write >/dev/null."
        raise InputError(msg)


def check_working_folder() -> None:
    """Raises InputError where the working folder was deleted, for want of which libraries end the process."""
    try:
        Path.cwd()
    except FileNotFoundError as error:
        msg = "The working folder is gone; change to one that exists, for example with cd."
        raise InputError(msg) from error


@contextmanager
def flushed_output() -> Iterator[None]:
    """Flushes standard output at the end of the block.

    Raises:
        AttnlabError: it could not be written, to a full disk say.
    """
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except BrokenPipeError:  # whoever read it has enough
        _drop_output()
        raise SystemExit(1) from None
    except OSError as error:
        # Of a file its name is known.
        if error.filename is not None or error.errno not in {EBADF, EIO, ENOSPC}:
            raise
        _drop_output()
        msg = f"Could not write to standard output: {error.strerror}."
        raise AttnlabError(msg) from error


def _drop_output() -> None:
    """Points standard output at nothing: Python would write the rest once more at its end, and fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _outliving(stream: Any) -> Any:
    if stream is None:  # as a shell's >&- leaves it
        return None
    # Whatever stands in for a stream of text, in a notebook or a test.
    try:
        number = stream.fileno()
    except (OSError, ValueError):  # no file at all
        return stream
    if not os.isatty(number):
        return stream
    stream.flush()
    made = io.TextIOWrapper(
        io.BufferedWriter(_Terminal(number, "w", closefd=False)),
        encoding=stream.encoding, errors=stream.errors, line_buffering=True,
    )  # fmt: skip
    made.mode = "w"  # type: ignore[misc]  # as open leaves it
    return made


def _made_question(name: str) -> Any:
    from attnlab.cli.commands.questions import command_of
    from attnlab.results import own_question

    question = own_question(name)
    return made_command(command_of(question), name, question.help)


def _made_entry(entry: CommandEntry) -> Any:
    function = getattr(import_module(f"attnlab.cli.commands.{entry.file}"), entry.name)
    return made_command(function, entry.name, entry.help, tables=entry.tables)


def _made_study() -> Any:
    from attnlab.cli.commands.study_commands import study

    return typer.main.get_command(study)


# In the order of the help; a panel that only questions have comes behind them.
_PANELS = ("Models", "Words", "Heads", "What could replace them", "Lists, tables and studies")


def _listed_commands() -> dict[str, Any]:
    """Attnlab's commands by name, in the order of the help."""
    commands: list[DeferredCommand | DeferredGroup] = [
        *(
            DeferredCommand(listed, partial(_made_question, name))
            for name, listed in listed_questions().items()
        ),
        *(DeferredCommand(entry, partial(_made_entry, entry)) for entry in COMMANDS),
        DeferredGroup(STUDY, _made_study),
    ]
    panels = list(
        dict.fromkeys([*_PANELS, *(str(command.rich_help_panel) for command in commands)])
    )
    commands.sort(key=lambda command: panels.index(str(command.rich_help_panel)))
    return {str(command.name): command for command in commands}


class _Program(Group):
    """The program: attnlab's own commands, then those that other distributions register."""

    def __init__(self, *, commands: dict[str, Any], **others: Any) -> None:
        super().__init__(commands=_listed_commands() | commands, **others)


app = typer.Typer(
    name="attnlab",
    cls=_Program,
    help="Train small translation and language models, see what every attention head does, "
    "and find out what could replace it. Results go to standard output, progress and notes to standard "
    "error.",
    epilog="Exit status: 0 done, 1 failed, 2 something given cannot be used, 130 interrupted. "
    "Completion of commands and options: attnlab --install-completion",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def add_registered() -> None:
    """Adds the commands of questions that other distributions register.

    Raises:
        InputError: what is registered cannot be used, or has the name of a command.
    """
    if not plugins(GROUP):
        return
    from attnlab.cli.commands.questions import command_of
    from attnlab.results import questions

    taken = {STUDY.name, *(entry.name for entry in COMMANDS)}
    for name, question in questions().items():
        if name in listed_questions():
            continue
        if name in taken:
            msg = f"The question '{name}' has the name of a command; uninstall what registers it."
            raise InputError(msg)
        try:
            command = command_of(question)
            app.command(cls=Command, help=help_of(command), rich_help_panel=question.panel)(
                with_output(command, tables=True)
            )
        except (TypeError, ValueError) as error:
            msg = (
                f"The question '{name}' cannot be a command ({error}); uninstall what registers it."
            )
            raise InputError(msg) from error


def _print_version(is_given: bool) -> bool:
    if is_given:
        typer.echo(f"attnlab {__version__}")
        raise typer.Exit
    return is_given


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", "-V", callback=_print_version, is_eager=True, help="Print the version."
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
        check_working_folder()
        with announced_loading(), flushed_output():
            add_registered()
            app()
    except AttnlabError as error:
        if debug:
            traceback.print_exc()
        if not isinstance(error, ReportedElsewhereError):
            print_error(f"Error: {error}")
        sys.exit(error.exit_status)
    except _unforeseen() as error:  # the last door before the user
        if debug:
            traceback.print_exc()
        print_error(f"Error: {_sentence(error)}")
        sys.exit(1)


def _unforeseen() -> tuple[type[BaseException], ...]:
    return (Exception, *panics())


def _sentence(error: BaseException) -> str:
    """A sentence for an error that nothing below has made one of."""
    if ran_out_of_memory(error):
        return (
            "There was not enough memory for this work; use shorter or fewer texts, a smaller batch size or "
            "model, or a machine with more."
        )
    if isinstance(error, OSError) and error.strerror:
        name = f"{briefly(str(error.filename))}: " if error.filename is not None else ""
        return f"{name}{error.strerror}; check the name and your rights to it."
    first = (str(error).strip().splitlines() or [""])[0]
    return (
        f"attnlab failed in a way it should not ({type(error).__name__}: {first[:300]}); run again with "
        "--debug to see where."
    )
