"""Output of commands: results on standard output, all else on standard error; and their form."""

import json
import math
import os
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from inspect import Parameter, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attnlab.cli import BEGINNING
from attnlab.core import (
    BUSY_SHARE,
    FORMATS,
    InputError,
    Option,
    OptionField,
    Terminal,
    is_terminal,
    others_share,
    printable,
    processor_times,
    shown,
    thread_variables,
)

if TYPE_CHECKING:
    import pandas as pd

    from attnlab.core import Note


@dataclass(frozen=True)
class Output:
    """The form of output that a command was asked for.

    Attributes:
        quiet: no progress and no notes.
        as_json: tables as one JSON object.
    """

    quiet: bool = False
    as_json: bool = False


_CURRENT: ContextVar[Output | None] = ContextVar("output", default=None)
QUIET = Annotated[
    bool, typer.Option("--quiet", "-q", help="No progress and no notes; results and errors only.")
]
JSON = Annotated[bool, typer.Option("--json", help="Print tables as one JSON object.")]
THREADS = Annotated[
    int | None,
    typer.Option(
        help="Number of processor threads (default: one per processor that may be used).",
        show_default=False,
    ),
]
# The form of a table for the terminal; `FORMATS` are the others.
AS_TEXT = "text"
_LONGEST_NAME = 255
_THREADS = OptionField("threads", int | None, None, Option("", least=1, most=1024))


def output() -> Output:
    """The form of output that the running command was asked for."""
    return _CURRENT.get() or Output()


def results() -> Terminal:
    """Standard output, for what was asked for."""
    return Terminal()


def messages() -> Terminal:
    """Standard error, for how it goes; nothing with --quiet."""
    return Terminal(stderr=True, quiet=output().quiet)


def with_output(command: Callable[..., None], *, tables: bool) -> Callable[..., None]:
    """Gives a command the options `--quiet`, `--threads` and, where it prints tables, `--json`.

    Args:
        command: as typer takes it.
        tables: whether it prints tables.
    """
    command_signature = signature(command)
    shared = {"threads": (THREADS, None), "quiet": (QUIET, False)}
    if tables:
        shared["as_json"] = (JSON, False)
    made = [
        Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=kind)
        for name, (kind, default) in shared.items()
    ]

    def run(**words: Any) -> None:
        options = {name: words.pop(name) for name in shared}
        _use_threads(options.pop("threads"))
        with _writing(Output(**options)):
            command(**words)

    parameters = [*command_signature.parameters.values(), *made]
    run.__signature__ = command_signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__doc__ = command.__doc__
    run.__name__ = command.__name__
    return run


@contextmanager
def _writing(how: Output) -> Iterator[None]:
    before = _CURRENT.set(how)
    try:
        yield
    finally:
        _CURRENT.reset(before)


def busy_share() -> float:
    """Share of the processors that other processes have had since this program began."""
    return others_share(BEGINNING, processor_times())


def busy_clause() -> str:
    """A clause that other processes slow this one down; empty where they do not."""
    share = busy_share()
    if share < BUSY_SHARE:
        return ""
    return f"; longer now, as other processes have {share:.0%} of the processors"


def _use_threads(count: int | None) -> None:
    """Sets how many threads there are and how they wait, of torch also where it is not loaded yet."""
    if count is not None:
        _THREADS.refuse(count)
    loaded = "torch" in sys.modules
    if count is not None or not loaded:
        busy = busy_share() >= BUSY_SHARE
        os.environ.update(thread_variables(count, busy=busy, given=os.environ))
    if count is not None and loaded:
        import torch

        torch.set_num_threads(count)


def check_form(form: str) -> None:
    """Raises InputError for a form that no table has, and for one beside --json."""
    if form not in (AS_TEXT, *FORMATS):
        msg = f"There is no format '{form}'; choose from: {', '.join((AS_TEXT, *FORMATS))}."
        raise InputError(msg)
    if form != AS_TEXT and output().as_json:
        msg = f"--json and --format {form} are two forms of one table; choose one of them."
        raise InputError(msg)


def print_text(text: str) -> None:
    """Prints a text on standard output, on a terminal without control characters."""
    typer.echo(printable(text) if is_terminal() else text)


def print_error(text: str) -> None:
    """Prints a sentence on standard error, also with --quiet."""
    typer.echo(printable(text), err=True)


def print_json(**parts: Any) -> None:
    """Prints one JSON object on standard output: tables as lists of rows, paths and notes as text."""
    plain = {name: _plain(part) for name, part in parts.items()}
    typer.echo(json.dumps(plain, indent=2, allow_nan=False))


def _plain(value: Any) -> Any:
    if hasattr(value, "to_dict"):
        return _rows(value)
    if isinstance(value, Mapping):
        return {str(name): _plain(part) for name, part in value.items()}
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(part) for part in value]
    # A number of numpy.
    number = value.item() if hasattr(value, "item") else value
    return None if isinstance(number, float) and not math.isfinite(number) else number


def _rows(table: "pd.DataFrame") -> Any:
    """The rows with full precision; what is missing or infinite is null."""
    rows = table.astype(object).where(table.notna(), None).to_dict("records")
    return [_plain(row) for row in rows]


def note_file(text: str | None, words: list[str]) -> None:
    """Tells that a file of the name of a sentence is not read, and the words before it by which it is."""
    # Longer names are refused by the system.
    if text is not None and len(text) < _LONGEST_NAME and Path(text).is_file():
        messages().print(
            f"Note: {text} is taken as the sentence, not as a file; for its lines: "
            f"{shlex.join([*words, text])}",
            soft_wrap=True,
            highlight=False,
        )


def print_notes(notes: Iterable["Note"]) -> None:
    """Prints one paragraph per note; none with --quiet."""
    from rich.text import Text

    console = messages()
    for note in notes:
        console.print(Text.assemble(("Note:", "yellow"), " ", shown(str(note))))
