"""Measures of heads by layer: means with intervals, trends with permutation tests, two figures."""

from itertools import permutations
from math import comb

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle
from scipy.stats import bootstrap
from statsmodels.stats.multitest import multipletests

from attnlab.figures import INK, blank, panel, style
from attnlab.labels import CONFIRMED

DRAWS = 10_000
COLOURS = {
    "positional": "#2178d9",
    "syntactic": "#2a9d6f",
    "rare tokens": "#d9822b",
    "sink": "#9aa3ad",
    "broad": "#b48ad6",
}
PALE = 0.3


def layer_means(heads: pd.DataFrame, measures: list[str], seed: int) -> pd.DataFrame:
    """One row a layer and measure: mean over its heads, 95 % bootstrap interval over heads, untrained mean.

    Args:
        heads: one row a head with `layer`, each measure, and `untrained_MEASURE`.
        measures: names of columns.
        seed: of the bootstrap.
    """
    rows = []
    for measure in measures:
        for layer, table in heads.groupby("layer"):
            values = table[measure].to_numpy(dtype=float)
            low, high = _interval(values, seed)
            untrained = float(table[f"untrained_{measure}"].mean())
            rows.append((layer, measure, len(values), values.mean(), low, high, untrained))
    names = ["layer", "measure", "heads", "mean", "low", "high", "untrained_mean"]
    return pd.DataFrame(rows, columns=names)


def _interval(values: np.ndarray, seed: int) -> tuple[float, float]:
    if (values == values[0]).all():
        return float(values[0]), float(values[0])
    found = bootstrap(
        (values,), np.mean, n_resamples=DRAWS, method="percentile", rng=np.random.default_rng(seed)
    )
    return float(found.confidence_interval.low), float(found.confidence_interval.high)


def layer_trends(heads: pd.DataFrame, measures: list[str], seed: int) -> pd.DataFrame:
    """One row a measure: its rank correlation with the layer, and how often chance gives as much.

    `p_heads` takes heads as exchangeable: their values are dealt out anew over all layers. `p_layers`
    takes layers as exchangeable, since heads of one layer have their input in common: all orders of
    the layers are tried, each with its heads together; `p_layers_holm` is corrected for the number
    of measures. All are two-sided.
    """
    numbers, index = np.unique(heads["layer"].to_numpy(), return_inverse=True)
    scores = numbers.astype(float)
    rows = []
    for measure in measures:
        ranks = heads[measure].astype(float).rank().to_numpy()
        found = _correlation(scores[index], ranks)
        rows.append((measure, found, *_chances(scores, index, ranks, seed)))
    table = pd.DataFrame(rows, columns=["measure", "spearman", "p_heads", "p_layers"])
    return table.assign(p_layers_holm=multipletests(table["p_layers"], method="holm")[1])


def layer_contrast(
    heads: pd.DataFrame, measure: str, layers: tuple[int, ...], seed: int
) -> dict[str, float]:
    """Mean of a measure in some layers and in the others, and chances of such a difference.

    The chances are those of `layer_trends`; with few layers `p_layers` cannot be small: `least_p` is
    the smallest there is, one over the number of ways to choose as many layers (two where the
    others are as many).
    """
    numbers, index = np.unique(heads["layer"].to_numpy(), return_inverse=True)
    chosen = np.isin(numbers, layers)
    values = heads[measure].to_numpy(dtype=float)
    # The difference of two means goes with the correlation of the values with 0 and 1.
    p_heads, p_layers = _chances(chosen.astype(float), index, values, seed)
    return {
        "mean": float(values[chosen[index]].mean()),
        "others": float(values[~chosen[index]].mean()),
        "p_heads": p_heads,
        "p_layers": p_layers,
        "least_p": (2 if 2 * len(layers) == len(numbers) else 1) / comb(len(numbers), len(layers)),
    }


def _correlation(scores: np.ndarray, values: np.ndarray) -> float:
    return float(np.corrcoef(scores, values)[0, 1])


def _chances(
    scores: np.ndarray, index: np.ndarray, values: np.ndarray, seed: int
) -> tuple[float, float]:
    """How often values correlate as much with the layers' scores by chance: heads dealt, layers dealt."""
    least = abs(_correlation(scores[index], values)) - 1e-12
    generator = np.random.default_rng(seed)
    dealt = generator.permuted(np.tile(values, (DRAWS, 1)), axis=1)
    centred = scores[index] - scores[index].mean()
    spread = np.sqrt((centred**2).sum() * ((values - values.mean()) ** 2).sum())
    by_heads = np.abs(dealt @ centred) / spread
    by_layers = np.abs([_correlation(np.array(o)[index], values) for o in permutations(scores)])
    return float(((by_heads >= least).sum() + 1) / (DRAWS + 1)), float((by_layers >= least).mean())


