"""What static heads cost by their share, by the order in which heads are chosen, at each site."""

import pandas as pd
from matplotlib.figure import Figure

from attnlab.figures import INK, PAGE, blank, colour, panel, style

LEFT, TOP, WIDTH, HEIGHT, GAP, BOTTOM = 0.65, 0.3, 2.3, 1.8, 0.75, 0.5
MARKERS = "os^D"


def draw_shares(models: pd.DataFrame) -> Figure:
    """A panel a scope, a line an order, means over models; bars are 95 % intervals over them."""
    scopes = list(models["scope"].unique())
    rows = (len(scopes) + 1) // 2
    with style():
        figure = blank(PAGE, TOP + rows * (HEIGHT + GAP) + BOTTOM - GAP)
        for place, scope in enumerate(scopes):
            left, top = LEFT + place % 2 * (WIDTH + GAP), TOP + place // 2 * (HEIGHT + GAP)
            axes = panel(figure, left, top, WIDTH, HEIGHT)
            axes.axhline(0, color=INK, linewidth=0.8, linestyle=":")
            own = models[models["scope"] == scope]
            for index, (order, points) in enumerate(own.groupby("order", sort=False)):
                line = points.sort_values("share")
                # Orders stand side by side, so that their bars can be told apart.
                share = 100 * line["share"] + 1.2 * (index - 1.5)
                axes.vlines(
                    share, line["loss_change_low"], line["loss_change_high"], color=colour(index),
                    linewidth=1,
                )  # fmt: skip
                axes.plot(
                    share, line["loss_change"], color=colour(index), marker=MARKERS[index],
                    markersize=3.5, linewidth=1.1, label=order,
                )  # fmt: skip
            axes.set_title(f"{scope} heads" if scope == "all" else scope)
            axes.set(xlabel="static heads, %", ylabel="change of loss (nats per token)")
            axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, fontsize=7, loc="upper left")
    return figure
