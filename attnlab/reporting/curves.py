"""Figures of a whole analysis: mass by offset, distance by window."""

import math

import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from attnlab.extraction.columns import CONTENT_OFFSET_PREFIX, OFFSET_PREFIX
from attnlab.extraction.views import ALL, CONTENT, View
from attnlab.reporting.canvas import INK, WEIGHTS, blank, panel, style

_HEADS_WITH_A_LEGEND = 16


_PREFIXES = {ALL: OFFSET_PREFIX, CONTENT: CONTENT_OFFSET_PREFIX}
_MEASURES = {ALL: "weight", CONTENT: "share of the weight on content tokens"}


def draw_mass_by_offset(heads: pd.DataFrame, keys: View = ALL) -> Figure:
    """Mean weight at offsets -5..5 of every head, a heat map for each site, a row for each head.

    Args:
        heads: from `HeadStatistics.heads`.
        keys: of content, what is a share of a row is a share of its weight on content tokens.
    """
    prefix = _PREFIXES[keys]
    sites = heads.groupby("site", sort=False)
    tables = {str(site): _by_offset(table, prefix) for site, table in sites}
    numbers = max(map(len, tables.values())) <= 2 * _HEADS_WITH_A_LEGEND
    cell, width, top, gap = (0.26 if numbers else 0.16), 0.37, 0.62, 0.7
    wide = sum(table.shape[1] * width + gap for table in tables.values())
    left = 0.6
    with style():
        figure = blank(max(wide + 0.2, 4.6), top + max(map(len, tables.values())) * cell + 0.6)
        for site, table in tables.items():
            size = (width * table.shape[1], cell * len(table))
            axes = panel(figure, left, top, *size)
            left += size[0] + gap
            sns.heatmap(
                table, ax=axes, norm=WEIGHTS, cmap=sns.light_palette("#2178d9", as_cmap=True),
                cbar=False, annot=numbers, fmt=".2f", annot_kws={"fontsize": 7.5},
                xticklabels=True, yticklabels=True, rasterized=not numbers,
            )  # fmt: skip
            axes.tick_params(length=0, labelsize=8)
            axes.tick_params(axis="x", rotation=0)
            axes.tick_params(axis="y", rotation=0)
            axes.set_xlabel("offset: key - query position (tokens)", fontsize=8.5)
            axes.set_title(site, loc="left")
        _entitle(figure, f"Mean attention {_MEASURES[keys]} by offset (rows: layer.head)")
    return figure


def _by_offset(heads: pd.DataFrame, prefix: str) -> pd.DataFrame:
    """Mean weight, a row a head and a column an offset; offsets that no row can see are left out."""
    columns = [name for name in map(str, heads) if name.startswith(prefix)]
    offsets = [int(name.removeprefix(prefix)) for name in columns]
    table = heads[columns].set_axis([f"{o:+d}" if o else "0" for o in offsets], axis="columns")
    names = [f"{row.layer}.{row.head}" for row in heads.itertuples()]
    return table.set_axis(names, axis="index").dropna(axis="columns", how="all")


def draw_distance_by_window(fits: pd.DataFrame) -> Figure:
    """Mean relative distance from the band of each width, a line a head, a panel a site.

    The dotted line is the zero matrix; the marks at the right are the reference points, mean over heads.
    """
    sites = list(dict.fromkeys(fits["site"]))
    width, height, top = 3.1, 2.5, 0.72
    with style():
        figure = blank(max(len(sites) * (width + 0.35) + 1.75, 6.8), top + height + 0.62)
        for index, site in enumerate(sites):
            axes = panel(figure, 0.65 + index * (width + 0.35), top, width, height)
            _draw_site(axes, fits[fits["site"] == site], legend=site == sites[-1])
            axes.set_title(str(site), loc="left")
            axes.set_xlabel("window w: tokens on either side")
            axes.set_ylabel("relative distance" if index == 0 else "")
            if index:
                axes.tick_params(labelleft=False)
        highest = max(axes.get_ylim()[1] for axes in figure.axes)
        for axes in figure.axes:
            axes.set_ylim(0, highest)
        _entitle(figure, "Distance from the best band of each width (oracle), mean over sentences")
    return figure


def _draw_site(axes: Axes, fits: pd.DataFrame, *, legend: bool) -> None:
    means = fits.groupby(["layer", "head", "approximation", "window"], dropna=False)["relative"]
    table = means.mean().reset_index()
    band = table[table["approximation"] == "band"]
    lines = band.pivot_table(index="window", columns=["layer", "head"], values="relative")
    colours = sns.color_palette("husl", lines.shape[1])
    few = lines.shape[1] <= _HEADS_WITH_A_LEGEND
    names = [
        f"{layer}.{head}"
        for layer, head in lines.columns.to_frame(False).itertuples(index=False, name=None)
    ]
    for colour, head, name in zip(colours, lines, names, strict=True):
        axes.plot(
            lines.index.astype(int), lines[head], color=colour, linewidth=1.2,
            alpha=0.95 if few else 0.5, label=name if few else None,
        )  # fmt: skip
    for name, marker in (("uniform", "s"), ("mean_by_offset", "D")):
        level = table.loc[table["approximation"] == name, "relative"].mean()
        if not math.isnan(level):
            axes.plot([10.6], [level], marker=marker, color=INK, markersize=5, linestyle="none",
                      clip_on=False, label=name.replace("_", " "))  # fmt: skip
    axes.axhline(1.0, color=INK, linewidth=1, linestyle=":", label="zero matrix")
    axes.set_xlim(-0.2, 11)
    axes.set_xticks(range(0, 11, 2))
    sns.despine(ax=axes)
    if legend:
        axes.legend(loc="upper left", bbox_to_anchor=(1.02, 1.04), frameon=False, fontsize=7.5,
                    title="layer.head", title_fontsize=8, labelspacing=0.25)  # fmt: skip


def _entitle(figure: Figure, title: str) -> None:
    figure.text(0.012, 1 - 0.2 / figure.get_figheight(), title, va="center", fontsize=11)