def draw_grid(controls: pd.DataFrame) -> Figure:
    """Labels of every head, a row a layer and a column a head; pale where a label is not significant.

    Args:
        controls: one row a head and label, with `status`, `significant` and `cell`, what to write there.
    """
    holding = controls[controls["status"] == CONFIRMED]
    layers, heads = int(controls["layer"].max()) + 1, int(controls["head"].max()) + 1
    width, height = 0.62, 0.5
    with style():
        figure = blank(0.75 + heads * width + 0.15, 0.75 + layers * height + 0.75)
        axes = panel(figure, 0.75, 0.75, heads * width, layers * height)
        axes.set(xlim=(0, heads), ylim=(layers, 0))
        for layer in range(layers):
            for head in range(heads):
                own = (holding["layer"] == layer) & (holding["head"] == head)
                _draw_cell(axes, layer, head, holding[own])
        axes.set_xticks(np.arange(heads) + 0.5, [str(head) for head in range(heads)])
        axes.set_yticks(np.arange(layers) + 0.5, [str(layer) for layer in range(layers)])
        axes.tick_params(length=0, bottom=False, labelbottom=False, top=False, labeltop=True)
        axes.set_ylabel("layer, from 0")
        axes.set_xlabel("head")
        axes.xaxis.set_label_position("top")
        used = [name for name in COLOURS if (holding["label"] == name).any()]
        patches = [Patch(facecolor=COLOURS[name], label=name) for name in used]
        patches.append(Patch(facecolor="none", edgecolor="#d0d4d9", label="unknown"))
        figure.legend(handles=patches, loc="lower center", ncols=len(patches), frameon=False)
        figure.text(
            0.012,
            1 - 0.2 / figure.get_figheight(),
            "Labels by layer and head (pale: confirmed, not significant against controls)",
            va="center",
            fontsize=10.5,
        )
    return figure


def _draw_cell(axes: Axes, layer: int, head: int, holding: pd.DataFrame) -> None:
    axes.add_patch(
        Rectangle((head, layer), 1, 1, facecolor="none", edgecolor="#d0d4d9", linewidth=0.6)
    )
    for number, row in enumerate(holding.to_dict("records")):
        share = 1 / len(holding)
        top = layer + number * share
        axes.add_patch(
            Rectangle(
                (head + 0.03, top + 0.03), 0.94, share - 0.06,
                facecolor=COLOURS[row["label"]], alpha=1.0 if row["significant"] else PALE, linewidth=0,
            )
        )  # fmt: skip
        colour = "white" if row["significant"] else INK
        text = row["cell"] if len(holding) == 1 else row["cell"].replace("\n", " ")
        axes.text(
            head + 0.5, top + share / 2, text,
            ha="center", va="center", fontsize=6.5, color=colour,
        )  # fmt: skip


def draw_layers(heads: pd.DataFrame, means: pd.DataFrame, titles: dict[str, str]) -> Figure:
    """A panel a measure: every head a dot, the layer's mean with its interval, the untrained model dashed."""
    columns, width, height = 4, 2.15, 1.7
    rows = -(-len(titles) // columns)
    with style():
        figure = blank(0.55 + columns * (width + 0.55), 0.55 + rows * (height + 0.75))
        for index, (measure, title) in enumerate(titles.items()):
            axes = panel(
                figure,
                0.55 + (index % columns) * (width + 0.55),
                0.6 + (index // columns) * (height + 0.75),
                width,
                height,
            )
            _draw_measure(axes, heads, means[means["measure"] == measure], measure)
            axes.set_title(title, loc="left", fontsize=8.5)
            if index + columns >= len(titles):
                axes.set_xlabel("layer, from 0")
        figure.text(
            0.012,
            1 - 0.2 / figure.get_figheight(),
            "Dots: heads; line: mean of the layer, 95 % bootstrap interval over heads; dashed: untrained",
            va="center",
            fontsize=9.5,
        )
    return figure


def _draw_measure(axes: Axes, heads: pd.DataFrame, means: pd.DataFrame, measure: str) -> None:
    # A little aside by head, so that equal values do not hide each other.
    aside = (heads["head"] - heads["head"].mean()) * 0.03
    axes.plot(heads["layer"] + aside, heads[measure], ".", color="#9aa3ad", markersize=3.5)
    axes.plot(means["layer"], means["untrained_mean"], "--", color=INK, linewidth=0.9)
    spread = [means["mean"] - means["low"], means["high"] - means["mean"]]
    axes.errorbar(
        means["layer"], means["mean"], yerr=spread, color="#2178d9", linewidth=1.4, capsize=2.5
    )
    axes.set_xticks(means["layer"])
    axes.spines[["top", "right"]].set_visible(False)
