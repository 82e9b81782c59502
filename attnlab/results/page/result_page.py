"""The page of a result of tables and figures: what was found, then figures, then tables."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from attnlab.core import HEAD_COLUMNS, Column, Progress, Table, check_no_links, write_text
from attnlab.figures import write_figure
from attnlab.results.export import cell, columns_named, declared_columns, head_names
from attnlab.results.page.rendering import (
    Overview,
    PageFigure,
    PageTable,
    Section,
    ViewerData,
    page_table,
    render_page,
)
from attnlab.results.provenance import call_in_words
from attnlab.results.records import ResultRecord, read_record, read_tables
from attnlab.results.result_files import PAGE
from attnlab.results.terminal_tables import TerminalTable

# More rows make a page slow; the file has all of them.
MOST_ROWS = 1000
# Of 64 letters, which say nothing to a reader.
_CHECKSUM = "checksum"
Tables = Mapping[str, pd.DataFrame]


@dataclass(frozen=True)
class DrawnFigure:
    """A figure with the name of its files, without the suffix, and what it shows.

    One that a viewer shows better is left to readers without JavaScript: `fallback`.
    """

    name: str
    figure: Figure
    caption: str
    fallback: bool = False


@dataclass(frozen=True)
class ShownTable:
    """A table of the page.

    Attributes:
        file: its name.
        heading: what stands above it.
        left_out: ends of the names of columns that only the file has, as p-values are.
        own: columns that no other table declares, or declares otherwise.
        frame: its rows where they are made of those of the file; None for those of the file.
    """

    file: str
    heading: str
    left_out: tuple[str, ...] = ("_p",)
    own: tuple[Column, ...] = ()
    frame: pd.DataFrame | None = None


@dataclass(frozen=True)
class Part:
    """A section of a page that has a text of its own, tables made for it, and figures among them.

    Attributes:
        section: all but the figures.
        figures: drawn one after another when they are asked for, since there may be many.
        count: how many they are, for progress.
    """

    section: Section
    figures: Callable[[], Iterable[DrawnFigure]] = tuple
    count: int = 0


@dataclass(frozen=True)
class Contents:
    """What a page shows, in this order.

    Attributes:
        figures: those that stand first.
        facts: what stands beside the facts of the result: before their fold where there are maps, else in it.
        tables: those that are not empty are shown; None: those of the question that have a heading.
        parts: sections that are more than a table.
        overview: maps, words and heads that the first screen shows beside the answers.
        viewer: what the page shows interactively; None for nothing.
        start: what it shows first where the page has no address of its own, as behind # in one.
        answers: what was found, a sentence each; of a question `Result.contents` fills them in.
    """

    figures: Sequence[DrawnFigure] = ()
    facts: Mapping[str, str] = field(default_factory=dict)
    tables: Sequence[ShownTable] | None = None
    parts: Sequence[Part] = ()
    overview: Overview = field(default_factory=Overview)
    viewer: Callable[[], ViewerData | None] | None = None
    start: str = ""
    answers: Sequence[str] = ()

    @property
    def every_figure(self) -> Iterator[DrawnFigure]:
        """All figures, drawn one after another."""
        yield from self.figures
        for part in self.parts:
            yield from part.figures()


ContentsOf = Callable[[ResultRecord, Tables], Contents]


def write_result_page(folder: str | Path, contents_of: ContentsOf) -> Path:
    """Draws the figures of the result in `folder`, writes its page, and returns the path of the page.

    Raises:
        InputError: the folder lacks `result.json` or a table.
        AttnlabError: something could not be written.
    """
    folder = Path(folder)
    record = read_record(folder)
    tables = read_tables(folder, record)
    contents = contents_of(record, tables)
    return write_contents(folder, record, tables, contents)


def write_contents(
    folder: str | Path,
    record: ResultRecord,
    tables: Tables,
    found: Contents,
    *,
    declared: Sequence[Table] = (),
    first: TerminalTable | None = None,
    figures: str = ".",
    progress: Progress | None = None,
) -> Path:
    """Writes figures and a page of given contents, and returns the path of the page.

    Args:
        folder: where the page is written.
        record: what the result says of itself.
        tables: by file.
        found: what the page shows.
        declared: tables whose columns are meant where several have one of a name.
        first: the first of them as a first screen shows it; None: all of its columns are shown.
        figures: the folder in it to write the figures to.
        progress: called with (what is being done, done, in all).

    Raises:
        AttnlabError: something could not be written.
    """
    folder = Path(folder)
    check_no_links(folder, [f"{figures}/*"])

    # The page itself is the last.
    in_all = len(found.figures) + sum(part.count for part in found.parts) + 1
    numbers = count(1)

    def tell() -> None:
        if progress is not None:
            progress("Drawing figures and the page", min(next(numbers), in_all), in_all)

    def written(drawn: Iterable[DrawnFigure]) -> tuple[PageFigure, ...]:
        pages = []
        for one in drawn:
            picture = write_figure(one.figure, folder / figures, one.name)
            pages.append(PageFigure(one.name, picture, one.caption, one.fallback))
            tell()
        return tuple(pages)

    drawn = written(found.figures)
    sections = _sections(drawn, found.tables, tables, declared, first)
    sections += [replace(part.section, figures=written(part.figures())) for part in found.parts]
    page = render_page(
        record.title,
        {
            name.replace("_", " "): _in_words(value)
            for name, value in {**record.about, **call_in_words(record.call, record.making)}.items()
            if value != ""
        },
        list(map(str, record.notes)),
        sections,
        overview=replace(
            found.overview,
            answers=tuple(found.answers[:1]),
            more=tuple(found.answers[1:]),
            facts=found.facts,
        ),
        viewer=None if found.viewer is None else found.viewer(),
        start=found.start,
    )
    write_text(folder / PAGE, page)
    tell()
    return folder / PAGE


def _in_words(value: Any) -> str:
    """A fact of a record as text: what it holds, without the signs of a program."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_in_words(fact)}" for name, fact in value.items())
    if isinstance(value, list):
        return ", ".join(map(_in_words, value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value is None else str(value)


def _sections(
    drawn: tuple[PageFigure, ...],
    chosen: Sequence[ShownTable] | None,
    tables: Tables,
    declared: Sequence[Table],
    first: TerminalTable | None,
) -> list[Section]:
    """The first figure and the first table, then all others, folded."""
    if chosen is None:
        chosen = [ShownTable(one.file, one.heading) for one in declared if one.heading]
    whole = [
        _section(shown, tables[shown.file] if shown.frame is None else shown.frame, declared)
        for shown in chosen
        if not tables.get(shown.file, pd.DataFrame()).empty
    ]
    leading = whole[:1]
    if first is not None and whole and whole[0].anchor == declared[0].name:
        leading = _first_and_all(first, whole[0])
    sections = [Section("figures", "Figure", "", figures=drawn[:1])] if drawn else []
    sections += leading
    if drawn[1:]:
        sections.append(Section("more", "More figures", "", figures=drawn[1:], folded=True))
    return sections + [replace(section, folded=True) for section in whole[1:]]


def _first_and_all(first: TerminalTable, section: Section) -> list[Section]:
    """The table of a first screen, and folded behind it the whole one where that has more."""
    (table,) = section.tables
    numeric = tuple(heading in first.numbers for heading in first.headings)
    rows = first.rows[:MOST_ROWS]
    names = {column.name for column in first.columns}
    if len(rows) == len(table.rows) and names >= {column.name for column in table.columns}:
        caption = "; ".join(filter(None, (first.marked, table.caption)))
        only = PageTable(first.columns, rows, caption, numeric)
        return [replace(section, tables=(only,), note=first.words)]
    shown = PageTable(first.columns, rows, first.marked, numeric)
    return [
        replace(section, anchor="first", tables=(shown,), note=first.words),
        replace(section, heading="All columns", folded=True),
    ]


def _section(shown: ShownTable, frame: pd.DataFrame, declared: Sequence[Table]) -> Section:
    rows = frame.head(MOST_ROWS)
    made = shown.frame is not None
    text = f"{'Made of' if made else 'All columns are in'} {shown.file}."
    caption = ""
    if len(rows) < len(frame):
        caption = f"The first {len(rows):,} of {len(frame):,} rows; {shown.file} has all of them."
    anchor = f"{Path(shown.file).stem}{'_means' if made else ''}"
    return Section(anchor, shown.heading, text, (_page_table(shown, rows, caption, declared),))


def _page_table(
    shown: ShownTable, frame: pd.DataFrame, caption: str, declared: Sequence[Table]
) -> PageTable:
    by_name = {column.name: column for column in shown.own}
    columns = [
        by_name.get(column.name, column)
        for column in declared_columns(frame, shown.file, declared)
        if not column.name.endswith((*shown.left_out, _CHECKSUM))
        and not frame[column.name].isna().all()
    ]
    if set(HEAD_COLUMNS) <= set(frame):
        frame = frame.assign(head_name=head_names(frame))
        others = [column for column in columns if column.name not in HEAD_COLUMNS]
        columns = [*columns_named(["head_name"], []), *others]
    varying, constant = _by_variation(frame, columns)
    return page_table(frame, varying, " ".join(filter(None, (caption, constant))))


def _by_variation(frame: pd.DataFrame, columns: Sequence[Column]) -> tuple[list[Column], str]:
    """The columns whose rows differ, and the value of every other one in a sentence."""
    if len(frame) < 2:
        return list(columns), ""
    same = [column for column in columns if frame[column.name].nunique(dropna=False) == 1]
    if len(same) == len(columns):
        return list(columns), ""
    values = "; ".join(f"{one.heading} {cell(frame[one.name].iloc[0], one)}" for one in same)
    varying = [column for column in columns if column not in same]
    return varying, f"The same in every row: {values}." if same else ""
