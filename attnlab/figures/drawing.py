"""Colours and letters of labels and families, told apart by colour-blind readers and in grey too."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import SymmetricalLogLocator

from attnlab.core import InputError, briefly

# Inches: a column of a paper, both, and the report page.
COLUMN, PAGE, WIDE = 3.4, 7.0, 12.4
_LEAST_CONTRAST = 3.0


@dataclass(frozen=True)
class Mark:
    """The mark of a label: the colour of its cells, and a letter in them; none for what has no name."""

    colour: str
    letter: str = ""

    @property
    def pale(self) -> "Mark":
        """The mark two thirds of the way to white, for what is not confirmed."""
        mixed = (round(channel + (255 - channel) * 2 / 3) for channel in _channels(self.colour))
        return Mark("#" + "".join(f"{channel:02x}" for channel in mixed), self.letter)

    @property
    def ink(self) -> str:
        """The colour of the letter, readable on that of the cell."""
        return "#000000" if _luminance(self.colour) > 0.18 else "#ffffff"

    def edge(self, background: str) -> str:
        """The colour, moved to black or white until a line of it can be told from a background.

        The contrast is 3 to 1 at least, as the Web Content Accessibility Guidelines 2.1 (1.4.11) ask for.
        """
        end = 0 if _luminance(background) > 0.18 else 255
        channels = _channels(self.colour)
        mixed = (
            "#" + "".join(f"{round(part + (end - part) * step / 20):02x}" for part in channels)
            for step in range(21)
        )
        return next(shade for shade in mixed if _contrast(shade, background) >= _LEAST_CONTRAST)


def _channels(colour: str) -> list[int]:
    return [int(colour[at : at + 2], 16) for at in (1, 3, 5)]


def _luminance(colour: str) -> float:
    shares = [channel / 255 for channel in _channels(colour)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in shares]
    return sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def _contrast(first: str, other: str) -> float:
    low, high = sorted((_luminance(first), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


# After Okabe and Ito, "Color Universal Design" (2008).
FUNCTIONS = {
    "positional": Mark("#0072b2", "P"),
    "syntactic": Mark("#009e73", "S"),
    "rare tokens": Mark("#d55e00", "R"),
    "sink": Mark("#e69f00", "K"),
    "broad": Mark("#f0e442", "B"),
    "monotone": Mark("#cc79a7", "M"),
    "alignment": Mark("#56b4e9", "A"),
    "coreference": Mark("#3d4752", "C"),
    "same token across": Mark("#7f8c1d", "W"),
    "crossing": Mark("#6a4fb3", "X"),
    "none": Mark("#e3e6ea"),
}
# A shape has the colour of the role that makes it, and none of another.
STRUCTURES = {
    "diagonal": Mark("#0072b2", "D"),
    "band": Mark("#8fb8de", "B"),
    "kept_band": Mark("#8fb8de", "B"),
    "rare_columns": Mark("#d55e00", "R"),
    "column": Mark("#e69f00", "C"),
    "column_band": Mark("#7d6b2f", "V"),
    "diffuse": Mark("#e3e6ea"),
}
# Of labels that other distributions add.
OTHERS = ("#7b3294", "#8c564b", "#5c7a29", "#a6611a")


def marks_of_names(names: Collection[str]) -> dict[str, Mark]:
    """The mark of each name in figures and pages: labels or families in their order, then others by letters.

    Names that are neither have the shortest beginning of their name that no other mark has.

    >>> {name: mark.letter for name, mark in marks_of_names({"sink", "sequence", "syntactic"}).items()}
    {'syntactic': 'S', 'sink': 'K', 'sequence': 'Se'}
    """
    ordered_names = FUNCTIONS if {*names} & ({*FUNCTIONS} - {*STRUCTURES}) else STRUCTURES
    marks = {name: mark for name, mark in ordered_names.items() if name in names}
    taken = {mark.letter for mark in ordered_names.values()}
    for index, name in enumerate(sorted({*names} - {*marks})):
        beginnings = (name[:end].capitalize() for end in range(1, len(name) + 1))
        letter = next((part for part in beginnings if part not in taken), name)
        taken.add(letter)
        marks[name] = Mark(OTHERS[index % len(OTHERS)], letter)
    return marks


LEVEL_COLOURS = {"oracle": "#c2570c", "calibrated": "#2178d9", "static": "#6b7280"}
# Level is told by shape too, for readers who cannot tell the colours apart.
LEVEL_MARKERS = {"oracle": "D", "calibrated": "o", "static": "s"}


def example_of(level: str) -> Line2D:
    """The mark of a level in a legend."""
    colour, marker = LEVEL_COLOURS[level], LEVEL_MARKERS[level]
    return Line2D([], [], color=colour, marker=marker, markersize=4, label=level)


# Some tables have a hundred columns.
_MOST_NAMES = 12


def check_table(
    table: Any, columns: Sequence[str], expected: str, *, empty: str | None = None
) -> None:
    """Refuses what is no table with these columns and at least one row.

    Args:
        table: what a figure was asked of.
        columns: that it needs.
        expected: where a user finds such a table, such as `Analysis.fits or fits.csv`.
        empty: what an empty table means and what to do about it; None: that there are no rows.

    Raises:
        InputError: see above.
    """
    if isinstance(table, str | Path):
        msg = (
            f"A figure is drawn from a table and not from a path such as {briefly(str(table))}; give "
            f"{expected}, files read with pandas.read_csv."
        )
        raise InputError(msg)
    if not isinstance(table, pd.DataFrame):
        msg = (
            "A figure is drawn from a table (a pandas.DataFrame) and not from an object of the class "
            f"{type(table).__name__}; give {expected}."
        )
        raise InputError(msg)
    missing = [name for name in columns if name not in table]
    if missing:
        msg = f"The table lacks {_listed(missing)}; it has: {_listed(table)}; give {expected}."
        raise InputError(msg)
    if table.empty:
        msg = empty or f"The table has no rows to draw; give {expected}."
        raise InputError(msg)


def _listed(names: Iterable[Any]) -> str:
    texts = [str(name) for name in names]
    more = len(texts) - _MOST_NAMES
    if more > 0:
        return f"{', '.join(texts[:_MOST_NAMES])} and {more} more"
    return ", ".join(texts) or "no columns"


# Up to so many times the threshold there is room for ticks within a decade.
_WIDE = 30.0


def stretch(axes: Axes, which: Literal["x", "y"], *, threshold: float, largest: float) -> str:
    """Makes an axis logarithmic beyond the threshold where anything lies there.

    Args:
        axes: of a figure.
        which: the axis.
        threshold: up to which it stays linear.
        largest: of the absolute values that are drawn.

    Returns:
        A line for the label of the axis, with the line feed before it; empty where it is linear.
    """
    if largest <= threshold:
        return ""
    axis = axes.xaxis if which == "x" else axes.yaxis
    set_scale = axes.set_xscale if which == "x" else axes.set_yscale
    set_scale("symlog", linthresh=threshold)
    subs = (1, 2, 5) if largest < _WIDE * threshold else (1,)
    axis.set_major_locator(SymmetricalLogLocator(base=10, linthresh=threshold, subs=subs))
    axis.set_major_formatter("{x:g}")
    return f"\n(linear to {threshold:g}, logarithmic beyond)"
