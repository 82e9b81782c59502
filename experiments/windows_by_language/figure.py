"""Captured weight by window and source language, beside gold arcs, and the window of every model."""

from collections.abc import Sequence

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from attnlab.figures import PAGE, blank, colour, panel, style
from experiments.windows_by_language.reading import SHARE, TRAINED, UNTRAINED

LEFT, TOP, GAP, WIDTH, HEIGHT, BOTTOM = 0.5, 0.32, 0.12, 1.43, 1.75, 0.55


def draw_windows(curves: pd.DataFrame, gold: pd.DataFrame, models: pd.DataFrame) -> Figure:
    """Three panels of curves, a line a language, and one of w90, a dot a model.

    Args:
        curves: `source`, `condition`, `window`, `captured`, means over models.
        gold: `language`, `window`, `captured`.
        models: `source`, `condition`, `w90`, a row a model.
    """
    with style():
        figure = blank(PAGE, TOP + HEIGHT + BOTTOM)
        shown = {
            "trained": curves[curves["condition"] == TRAINED],
            "untrained": curves[curves["condition"] == UNTRAINED],
            "gold arcs": gold.rename(columns={"language": "source"}),
        }
        for index, (title, rows) in enumerate(shown.items()):
            axes = panel(figure, LEFT + index * (WIDTH + GAP), TOP, WIDTH, HEIGHT)
            _draw_curves(axes, rows, list(models["source"].unique()))
            axes.set_title(title, loc="left")
            axes.tick_params(labelleft=index == 0)
            if index == 0:
                axes.set_ylabel("share captured")
            if index == 2:
                axes.legend(frameon=False, fontsize=7, loc="lower right")
        left = LEFT + 3 * (WIDTH + GAP) + 0.45
        _draw_models(panel(figure, left, TOP, PAGE - left - 0.05, HEIGHT), models)
    return figure


def _draw_curves(axes: Axes, rows: pd.DataFrame, languages: Sequence[str]) -> None:
    for place, language in enumerate(languages):
        own = rows[rows["source"] == language]
        axes.plot(
            own["window"], own["captured"], color=colour(place), linewidth=1.1, label=language
        )
    axes.axhline(SHARE, color="#b5bcc4", linewidth=0.6)
    axes.set(xlabel="window (words)", ylim=(0, 1.02), xlim=(0, 20))
    axes.spines[["top", "right"]].set_visible(False)


def _draw_models(axes: Axes, models: pd.DataFrame) -> None:
    """Filled dots are trained models, hollow ones their untrained twins."""
    languages = list(models["source"].unique())
    for place, language in enumerate(languages):
        for condition, filled in ((UNTRAINED, "none"), (TRAINED, colour(place))):
            own = models[(models["source"] == language) & (models["condition"] == condition)]
            axes.plot(
                [place] * len(own), own["w90"], "o", markersize=4, color=colour(place),
                markerfacecolor=filled, linewidth=0,
            )  # fmt: skip
    axes.set_xticks(range(len(languages)), languages)
    axes.set_title("w90 by model", loc="left")
    axes.set(xlabel="hollow: untrained", xlim=(-0.5, len(languages) - 0.5))
    axes.set_ylim(0, 1.08 * models["w90"].max())
    axes.spines[["top", "right"]].set_visible(False)
