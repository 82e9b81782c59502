"""Importance drawn: how much each head matters alone, and what is left without many."""

from dataclasses import replace

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

from attnlab.core import BLEU, HEAD_KEYS, LOSS, LOSS_CHANGE, counted
from attnlab.evaluation import DISTANCES, LOSS_UNITS
from attnlab.figures import INK, PAGE, WIDE, blank, check_table, style
from attnlab.results import Contents, DrawnFigure, Result, drawn_table, head_names, readable

WAY_COLOURS = {"zero": "#2178d9", "mean": "#c2571a", "uniform": "#6b7280"}
# In the colours of the ways.
ORDERS = {
    "gradient": "least gradient first", "loss": "least loss alone first", "random": "random order"
}  # fmt: skip
_ALONE = (*HEAD_KEYS, "way", LOSS_CHANGE.name, LOSS_CHANGE.low, LOSS_CHANGE.high)
_CURVES = ("order", "heads_removed", "replacement", LOSS.name, BLEU.name)
# A loss of less has no place on a logarithmic axis.
_NEARLY_NONE = 1e-6
# In inches; rows of more heads are lower.
_CURVE_HEIGHT, _MOST_IN_FULL = 2.5, 24


def contents(result: Result) -> Contents:
    """What the page of an importance study shows."""
    unit = LOSS_UNITS[result.details["loss"]]
    alone = DrawnFigure(
        "importance",
        draw_importance(result.replaced, unit=unit, width=WIDE),
        "Change of loss with each head replaced alone, and its 95 % interval; right of 0 it is needed.",
    )
    removed = DrawnFigure(
        "removed",
        draw_removed(result.cumulative, unit=unit, width=WIDE),
        "What is left when heads are removed one after another, in orders chosen on other sentences.",
    )
    return Contents([alone, removed])


def answers(result: Result) -> list[str]:
    """How many heads the model needs, and how many can be removed together."""
    unit, ways = LOSS_UNITS[result.details["loss"]], set(result.replaced["way"])
    # The first table has the changes with heads zeroed, where these were measured.
    way = next((way for way in WAY_COLOURS if way in ways), "")
    alone = result.replaced[result.replaced["way"] == way]
    if alone.empty:
        return []
    if result.details["loss"] in DISTANCES:
        return [f"{_largest(alone, unit)} moves the final states most when replaced by {way}."]
    return [f"{_needed(alone, way, unit)}.", *removable(result.cumulative, unit)]


def _largest(rows: pd.DataFrame, unit: str) -> str:
    """The head of the largest change of loss, with it."""
    first = rows.nlargest(1, LOSS_CHANGE.name)
    change = readable(LOSS_CHANGE.column, rows).shown(first[LOSS_CHANGE.name].item(), signed=True)
    return f"{head_names(first)[0]} ({change} {unit})"


def _needed(rows: pd.DataFrame, way: str, unit: str) -> str:
    """How many heads raise the loss, and which most."""
    of, raising = counted(len(rows), "head"), rows[rows[LOSS_CHANGE.name] > 0]
    beyond, rises = f"the loss beyond chance when replaced by {way}", _largest(rows, unit)
    if rows[LOSS_CHANGE.significant].isna().all():
        return (
            f"The loss rises most with {rises} replaced by {way}, of too few sentences to test that"
        )
    # Significance may be missing.
    needed = raising[raising[LOSS_CHANGE.significant] == True]  # noqa: E712
    if needed.empty:
        most = "" if raising.empty else f"; it rises most with {rises}"
        return f"None of {of} raises {beyond}{most}"
    raises = "raises" if len(needed) == 1 else "raise"
    return f"{len(needed)} of {of} {raises} {beyond}, most {_largest(needed, unit)}"


