"""Which share of the heads of a site carries each label."""

from collections.abc import Sequence

import pandas as pd
from matplotlib.figure import Figure

from attnlab.figures import PAGE, blank, colour, panel, style

LEFT, TOP, WIDTH, GAP, HEIGHT, BOTTOM = 1.0, 0.35, 1.6, 0.25, 1.9, 0.5


def draw_roles(found: pd.DataFrame, sites: Sequence[str]) -> Figure:
    """A panel a site, a row a label; bars are means over models, lines their 95 % intervals."""
    labels = list(dict.fromkeys(found.sort_values("share", ascending=False)["label"]))
    with style():
        figure = blank(PAGE, TOP + HEIGHT + BOTTOM)
        for place, site in enumerate(sites):
            axes = panel(figure, LEFT + place * (WIDTH + GAP), TOP, WIDTH, HEIGHT)
            own = found[found["site"] == site].set_index("label").reindex(labels)
            rows = range(len(labels))
            axes.barh(rows, own["share"].fillna(0), color=colour(0), height=0.6)
            axes.hlines(rows, own["share_low"], own["share_high"], color="black", linewidth=1)
            axes.set_yticks(rows, labels if place == 0 else [""] * len(labels))
            axes.invert_yaxis()
            axes.set(title=site, xlim=(0, 1), xlabel="share of heads")
            axes.spines[["top", "right"]].set_visible(False)
    return figure
