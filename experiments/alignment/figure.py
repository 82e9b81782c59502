"""AER of every way to align, a panel a kind of model."""

from collections.abc import Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from attnlab.core import counted
from attnlab.figures import PAGE, blank, panel, style
from experiments.alignment.corpus import TEXTS

# Which columns tell models apart, and which kinds of models.
MODEL, KIND = ["text", "layers", "seed"], ["text", "layers"]
EMBEDDED = "embedded"
COLOURS = {
    "choice": "#2178d9",
    "bound": "#8bb8ea",
    "default": "#d9822b",
    "baseline": "#5f6770",
    "control": "#b5bcc4",
}
KINDS = {
    "choice": "chosen",
    "bound": "bound",
    "default": "default of engines",
    "baseline": "baseline",
    "control": "control",
}
NAMES_WIDTH, PANEL_GAP, ROW_HEIGHT, TOP, BOTTOM = 2.3, 0.14, 0.21, 0.42, 0.78


def kind_name(key: Sequence[Any]) -> str:
    """What models of a kind are called, by the columns of `KIND`: `English-Italian, 3 layers`."""
    text, layers = key
    trained_on = "embedded grammar" if text == EMBEDDED else "-".join(TEXTS[text].languages)
    return f"{trained_on}, {counted(layers, 'layer')}"


def model_name(key: Sequence[Any]) -> str:
    """What a model is called, by the columns of `MODEL`: `English-Italian, 3 layers, seed 0`."""
    *kind, seed = key
    return f"{kind_name(kind)}, seed {seed}"


def draw_systems(systems: pd.DataFrame) -> Figure:
    """AER with its 95 % interval over sentence pairs: rows are ways to align, panels kinds of models.

    Rows are in the order of their mean AER; models of a kind stand one below the other within a row.
    """
    order = systems.groupby("system")["aer"].mean().sort_values(ascending=False)
    kinds = list(systems.groupby(KIND, sort=True))[::-1]
    width = (PAGE - NAMES_WIDTH - PANEL_GAP * len(kinds)) / len(kinds)
    height = ROW_HEIGHT * len(order)
    with style():
        figure = blank(PAGE, TOP + height + BOTTOM)
        for index, (key, rows) in enumerate(kinds):
            left = NAMES_WIDTH + index * (width + PANEL_GAP)
            axes = panel(figure, left, TOP, width, height)
            _draw_kind(axes, rows, list(order.index))
            axes.set_yticks(range(len(order)), list(map(_shortened, order.index)))
            axes.tick_params(labelleft=index == 0)
            axes.set_title(_title(key), loc="left")
            if index == len(kinds) // 2:
                axes.set_xlabel(
                    "AER in points, 95 % interval over sentence pairs (lower is better)"
                )
        marks = [
            Line2D([], [], color=colour, marker="o", markersize=4, label=KINDS[kind])
            for kind, colour in COLOURS.items()
        ]
        figure.legend(handles=marks, loc="lower center", ncols=len(marks), frameon=False)
    return figure


def _title(key: Sequence[Any]) -> str:
    text, layers = key
    return f"{text}\n{counted(layers, 'layer')}"


def _draw_kind(axes: Axes, rows: pd.DataFrame, order: list[str]) -> None:
    seeds = sorted(rows["seed"].unique())
    for row in rows.to_dict("records"):
        # Seeds share the middle two thirds of a row.
        place = order.index(row["system"]) + (2 * seeds.index(row["seed"]) - len(seeds) + 1) / (
            -3 * len(seeds)
        )
        colour = COLOURS[row["system_kind"]]
        ends = [100 * row["aer_low"], 100 * row["aer_high"]]
        axes.plot(ends, [place, place], color=colour, linewidth=1.2)
        axes.plot(100 * row["aer"], place, "o", color=colour, markersize=3)
    axes.set(xlim=(0, 100), ylim=(-0.6, len(order) - 0.4), xticks=range(20, 100, 20))
    axes.grid(axis="x", color="#e3e6ea", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def _shortened(system: str) -> str:
    return system.removesuffix(" (grow-diag-final-and)")