def removable(cumulative: pd.DataFrame, unit: str) -> list[str]:
    """How many heads can be removed together at little loss, in the best order, as a sentence.

    An interval that lies above 0 ends an order, even where a later one does not. Where none does, and that
    of a model without any head holds 0, sentences are too few to say what can go.

    Args:
        cumulative: one row per order and number of heads.
        unit: what the loss is counted in.
    """
    counts = {
        str(order): int((curve[LOSS_CHANGE.low] <= 0).cummin().sum()) - 1
        for order, curve in cumulative.sort_values("heads_removed").groupby("order", sort=False)
    }
    # Of few sentences there are no intervals.
    if not counts or cumulative[LOSS_CHANGE.low].isna().any():
        return []
    best = max(counts, key=counts.__getitem__)
    if counts[best] < 1:
        return ["The first head removed, in an order chosen on other sentences, raises the loss."]
    total = cumulative["heads_removed"].max()
    last = cumulative.set_index(["order", "heads_removed"]).to_dict("index")[best, counts[best]]
    change = replace(LOSS_CHANGE, column=readable(LOSS_CHANGE.column, cumulative))
    low, high = LOSS_CHANGE.ends(last)
    if counts[best] == total and high >= 0 and high - low > _NEARLY_NONE:
        return ["These sentences are too few to say which heads can be removed."]
    together = " together" if counts[best] > 1 else ""
    order = f"the best of {len(counts)} orders" if len(counts) > 1 else "one order"
    answer = (
        f"{counts[best]} of {counted(total, 'head')} can be removed{together} before the loss rises beyond "
        f"chance, by {change.shown(last, signed=True)} {unit}, in {order} ({best})."
    )
    return [answer]


def draw_importance(
    replaced: pd.DataFrame | Result,
    cumulative: pd.DataFrame | None = None,
    *,
    unit: str | None = None,
    width: float = PAGE,
) -> Figure:
    """Above: change of loss with each head replaced alone, with intervals, a panel per site, one scale.

    Below: loss (logarithmic) and BLEU of the model by the number of heads removed, a line per order.

    Args:
        replaced: a result of `importance`, or one row per head and way to replace it, as `replaced.csv`.
        cumulative: one row per order and number of heads, as `cumulative.csv`; None: that of a result, or
            nothing is drawn below.
        unit: what the loss is counted in; None: as a result says, and not named of a table.
        width: of the figure in inches; both columns of a paper by default.

    Raises:
        InputError: one of them is no table, or lacks a column.
    """
    if isinstance(replaced, Result):
        cumulative = replaced.tables.get("cumulative") if cumulative is None else cumulative
        unit = LOSS_UNITS.get(replaced.details.get("loss", "")) if unit is None else unit
    replaced = drawn_table(replaced, "replaced")
    check_table(replaced, _ALONE, "importance(...).replaced or replaced.csv")
    if cumulative is not None:
        check_table(cumulative, _CURVES, "importance(...).cumulative or cumulative.csv")
    heads = replaced.assign(name=replaced["layer"].astype(str) + "." + replaced["head"].astype(str))
    most = heads.groupby("site")["name"].nunique().max()
    heights = [0.8 + (0.24 if most <= _MOST_IN_FULL else 0.15) * most]
    heights += [] if cumulative is None else [_CURVE_HEIGHT]
    with style():
        figure = blank(width, sum(heights))
        figure.set_layout_engine("constrained")
        parts = figure.subfigures(len(heights), 1, height_ratios=heights, squeeze=False)[:, 0]
        _draw_alone(parts[0], heads, unit)
        if cumulative is not None:
            _draw_curves(parts[1], cumulative, unit)
    return figure


def draw_removed(
    cumulative: pd.DataFrame,
    *,
    unit: str | None = None,
    width: float = PAGE,
) -> Figure:
    """Loss (logarithmic) and BLEU of the model by the number of heads removed, a line per order.

    Args:
        cumulative: one row per order and number of heads, as `importance(...).cumulative`.
        unit: what the loss is counted in; None: not named.
        width: of the figure in inches; both columns of a paper by default.

    Raises:
        InputError: it is no table, or lacks a column.
    """
    check_table(cumulative, _CURVES, "importance(...).cumulative or cumulative.csv")
    with style():
        figure = blank(width, _CURVE_HEIGHT)
        figure.set_layout_engine("constrained")
        _draw_curves(figure.subfigures(1, 1, squeeze=False)[0, 0], cumulative, unit)
    return figure


