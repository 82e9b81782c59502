"""The figure of a comparison: mass captured and output error of every mechanism by budget."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from attnlab.reporting.canvas import blank, panel, style

LEVEL_COLOURS = {"oracle": "#8a6d1c", "calibrated": "#2178d9", "static": "#6b7280"}
FIGURES = {"mass_fraction": "share of attention captured", "output_error": "relative output error"}


def draw_comparison(summary: pd.DataFrame) -> Figure:
    """A row of panels a budget: each mechanism's mean with its interval, coloured by level."""
    budgets = list(dict.fromkeys(summary["budget"]))
    names = summary.groupby("mechanism")["output_error"].mean().sort_values(ascending=False).index
    width, height = 2.9, 0.2 * len(names) + 0.2
    with style():
        figure = blank(
            1.9 + len(FIGURES) * (width + 0.25) + 0.1, len(budgets) * (height + 0.75) + 0.15
        )
        for place, budget in enumerate(budgets):
            top = 0.35 + place * (height + 0.75)
            for column, (name, label) in enumerate(FIGURES.items()):
                axes = panel(figure, 1.9 + column * (width + 0.25), top, width, height)
                _draw(axes, summary[summary["budget"] == budget], list(names), name)
                axes.set_xlabel(label)
                axes.tick_params(axis="y", labelleft=column == 0, length=0)
            axes.set_title(f"{budget} visible keys a row", loc="right")
        for level, colour in LEVEL_COLOURS.items():
            figure.axes[0].plot([], [], "o", color=colour, label=level)
        figure.axes[0].legend(frameon=False, fontsize=7.5, loc="lower right")
    return figure


def _draw(axes: Axes, table: pd.DataFrame, names: list[str], figure: str) -> None:
    for row in table.to_dict("records"):
        if pd.notna(row[figure]):
            y = names.index(row["mechanism"])
            colour = LEVEL_COLOURS[row["level"]]
            axes.plot([row[f"{figure}_low"], row[f"{figure}_high"]], [y, y], color=colour)
            axes.plot(row[figure], y, "o", color=colour, markersize=4)
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(-0.7, len(names) - 0.3)
    axes.set_xlim(left=0)
