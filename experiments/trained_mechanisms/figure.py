"""Test loss of models by the mechanism that they were trained with."""

import pandas as pd
from matplotlib.figure import Figure

from attnlab.figures import PAGE, blank, colour, panel, style

LEFT, TOP, RIGHT, ROW, BOTTOM = 1.9, 0.2, 0.15, 0.22, 0.5
BETWEEN, LETTER = 0.25, 0.055
MEASURES = {"loss": "loss (nats per token)", "bleu": "BLEU"}


def draw_arms(table: pd.DataFrame, models: pd.DataFrame) -> Figure:
    """A row an arm, best at the top: a dot a model, a line at their mean, a bar its 95 % interval.

    Args:
        table: `arm`, `loss`, `bleu`, a row a model.
        models: the same over models, with the ends of the intervals.
    """
    order = list(models.sort_values("loss", ascending=False)["arm"])
    left = max(LEFT, LETTER * max(map(len, order)))
    width = (PAGE - left - BETWEEN - RIGHT) / 2
    with style():
        height = ROW * len(order)
        figure = blank(PAGE, TOP + height + BOTTOM)
        for index, (measure, label) in enumerate(MEASURES.items()):
            axes = panel(figure, left + index * (width + BETWEEN), TOP, width, height)
            for place, arm in enumerate(order):
                own = table.loc[table["arm"] == arm, measure]
                mean = models[models["arm"] == arm].iloc[0]
                low, high = mean[f"{measure}_low"], mean[f"{measure}_high"]
                if pd.notna(low):
                    axes.plot([low, high], [place] * 2, color="#b5bcc4", linewidth=2.5, zorder=1)
                axes.plot([mean[measure]], [place], "|", color=colour(index), markersize=10)
                axes.plot(own, [place] * len(own), "o", color=colour(index), markersize=3.5)
            axes.set(xlabel=label, ylim=(-0.6, len(order) - 0.4), yticks=range(len(order)))
            axes.set_yticklabels(order if index == 0 else [])
            axes.grid(axis="y", linewidth=0.3)
            axes.spines[["top", "right"]].set_visible(False)
    return figure
