"""How well each predictor ranks the heads, site by site."""

from collections.abc import Mapping

import pandas as pd
from matplotlib.figure import Figure

from attnlab.figures import INK, PAGE, blank, colour, panel, style

LEFT, TOP, WIDTH, ROW, BOTTOM = 2.3, 0.15, 3.4, 0.34, 0.5
MARKERS = "os^D*"


def draw_predictors(models: pd.DataFrame, predictors: Mapping[str, str], by: str) -> Figure:
    """A row a predictor, a point a site, the best at `by` first; bars are 95 % intervals over models."""
    (first,) = models[models["site"] == by].to_dict("records")
    order = sorted(predictors, key=lambda name: -float(first[name]))
    height = ROW * len(order)
    with style():
        figure = blank(PAGE, TOP + height + BOTTOM)
        axes = panel(figure, LEFT, TOP, WIDTH, height)
        axes.axvline(0, color=INK, linewidth=0.8, linestyle=":")
        for index, row in enumerate(models.to_dict("records")):
            place = [
                number + (index - (len(models) - 1) / 2) * 0.14 for number in range(len(order))
            ]
            low, high = ([row[f"{name}{end}"] for name in order] for end in ("_low", "_high"))
            axes.hlines(place, low, high, color=colour(index), linewidth=1)
            axes.plot(
                [row[name] for name in order], place, color=colour(index), linestyle="",
                marker=MARKERS[index], markersize=4, label=row["site"],
            )  # fmt: skip
        axes.set_yticks(range(len(order)), [predictors[name] for name in order])
        axes.invert_yaxis()
        axes.set(xlabel="rank correlation with the change of loss, over heads", xlim=(-1, 1))
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, fontsize=7.5, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure
