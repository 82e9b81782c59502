"""Value against price: every candidate as a point, and a line through those that nothing beats."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from attnlab.budget import REPLACED
from attnlab.core import InputError
from attnlab.figures.canvas import INK, blank, colour, panel, style
from attnlab.figures.drawing import COLUMN, check_table

_NAMES = ("mechanism", "plan", "family", "approximation")
_MARKERS = "osD^vP*X<>"
_HEIGHT = 2.2
# So many prices have a tick each.
_MOST_TICKS = 6
# What is so many times as bad as the worst of the best stands outside, so that these can be told apart.
_REACH = 2.0


def frontier(table: pd.DataFrame, price: str, value: str, *, larger: bool = False) -> pd.DataFrame:
    """The rows that no other row beats in both columns, by price.

    Args:
        table: one row per candidate.
        price: a column; less is better.
        value: another.
        larger: whether more of `value` is better.
    """
    ordered = table.dropna(subset=[price, value])
    ordered = ordered.sort_values([price, value], ascending=[True, not larger], kind="stable")
    best = ordered[value].cummax() if larger else ordered[value].cummin()
    beaten = best.shift() >= ordered[value] if larger else best.shift() <= ordered[value]
    return ordered[~beaten]


def draw_pareto(
    table: pd.DataFrame,
    price: str = "budget",
    value: str = "output_error",
    *,
    larger: bool = False,
    width: float = COLUMN,
) -> Figure:
    """Every candidate at its price and value, and a line through those that nothing beats.

    What is an oracle, fitted to what it is measured on, is left out, since it cannot be used.

    Args:
        table: one row per candidate and budget with a column `mechanism`, `plan`, `family` or
            `approximation`, such as `compare(...).summary` at one site or `plan(...).summary`; rows of one
            candidate and price are averaged.
        price: the column across; less is better.
        value: the column up.
        larger: whether more of `value` is better.
        width: of the figure in inches.

    Raises:
        InputError: it is no table, a column is missing, there are no rows, or these are of several sites.
    """
    check_table(table, (price, value), "compare(...).summary or plan(...).summary, or its file")
    name = next((column for column in _NAMES if column in table), None)
    if name is None:
        msg = f"The table lacks one of {', '.join(_NAMES)}; it has: {', '.join(map(str, table))}."
        raise InputError(msg)
    _check_one_site(table)
    if "level" in table:
        table = table[table["level"] != "oracle"]
    means = table.groupby([name, price], sort=False)[value].mean().dropna().reset_index()
    best = frontier(means, price, value, larger=larger)
    winners = list(dict.fromkeys(best[name]))
    with style():
        figure = blank(width, _HEIGHT)
        axes = panel(figure, 0.5, 0.12, width - 0.62, _HEIGHT - 0.55)
        others = means[~means[name].isin(winners)]
        axes.plot(others[price], others[value], "o", color="#b6bcc5", markersize=2.5)
        axes.plot(best[price], best[value], color=INK, linewidth=0.8, drawstyle="steps-post")
        for index, winner in enumerate(winners):
            points = means[means[name] == winner]
            axes.plot(
                points[price], points[value], _MARKERS[index % len(_MARKERS)], color=colour(index),
                markersize=4, label=str(winner),
            )  # fmt: skip
        if len(others):
            axes.plot([], [], "o", color="#b6bcc5", markersize=2.5, label="others")
        if not larger:
            _cut_far_above(axes, means[value], best[value].max())
        prices = sorted(means[price].unique())
        if len(prices) <= _MOST_TICKS:
            axes.set_xticks(prices)
            axes.xaxis.set_major_formatter("{x:g}")
        headings = {column.name: column.heading for column in REPLACED}
        axes.set_xlabel(headings.get(price, price.replace("_", " ")))
        axes.set_ylabel(headings.get(value, value.replace("_", " ")))
        axes.legend(frameon=False, labelspacing=0.25, handletextpad=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    return figure


def _cut_far_above(axes: Axes, values: pd.Series, best: float) -> None:
    """Ends the axis well above the best candidates, and counts those that lie beyond."""
    top = _REACH * best
    if values.min() < 0 or not values.max() > top > 0:
        return
    axes.set_ylim(0, top)
    axes.text(
        0.01, 0.98, f"{int((values > top).sum())} above this axis", transform=axes.transAxes, va="top",
        fontsize=7,
    )  # fmt: skip


def _check_one_site(table: pd.DataFrame) -> None:
    at = list(dict.fromkeys(table["sites"])) if "sites" in table else []
    if len(at) > 1:
        msg = (
            f"The rows are of several sites ({'; '.join(map(str, at))}), whose prices do not compare; choose "
            "those of one."
        )
        raise InputError(msg)
