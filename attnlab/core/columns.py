"""Columns of tables with their meaning: each is declared once, beside what computes it.

Headings, explanations and decimals wherever a table is shown come from these declarations.
"""

import math
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

# How a table can be written, beside the text of a terminal.
FORMATS = ("csv", "markdown", "latex")
_CLAUSE = re.compile(r"[.:;] ")


@dataclass(frozen=True)
class Column:
    """A column of a written or shown table.

    Attributes:
        name: in the file.
        heading: what stands above it on a page, with the unit.
        meaning: one or two sentences for a reader who knows what attention is.
        digits: decimals shown; None for text and whole numbers.
        short: heading where a line has 80 characters; empty where `heading` will do.
        signed: whether it is a change, which has a sign on a first screen.
    """

    name: str
    heading: str
    meaning: str
    digits: int | None = None
    short: str = ""
    signed: bool = False

    @property
    def narrow(self) -> str:
        """The heading where there is little room."""
        return self.short or self.heading

    @property
    def explained(self) -> str:
        """What the heading means, as a line below a table.

        >>> Column("l1", "l1", "Sum of all differences.").explained
        'l1: sum of all differences'
        """
        return self._explained(self.meaning)

    @property
    def brief(self) -> str:
        """The same by the first clause of its meaning alone.

        >>> Column("l1", "l1", "Sum of all differences: of rows that are measured.").brief
        'l1: sum of all differences'
        """
        return self._explained(_CLAUSE.split(self.meaning, maxsplit=1)[0])

    def _explained(self, meaning: str) -> str:
        meaning = meaning.removesuffix(".")
        begins = meaning[:1] if meaning[1:2].isupper() else meaning[:1].lower()
        heading = self.narrow.replace("\n", " ")
        return f"{heading}: {begins}{meaning[1:]}"

    def shown(self, value: float, *, signed: bool = False) -> str:
        """A number with the decimals of this column, as `rounded` writes it."""
        return rounded(value, self.digits or 0, signed=signed)


class Columns(dict[str, Column]):
    """Columns by name; those that several tables share are found too, though they do not count among them."""

    def __missing__(self, name: str) -> Column:
        if self is SHARED_COLUMNS:
            raise KeyError(name)
        return SHARED_COLUMNS[name]

    def of(self, names: str) -> tuple[Column, ...]:
        """The columns of these names, separated by spaces, in this order.

        Raises:
            KeyError: there is none of a name.
        """
        return tuple(self[name] for name in names.split())


@cache
def read_columns(module: str) -> Columns:
    r"""The columns that `columns.txt` beside a module declares.

    It is a table with a row a column, `|` between name, heading, short heading, decimals and meaning; `\n`
    breaks a heading, and decimals with a sign are those of a change.
    """
    lines = Path(module).with_name("columns.txt").read_text(encoding="utf-8").splitlines()
    rows = [[cell.strip() for cell in line.split("|", 4)] for line in lines[1:]]
    return Columns(
        (
            name,
            Column(
                name,
                heading,
                meaning,
                int(digits) if digits else None,
                short.replace(r"\n", "\n"),
                signed=digits.startswith("+"),
            ),
        )
        for name, heading, short, digits, meaning in rows
    )


# Of fewer, too many intervals of skewed values miss: docs/math.md section 10.
FEWEST_FOR_INTERVAL = 10


@dataclass(frozen=True)
class Estimate:
    """A figure with its 95 % interval and, where it is tested, its p-value: one spelling in every table.

    The columns are `NAME`, `NAME_low` and `NAME_high`, and with a test `NAME_p` and `NAME_significant`.

    Attributes:
        column: of the figure itself.
        interval: what the interval is taken over.
        together: the tests that Holm's correction is for; empty where there is none.
        tested: whether there is a p-value without a correction.
    """

    column: Column
    interval: str = "over sentences"
    together: str = ""
    tested: bool = False

    @property
    def name(self) -> str:
        """The name of the figure."""
        return self.column.name

    @property
    def low(self) -> str:
        """The name of the lower end of the interval."""
        return f"{self.name}_low"

    @property
    def high(self) -> str:
        """The name of the upper end of the interval."""
        return f"{self.name}_high"

    @property
    def p(self) -> str:
        """The name of the p-value."""
        return f"{self.name}_p"

    @property
    def significant(self) -> str:
        """The name of the column that says whether the figure is significant."""
        return f"{self.name}_significant"

    def __iter__(self) -> Iterator[Column]:
        """The columns, in their order."""
        heading, digits = self.column.heading, self.column.digits
        end = f"end of its 95 % interval, {self.interval}."
        yield self.column
        yield Column(self.low, f"{heading}, low", f"Lower {end}", digits)
        yield Column(self.high, f"{heading}, high", f"Upper {end}", digits)
        if self.tested or self.together:
            meaning = (
                f"Its p-value, {self.interval}, not corrected: 5 % where the interval ends at 0."
            )
            yield Column(self.p, f"{heading}, p", meaning, 3)
        if self.together:
            yield Column(
                self.significant,
                f"{heading}, significant",
                f"Whether that is below 5 % after Holm's correction for {self.together}.",
            )

    def cells(
        self, value: float, low: float = math.nan, high: float = math.nan, p: float | None = None
    ) -> dict[str, float]:
        """The cells of a row; without a p-value for an estimate that has none."""
        tested = {} if p is None else {self.p: p}
        return {self.name: value, self.low: low, self.high: high} | tested

    def ends(self, row: Mapping[Any, Any]) -> tuple[float, float]:
        """The ends of the interval of a row; NaN where there is none."""
        return row.get(self.low, math.nan), row.get(self.high, math.nan)

    def reversed(self, row: Mapping[Any, Any]) -> dict[str, float]:
        """The cells of a difference taken the other way round.

        >>> Estimate(Column("gain", "gain", "")).reversed({"gain": 1.0, "gain_low": -0.5, "gain_high": 2.0})
        {'gain': -1.0, 'gain_low': -2.0, 'gain_high': 0.5}
        """
        low, high = self.ends(row)
        return self.cells(-row[self.name], -high, -low)

    def shown(self, row: Mapping[Any, Any], *, signed: bool = False) -> str:
        """The figure of a row with its interval; empty where it is missing.

        >>> gain = Estimate(Column("gain", "gain", "", 1))
        >>> gain.shown(gain.cells(1.0, -0.5, 2.0), signed=True), gain.shown(gain.cells(1.0))
        ('+1.0 [-0.5, +2.0]', '1.0')
        """
        value, low, high = (
            self.column.shown(number, signed=signed)
            for number in (row.get(self.name, math.nan), *self.ends(row))
        )
        return f"{value} [{low}, {high}]" if value and low else value


