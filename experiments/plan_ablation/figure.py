"""What the arms of the ablation cost in loss, by the keys that rows see."""

import pandas as pd
from matplotlib.figure import Figure

from attnlab.figures import PAGE, blank, colour, panel, style

LEFT, TOP, WIDTH, HEIGHT, BOTTOM = 0.75, 0.3, 3.4, 2.9, 0.5


def draw_arms(models: pd.DataFrame) -> Figure:
    """A line an arm, means over models; bars are 95 % intervals over them where there are several."""
    order = list(models.groupby("arm")["loss_change"].mean().sort_values(ascending=False).index)
    colours = [colour(index) for index in range(len(order))]
    with style():
        figure = blank(PAGE, TOP + HEIGHT + BOTTOM)
        axes = panel(figure, LEFT, TOP, WIDTH, HEIGHT)
        for index, arm in enumerate(order):
            own = models[models["arm"] == arm].sort_values("visible_keys")
            loss = own["loss_change"]
            ends = [loss - own["loss_change_low"], own["loss_change_high"] - loss]
            axes.errorbar(
                own["visible_keys"], loss, None if own["loss_change_low"].isna().any() else ends,
                color=colours[index], marker="o",
                # Dotted where the colour is there already.
                linestyle="-" if colours.index(colours[index]) == index else ":",
                markersize=3, linewidth=1.1, label=arm,
            )  # fmt: skip
        axes.set(xlabel="keys per row, counted on test", ylabel="change of loss (nats per token)")
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, fontsize=7, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure
