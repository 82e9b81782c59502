"""Files of commands: their arguments, the calls, what they print; each lists its own in `COMMANDS`."""

from collections.abc import Iterator
from importlib import import_module
from pkgutil import iter_modules

from attnlab.cli.command_classes import Listed


def own_commands() -> Iterator[Listed]:
    """The commands that the files of this folder list."""
    for file in iter_modules(__path__):
        yield from getattr(import_module(f"{__name__}.{file.name}"), "COMMANDS", ())
