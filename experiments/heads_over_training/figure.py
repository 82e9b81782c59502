"""How strong the strongest head of each label is over training, beside loss and BLEU of the model."""

from collections.abc import Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from attnlab.figures import FUNCTIONS, INK, PAGE, blank, panel, style
from experiments.heads_over_training.curves import BLEU, LOSS
from experiments.heads_over_training.readings import (
    DUPLICATE_TOKEN,
    INDUCTION_HEAD,
    ON_RANDOM,
    PREVIOUS_TOKEN,
)

# Rows of four panels: a site, and its labels; the last of a row may be a measure of the model.
Rows = Sequence[tuple[str, Sequence[str]]]
TRANSLATION_ROWS: Rows = (
    ("encoder", ("positional", "syntactic", "rare tokens", "sink")),
    ("decoder", ("positional", "syntactic", "sink", LOSS)),
    ("cross", ("alignment", "monotone", "sink", BLEU)),
)
LANGUAGE_ROWS: Rows = (
    ("decoder", ("positional", "syntactic", "broad", "sink")),
    ("decoder", (PREVIOUS_TOKEN, DUPLICATE_TOKEN, INDUCTION_HEAD, LOSS)),
)
LEFT, TOP, WIDTH, HEIGHT, GAP, BOTTOM = 0.5, 0.3, 1.38, 0.95, 0.2, 0.4
# What the literature calls heads has no colour of its own among labels.
UNTRAINED, DETECTED, TICKS = "#d5d9de", "#3b6ea5", (10, 100, 500, 2000)


def draw_training(strengths: pd.DataFrame, quality: pd.DataFrame, rows: Rows) -> Figure:
    """A row of panels a site: mean and range over models, what models reach before training in grey.

    Args:
        strengths: `seed`, `site`, `label`, `step`, `strength` and `shuffled_strength` (dotted).
        quality: `seed`, `step`, and the measures of the model.
        rows: of panels.
    """
    with style():
        down = HEIGHT + TOP + 0.06
        figure = blank(PAGE, len(rows) * down + BOTTOM)
        for row, (site, names) in enumerate(rows):
            for column, name in enumerate(names):
                left = LEFT + column * (WIDTH + GAP)
                axes = panel(figure, left, TOP + row * down, WIDTH, HEIGHT)
                own = strengths[(strengths["site"] == site) & (strengths["label"] == name)]
                if name in quality:
                    _draw(axes, quality, name, INK)
                    axes.set_title(name, loc="left")
                elif own.empty:
                    # A small vocabulary has no rare tokens.
                    axes.set_axis_off()
                else:
                    known = FUNCTIONS.get(name)
                    _draw(axes, own, "strength", DETECTED if known is None else known.colour)
                    mixed = _over_models(own, "shuffled_strength").iloc[1:]
                    axes.plot(mixed["step"], mixed["mean"], ":", color=INK, linewidth=0.9)
                    axes.set(ylim=(-0.03, 1.05), yticks=[0, 0.5, 1])
                    title = name.removesuffix(ON_RANDOM) if known is None else f"{site}: {name}"
                    axes.set_title(title, loc="left")
                axes.tick_params(
                    labelbottom=row == len(rows) - 1, labelleft=column == 0 or name in quality
                )
                if row == len(rows) - 1:
                    axes.set_xlabel("step")
            figure.axes[4 * row].set_ylabel("strength")
    return figure


def _draw(axes: Axes, table: pd.DataFrame, name: str, colour: Any) -> None:
    """Mean and range over models by step, from the first step on; in grey the range at the start."""
    found = _over_models(table, name)
    start, rest = found.iloc[0], found.iloc[1:]
    axes.axhspan(start["min"], start["max"], color=UNTRAINED, linewidth=0)
    axes.fill_between(rest["step"], rest["min"], rest["max"], color=colour, alpha=0.25, linewidth=0)
    axes.plot(rest["step"], rest["mean"], color=colour, linewidth=1.3)
    axes.set_xscale("log")
    axes.minorticks_off()
    axes.set_xticks(TICKS, list(map(str, TICKS)))
    # After the ticks, some of which are further than short trainings go.
    axes.set_xlim(rest["step"].min(), rest["step"].max())
    axes.spines[["top", "right"]].set_visible(False)


def _over_models(table: pd.DataFrame, name: str) -> pd.DataFrame:
    """Mean and range of a measure at each checkpoint; the steps of models differ by a few."""
    place = table.groupby("seed")["step"].rank("dense")
    found = table.groupby(place)[name].agg(["mean", "min", "max"])
    return found.assign(step=table.groupby(place)["step"].mean())
