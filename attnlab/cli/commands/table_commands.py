"""`attnlab table`: a table that a command wrote, for a terminal, a paper or a page."""

from collections import Counter
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from attnlab.cli.output import (
    AS_TEXT,
    check_form,
    output,
    print_json,
    print_notes,
    print_text,
    results,
)
from attnlab.cli.progress import progress_bars
from attnlab.core import InputError, new_table, print_table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd

    from attnlab.core import Column, Note

# Columns that say which row it is.
KEYS = ("site", "layer", "head", "mechanism", "matrix")


def table(
    file: Annotated[Path, typer.Argument(help="CSV file that a command wrote.")],
    *,
    form: Annotated[
        str,
        typer.Option("--format", help="Form: text, csv, markdown or latex (with booktabs)."),
    ] = "text",
    columns: Annotated[
        str | None, typer.Option(help="Names of the columns to show; commas between.")
    ] = None,
    caption: Annotated[
        str, typer.Option(help="Caption of a LaTeX table; $...$ is mathematics.")
    ] = "",
    label: Annotated[str, typer.Option(help="Label of a LaTeX table with a caption.")] = "",
) -> None:
    """Prints a table that attnlab wrote in one of the forms of tables."""
    check_form(form)
    for name in (name for name, value in {"caption": caption, "label": label}.items() if value):
        if form != "latex":
            msg = f"--{name} is of LaTeX tables; leave it out with --format {form}."
            raise InputError(msg)
    if file.is_dir():
        tables = ", ".join(sorted(path.name for path in file.glob("*.csv")))
        msg = f"{file} is a folder; name a table in it{f': {tables}' if tables else ''}."
        raise InputError(msg)
    if not file.is_file():
        msg = (
            f"There is no file {file}; commands write their tables to folders such as RUN/analysis."
        )
        raise InputError(msg)

    from attnlab.results import (
        declared_columns,
        declared_tables,
        formatted,
        notes_on_weights,
        read_any_table,
    )
    from attnlab.studies import TABLES

    print_notes(notes_on_weights(file.parent))
    frame = read_any_table(file, advice="name a file that a command wrote")
    frame = _restore_whole_numbers(frame[_columns_to_show(frame, columns)])
    declared = declared_columns(frame, file.name, (*declared_tables(), *TABLES))
    if output().as_json:
        print_json(table=frame)
    elif form == AS_TEXT:
        _print(frame, declared)
    else:
        if form == "latex":
            print_notes(_too_wide(frame, declared))
        print_text(
            formatted(frame, form, declared, caption=caption, label=label).removesuffix("\n")
        )


def _too_wide(frame: "pd.DataFrame", columns: "tuple[Column, ...]") -> "list[Note]":
    """A note where the table is wider than the text of an article, with the columns that fit."""
    from attnlab.evaluation import TableWiderThanPage
    from attnlab.results import PAGE_POINTS, latex_points

    widths = latex_points(frame, columns)
    if sum(widths) <= PAGE_POINTS:
        return []
    within = [total <= PAGE_POINTS for total in accumulate(widths)]
    fitting = tuple(column.name for column, fits in zip(columns, within, strict=True) if fits)
    return [TableWiderThanPage(sum(widths), PAGE_POINTS, fitting)]


def _restore_whole_numbers(frame: "pd.DataFrame") -> "pd.DataFrame":
    """The table with whole numbers also in columns with gaps, which CSV readers take for fractions."""
    gaps = [name for name in frame.select_dtypes("float") if frame[name].isna().any()]
    whole = [name for name in gaps if (frame[name].dropna() % 1 == 0).all()]
    return frame.astype(dict.fromkeys(whole, "Int64"))


def _columns_to_show(frame: "pd.DataFrame", columns: str | None) -> list[str]:
    if columns is None:
        return [str(name) for name in frame]
    from attnlab.results import columns_chosen

    return columns_chosen(frame, [name.strip() for name in columns.split(",") if name.strip()])


def _print(frame: "pd.DataFrame", columns: "tuple[Column, ...]") -> None:
    """Prints the table with whole cells; columns that do not fit the terminal stand in further tables."""
    from attnlab.results import cell, is_number

    headed = dict(zip(distinct_headings(columns), columns, strict=True))
    cells = {
        heading: [cell(value, column) for value in frame[column.name]]
        for heading, column in headed.items()
    }
    numbers = [heading for heading, column in headed.items() if is_number(frame[column.name])]
    for names in side_by_side(cells, results().width):
        drawn = new_table(*names, numbers=numbers)
        for row in zip(*(cells[name] for name in names), strict=True):
            drawn.add_row(*row)
        print_table(drawn)


def distinct_headings(columns: "Sequence[Column]") -> list[str]:
    """The short heading of each column; the long one, or else the name, where another has that too."""
    narrow = Counter(column.narrow for column in columns)
    long = Counter(column.heading for column in columns)
    return [
        column.narrow
        if narrow[column.narrow] == 1
        else column.heading
        if long[column.heading] == 1
        else column.name
        for column in columns
    ]


def side_by_side(cells: "Mapping[str, Sequence[str]]", width: int) -> list[list[str]]:
    """Columns in groups that are as wide as a terminal at most, each beside those that name the row.

    >>> side_by_side({"head": ["0"], "a": ["x" * 4], "b": ["y" * 4]}, 14)
    [['head', 'a'], ['head', 'b']]
    """
    # A space before each cell, and one between columns.
    widths = {name: 2 + max(map(len, (name, *column))) for name, column in cells.items()}
    keys = [name for name in KEYS if name in cells]
    keys_width = sum(widths[name] for name in keys)
    groups: list[list[str]] = [[]]
    used = keys_width
    for name in (name for name in cells if name not in keys):
        if groups[-1] and used + widths[name] > width:
            groups.append([])
            used = keys_width
        groups[-1].append(name)
        used += widths[name]
    return [[*keys, *group] for group in groups]


def report(
    folder: Annotated[
        Path,
        typer.Argument(
            help="Results of analyze, approximate, compare, importance, plan, prune or study, "
            "such as RUN/analysis."
        ),
    ],
) -> None:
    """Writes the page of a result and prints where."""
    from attnlab.results import check_record_there

    check_record_there(folder)

    from attnlab.results import STUDY, notes_on_weights, write_report
    from attnlab.studies import study_contents

    with progress_bars() as tell:
        page = write_report(folder, {STUDY.what: study_contents}, tell)
    print_notes(notes_on_weights(folder))
    if output().as_json:
        print_json(report=page)
    else:
        results().print(f"Report: {page}", soft_wrap=True)
