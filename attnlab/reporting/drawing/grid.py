"""Tables of numbers as pictures: a row per head, a column per width or offset, a panel per site."""

from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from attnlab.reporting.canvas import blank, panel, style
from attnlab.reporting.drawing.palette import COLUMN

_LEFT, _RIGHT, _TOP, _BETWEEN, _BELOW = 0.55, 0.08, 0.46, 0.34, 0.62
_MOST_NUMBERED = 30
# Darker cells have white numbers.
_DARK = 0.55


@dataclass(frozen=True)
class Grid:
    """What a figure of such tables says.

    Attributes:
        title: above all.
        across: what the columns are.
        scale: what the numbers are.
        ticks: of the scale.
        norm: from numbers to colours.
        reference: name of a row that is set apart from the heads; None where there is none.
    """

    title: str
    across: str
    scale: str
    ticks: tuple[float, ...] = (0.0, 0.5, 1.0)
    norm: Normalize = Normalize(0.0, 1.0)
    reference: str | None = None


def draw_grids(tables: Mapping[str, pd.DataFrame], grid: Grid, *, width: float) -> Figure:
    """A panel per table, as many side by side as columns of a paper fit into the width.

    Args:
        tables: numbers by site; the index names the rows, the columns are what is across.
        grid: what the figure says.
        width: of the figure in inches.
    """
    beside = max(1, min(len(tables), int(width / COLUMN + 0.05)))
    step = width / beside
    numbers = max(map(len, tables.values())) <= _MOST_NUMBERED
    row = 0.15 if numbers else max(4.5 / sum(map(len, tables.values())), 0.035)
    heights = [row * len(_spaced(table, grid.reference)) for table in tables.values()]
    lines = [max(heights[at : at + beside]) for at in range(0, len(heights), beside)]
    whole = _TOP + sum(lines) + _BETWEEN * (len(lines) - 1) + _BELOW
    last = len(tables) - beside
    with style():
        figure = blank(width, whole)
        for index, (site, table) in enumerate(tables.items()):
            line = index // beside
            top = _TOP + sum(lines[:line]) + _BETWEEN * line
            left = _LEFT + step * (index % beside)
            axes = panel(figure, left, top, step - _LEFT - _RIGHT, heights[index])
            _draw(axes, table, grid, numbers=numbers)
            axes.set_title(site, loc="left", pad=3)
            axes.tick_params(labelbottom=index >= last)
            if index >= last:
                axes.set_xlabel(grid.across, labelpad=2)
        figure.text(0.1 / width, 1 - 0.15 / whole, grid.title, va="center", fontsize=9)
        _draw_scale(figure, grid, whole)
    return figure


def _draw_scale(figure: Figure, grid: Grid, whole: float) -> None:
    bar = panel(figure, _LEFT, whole - 0.2, 1.0, 0.07)
    shades = ScalarMappable(grid.norm, "Blues")
    figure.colorbar(shades, cax=bar, orientation="horizontal", ticks=grid.ticks, format="{x:g}")
    bar.tick_params(length=2, pad=1, labelsize=6)
    bar.set_title("")
    at = (_LEFT + 1.1) / figure.get_figwidth(), 0.165 / whole
    figure.text(*at, grid.scale, va="center", fontsize=7)


def _draw(axes: Axes, table: pd.DataFrame, grid: Grid, *, numbers: bool) -> None:
    spaced = _spaced(table, grid.reference)
    columns, rows = len(spaced.columns), len(spaced)
    # One image per panel: identical images, as of the same reference at two sites, would share a name.
    axes.imshow(
        spaced.to_numpy(float), extent=(0, columns, rows, 0), cmap="Blues", norm=grid.norm,
        aspect="auto", interpolation="none",
    )  # fmt: skip
    axes.set_xticks([column + 0.5 for column in range(columns)], table.columns)
    named = [
        (index + 0.5, name)
        for index, name in enumerate(spaced.index)
        if name and (numbers or name.endswith(".0") or name == grid.reference)
    ]
    axes.set_yticks([middle for middle, _ in named], [name for _, name in named])
    if numbers:
        _write_numbers(axes, spaced, grid)
    axes.tick_params(length=0, pad=2)
    axes.spines[:].set_visible(False)


def _spaced(table: pd.DataFrame, reference: str | None) -> pd.DataFrame:
    """The rows with an empty one before the reference."""
    if reference not in table.index:
        return table
    order = [name for name in table.index if name != reference]
    return table.reindex([*order, "", reference])


def _write_numbers(axes: Axes, table: pd.DataFrame, grid: Grid) -> None:
    for index, (_, row) in enumerate(table.iterrows()):
        for column, value in enumerate(row):
            if not pd.isna(value):
                axes.text(
                    column + 0.5, index + 0.54, f"{value:.2f}".removeprefix("0"), ha="center",
                    va="center", fontsize=5.5,
                    color="#ffffff" if grid.norm(value) > _DARK else "#000000",
                )  # fmt: skip
