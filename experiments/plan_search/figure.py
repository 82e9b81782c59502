"""What plans keep of the BLEU of full attention, and what they cost in loss, by the keys that rows see."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from attnlab.budget import FULL
from attnlab.figures import INK, blank, panel, style
from attnlab.questions.plan.view import PLANS

MEASURES = {"bleu_kept": "BLEU kept (%)", "loss_change": "change of loss (nats per token)"}
WHOLE = {"bleu_kept": 100.0, "loss_change": 0.0}


def draw_plans(models: pd.DataFrame) -> Figure:
    """A row of panels a number of layers; bands are 95 % intervals."""
    width, height, left, top = 3.3, 2.4, 0.75, 0.4
    sizes = list(dict.fromkeys(models["layers"]))
    with style():
        figure = blank(2 * (left + width) + 1.7, len(sizes) * (top + height + 0.55))
        for row, layers in enumerate(sizes):
            own = models[models["layers"] == layers]
            for column, (name, title) in enumerate(MEASURES.items()):
                corner = left + column * (width + left), top + row * (top + height + 0.5)
                axes = panel(figure, *corner, width, height)
                _draw(axes, own, name)
                axes.set(xlabel="keys per row, counted on test", ylabel=title)
                axes.set_title(f"{layers} layer(s)" if column == 0 else "", loc="left")
            axes.legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure


def _draw(axes: Axes, models: pd.DataFrame, name: str) -> None:
    whole = models[models["mechanism"] == FULL]["visible_keys"].iloc[0]
    axes.axhline(WHOLE[name], color=INK, linewidth=0.8, linestyle=":")
    axes.axvline(whole, color=INK, linewidth=0.8, linestyle=":", label="keys of full attention")
    for plan, (colour, marker) in PLANS.items():
        own = models[models["mechanism"] == plan].sort_values("visible_keys")
        ends = own[f"{name}_low"], own[f"{name}_high"]
        axes.fill_between(own["visible_keys"], *ends, color=colour, alpha=0.13, linewidth=0)
        axes.plot(
            own["visible_keys"], own[name], color=colour, marker=marker, markersize=4,
            linewidth=1.2, label=plan,
        )  # fmt: skip
    axes.spines[["top", "right"]].set_visible(False)
