"""What can be asked of a model: declared once, found by its folder or its entry point.

From a `Question` come the command with its options, the verb of Python, early refusals, the files of the
result, its page, `attnlab report`, `attnlab table` and the view of a notebook. Nothing heavy is imported.
"""

import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import Any

from attnlab.columns import Table
from attnlab.errors import InputError
from attnlab.notes import Note
from attnlab.options import Settings
from attnlab.plugins import with_plugins

GROUP = "attnlab.questions"


@dataclass(frozen=True, kw_only=True)
class Question:
    """A question, with where its answer is computed and drawn.

    Attributes:
        name: the command, and the function of `attnlab`.
        what: its result in a word or two, such as `comparison`.
        panel: heading of the command in the help.
        help: what the command does; the first sentence stands in the list of commands.
        settings: its options.
        tables: what its result holds, the table that matters most to a reader first.
        run: `module:function`, of a source and the settings as keyword arguments, which gives a `Result`.
        view: `module`, with `contents(result)` for the page, and where the rows of the first table are not
            what a terminal shows best, `terminal(result)`.
        notes: the words of its own kinds of notes, see `attnlab.reporting.notes`.
        figures: names of its figures without the suffix, with * where they depend on what was found.
        source: help of the argument.
        matrices: whether a file of matrices can be the source.
        folder: where the command writes its result unless told, in the source where that is a folder; None:
            nothing is written unless asked for.
        announced: whether the command says beforehand how much there is to do and how long it will take.
        printed: how many of its tables --json prints, the first ones.
        files: `module:class`, a `attnlab.results.files.QuestionFiles` where the result has more than tables.
        only_runs: whether nothing but a run can be the source.
    """

    name: str
    what: str
    panel: str
    help: str
    settings: type[Settings]
    tables: tuple[Table, ...]
    run: str
    view: str
    notes: Mapping[type[Note], str | Callable[[Any], str]] = field(default_factory=dict)
    figures: tuple[str, ...] = ()
    source: str = (
        "A run of `attnlab train`, a folder of a transformers model, or its name on the hub."
    )
    matrices: bool = False
    folder: str | None = None
    announced: bool = False
    printed: int = 1
    files: str = "attnlab.results.files:QuestionFiles"
    only_runs: bool = False

    @property
    def verb(self) -> Callable[..., Any]:
        """The function that answers it."""
        verb: Callable[..., Any] = declared(self.run)
        return verb

    @property
    def viewer(self) -> Any:
        """The module that draws its result."""
        return import_module(self.view)

    def table(self, name: str) -> Table:
        """The table whose file has this name, without the suffix.

        Raises:
            KeyError: it has none.
        """
        return {table.name: table for table in self.tables}[name]


def declared(name: str) -> Any:
    """What `module:name` stands for."""
    module, _, inner = name.partition(":")
    return getattr(import_module(module), inner)


@cache
def own_questions() -> Mapping[str, Question]:
    """attnlab's own questions by name: the folders of `attnlab.questions`."""
    folders = pkgutil.iter_modules(import_module(GROUP).__path__)
    return {one.name: import_module(f"{GROUP}.{one.name}").QUESTION for one in folders}


@cache
def questions() -> Mapping[str, Question]:
    """Every question by name: attnlab's own, then those that other distributions register.

    Raises:
        InputError: what is registered cannot be imported, is no `Question`, or has the name of another.
    """
    return with_plugins(
        GROUP,
        own_questions(),
        "an attnlab.results.question.Question",
        lambda thing: isinstance(thing, Question),
        lambda question: question.name,
    )


def question_of(what: str) -> Question | None:
    """The question whose result is called so; None where there is none."""
    return next((one for one in questions().values() if one.what == what), None)


def declared_tables() -> tuple[Table, ...]:
    """The tables of all questions."""
    return tuple(table for one in questions().values() for table in one.tables)


def question_named(name: str) -> Question:
    """The question of this name.

    Raises:
        InputError: there is none.
    """
    if name not in questions():
        msg = f"There is no question '{name}'; choose from: {', '.join(questions())}."
        raise InputError(msg)
    return questions()[name]
