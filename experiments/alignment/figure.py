"""AER of every way to align, a panel a model."""

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from attnlab.core import counted
from attnlab.figures import blank, panel, style

# Which columns tell models apart.
MODEL = ["text", "layers", "seed"]
COLOURS = {
    "choice": "#2178d9",
    "bound": "#8bb8ea",
    "default": "#d9822b",
    "baseline": "#5f6770",
    "control": "#b5bcc4",
}
KINDS = {
    "choice": "chosen",
    "bound": "bound",
    "default": "default of engines",
    "baseline": "without attention",
    "control": "control",
}


def model_name(text: str, layers: int, seed: int) -> str:
    """What a model is called: `English-Italian (small), 3 layers, seed 0`."""
    trained_on = "embedded grammar" if text == "embedded" else f"English-Italian ({text})"
    return f"{trained_on}, {counted(layers, 'layer')}, seed {seed}"


def draw_systems(systems: pd.DataFrame) -> Figure:
    """AER with its 95 % interval over sentence pairs, a row a way to align, the lowest first."""
    models = list(systems.groupby(MODEL, sort=True))
    longest = max(len(rows) for _, rows in models)
    left, width, height, gap = 2.9, 3.6, 0.21 * longest, 0.6
    with style():
        figure = blank(left + width + 0.3, 0.75 + len(models) * (height + gap))
        for index, (key, rows) in enumerate(models):
            top = 0.35 + index * (height + gap)
            axes = panel(figure, left, top, width, height)
            ordered = rows.sort_values("aer", ascending=False)
            for place, row in enumerate(ordered.to_dict("records")):
                colour = COLOURS[row["kind"]]
                ends = [row["aer_low"], row["aer_high"]]
                axes.plot(ends, [place, place], color=colour, linewidth=1.6)
                axes.plot(row["aer"], place, "o", color=colour, markersize=4.5)
            axes.set_yticks(range(len(ordered)), _shortened(ordered))
            axes.set(xlim=(0, 1), ylim=(-0.6, longest - 0.4))
            axes.set_title(model_name(*key), loc="left")
            axes.grid(axis="x", color="#e3e6ea", linewidth=0.6)
            axes.set_axisbelow(True)
            axes.spines[["top", "right"]].set_visible(False)
        marks = [
            Line2D([], [], color=colour, marker="o", markersize=4.5, label=KINDS[kind])
            for kind, colour in COLOURS.items()
        ]
        figure.legend(handles=marks, loc="lower center", ncols=len(marks), frameon=False)
        figure.axes[-1].set_xlabel("AER, 95 % interval over sentence pairs (lower is better)")
    return figure


def _shortened(rows: pd.DataFrame) -> list[str]:
    names = rows["system"].str.replace(" (grow-diag-final-and)", "", regex=False)
    return names.tolist()
