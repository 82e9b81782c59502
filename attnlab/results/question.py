"""What can be asked of a model: declared once, found by its folder or its entry point.

From a `Question` come the command with its options, the verb of Python, early refusals, the files of the
result, its page, `attnlab report`, `attnlab table` and the view of a notebook. Nothing heavy is imported.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import Any, Literal

from attnlab.core import InputError, Settings, Table, with_plugins
from attnlab.results.listing import GROUP, Listed, listed_questions

# What a question can be asked about: a model, a file of matrices, a file or folder of embeddings.
SourceKind = Literal["model", "matrices", "embeddings"]
# The file of the arrays of a result.
ARRAYS = "arrays.safetensors"
# The file of the attention matrices that a result keeps; such a file is itself a source.
MATRICES = "matrices.safetensors"


@dataclass(frozen=True, kw_only=True)
class Question(Listed):
    """A question, with where its answer is computed and drawn.

    Attributes:
        what: its result in a word or two, such as `comparison`.
        settings: its options.
        tables: what its result holds, the table that matters most to a reader first.
        arrays: the arrays that its result holds beside the tables, by name: their axes and what they mean.
        run: `module:function`, of a source and the settings as keyword arguments, which gives a `Result`.
        view: `module`, with `contents(result)` for the page; where there are such, `answers(result)`, what
            was found as sentences, `rows(result)`, those of the first table that are shown first, in order,
            `legend(result)`, what else their cells mean, and `terminal(result)` and `notebook(result)` in
            place of that table; None: `view` beside the module of `run`.
        shows: names of the columns of the first table that a first screen shows, few; `head` is the
            address of a head; empty: all.
        leading: name of the figure among them that is shown with its interval, and by which rows are chosen
            where they are too many.
        figures: names of its figures without the suffix, with * where they depend on what was found.
        source: help of the argument.
        sources: what it can be asked about.
        folder: where the command writes its result unless told, in the source where that is a folder; None:
            nothing is written unless asked for.
        announced: whether the command says beforehand how much there is to do and how long it will take.
        printed: how many of its tables --json prints, the first ones.
        layout: `module:class`, an `attnlab.results.result_files.QuestionFiles`, where the result has more
            than tables.
        keeps_matrices: whether its result keeps attention matrices of some sentences.
        writes: names of the settings that name files which answering writes, beside the result.
    """

    what: str
    settings: type[Settings]
    tables: tuple[Table, ...]
    run: str
    view: str | None = None
    shows: tuple[str, ...] = ()
    leading: str = ""
    arrays: Mapping[str, str] = field(default_factory=dict)
    figures: tuple[str, ...] = ()
    source: str = (
        "A run of `attnlab train`, a folder of a transformers model, or its name on the hub."
    )
    sources: tuple[SourceKind, ...] = ("model",)
    folder: str | None = None
    announced: bool = False
    printed: int = 1
    layout: str = "attnlab.results.result_files:QuestionFiles"
    keeps_matrices: bool = False
    writes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.name.isidentifier():
            msg = f"'{self.name}' cannot be the name of a question; use letters, digits and _."
            raise InputError(msg)
        if not self.tables:
            msg = f"The question '{self.name}' declares no table; a result needs one."
            raise InputError(msg)

    @property
    def verb(self) -> Callable[..., Any]:
        """The function that answers it.

        Raises:
            InputError: it cannot be imported.
        """
        verb: Callable[..., Any] = self._imported(self.run)
        return verb

    @property
    def contents(self) -> Callable[[Any], Any]:
        """The function of a result that says what its page shows.

        Raises:
            InputError: it cannot be imported.
        """
        contents: Callable[[Any], Any] = self._imported(f"{self._view}:contents")
        return contents

    @property
    def viewer(self) -> Any:
        """The module that draws its result.

        Raises:
            InputError: it cannot be imported.
        """
        return self._imported(self._view)

    @property
    def _view(self) -> str:
        package = self.run.partition(":")[0].rpartition(".")[0]
        return f"{package}.view" if self.view is None else self.view

    @property
    def files_kind(self) -> Any:
        """The class that `layout` names.

        Raises:
            InputError: it cannot be imported.
        """
        return self._imported(self.layout)

    def check(self) -> None:
        """Raises InputError where what answers it or draws the result cannot be imported."""
        _ = self.verb, self.contents

    def _imported(self, where: str) -> Any:
        """A module, or what `module:name` names in it."""
        module, _, name = where.partition(":")
        try:
            imported = import_module(module)
            return getattr(imported, name) if name else imported
        except Exception as error:
            msg = f"The question '{self.name}' needs {where}, which cannot be imported: {error}."
            raise InputError(msg) from error

    @property
    def files(self) -> tuple[str, ...]:
        """The files of its tables, and of its arrays and matrices where it has some."""
        others = {ARRAYS: bool(self.arrays), MATRICES: self.keeps_matrices}
        names = (name for name, present in others.items() if present)
        return (*(table.file for table in self.tables), *names)

    def table(self, name: str) -> Table:
        """The table whose file has this name, without the suffix.

        Raises:
            KeyError: it has none.
        """
        return {table.name: table for table in self.tables}[name]


def own_question(name: str) -> Question:
    """A question of attnlab, as `question.py` in its folder declares it; no other is imported."""
    question: Question = import_module(f"{GROUP}.{name}.question").QUESTION
    return question


@cache
def own_questions() -> Mapping[str, Question]:
    """Attnlab's own questions by name."""
    return {name: own_question(name) for name in listed_questions()}


@cache
def questions() -> Mapping[str, Question]:
    """Every question by name: attnlab's own, then those that other distributions register.

    Raises:
        InputError: what is registered cannot be imported, is no `Question`, or it or its result is called as
            another.
    """
    by_name = with_plugins(
        GROUP,
        own_questions(),
        "an attnlab.results.question.Question",
        lambda thing: isinstance(thing, Question),
        lambda question: question.name,
    )
    by_result: dict[str, str] = {}
    for name, question in by_name.items():
        other = by_result.setdefault(question.what, name)
        if other != name:
            msg = (
                f"The results of the questions '{other}' and '{name}' are both called '{question.what}'; "
                f"uninstall what registers '{name}' under {GROUP}."
            )
            raise InputError(msg)
    return by_name


def question_of(what: str) -> Question | None:
    """The question whose result is called so; None where there is none."""
    return next((question for question in questions().values() if question.what == what), None)


def declared_tables() -> tuple[Table, ...]:
    """The tables of all questions."""
    return tuple(table for question in questions().values() for table in question.tables)


def question_named(name: str) -> Question:
    """The question of this name.

    Raises:
        InputError: there is none.
    """
    if name not in questions():
        msg = f"There is no question '{name}'; choose from: {', '.join(questions())}."
        raise InputError(msg)
    return questions()[name]
