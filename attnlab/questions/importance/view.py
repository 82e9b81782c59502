"""Importance drawn: how much each head matters alone, what is left without many; and both on a terminal."""

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

from attnlab.ablation import REPLACEMENTS
from attnlab.core import BLEU, HEAD_COLUMNS, HEAD_KEYS, LOSS, LOSS_CHANGE, Column, counted
from attnlab.evaluation import DISTANCES, LOSS_UNITS
from attnlab.figures import INK, PAGE, blank, check_table, style
from attnlab.questions.importance.question import (
    BLEU_TESTED,
    CUMULATIVE,
    GRADIENT,
    IMPORTANCE,
    LOSS_TESTED,
)
from attnlab.results import (
    MOST_ROWS,
    Contents,
    DrawnFigure,
    Result,
    TerminalTable,
    head_names,
    rows_shown,
)

WAY_COLOURS = {"zero": "#2178d9", "mean": "#c2571a", "uniform": "#6b7280"}
# Colours, names in the figure and on a terminal.
ORDERS = {
    "gradient": ("#2178d9", "least gradient first", "by gradient"),
    "loss": ("#c2571a", "least loss alone first", "by loss"),
    "random": ("#6b7280", "random order", "at random"),
}
_ALONE = (*HEAD_KEYS, "way", LOSS_CHANGE.name, LOSS_CHANGE.low, LOSS_CHANGE.high)
_CURVES = ("order", "heads_removed", "replacement", LOSS.name, BLEU.name)
# A loss of less has no place on a logarithmic axis.
_NEARLY_NONE = 1e-6
# Inches.
_CURVE_HEIGHT = 2.5
# Rows of more heads are lower.
_MOST_IN_FULL = 24


def contents(result: Result) -> Contents:
    """What the page of an importance study shows."""
    figure = DrawnFigure(
        "importance",
        draw_importance(result.replaced, result.cumulative, unit=loss_unit(result)),
        "Above: change of loss with each head replaced alone; right of 0 the model needs it. Below: what "
        "is left when heads are removed one after another.",
    )
    names = ("Model", "Sentences", "Loss of the whole model")
    facts = {name: str(result.about[name]) for name in names if name in result.about}
    return Contents(_answers(result), [figure], facts)


def terminal(result: Result) -> Iterator[TerminalTable]:
    """Heads replaced alone, the first ones where a model has many; then heads removed in turn."""
    yield _alone(result)
    yield replace(_in_turn(result.cumulative), caption=" ".join(_answers(result)) or None)


def loss_unit(result: Result) -> str:
    """What the loss is counted in."""
    return LOSS_UNITS[result.details["loss"]]


def readable(column: Column, rows: pd.DataFrame) -> Column:
    """The column with the decimals that show two digits of its largest figure, where its own do not."""
    largest = rows[column.name].abs().max()
    if not 0 < largest < math.inf:
        return column
    return replace(column, digits=max(column.digits or 0, 1 - math.floor(math.log10(largest))))


def _alone(result: Result) -> TerminalTable:
    """Gradient, and change of loss and BLEU by head, those first that are needed most."""
    heads, replaced, unit = result.importance, result.replaced, loss_unit(result)
    texts, order = pd.DataFrame({"head": head_names(heads)}), heads.index
    if GRADIENT.name in heads:
        texts[GRADIENT.narrow] = heads[GRADIENT.name].map(GRADIENT.shown)
    counts: list[int] = []
    changes = [change for change in (LOSS_TESTED, BLEU_TESTED) if change.name in replaced]
    for change, way in product(changes, REPLACEMENTS):
        rows = heads[HEAD_COLUMNS].merge(replaced[replaced["way"] == way], how="left")
        if rows[change.name].isna().all():
            continue
        if not counts and len(heads) > MOST_ROWS:
            order = rows.sort_values(change.name, ascending=False, kind="stable").index
        counts.append(int(rows[change.name].notna().sum()))
        column = readable(change.column, rows)
        texts[f"{column.narrow}\n{way}"] = [
            column.shown(row[change.name], signed=True)
            + ("*" if row.get(change.significant) is True else " ")
            for row in rows.to_dict("records")
        ]
    texts = texts.loc[order[:MOST_ROWS]]
    of = counted(counts[0], "head") if len({*counts}) == 1 else "the heads that a column has"
    slope = " gradient: how steeply a sentence's summed loss changes with the head, in nats."
    more = len(heads) - MOST_ROWS
    caption = (
        f"Loss in {unit}: above 0 the head is needed. * beyond chance (5%, corrected for {of})."
        if LOSS_TESTED.significant in replaced
        else f"How far the final states move, as {unit}."
    )
    caption += slope if GRADIENT.name in heads else ""
    caption += f"\nand {counted(more, 'more head')} in {IMPORTANCE.file}" if more > 0 else ""
    rows_of_text = tuple(texts.itertuples(index=False, name=None))
    numbers = tuple(texts.columns[1:])
    return TerminalTable(tuple(texts), rows_of_text, numbers, "Each head replaced alone", caption)


