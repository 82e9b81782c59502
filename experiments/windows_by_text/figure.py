"""The window of every model as a share of its sentences, by how long they are."""

from collections.abc import Mapping

import pandas as pd
from matplotlib.figure import Figure

from attnlab.figures import PAGE, blank, colour, panel, style

LEFT, TOP, WIDTH, HEIGHT, BOTTOM = 0.6, 0.15, 3.9, 2.3, 0.5


def draw_shares(table: pd.DataFrame, kinds: Mapping[str, str]) -> Figure:
    """A dot a model, filled, and its untrained twin, hollow; a colour a kind of text."""
    with style():
        figure = blank(PAGE, TOP + HEIGHT + BOTTOM)
        axes = panel(figure, LEFT, TOP, WIDTH, HEIGHT)
        for place, (text, name) in enumerate(kinds.items()):
            own = table[table["text"] == text]
            if own.empty:
                continue
            for column, filled in (("share", colour(place)), ("share_untrained", "none")):
                axes.plot(
                    own["words"], own[column], "o", markersize=4, color=colour(place),
                    markerfacecolor=filled, label=name if column == "share" else None,
                )  # fmt: skip
        axes.set(xlabel="words of a sentence", ylabel="window / words", ylim=(0, 1), xlim=(0, None))
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(
            frameon=False, fontsize=7.5, loc="upper left", bbox_to_anchor=(1.02, 1.0),
            title="hollow: untrained", title_fontsize=7.5,
        )  # fmt: skip
    return figure
