"""The pruning curves of all models."""

import pandas as pd
from matplotlib.figure import Figure

from attnlab.figures import INK, blank, panel, style


def draw_curves(curves: dict[str, pd.DataFrame]) -> Figure:
    """A panel a model: share of heads left against test BLEU, pruned and random, unpruned dashed."""
    width, height = 2.6, 2.0
    with style():
        figure = blank(0.6 + len(curves) * (width + 0.45), height + 1.15)
        for index, (name, curve) in enumerate(curves.items()):
            axes = panel(figure, 0.6 + index * (width + 0.45), 0.35, width, height)
            test = curve[curve["split"] == "test"]
            whole = test[test["kind"] == "unpruned"]["bleu"].iloc[0]
            axes.axhline(whole, color=INK, linewidth=0.8, linestyle="--", label="unpruned")
            for kind, colour in (("random", "#9aa3ad"), ("pruned", "#2178d9")):
                own = test[test["kind"] == kind].sort_values("heads_left")
                axes.plot(
                    own["heads_left"], own["bleu"], "o-", color=colour, markersize=4, label=kind
                )
            axes.set_title(name, loc="left")
            axes.set(xlabel="heads left", ylim=(0, None))
            axes.spines[["top", "right"]].set_visible(False)
        figure.axes[0].set_ylabel("test BLEU (greedy)")
        handles, names = figure.axes[0].get_legend_handles_labels()
        figure.legend(handles, names, loc="lower center", ncols=3, frameon=False)
    return figure
