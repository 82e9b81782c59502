"""What the list of commands says of a question; nothing else of it is imported for the list."""

import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module

GROUP = "attnlab.questions"


@dataclass(frozen=True, kw_only=True)
class Listed:
    """A command as the list of commands shows it.

    Attributes:
        name: the command; of a question also the function of `attnlab`.
        panel: heading of the command in the help.
        help: what the command does; the first sentence stands in the list of commands.
    """

    name: str
    panel: str
    help: str


@cache
def listed_questions() -> Mapping[str, Listed]:
    """Attnlab's own questions by name, as their folders in `attnlab.questions` list them."""
    folders = pkgutil.iter_modules(import_module(GROUP).__path__)
    return {folder.name: import_module(f"{GROUP}.{folder.name}").LISTED for folder in folders}
