"""Shapes of commands: help without types of switches, and no work done twice by several processes."""

import inspect
import os
import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from errno import EACCES, ENAMETOOLONG
from itertools import chain
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from attnlab.cli.output import print_error, with_output
from attnlab.core import (
    INTERRUPTED,
    AttnlabError,
    InputError,
    ReportedElsewhereError,
    briefly,
    check_characters,
    expand_user,
    noting_written,
    one_of_several,
    our_name,
    stopped_by_signals,
)
from attnlab.results import Listed

# Commands whose work several processes share, as torchrun or accelerate launch start them.
_SHARED_COMMANDS = {"analyze", "train"}
# Parameters that are paths or names of something else.
_NAMES_OR_PATHS = {"source", "corpus"}
# As `--out=$FOLDER` is where the variable is not set.
_ASSIGNED_NOTHING = re.compile(r"--[a-z-]+=")
# What a word should be that cannot be read as a number.
_NUMBERS = {"int_parsing": "whole number", "float_parsing": "number"}
# What typer raises for wrong words, by no public name.
_WRONG_WORDS: Any = typer.BadParameter.__mro__[1]
# Written files that the message of an interruption names.
_MOST_NAMED = 3


@contextmanager
def warn_once() -> Iterator[None]:
    """Lets the first of several processes alone tell a refusal that all of them make.

    Raises:
        ReportedElsewhereError: instead of an `AttnlabError`, in the others.
    """
    try:
        yield
    except AttnlabError as error:
        if first_of_several():
            raise
        raise ReportedElsewhereError(str(error)) from error


def first_of_several() -> bool:
    """Whether this is the first of several processes, or the only one."""
    return not one_of_several() or os.environ.get("RANK", "0") == "0"


class _PlainHelp:
    """Shows switches in the help without a type, and defaults in one way for all options."""

    def get_params(self, ctx: Any) -> list[Any]:
        """All parameters, `--help` among them; their classes are not public in every typer."""
        parameters: list[Any] = super().get_params(ctx)  # type: ignore[misc]  # a mixin
        for parameter in parameters:
            if getattr(parameter, "is_flag", False):
                parameter.metavar = ""
            elif getattr(parameter, "show_default", False) and parameter.default not in (None, ""):
                parameter.help = (
                    f"{parameter.help.removesuffix('.')} (default: {parameter.default})."
                )
                parameter.show_default = False
        return parameters


def _expand_user(value: Any) -> Any:
    """A path, or those of a list, from the home folder where it begins with `~`, as few shells see to."""
    if isinstance(value, list | tuple):
        return type(value)(map(_expand_user, value))
    return expand_user(value) if isinstance(value, Path) else value


def _paths_in(values: Mapping[str, Any]) -> Iterator[str | Path]:
    for name, value in values.items():
        for item in value if isinstance(value, list | tuple) else (value,):
            if isinstance(item, Path) or (name in _NAMES_OR_PATHS and isinstance(item, str)):
                yield item


def _check_usable_path(path: str | Path, *, is_empty: bool) -> None:
    """Raises InputError for a path of which the system does not even say whether something is there."""
    if is_empty:
        msg = "A path is empty; write . for the folder that you are in."
        raise InputError(msg)
    try:
        os.lstat(path)
    except OSError as error:
        if error.errno in {ENAMETOOLONG, EACCES}:
            msg = f"The path {briefly(str(path))} cannot be used: {error.strerror}; name another."
            raise InputError(msg) from error


def _holds_model(path: str | Path) -> bool:
    """Whether a path is the folder of a run or of a transformers model."""
    with suppress(OSError, ValueError):
        return any((Path(path) / name).is_file() for name in ("settings.json", "config.json"))
    return False


