"""The figure of an importance study: how much each head matters alone, and what is left without many."""

import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

from attnlab.columns import HEAD_KEYS
from attnlab.reporting.canvas import INK, blank, panel, style
from attnlab.reporting.drawing.given import refuse_other_table

REPLACEMENT_COLOURS = {"zero": "#2178d9", "mean": "#c2571a", "uniform": "#6b7280"}
ORDER_COLOURS = {"gradient": "#2178d9", "loss": "#c2571a", "random": "#6b7280"}
ORDER_NAMES = {
    "gradient": "least gradient first",
    "loss": "least loss alone first",
    "random": "random order",
}
_CURVES = ("order", "heads_removed", "replacement", "loss_nats", "bleu")
_LEFT, _WIDTH, _GAP, _TOP = 0.6, 2.15, 0.5, 0.72
_CURVE_HEIGHT, _BETWEEN = 2.1, 1.05


def draw_importance(heads: pd.DataFrame, cumulative: pd.DataFrame) -> Figure:
    """Above: change of loss with each head replaced alone, with intervals, a panel per site, one scale.

    Below: loss (logarithmic) and BLEU of the model by the number of heads removed, a line per order.

    Args:
        heads: one row per head, see `Importance.heads` and `importance.csv`.
        cumulative: one row per order and number of heads, see `Importance.cumulative`.

    Raises:
        InputError: one of them is no table, or lacks a column.
    """
    wanted = "Importance.heads or importance.csv"
    refuse_other_table(heads, HEAD_KEYS, wanted)
    refuse_other_table(heads, _changes(heads), wanted)
    refuse_other_table(cumulative, _CURVES, "Importance.cumulative or cumulative.csv")
    sites = [table for _, table in heads.groupby("site", sort=False)]
    row = 0.24 if max(map(len, sites)) <= 24 else 0.15
    height = row * max(map(len, sites)) + 0.1
    wide = _LEFT + max(3, len(sites)) * (_WIDTH + _GAP)
    with style():
        figure = blank(wide, _TOP + height + _BETWEEN + _CURVE_HEIGHT + 0.55)
        for index, table in enumerate(sites):
            left = _LEFT + index * (_WIDTH + _GAP)
            axes = panel(figure, left, _TOP, _WIDTH, row * len(table) + 0.1)
            _draw_heads(axes, table, row)
        limits = [axes.get_xlim() for axes in figure.axes]
        for axes in figure.axes:
            axes.set_xlim(min(low for low, _ in limits), max(high for _, high in limits))
        figure.legend(
            *figure.axes[0].get_legend_handles_labels(), loc="center right", frameon=False,
            bbox_to_anchor=(0.99, 1 - 0.2 / figure.get_figheight()), fontsize=8, ncols=3,
            columnspacing=1, handletextpad=0.1,
        )  # fmt: skip
        _draw_curves(figure, cumulative, _TOP + height + _BETWEEN, wide)
        figure.text(
            0.012, 1 - 0.2 / figure.get_figheight(),
            "Each head replaced alone (rows: layer.head; bars: 95% intervals; one scale)",
            va="center", fontsize=11,
        )  # fmt: skip
    return figure


def _changes(heads: pd.DataFrame) -> list[str]:
    """The columns with intervals: of each replacement in the table, or of one where it has none."""
    changes = {name: f"{name}_loss_change_nats" for name in REPLACEMENT_COLOURS}
    there = [name for name, column in changes.items() if column in heads] or [*changes][:1]
    bounds = [f"{name}_loss_{end}" for name in there for end in ("low", "high")]
    return [*(changes[name] for name in there), *bounds]


def _draw_heads(axes: Axes, table: pd.DataFrame, row: float) -> None:
    there = [name for name in REPLACEMENT_COLOURS if f"{name}_loss_change_nats" in table]
    for index, name in enumerate(there):
        shift = (index - (len(there) - 1) / 2) * 0.24
        heights = [number + shift for number in range(len(table))]
        colour = REPLACEMENT_COLOURS[name]
        axes.hlines(
            heights, table[f"{name}_loss_low"], table[f"{name}_loss_high"],
            color=colour, linewidth=1, alpha=0.7,
        )  # fmt: skip
        axes.plot(
            table[f"{name}_loss_change_nats"], heights, "o", color=colour, label=name,
            markersize=3 if row > 0.2 else 2,
        )  # fmt: skip
    axes.axvline(0, color=INK, linewidth=0.8, linestyle=":")
    names = [f"{layer}.{head}" for layer, head in zip(table["layer"], table["head"], strict=True)]
    axes.set_yticks(range(len(table)), names, fontsize=8 if row > 0.2 else 6)
    axes.set_ylim(len(table) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel("change of loss (nats per token)", fontsize=8.5)
    axes.set_title(str(table["site"].iloc[0]), loc="left")
    sns.despine(ax=axes)


def _draw_curves(figure: Figure, curves: pd.DataFrame, top: float, wide: float) -> None:
    measures = {"loss_nats": "loss (nats per token, logarithmic)"}
    if curves["bleu"].notna().any():
        measures["bleu"] = "BLEU"
    width = (wide - _LEFT - 1.75) / 2 - _GAP
    for index, (name, label) in enumerate(measures.items()):
        axes = panel(figure, _LEFT + index * (width + _GAP + 0.15), top, width, _CURVE_HEIGHT)
        for order, table in curves.dropna(subset=[name]).groupby("order", sort=False):
            axes.plot(
                table["heads_removed"], table[name], color=ORDER_COLOURS[str(order)],
                linewidth=1.4, marker="o" if name == "bleu" else None, markersize=3,
                label=ORDER_NAMES[str(order)],
            )  # fmt: skip
        if name == "loss_nats":
            axes.set_yscale("log")
            axes.yaxis.set_major_locator(LogLocator(subs=(1, 1.5, 2, 3, 5, 7)))
            axes.yaxis.set_minor_locator(NullLocator())
            axes.yaxis.set_major_formatter("{x:g}")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_xlabel(f"heads removed ({curves['replacement'].iloc[0]})", fontsize=8.5)
        axes.set_title(label, loc="left")
        sns.despine(ax=axes)
    axes.legend(loc="upper left", bbox_to_anchor=(1.02, 1.04), frameon=False, fontsize=7.5)
    figure.text(
        0.012, 1 - (top - 0.42) / figure.get_figheight(),
        "Heads removed one after another, in orders chosen on other sentences",
        va="center", fontsize=11,
    )  # fmt: skip