def chance_in_words(low: float, high: float) -> str:
    """Words to follow a difference that may be chance; empty where its interval lacks 0.

    >>> chance_in_words(-1.0, 2.0), chance_in_words(math.nan, math.nan), chance_in_words(1.0, 2.0)
    (', an interval that includes 0', ', of too few sentences to tell it from chance', '')
    """
    if math.isnan(low):
        return ", of too few sentences to tell it from chance"
    return ", an interval that includes 0" if low <= 0 <= high else ""


@dataclass(frozen=True)
class Table:
    """A table as a file.

    Attributes:
        file: its name.
        row: what a row is, such as `a head`.
        columns: all that it may have; some are there only where they apply.
        keys: names of those in which no two rows are alike; empty where that is not known.
        heading: what stands above it on a page; empty where a page does not show it as it is.
        further: `module:function` that gives columns it may have beside these, whose computation is heavy
            to import; asked only where there are such.
    """

    file: str
    row: str
    columns: tuple[Column, ...]
    keys: tuple[str, ...] = ()
    heading: str = ""
    further: str = ""

    @property
    def name(self) -> str:
        """The name of the file without the suffix."""
        return self.file.removesuffix(".csv")

    def __iter__(self) -> Iterator[str]:
        return (column.name for column in self.columns)

    def __getitem__(self, name: str) -> Column:
        """The column of this name.

        Raises:
            KeyError: there is none.
        """
        column = next((column for column in self.columns if column.name == name), None)
        if column is None:
            raise KeyError(name)
        return column

    def further_columns(self, present: Collection[str]) -> tuple[Column, ...]:
        """The `further` columns among those of these names."""
        if not self.further or set(present) <= set(self):
            return ()
        module, _, name = self.further.partition(":")
        return tuple(
            column for column in getattr(import_module(module), name)() if column.name in present
        )

    def explained(self, present: Collection[str] | None = None) -> str:
        """A heading and a line per column, in Markdown; of the columns that are there, or of all."""
        lines = [
            f"- `{column.name}`: {column.meaning}"
            for column in (*self.columns, *self.further_columns(present or ()))
            if present is None or column.name in present
        ]
        return "\n".join([f"## {self.file}, a row per {self.row}", "", *lines, ""])


# Columns that tables of several questions have.
SHARED_COLUMNS = read_columns(__file__)
HEAD = SHARED_COLUMNS.of("site layer head")
HEAD_KEYS = tuple(column.name for column in HEAD)
KEYS = Column("keys", "keys", "`all` keys, or `content`: special tokens are left out as keys.")
HEAD_COUNT = SHARED_COLUMNS["head_count"]
SENTENCE_COUNT = SHARED_COLUMNS["sentences"]
LOSS = SHARED_COLUMNS["loss"]
LOSS_CHANGE = Estimate(SHARED_COLUMNS["loss_change"])
BLEU = SHARED_COLUMNS["bleu"]
BLEU_CHANGE = Estimate(SHARED_COLUMNS["bleu_change"])


def rounded(value: float, digits: int, *, signed: bool = False) -> str:
    """A number as tables show it; one that rounds to 0 has no sign, a missing one is empty.

    >>> rounded(-0.001, 2), rounded(0.125, 2, signed=True), rounded(float("nan"), 2)
    ('0.00', '+0.12', '')
    """
    if math.isnan(value):
        return ""
    text = f"{value:+.{digits}f}" if signed else f"{value:.{digits}f}"
    return text if text.strip("+-0.") else text.lstrip("+-")