class Command(_PlainHelp, TyperCommand):
    """A command that does its work in one process, unless it is one of those that share it."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Reads the words behind the command; the first of several processes shows what is wrong.

        Raises:
            InputError: a word is not UTF-8, or a path is empty, too long, out of reach or begins with the
                name of no user.
        """
        with warn_once():
            for word in args:
                check_characters(word, f"The argument {briefly(word)}")
        # The parser takes them out.
        given = list(args)
        has_empty = any(not word or _ASSIGNED_NOTHING.fullmatch(word) for word in args)
        # The parser says nothing of what to type instead.
        ctx.allow_extra_args = True
        try:
            rest = super().parse_args(ctx, args)
        except Exception as error:
            # The class of wrong words is not public in every typer. It counts dashes as likeness.
            if hasattr(error, "possibilities"):
                names = [
                    name for param in self.params for name in (*param.opts, *param.secondary_opts)
                ]
                error.possibilities = _near(error.option_name, names)  # type: ignore[attr-defined]
            if message := _no_number(error, self.params):
                error.message = message  # type: ignore[attr-defined]
            if first_of_several():
                raise
            raise SystemExit(getattr(error, "exit_code", 2)) from error
        with warn_once():
            self._check_no_more(ctx)
            self._check_given_once(ctx, given)
            ctx.params.update({name: _expand_user(value) for name, value in ctx.params.items()})
            if isinstance(ctx.params.get("source"), str):
                ctx.params["source"] = str(expand_user(ctx.params["source"]))
            self._check_order(ctx)
            for path in _paths_in(ctx.params):
                _check_usable_path(path, is_empty=has_empty and str(path) in {"", "."})
        return rest

    def _check_no_more(self, ctx: Any) -> None:
        """Raises InputError for a word behind the arguments that the command takes."""
        if not ctx.args or ctx.resilient_parsing:
            return
        names = {name for param in self.params for name in param.opts}
        word = ctx.args[0]
        if Path(word).is_file() and "--text" in names:
            hint = f"a file of sentences is given as --text {shlex.quote(word)}"
        elif "sentence" in names:
            hint = "a text of several words stands in quotes"
        else:
            hint = f"its options are told by: attnlab {self.name} --help"
        msg = f"{briefly(word)} is more than '{self.name}' takes; {hint}."
        raise InputError(msg)

    def _check_order(self, ctx: Any) -> None:
        """Raises InputError where a text stands before the model or run that is to read it."""
        names = [param.name for param in self.params if param.param_type_name == "argument"]
        if names[:1] not in (["source"], ["run"]):
            return
        source, *values = (ctx.params[name] for name in names)
        listed = (value if isinstance(value, list | tuple) else (value,) for value in values)
        # Further models are paths.
        texts = [word for word in chain.from_iterable(listed) if isinstance(word, str)]
        folder = next(filter(_holds_model, texts), None)
        if folder and isinstance(source, str | Path) and not os.path.lexists(source):
            texts[texts.index(folder)] = str(source)
            typed = " ".join(map(shlex.quote, [folder, *texts]))
            msg = (
                f"There is no {briefly(str(source))} here, and {folder} holds a model; exchange them: "
                f"attnlab {self.name} {typed}"
            )
            raise InputError(msg)

    def _check_given_once(self, ctx: Any, args: list[str]) -> None:
        """Raises InputError for an option of one value that is given twice: the first would be lost."""
        order: Iterable[Any]
        *_, order = self.make_parser(ctx).parse_args(args)
        for option, times in Counter(order).items():
            if (
                times > 1
                and option.nargs == 1
                and not (option.multiple or getattr(option, "is_flag", False))
            ):
                msg = (
                    f"{option.opts[0]} is given {times} times, and one value counts; give it once."
                )
                raise InputError(msg)

    def invoke(self, ctx: Any) -> Any:
        """Runs the command, unless each of several processes would do the whole of it.

        Ctrl-C, SIGTERM and SIGHUP end it with a sentence on what was written.
        """
        if self.name not in _SHARED_COMMANDS and one_of_several():
            with warn_once():
                msg = f"'{self.name}' runs in one process; start it without torchrun or accelerate launch."
                raise InputError(msg)
        with noting_written() as written, stopped_by_signals() as was_stopped:
            try:
                return super().invoke(ctx)
            except KeyboardInterrupt:
                pass
            except Exception as error:
                # A library that was being imported may swallow the interruption, and fail for what it lacks.
                if not was_stopped() or isinstance(error, AttnlabError | typer.Exit):
                    raise
            with suppress(OSError):  # a terminal that is closed
                print_error(_interruption_message(written))
            raise typer.Exit(INTERRUPTED)


def _no_number(error: Any, params: Iterable[Any]) -> str:
    """What to type in place of a word that is no number; empty for other errors."""
    faults: list[Any] = getattr(error.__cause__, "errors", list)()
    if not faults or faults[0]["type"] not in _NUMBERS:
        return ""
    word, flag = str(faults[0]["input"]), error.param.opts[0]
    fault = f"'{word}' is no {_NUMBERS[faults[0]['type']]}"
    if getattr(error.param, "multiple", False) and "," in word:
        return f"{fault}; write {' '.join(f'{flag} {part.strip()}' for part in word.split(','))}."
    if error.param.name == "sentences" and any("--text" in param.opts for param in params):
        return f"{fault}; --text names a file of sentences."
    return f"{fault}."


