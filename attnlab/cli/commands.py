"""Shapes of commands: help without types of switches, and no work done twice by several processes."""

import inspect
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from typer.core import TyperCommand, TyperGroup

from attnlab.errors import AttnlabError, InputError, ToldElsewhereError
from attnlab.launcher import one_of_several

# Commands whose work several processes share, as torchrun or accelerate launch start them.
_SHARED_COMMANDS = {"analyze", "train"}


@contextmanager
def told_once() -> Iterator[None]:
    """For what all of several processes refuse alike: the first one says why.

    Raises:
        ToldElsewhereError: instead of an `AttnlabError`, in the others.
    """
    try:
        yield
    except AttnlabError as error:
        if _is_first():
            raise
        raise ToldElsewhereError(str(error)) from error


def _is_first() -> bool:
    return not one_of_several() or os.environ.get("RANK", "0") == "0"


class _PlainSwitches:
    """Shows switches in the help without a type: nothing is typed behind them."""

    def get_params(self, ctx: Any) -> list[Any]:
        """All parameters, `--help` among them; their classes are not public in every typer."""
        parameters: list[Any] = super().get_params(ctx)  # type: ignore[misc]  # a mixin
        for parameter in parameters:
            if getattr(parameter, "is_flag", False):
                parameter.metavar = ""
        return parameters


class Command(_PlainSwitches, TyperCommand):
    """A command that does its work in one process, unless it is one of those that share it."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Reads the words behind the command; the first of several processes shows what is wrong."""
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            # The class of wrong words is not public in every typer.
            if _is_first():
                raise
            raise SystemExit(getattr(error, "exit_code", 2)) from error

    def invoke(self, ctx: Any) -> Any:
        """Runs the command, unless each of several processes would do the whole of it."""
        if self.name not in _SHARED_COMMANDS and one_of_several():
            with told_once():
                msg = f"'{self.name}' runs in one process; start it without torchrun or accelerate launch."
                raise InputError(msg)
        return super().invoke(ctx)


class Group(_PlainSwitches, TyperGroup):
    """A group of commands."""


def help_of(command: Callable[..., None]) -> str:
    """The docstring without the line ends inside paragraphs, so that the terminal wraps it."""
    paragraphs = (inspect.getdoc(command) or "").split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
