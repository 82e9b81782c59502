"""Tables as text to go elsewhere: CSV, Markdown, LaTeX with booktabs."""

import re
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import pandas as pd

from attnlab.budget import REPLACED
from attnlab.core import (
    FORMATS,
    HEAD_COLUMNS,
    Column,
    Head,
    InputError,
    Site,
    Table,
    csv_of,
    rounded,
    shown,
)
from attnlab.matrices import FAMILIES
from attnlab.reading import ALL, CONTENT, View

# How the views of `attnlab.reading.weights` are called on pages and terminals.
VIEW_NAMES: dict[View, str] = {
    ALL: "special tokens included",
    CONTENT: "special tokens left out as keys",
}
# What stands above the matrices of a site.
SITE_NAMES: dict[Site, str] = {
    "encoder": "encoder self-attention (queries and keys from the source)",
    "decoder": "decoder self-attention (the row of a token predicts the next one)",
    "cross": "cross-attention (queries from the target, keys from the source; the row of a token "
    "predicts the next one)",
    "unknown": "given matrices",
}


def head_names(table: pd.DataFrame) -> list[str]:
    """Names such as `encoder.0.3`, a row each."""
    rows = zip(*(table[column] for column in HEAD_COLUMNS), strict=True)
    return [str(Head(*row)) for row in rows]


def family_words(family: str) -> str:
    """A family of matrices as tables and pages write it; `none` where equal weights need no more bits.

    >>> family_words("rare_columns"), family_words("column_band"), family_words("diffuse")
    ('rare columns', 'column + band', 'none')
    """
    return FAMILIES[family].label if family in FAMILIES else family.replace("_", " ")


# Columns that tables of several questions and studies share.
_SHARED = Table("", "row", REPLACED)
# Columns that hold families of matrices.
_FAMILIES = ("family", "structure", "structure_runner_up")
# Decimals of a number in a column that nobody has declared.
_DIGITS = 3
_LATEX = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "&": r"\&", "%": r"\%", "$": r"\$",
    "#": r"\#", "_": r"\_", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", '"': r"\textquotedbl{}",
}  # fmt: skip
# Of Computer Modern at 10 points: a character on average, and the space around a column.
_POINTS_OF_CHARACTER, _POINTS_OF_COLUMN = 4.6, 12.0
# The width of the text of the class article.
PAGE_POINTS = 345
# Longer ones go on over pages.
_MOST_TABULAR_ROWS = 40
_LABEL = re.compile(r"[A-Za-z0-9:._/-]+")
_MATHEMATICS = re.compile(r"(?<!\\)\$(?=\S)((?:\\.|[^$\\])*(?<!\s))\$(?!\d)")
_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>#|~$])")


def declared_columns(
    frame: pd.DataFrame, file: str = "", declared: Sequence[Table] = ()
) -> tuple[Column, ...]:
    """A declaration for each column: of the table of that name, or else of any; what is in none is plain.

    Args:
        frame: any table.
        file: name of the file that it is from.
        declared: tables that come before all others.
    """
    tables = [*declared, _SHARED]
    best = declared_table(map(str, frame), file, declared)
    return tuple(_declared(str(name), best, tables, frame[name]) for name in frame)


def declared_table(
    columns: Iterable[str], file: str, declared: Sequence[Table] = ()
) -> Table | None:
    """The declaration of the table in a file of that name, the one with most of its columns; None without."""
    names = set(columns)
    named = [table for table in declared if table.file == file]
    return max(named, key=lambda table: len(set(table) & names), default=None)


def _declared(
    name: str, best: Table | None, tables: Iterable[Table], values: "pd.Series"
) -> Column:
    for table in (*(() if best is None else (best,)), *tables):
        if name in table:
            return table[name]
    for column in () if best is None else best.further_columns([name]):
        return column
    digits = _DIGITS if pd.api.types.is_float_dtype(values) else None
    return Column(name, name.replace("_", " "), "", digits)


def columns_chosen(frame: pd.DataFrame, names: Sequence[str]) -> list[str]:
    """The names of columns, each once.

    Raises:
        InputError: there are none, or a table has no such column.
    """
    columns = ", ".join(map(str, frame))
    if not names:
        msg = f"columns names no column; choose from: {columns}."
        raise InputError(msg)
    unknown = [name for name in names if name not in frame]
    if unknown:
        msg = f"There is no column '{unknown[0]}'; choose from: {columns}."
        raise InputError(msg)
    return list(dict.fromkeys(names))


def formatted(
    frame: pd.DataFrame,
    form: str,
    columns: Sequence[Column] | None = None,
    *,
    caption: str = "",
    label: str = "",
) -> str:
    """A table as text; CSV has every digit and the names of columns, the others what readers see.

    Args:
        frame: any table.
        form: `csv`, `markdown` or `latex`; LaTeX needs the package booktabs, and longtable where there
            are more than 40 rows.
        columns: what to show, in order; None: all, as they are declared.
        caption: of a LaTeX table, mathematics between $ and $ as it stands; with one it is a `table` that
            floats, else a `tabular`.
        label: by which LaTeX refers to the table.

    Raises:
        InputError: there is no such form, or the label cannot be one.
    """
    if form not in FORMATS:
        msg = f"There is no format '{form}'; choose from: {', '.join(FORMATS)}."
        raise InputError(msg)
    if label and not _LABEL.fullmatch(label):
        msg = f"'{label}' cannot be a label of LaTeX: use letters, digits and : . _ - / only."
        raise InputError(msg)
    if label and not caption:
        msg = (
            "A label refers to the number of a table, which a caption gives it; give a caption too."
        )
        raise InputError(msg)
    columns = declared_columns(frame) if columns is None else tuple(columns)
    if form == "csv":
        names = [column.name for column in columns]
        return csv_of(frame[names])
    cells = [[cell(value, column) for value in frame[column.name]] for column in columns]
    rows = [list(row) for row in zip(*cells, strict=True)]
    right = [is_number(frame[column.name]) for column in columns]
    headings = [column.heading for column in columns]
    if form == "markdown":
        return _markdown(headings, rows, right)
    return _latex(headings, rows, right, caption, label)