# Of difflib: "quick" and "quiet" have 0.6 in common.
_LIKE = 0.75


def _near(option: str, others: list[str]) -> list[str]:
    """The options whose names are the same but for dashes, begin alike or are nearly the same.

    >>> _near("--text", ["--quiet", "--texts"]), _near("--quick", ["--quiet", "--texts"])
    (['--texts'], [])
    >>> _near("--output", ["-n", "--out", "--outer"]), _near("--n", ["-n", "--out"])
    (['--out'], ['-n'])
    """
    by_name = {other.strip("-"): other for other in others if other.startswith("-")}
    name = option.strip("-")
    if name in by_name:
        return [by_name[name]]
    within = [other for other in by_name if len(other) > 1 and (other in name or name in other)]
    begins = [other for other in within if name.startswith(other) or other.startswith(name)]
    return [by_name[other] for other in begins or get_close_matches(name, by_name, cutoff=_LIKE)]


def _interruption_message(written: list[Path]) -> str:
    finished = [str(path) for path in dict.fromkeys(written) if path.exists()]
    if not finished:
        return "Interrupted before anything was finished; nothing that existed changed."
    more = f" and {len(finished) - _MOST_NAMED} more" if len(finished) > _MOST_NAMED else ""
    return f"Interrupted; finished before: {', '.join(finished[:_MOST_NAMED])}{more}."


class Group(_PlainHelp, TyperGroup):
    """A group of commands; `help`, `help COMMAND` and `version` do what the options of these names do."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that the first word names; a word of another library is answered with ours."""
        try:
            return super().resolve_command(ctx, args)
        except _WRONG_WORDS as error:
            ours = our_name(args[0])
            if _holds_model(args[0]):
                ours = f"analyze {shlex.quote(args[0])}"
            elif ours in self.commands:
                ours = f"{ours} --help"
            elif "Did you mean" in str(error):
                raise
            else:
                ours = "--help"
            error.message = f"No such command '{args[0]}'; see: attnlab {ours}"
            raise

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Reads the words up to the command."""
        first, options = args[:1], {name for parameter in self.params for name in parameter.opts}
        if first == ["help"] and "help" not in self.commands:
            args = [*args[1:], "--help"]
        elif first == ["version"] and "--version" in options:
            args = ["--version"]
        return super().parse_args(ctx, args)


def made_command(
    function: Callable[..., None], name: str, text: str, *, tables: bool = True
) -> Any:
    """A function with the options that all commands share, as the command that typer makes of it."""
    program = typer.Typer(add_completion=False)
    program.command(name, cls=Command, help=text)(with_output(function, tables=tables))
    return typer.main.get_command(program)


class _Deferred:
    """A command whose options, or commands, are made when they are first read; the list needs its help."""

    deferred: tuple[str, ...]
    make: Callable[[], Any]

    def __getattr__(self, name: str) -> Any:
        """One of the attributes that the made command has.

        Raises:
            AttributeError: another is asked for.
        """
        if name not in self.deferred:
            raise AttributeError(name)
        made = self.make()
        vars(self).update({attribute: getattr(made, attribute) for attribute in self.deferred})
        return vars(self)[name]


class DeferredCommand(_Deferred, Command):
    """A command whose function and options are made when they are first read."""

    deferred = ("callback", "params")

    def __init__(self, listed: Listed, make: Callable[[], Any]) -> None:
        super().__init__(listed.name, help=listed.help, rich_help_panel=listed.panel)
        del self.callback, self.params
        self.make = make


class DeferredGroup(_Deferred, Group):
    """A group whose commands are made when they are first read."""

    deferred = ("commands",)

    def __init__(self, listed: Listed, make: Callable[[], Any]) -> None:
        super().__init__(
            name=listed.name, help=listed.help, rich_help_panel=listed.panel, no_args_is_help=True
        )
        del self.commands
        self.make = make


def help_of(command: Callable[..., None]) -> str:
    """The docstring without the line ends inside paragraphs, so that the terminal wraps it."""
    paragraphs = (inspect.getdoc(command) or "").split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