def _draw_alone(figure: SubFigure, heads: pd.DataFrame, unit: str | None) -> None:
    """A panel per site with its heads from above to below, the ways to replace them a little apart."""
    sites, ways = heads["site"].unique(), [way for way in WAY_COLOURS if way in set(heads["way"])]
    panels = figure.subplots(1, len(sites), sharex=True, squeeze=False)[0]
    apart = 0.24 * (len(ways) - 1)
    for axes, site in zip(panels, sites, strict=True):
        rows = heads[heads["site"] == site]
        names = list(dict.fromkeys(rows["name"]))
        sns.pointplot(
            rows, x=LOSS_CHANGE.name, y="name", hue="way", order=names, hue_order=ways, dodge=apart or False,
            palette=WAY_COLOURS, errorbar=None, linestyle="none", markersize=3, ax=axes,
            legend=axes is panels[0],
        )  # fmt: skip
        for way, shift in zip(ways, np.linspace(-apart / 2, apart / 2, len(ways)), strict=True):
            group = rows[rows["way"] == way]
            axes.hlines(
                group["name"].map(names.index) + shift, group[LOSS_CHANGE.low], group[LOSS_CHANGE.high],
                color=WAY_COLOURS[way], linewidth=1, alpha=0.7,
            )  # fmt: skip
        axes.axvline(0, color=INK, linewidth=0.8, linestyle=":")
        axes.set_ylim(len(names) - 0.4, -0.6)
        axes.set(title=site, xlabel=f"change of loss{_in_brackets(unit)}", ylabel="")
    title = "Each head replaced alone (rows: layer.head; bars: 95% intervals; one scale)"
    _finish(figure, panels[0], title)


def _draw_curves(figure: SubFigure, curves: pd.DataFrame, unit: str | None) -> None:
    """Loss and, where it was measured, BLEU by the number of heads removed, a line per order."""
    # A distance from the untouched model begins at 0, which has no logarithm.
    logarithmic = bool((curves[LOSS.name] > _NEARLY_NONE).all())
    scale = _in_brackets(unit, "logarithmic" if logarithmic else None)
    measures = {LOSS.name: f"loss{scale}"}
    measures |= {BLEU.name: "BLEU"} if curves[BLEU.name].notna().any() else {}
    panels = figure.subplots(1, len(measures), squeeze=False)[0]
    colours = dict(zip(ORDERS.values(), WAY_COLOURS.values(), strict=True))
    named = curves.assign(order=curves["order"].map(ORDERS))
    for axes, (name, label) in zip(panels, measures.items(), strict=True):
        sns.lineplot(
            named.dropna(subset=[name]), x="heads_removed", y=name, hue="order", palette=colours,
            errorbar=None, marker="o" if name == BLEU.name else None, markersize=3, ax=axes,
            legend=axes is panels[-1],
        )  # fmt: skip
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set(title=label, xlabel=f"heads removed ({curves['replacement'].iloc[0]})", ylabel="")
    if logarithmic:
        panels[0].set_yscale("log")
        panels[0].yaxis.set_major_locator(LogLocator(subs=(1, 1.5, 2, 3, 5, 7)))
        panels[0].yaxis.set_minor_locator(NullLocator())
        panels[0].yaxis.set_major_formatter("{x:g}")
    title = "Heads removed one after another, in orders chosen on other sentences"
    _finish(figure, panels[-1], title)


def _in_brackets(*words: str | None) -> str:
    present = ", ".join(filter(None, words))
    return f" ({present})" if present else ""


def _finish(figure: SubFigure, axes: Axes, title: str) -> None:
    """The title, and the legend of some axes right of all panels, where it hides nothing."""
    figure.suptitle(title, x=0.01, ha="left", fontsize=9.5)
    handles, labels = axes.get_legend_handles_labels()
    axes.legend().remove()
    figure.legend(handles, labels, loc="outside right upper", frameon=False)
    sns.despine(figure)
