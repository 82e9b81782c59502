"""The answer to a question: tables with notes, saved, loaded, shown and drawn in one way."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd
from matplotlib.figure import Figure
from torch import Tensor

from attnlab.core import (
    HEAD_COLUMNS,
    Column,
    InputError,
    Note,
    Progress,
    Settings,
    Table,
    briefly,
    is_terminal,
    read_tensors,
    replacing_result,
    write_table,
    write_tensors,
    write_text,
)
from attnlab.reading import KeptMatrices, load_kept_matrices
from attnlab.results.export import columns_chosen, declared_columns, formatted
from attnlab.results.head_evidence import HeadEvidence, evidence_of
from attnlab.results.notebook import first_screen
from attnlab.results.page.result_page import Contents, write_contents
from attnlab.results.provenance import call_of, making_of
from attnlab.results.question import (
    ARRAYS,
    MATRICES,
    Question,
    question_named,
    question_of,
    questions,
)
from attnlab.results.records import ResultRecord, read_record, read_tables, write_record
from attnlab.results.result_files import EXPLANATION, FIGURES, Extra, check_free, files_of
from attnlab.results.terminal_tables import MOST_ROWS, TerminalTable, first_rows, print_shown


@dataclass(frozen=True, repr=False)
class Result:
    """The answer to a question.

    Its tables and arrays are attributes too: `result.summary` is `result.tables["summary"]`.

    Attributes:
        question: name of the question.
        title: of its page.
        tables: by name.
        about: what was asked of what, and how, by heading.
        notes: what a reader must know before trusting a number.
        details: values that its page needs beside the tables.
        arrays: tensors by name.
        weights: checksum of the weights of the run that was studied; None for other models.
        extra: what it has beside its tables, such as models, by its path in the folder of the result.
        matrices: attention matrices of some sentences, with their tokens.
        call: how it was asked for, see `attnlab.results.provenance.call_of`; empty where that is not known.
        making: when and on what it was made.

    Raises:
        InputError: there is no such question, it declares no table or array of a name, or there is no table.
    """

    question: str
    title: str
    tables: Mapping[str, pd.DataFrame]
    about: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[Note, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)
    arrays: Mapping[str, Tensor] = field(default_factory=dict)
    weights: str | None = None
    extra: Extra = field(default_factory=dict)
    matrices: KeptMatrices = field(default_factory=KeptMatrices)
    call: Mapping[str, Any] = field(default_factory=dict)
    making: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        tables = [table.name for table in self.asked.tables]
        for given, declared in ((self.tables, tables), (self.arrays, list(self.asked.arrays))):
            unknown = set(given) - set(declared)
            if unknown:
                msg = f"The question '{self.question}' declares no {briefly(min(unknown))} of its result."
                raise InputError(msg)
        if not self.tables:
            msg = f"A result of the question '{self.question}' needs the table '{tables[0]}'."
            raise InputError(msg)

    def __getattr__(self, name: str) -> Any:
        """The table or array of this name.

        Raises:
            AttributeError: there is none.
        """
        # Not through `self.tables`, which an object that is still being copied has not.
        tables, arrays = (self.__dict__.get(kind, {}) for kind in ("tables", "arrays"))
        if name in tables or name in arrays:
            return tables[name] if name in tables else arrays[name]
        question = self.__dict__.get("question")
        available = f"its tables are: {', '.join(tables)}"
        available += f", and its arrays: {', '.join(arrays)}" if arrays else ""
        available += "; save(folder) and report(file) write them"
        if any(set(HEAD_COLUMNS) <= set(table) for table in tables.values()):
            available += ", and result['0.1'] has those of a head"
        msg = f"A result of {question} has no {briefly(name)}; {available}."
        raise AttributeError(msg)

    def __getitem__(self, head: str | tuple[str | int, ...]) -> HeadEvidence:
        """The rows of a head, such as `encoder.0.2`, or `0.2` where one site has it, in all tables.

        Raises:
            InputError: there is no such head, or at several sites.
        """
        return evidence_of(self.tables, head)

    def __dir__(self) -> list[str]:
        return sorted({*object.__dir__(self), *self.tables, *self.arrays})

    def __repr__(self) -> str:
        sizes = (f"{name}[{len(table)}]" for name, table in self.tables.items())
        return f"Result({self.question}: {', '.join(sizes)}; {len(self.notes)} notes)"

    def _repr_html_(self) -> str:
        notebook = getattr(self.asked.viewer, "notebook", None)
        if notebook is not None:
            return str(notebook(self))
        return first_screen(self._first_rows(MOST_ROWS), self.notes)

    def remembering(self, question: str, source: object, settings: Settings) -> "Result":
        """The same result, which says how it was asked for."""
        return replace(self, call=call_of(question, source, settings), making=making_of(settings))

    @property
    def asked(self) -> Question:
        """The question that it answers."""
        return question_named(self.question)

    @property
    def table(self) -> pd.DataFrame:
        """The table that matters most to a reader."""
        return self.tables[self.declared[0].name]

    @property
    def declared(self) -> tuple[Table, ...]:
        """What its question declares of its tables, that which matters most first."""
        return tuple(table for table in self.asked.tables if table.name in self.tables)

    @property
    def figures(self) -> dict[str, Figure]:
        """Its figures by name, drawn anew."""
        return {drawn.name: drawn.figure for drawn in self.contents().every_figure}

    def contents(self) -> Contents:
        """What its page shows."""
        contents: Contents = self.asked.contents(self)
        return replace(contents, answers=self.answers)

    @property
    def answers(self) -> tuple[str, ...]:
        """What was found, a sentence each, the most important one first."""
        answers = getattr(self.asked.viewer, "answers", None)
        return () if answers is None else tuple(answers(self))

    def plot(self, name: str | None = None) -> Figure:
        """One of its figures; None: the first.

        Raises:
            InputError: it has none of that name, or none at all.
        """
        names = []
        for drawn in self.contents().every_figure:
            if name in (None, drawn.name):
                return drawn.figure
            names.append(drawn.name)
        if not names:
            msg = f"A result of {self.question} has no figure; look at its table."
            raise InputError(msg)
        msg = f"There is no figure {briefly(name)}; choose from: {', '.join(names)}."
        raise InputError(msg)

    def save(
        self, folder: str | Path, *, overwrite: bool = False, progress: Progress | None = None
    ) -> Path:
        """Writes `result.json`, tables, arrays, what they mean, the figures and the page; returns `folder`.

        Args:
            folder: where to.
            overwrite: whether an older result there is replaced.
            progress: called with (what is being done, done, in all).

        Raises:
            InputError: the folder holds a result, or files of the same names, and `overwrite` is False; or it
                is a file or a run; or what an older result has beside its tables may not be replaced.
            AttnlabError: something could not be written; what was there is as it was.
        """
        folder, files = Path(folder), files_of(self.asked)
        check_free(folder, files, self.extra, overwrite=overwrite)
        with replacing_result(folder, files.last, files.older) as aside:
            for name, table in self._tables_by_file().items():
                write_table(aside / name, table)
            if self.arrays:
                write_tensors(aside / ARRAYS, self.arrays)
            if self.asked.keeps_matrices:
                self.matrices.write(aside / MATRICES)
            for name, write in self.extra.items():
                write(aside / name)
            write_record(aside, self._record(), self._tables_by_file())
            write_text(aside / EXPLANATION, self._explanation())
            self._write_page(aside, progress)
        return folder

    def report(self, path: str | Path, progress: Progress | None = None) -> Path:
        """Writes the page into a file ending in `.html`, or page and figures into a folder; returns the page.

        Args:
            path: of the file or folder.
            progress: called with (what is being done, done, in all).

        Raises:
            AttnlabError: something could not be written.
        """
        path = Path(path)
        if path.suffix.lower() not in {".html", ".htm"} or path.is_dir():
            return self._write_page(path, progress)
        # All that the page shows is inside it, so the files of its figures need not stay.
        with TemporaryDirectory() as aside:
            page = self._write_page(Path(aside), progress).read_text(encoding="utf-8")
        write_text(path, page)
        return path

    def _write_page(self, folder: Path, progress: Progress | None) -> Path:
        """Draws the figures and writes the page into a folder; returns the path of the page."""
        contents = self.contents()
        # A page that is made of parts begins with tables of its own.
        made_of_tables = contents.tables is None or bool(contents.tables)
        return write_contents(
            folder,
            self._record(),
            self._tables_by_file(),
            contents,
            declared=self.declared,
            first=self._first_rows() if made_of_tables else None,
            figures=FIGURES,
            progress=progress,
        )

    @classmethod
    def load(cls, folder: str | Path) -> "Result":
        """The result that `save` wrote.

        Raises:
            InputError: the folder holds no result, one that is damaged, or one of another attnlab.
        """
        record = read_record(folder)
        question = question_of(record.result)
        if question is None:
            loadable = ", ".join(sorted(one.what for one in questions().values()))
            msg = f"{folder} holds '{record.result}'; a result that can be loaded is one of: {loadable}."
            raise InputError(msg)
        tables = read_tables(folder, record, question.tables)
        arrays = read_tensors(Path(folder) / ARRAYS, question.arrays) if question.arrays else {}
        return cls(
            question=question.name,
            title=record.title,
            tables={Path(file).stem: table for file, table in tables.items()},
            about=record.about,
            notes=record.notes,
            details=record.details,
            arrays=arrays,
            weights=record.weights,
            extra=files_of(question).load(folder),
            matrices=load_kept_matrices(Path(folder) / MATRICES)
            if question.keeps_matrices
            else KeptMatrices(),
            call=record.call,
            making=record.making,
        )

    def terminal(self) -> Iterator[TerminalTable]:
        """Its answers, and the rows of its first table unless the question chooses others, for a terminal."""
        tables = getattr(self.asked.viewer, "terminal", None)
        if tables is None:
            yield self._first_rows(MOST_ROWS if is_terminal() else None)
            return
        for number, table in enumerate(tables(self)):
            yield table if number else replace(table, answers=self.answers or table.answers)

    def _first_rows(self, most: int | None = None) -> TerminalTable:
        table = self.declared[0]
        shown = [name for name in self.asked.shows or map(str, self.table) if name in self.table]
        if not self.asked.shows and set(HEAD_COLUMNS) <= set(shown):
            # The address of a head takes the place of its three parts.
            shown = [name for name in shown if name not in {"site", "layer"}]
        chosen = getattr(self.asked.viewer, "rows", None)
        frame, leading = self.table if chosen is None else chosen(self), self.asked.leading
        if chosen is None and most is not None and len(frame) > most and leading in frame:
            frame = frame.sort_values(leading, ascending=False, kind="stable")
        legend = getattr(self.asked.viewer, "legend", None)
        rows = first_rows(
            frame,
            self._columns(None, shown),
            file=table.file,
            leading=leading,
            most=most,
            legend=() if legend is None else legend(self),
        )
        return replace(rows, answers=self.answers)

    def show(self, head: str | tuple[str | int, ...] | None = None) -> None:
        """Prints what its command prints, its answers, tables and notes, or the rows of one head.

        Raises:
            InputError: there is no such head, or at several sites.
        """
        if head is not None:
            print(self[head])  # noqa: T201
            return
        for table in self.terminal():
            print_shown(table)
        for note in self.notes:
            print(f"Note: {note}")  # noqa: T201

    def to_latex(
        self,
        table: str | None = None,
        *,
        columns: Sequence[str] | None = None,
        caption: str = "",
        label: str = "",
    ) -> str:
        """A table in LaTeX, as `attnlab table --format latex` writes it; None: that which matters most.

        Args:
            table: its name in `tables`.
            columns: names of those to show, in order; None: all.
            caption: with one it is a `table` that floats, else a `tabular`.
            label: by which LaTeX refers to it.

        Raises:
            InputError: there is no such table or column, or LaTeX cannot take the label.
        """
        if table is not None and table not in self.tables:
            msg = f"There is no table {briefly(table)}; choose from: {', '.join(self.tables)}."
            raise InputError(msg)
        frame = self.table if table is None else self.tables[table]
        shown = self._columns(table, columns)
        return formatted(frame, "latex", shown, caption=caption, label=label)

    def formatted(self, form: str, columns: Sequence[str] | None = None) -> str:
        """The table that matters most as `csv`, `markdown` or `latex`.

        Args:
            form: one of these.
            columns: names of those to show, in order; None: all.

        Raises:
            InputError: there is no such form or column.
        """
        return formatted(self.table, form, self._columns(None, columns))

    def _columns(
        self, table: str | None = None, chosen: Sequence[str] | None = None
    ) -> tuple[Column, ...]:
        name = self.declared[0].name if table is None else table
        frame = self.tables[name]
        if chosen is not None:
            frame = frame[columns_chosen(frame, chosen)]
        return declared_columns(frame, f"{name}.csv", self.asked.tables)

    def _tables_by_file(self) -> dict[str, pd.DataFrame]:
        """The tables by file."""
        return {f"{name}.csv": table for name, table in self.tables.items()}

    def _record(self) -> ResultRecord:
        return ResultRecord(
            self.asked.what,
            self.title,
            self.about,
            self.notes,
            self.details,
            weights=self.weights,
            call=self.call,
            making=self.making,
        )

    def _explanation(self) -> str:
        notes = (f"Note: {note}\n" for note in self.notes)
        tables = (
            table.explained(set(map(str, self.tables[table.name]))) for table in self.declared
        )
        arrays = [f"- `{name}`: {meaning}" for name, meaning in self.asked.arrays.items()]
        array_lines = [f"## {ARRAYS}", "", *arrays, ""] if arrays else []
        return "\n".join([f"# {self.title}", "", *notes, *tables, *array_lines])


def drawn_table(given: pd.DataFrame | Result, name: str) -> pd.DataFrame:
    """The table that a figure is drawn from: the one of that name where a result is given.

    Raises:
        InputError: the result has none of that name.
    """
    if not isinstance(given, Result):
        return given
    if name not in given.tables:
        names = ", ".join(given.tables)
        msg = f"The figure is drawn from the table {name}; this result of {given.question} has: {names}."
        raise InputError(msg)
    return given.tables[name]