def _in_turn(curves: pd.DataFrame) -> TerminalTable:
    """Loss and BLEU with none, all and at most about ten numbers of heads between removed."""
    measured = curves.dropna(subset=[BLEU.name])
    known, scores = (curves, [LOSS]) if measured.empty else (measured, [LOSS, BLEU])
    counts = sorted(set(known["heads_removed"]))
    step = max(1, round((len(counts) - 1) / 9))
    rows = pd.DataFrame({"heads_removed": sorted({*counts[::step], counts[-1]})})
    columns = [CUMULATIVE["heads_removed"]]
    for score in scores:
        column = readable(score, curves) if score is LOSS else score
        for order, curve in curves.groupby("order", sort=False):
            name, heading = f"{score.name} {order}", f"{column.narrow},\n{ORDERS[str(order)][2]}"
            rows[name] = rows["heads_removed"].map(curve.set_index("heads_removed")[score.name])
            columns.append(replace(column, name=name, heading=heading, short=""))
    return replace(
        rows_shown(rows, columns, title="\nHeads removed one after another"),
        legend="Orders chosen on one half of the sentences, figures from the other.",
    )


def _answers(result: Result) -> list[str]:
    """What was found, as sentences."""
    distance = result.details["loss"] in DISTANCES
    alone = _needed(result.replaced, loss_unit(result), distance=distance)
    return alone if distance else [*alone, *removable(result.cumulative, loss_unit(result))]


def _needed(replaced: pd.DataFrame, unit: str, *, distance: bool = False) -> list[str]:
    """How many heads the model needs when each is replaced alone, and which most, as sentences."""
    by_way = {way: rows for way in REPLACEMENTS if len(rows := replaced[replaced["way"] == way])}
    if distance:
        return [f"Replaced alone ({way}), {_moved(rows, unit)}" for way, rows in by_way.items()]
    if not by_way:
        return []
    (first, rows), *others = by_way.items()
    counts = [
        f"with {way} {len(_raising(rows))} of {len(rows)}"
        for way, rows in others
        if rows[LOSS_TESTED.significant].notna().any()
    ]
    beside = f" Replaced in other ways: {', '.join(counts)}." if counts else ""
    return [f"Replaced alone ({first}), {_raised(rows, unit)}{beside}"]


def _raising(rows: pd.DataFrame) -> pd.DataFrame:
    """The heads that raise the loss beyond chance."""
    # Significance may be missing.
    return rows[(rows[LOSS_TESTED.significant] == True) & (rows[LOSS_TESTED.name] > 0)]  # noqa: E712


def _moved(rows: pd.DataFrame, unit: str) -> str:
    """Which head moves the final states most."""
    first = rows.nlargest(1, LOSS_CHANGE.name)
    moved = readable(LOSS_CHANGE.column, rows).shown(first[LOSS_CHANGE.name].item())
    of = counted(len(rows), "head")
    return f"{head_names(first)[0]} moves the final states most: {moved} ({unit}), of {of}."


def _raised(rows: pd.DataFrame, unit: str) -> str:
    """How many heads raise the loss, and which most."""
    change = LOSS_TESTED
    needed = _raising(rows)
    first = (rows if needed.empty else needed).nlargest(1, change.name)
    largest, of = first[change.name].item(), counted(len(rows), "head")
    head = head_names(first)[0]
    by = f"({readable(change.column, rows).shown(largest, signed=True)} {unit})"
    if rows[change.significant].isna().all():
        return (
            f"the loss rises most with {head} {by}; of so few sentences it is not known whether beyond "
            "chance."
        )
    if not needed.empty:
        raises = "raises" if len(needed) == 1 else "raise"
        lower = int((rows[change.significant] == True).sum()) - len(needed)  # noqa: E712
        others = (
            f"; {counted(lower, 'other')} {'lowers' if lower == 1 else 'lower'} it" if lower else ""
        )
        return f"{len(needed)} of {of} {raises} the loss beyond chance, most {head} {by}{others}."
    if largest > 0:
        return f"none of {of} raises the loss beyond chance; it rises most with {head} {by}."
    return f"none of {of} raises the loss."