def latex_points(frame: pd.DataFrame, columns: Sequence[Column]) -> list[int]:
    """Estimated width in points of each column of a LaTeX table, the space around it included."""
    return [
        round(
            _POINTS_OF_COLUMN
            + _POINTS_OF_CHARACTER
            * max(
                [len(column.heading), *(len(cell(value, column)) for value in frame[column.name])]
            )
        )
        for column in columns
    ]


def is_number(values: "pd.Series") -> bool:
    """Whether a column is read from the right, as numbers are."""
    # Whole numbers of which some are missing are objects.
    return pd.api.types.infer_dtype(values) in {"integer", "floating", "mixed-integer-float"}


def cell(value: object, column: Column) -> str:
    """A value as it is shown: rounded as declared, empty where it is missing."""
    if pd.isna(value):  # type: ignore[call-overload]  # a cell is a scalar
        return ""
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if column.digits is not None and isinstance(value, int | float | np.number):
        return rounded(float(value), column.digits)
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else f"{value:.4g}"
    return shown(family_words(str(value)) if column.name in _FAMILIES else str(value))


def escape_latex(text: str) -> str:
    r"""Text as LaTeX prints it; letters that a font lacks need an engine such as LuaLaTeX.

    >>> print(escape_latex("50 % of a_b"))
    50 \% of a\_b
    """
    return "".join(_LATEX.get(letter, letter) for letter in text)


def escape_markdown(text: str) -> str:
    r"""Text as Markdown shows it, within one cell.

    >>> print(escape_markdown("a|b"))
    a\|b
    """
    return _MARKDOWN.sub(r"\\\1", " ".join(text.split()))


def _markdown(headings: list[str], rows: list[list[str]], right: list[bool]) -> str:
    lines = [
        [*map(escape_markdown, headings)],
        ["---:" if numeric else "---" for numeric in right],
        *([*map(escape_markdown, row)] for row in rows),
    ]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _latex(
    headings: list[str], rows: list[list[str]], right: list[bool], caption: str, label: str
) -> str:
    layout = "".join("r" if numeric else "l" for numeric in right)
    heading = ["\\toprule", _latex_line(headings, escape_latex), "\\midrule"]
    body = [_latex_line(row, _latex_cell) for row in rows]
    named = [f"\\caption{{{latex_caption(caption)}}}"] if caption else []
    named += [f"\\label{{{label}}}"] if label else []
    if len(rows) > _MOST_TABULAR_ROWS:
        first = [f"{''.join(named)} \\\\"] if named else []
        lines = [
            f"\\begin{{longtable}}{{{layout}}}",
            *first,
            *heading,
            "\\endfirsthead",
            *heading,
            "\\endhead",
            "\\bottomrule",
            "\\endlastfoot",
            *body,
            "\\end{longtable}",
        ]
    else:
        lines = [
            f"\\begin{{tabular}}{{{layout}}}", *heading, *body, "\\bottomrule", "\\end{tabular}",
        ]  # fmt: skip
        if caption:
            lines = ["\\begin{table}", "\\centering", *named, *lines, "\\end{table}"]
    return "".join(f"{line}\n" for line in lines)


def _latex_line(cells: list[str], written: Callable[[str], str]) -> str:
    first, *others = map(written, cells)
    # Behind the end of a line these would be an option of it.
    first = f"{{}}{first}" if first.startswith(("[", "*")) else first
    return f"{' & '.join([first, *others])} \\\\"


def latex_caption(text: str) -> str:
    r"""A caption as LaTeX: mathematics between $ and $ stays, every other character is escaped.

    Mathematics begins and ends beside its dollar signs, and no digit follows: prices are none.

    >>> print(latex_caption("50 % of $x_1$ for $5"))
    50 \% of $x_1$ for \$5
    """
    parts, end = [], 0
    for match in _MATHEMATICS.finditer(text):
        if _balanced(match[1]):
            parts += [escape_latex(text[end : match.start()]), match[0]]
            end = match.end()
    return "".join([*parts, escape_latex(text[end:])])


def _balanced(formula: str) -> bool:
    """Whether braces that are no characters open before they close, and nothing would end the formula."""
    depth = 0
    bare = re.sub(r"\\.", "", formula)
    for letter in bare:
        depth += (letter == "{") - (letter == "}")
        if depth < 0:
            return False
    return depth == 0 and not set(bare) & set("%#&\n")


def _latex_cell(text: str) -> str:
    """A cell; negative numbers have a minus sign instead of a hyphen, in intervals too."""
    if re.fullmatch(r"-[\d.]+", text):
        return f"${text}$"
    return re.sub(r"(?<![\w.)\]$-])-(?=\d)", "$-$", escape_latex(text))


ADDITIVE = (
    "additive, a sum of diagonals and columns, splits the same number between whole diagonals around "
    "offset 0, whole columns and the sparse error as is best"
)
BAND = "The band holds the diagonals and the blocks in its reach, so it is never farther away"
HEAD_NAME = Column("head_name", "head", "Site, layer and head, each counted from 0.")


def columns_named(names: Iterable[str], declared: Iterable[Column]) -> tuple[Column, ...]:
    """The columns of these names, of those declared and `head_name`.

    Raises:
        KeyError: a column that nobody has declared.
    """
    by_name = {column.name: column for column in (HEAD_NAME, *declared)}
    return tuple(by_name[name] for name in names)
