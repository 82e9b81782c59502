"""Neighbours of words drawn at the first two principal components of their vectors; and on a terminal."""

from collections.abc import Iterator

import pandas as pd
from matplotlib.figure import Figure

from attnlab.core import shown
from attnlab.figures import INK, PAGE, WIDE, blank, check_table, colour, panel, style
from attnlab.questions.neighbours.question import MAP, NEIGHBOURS
from attnlab.results import Contents, DrawnFigure, Result, TerminalTable, drawn_table

_TOO_FEW = "There are too few words for a map; ask for more neighbours or words."
# Names of more words than this would hide each other.
MOST_NAMES = 150
# Inches.
_HIGHEST = 6.0


def contents(result: Result) -> Contents:
    """What the page of neighbours shows."""
    caption = (
        "The words and their neighbours at the first two principal components of their vectors."
    )
    figures = (
        []
        if result.map.empty
        else [DrawnFigure("map", draw_embedding_map(result.map, width=WIDE), caption)]
    )
    return Contents(figures)


def answers(result: Result) -> list[str]:
    """The nearest neighbour of each word, in one sentence."""
    nearest = result.neighbours.drop_duplicates("word")
    pairs = zip(nearest["word"], nearest["neighbour"], strict=True)
    return [f"Nearest {'; '.join(f'to {shown(str(a))}: {shown(str(b))}' for a, b in pairs)}."]


def terminal(result: Result) -> Iterator[TerminalTable]:
    """A row per word."""
    heading = "neighbours, with their cosines"
    yield TerminalTable(("word", heading), tuple(_near(result)), prose=(heading,))


def _near(result: Result) -> Iterator[tuple[str, str]]:
    """Each word, and its neighbours in a line."""
    for word, group in result.neighbours.groupby("word", sort=False):
        near = zip(group["neighbour"], group["cosine"], strict=True)
        yield (
            shown(str(word)),
            ", ".join(
                f"{shown(other)} {NEIGHBOURS['cosine'].shown(cosine)}" for other, cosine in near
            ),
        )


def draw_embedding_map(table: pd.DataFrame | Result, *, width: float = PAGE) -> Figure:
    """The words of a map, each at its two components and in the colour of its group.

    The word that a group is named after is in bold. Both axes have one scale, so that distances on the
    figure are those of the components.

    Args:
        table: a result of `neighbours` with a map, or one row per word, as its `map`.
        width: of the figure in inches; both columns of a paper by default.

    Raises:
        InputError: it is no table, a column is missing, or there are no words.
    """
    table = drawn_table(table, MAP.name)
    check_table(table, list(MAP), "the map of attnlab.neighbours", empty=_TOO_FEW)
    height = min(0.7 * width, _HIGHEST)
    with style():
        figure = blank(width, height)
        axes = panel(figure, 0.5, 0.12, width - 0.65, height - 0.55)
        for index, (group, rows) in enumerate(table.groupby("group", sort=False)):
            across, up = rows["first_component"], rows["second_component"]
            axes.plot(across, up, "o", color=colour(index), markersize=3)
            if len(table) > MOST_NAMES:
                continue
            for word, x, y in zip(rows["word"], across, up, strict=True):
                axes.annotate(
                    shown(str(word)), (x, y), xytext=(3, 2), textcoords="offset points",
                    fontsize=7, color=INK, weight="bold" if word == group else "normal",
                )  # fmt: skip
        axes.set_aspect("equal", adjustable="datalim")
        first, second = (float(table[f"{name}_share"].iloc[0]) for name in ("first", "second"))
        axes.set_xlabel(f"first component ({first:.0%} of the variance)")
        axes.set_ylabel(f"second component ({second:.0%})")
        axes.spines[["top", "right"]].set_visible(False)
    return figure