def removable(cumulative: pd.DataFrame, unit: str) -> list[str]:
    """How many heads can go together at little loss, in the best order, as a sentence.

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
    where = ", on the half of the sentences that did not choose the order"
    if counts[best] < 1:
        return [f"Already the first head that is removed raises the loss beyond chance{where}."]
    total = cumulative["heads_removed"].max()
    at = (cumulative["order"] == best) & (cumulative["heads_removed"] == counts[best])
    last = cumulative[at].iloc[0].to_dict()
    change = f"{LOSS_CHANGE.shown(last, signed=True)} {unit}"
    low, high = LOSS_CHANGE.ends(last)
    if counts[best] == total and high >= 0 and high - low > _NEARLY_NONE:
        answer = (
            f"Which heads can go these sentences cannot tell: with all {total} removed the loss changes by "
            f"{change}, and that interval holds 0{where}."
        )
        return [answer]
    of = f"; the best of {len(counts)} orders there" if len(counts) > 1 else ""
    answer = (
        f"{counts[best]} of {counted(total, 'head')} can go, one after another (order: {best}), before the "
        f"interval of the loss lies above that of the whole model; the loss changes by {change} till then"
        f"{where}{of}."
    )
    return [answer]


def draw_importance(
    replaced: pd.DataFrame,
    cumulative: pd.DataFrame | None = None,
    *,
    unit: str = LOSS_UNITS["next tokens"],
) -> Figure:
    """Above: change of loss with each head replaced alone, with intervals, a panel per site, one scale.

    Below: loss (logarithmic) and BLEU of the model by the number of heads removed, a line per order.

    Args:
        replaced: one row per head and way to replace it, as `importance(...).replaced` and `replaced.csv`.
        cumulative: one row per order and number of heads, as `importance(...).cumulative` and
            `cumulative.csv`; None: nothing is drawn below.
        unit: what the loss is counted in.

    Raises:
        InputError: one of them is no table, or lacks a column.
    """
    check_table(replaced, _ALONE, "importance(...).replaced or replaced.csv")
    if cumulative is not None:
        check_table(cumulative, _CURVES, "importance(...).cumulative or cumulative.csv")
    heads = replaced.assign(name=replaced["layer"].astype(str) + "." + replaced["head"].astype(str))
    most = heads.groupby("site")["name"].nunique().max()
    heights = [0.8 + (0.24 if most <= _MOST_IN_FULL else 0.15) * most]
    heights += [] if cumulative is None else [_CURVE_HEIGHT]
    with style():
        figure = blank(PAGE, sum(heights))
        figure.set_layout_engine("constrained")
        above, *below = figure.subfigures(len(heights), 1, height_ratios=heights, squeeze=False)[
            :, 0
        ]
        _draw_alone(above, heads, unit)
        if cumulative is not None:
            _draw_curves(below[0], cumulative, unit)
    return figure


def _draw_alone(figure: SubFigure, heads: pd.DataFrame, unit: str) -> None:
    """A panel per site with its heads from above to below, the ways to replace them a little apart."""
    figure.suptitle(
        "Each head replaced alone (rows: layer.head; bars: 95% intervals; one scale)",
        x=0.01,
        ha="left",
        fontsize=9.5,
    )
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
            own = rows[rows["way"] == way]
            axes.hlines(
                own["name"].map(names.index) + shift, own[LOSS_CHANGE.low], own[LOSS_CHANGE.high],
                color=WAY_COLOURS[way], linewidth=1, alpha=0.7,
            )  # fmt: skip
        axes.axvline(0, color=INK, linewidth=0.8, linestyle=":")
        axes.set(
            title=site, xlabel=f"change of loss ({unit})", ylabel="", ylim=(len(names) - 0.4, -0.6)
        )
    _legend_beside(figure, panels[0])


def _draw_curves(figure: SubFigure, curves: pd.DataFrame, unit: str) -> None:
    """Loss and, where it was measured, BLEU by the number of heads removed, a line per order."""
    figure.suptitle(
        "Heads removed one after another, in orders chosen on other sentences",
        x=0.01,
        ha="left",
        fontsize=9.5,
    )
    # A distance from the untouched model begins at 0, which has no logarithm.
    logarithmic = bool((curves[LOSS.name] > _NEARLY_NONE).all())
    measures = {LOSS.name: f"loss ({unit}{', logarithmic' if logarithmic else ''})"}
    measures |= {BLEU.name: "BLEU"} if curves[BLEU.name].notna().any() else {}
    panels = figure.subplots(1, len(measures), squeeze=False)[0]
    orders = {order: called for order, (_, called, _) in ORDERS.items()}
    colours = {called: colour for colour, called, _ in ORDERS.values()}
    named = curves.assign(order=curves["order"].map(orders))
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
    _legend_beside(figure, panels[-1])


def _legend_beside(figure: SubFigure, axes: Axes) -> None:
    """The legend of some axes right of all panels, where it hides nothing."""
    handles, labels = axes.get_legend_handles_labels()
    axes.legend().remove()
    figure.legend(handles, labels, loc="outside right upper", frameon=False)
    sns.despine(figure)
