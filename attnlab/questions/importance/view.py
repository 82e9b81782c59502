"""Importance drawn: how much each head matters alone, what is left without many; and both on a terminal."""

import math
from collections.abc import Iterator
from dataclasses import replace

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

from attnlab.core import HEAD_KEYS, Column, counted
from attnlab.evaluation import DISTANCES, LOSS_UNITS
from attnlab.figures import INK, blank, check_table, panel, style
from attnlab.questions.importance.question import (
    CHANGES,
    CUMULATIVE,
    IMPORTANCE,
    LOSS,
    RANK_AGREEMENT,
    REMOVED_CHANGE,
)
from attnlab.results import (
    MOST_ROWS,
    Contents,
    DrawnFigure,
    Result,
    ShownTable,
    TerminalTable,
    head_names,
)

REPLACEMENT_COLOURS = {"zero": "#2178d9", "mean": "#c2571a", "uniform": "#6b7280"}
ORDER_COLOURS = {"gradient": "#2178d9", "loss": "#c2571a", "random": "#6b7280"}
ORDER_NAMES = {
    "gradient": "least gradient first",
    "loss": "least loss alone first",
    "random": "random order",
}
_CURVES = ("order", "heads_removed", "replacement", "loss", "bleu")
# A loss of less has no place on a logarithmic axis.
_NEARLY_NONE = 1e-6
_LEFT, _WIDTH, _GAP, _TOP = 0.6, 2.15, 0.5, 0.72
_CURVE_HEIGHT, _BETWEEN = 2.1, 1.05
_ORDERS = {"gradient": "by gradient", "loss": "by loss", "random": "at random"}


def contents(result: Result) -> Contents:
    """What the page of an importance study shows."""
    figure = DrawnFigure(
        "importance",
        draw_importance(result.importance, result.cumulative, unit=loss_unit(result)),
        "Above: change of loss with each head replaced alone; right of 0 the model needs it. Below: what "
        "is left when heads are removed one after another.",
    )
    shown = (
        ShownTable(IMPORTANCE.file, "Every head replaced alone", ("_p",)),
        ShownTable(
            CUMULATIVE.file, "Heads removed one after another", ("chosen_on", "reported_on")
        ),
        ShownTable(RANK_AGREEMENT.file, "Do the measures agree?"),
    )
    facts = {
        name: str(result.about[name])
        for name in ("Model", "Sentences", "Loss of the whole model")
        if name in result.about
    }
    return Contents(_answers(result), facts, [figure], shown)


def _answers(result: Result) -> list[str]:
    """What was found, as sentences."""
    unit = loss_unit(result)
    if result.details["loss"] in DISTANCES:
        return list(_moved(result.importance, unit))
    return [*_needed(result.importance, unit), *removable(result.cumulative, unit)]


def terminal(result: Result) -> Iterator[TerminalTable]:
    """Heads replaced alone, the first ones where a model has many; then heads removed in turn."""
    yield _alone(result.importance, loss_unit(result))
    yield replace(_in_turn(result.cumulative), caption=" ".join(_answers(result)) or None)


def loss_unit(result: Result) -> str:
    """What the loss is counted in."""
    return LOSS_UNITS[result.details["loss"]]


def _alone(heads: pd.DataFrame, unit: str) -> TerminalTable:
    """Change of loss and BLEU by head."""
    more = len(heads) - MOST_ROWS
    left_out = f"\nand {counted(more, 'more head')} in {IMPORTANCE.file}" if more > 0 else ""
    gradients = [one for one in (IMPORTANCE["gradient_importance"],) if one.name in heads]
    changes = [change for change in CHANGES if change.name in heads]
    shown = {change.name: readable(change.column, heads) for change in changes}
    numbers = (*(one.narrow for one in gradients), *(change.column.narrow for change in changes))
    if more > 0 and changes:
        heads = heads.sort_values(changes[0].name, ascending=False, kind="stable")
    first = heads.head(MOST_ROWS)
    replaced = {int(heads[change.name].notna().sum()) for change in changes}
    of = counted(max(replaced), "head") if len(replaced) == 1 else "the heads that a column has"
    tested = any(change.significant in heads for change in changes)
    slope = (
        " gradient: how steeply a sentence's summed loss changes with the head, in nats."
        if gradients
        else ""
    )
    caption = (
        f"Loss in {unit}: above 0 the head is needed. * beyond chance (5%, corrected for {of}).{slope}"
        f"{left_out}"
        if tested
        else f"How far the final states move, as {unit}.{left_out}"
    )
    rows = tuple(
        (
            name,
            *(one.shown(row[one.name]) for one in gradients),
            *(
                shown[change.name].shown(row[change.name], signed=True)
                + ("*" if row.get(change.significant) else " ")
                for change in changes
            ),
        )
        for name, row in zip(head_names(first), first.to_dict("records"), strict=True)
    )
    return TerminalTable(
        ("head", *numbers),
        rows,
        numbers,
        "Each head replaced alone",
        caption,
    )


def readable(column: Column, heads: pd.DataFrame) -> Column:
    """The column with the decimals that show two digits of its largest figure, where its own do not."""
    largest = heads[column.name].abs().max()
    if not 0 < largest < math.inf:
        return column
    return replace(column, digits=max(column.digits or 0, 1 - math.floor(math.log10(largest))))


def _in_turn(curves: pd.DataFrame) -> TerminalTable:
    """Loss and BLEU with none, all and at most about ten numbers of heads between removed."""
    orders = list(dict.fromkeys(curves["order"]))
    loss, bleu = readable(CUMULATIVE["loss"], curves), CUMULATIVE["bleu"]
    measured = curves[curves[bleu.name].notna()]
    columns = [loss] if measured.empty else [loss, bleu]
    counts = sorted(set((curves if measured.empty else measured)["heads_removed"]))
    step = max(1, round((len(counts) - 1) / 9))
    scores = (f"{column.narrow},\n{_ORDERS[order]}" for column in columns for order in orders)
    headings = (CUMULATIVE["heads_removed"].narrow, *scores)
    by_number = curves.set_index(["order", "heads_removed"])
    rows = tuple(
        (
            str(count),
            *(
                column.shown(by_number.loc[(order, count), column.name])
                for column in columns
                for order in orders
            ),
        )
        for count in sorted({*counts[::step], counts[-1]})
    )
    return TerminalTable(
        headings,
        rows,
        headings,
        "\nHeads removed one after another",
        legend="Orders chosen on one half of the sentences, figures from the other.",
    )


def _moved(heads: pd.DataFrame, unit: str) -> Iterator[str]:
    """Which head moves the final states most, as sentences."""
    for replacement, change in LOSS.items():
        if change.name in heads and heads[change.name].notna().any():
            first = heads.sort_values(change.name, ascending=False).head(1)
            moved = readable(change.column, heads).shown(float(first[change.name].iloc[0]))
            yield (
                f"Replaced alone ({replacement}), {head_names(first)[0]} moves the final states most: "
                f"{moved} ({unit}), of {counted(int(heads[change.name].notna().sum()), 'head')}."
            )


def _needed(heads: pd.DataFrame, unit: str) -> list[str]:
    """How many heads the model needs when each is replaced alone, and which most, as sentences."""
    found = []
    for replacement, change in LOSS.items():
        if change.name not in heads or heads[change.name].isna().all():
            continue
        needed = heads[(heads[change.name] > 0) & (heads[change.significant] == True)]  # noqa: E712 - may be missing
        of = counted(int(heads[change.name].notna().sum()), "head")
        alone = f"Replaced alone ({replacement}),"
        ranked = (heads if needed.empty else needed).sort_values(change.name, ascending=False)
        first, largest = head_names(ranked.head(1))[0], float(ranked[change.name].iloc[0])
        most = f"{readable(change.column, heads).shown(largest, signed=True)} {unit}"
        if heads[change.significant].isna().all():
            found.append(
                f"{alone} the loss rises most with {first} ({most}); of so few sentences it is not known "
                "whether beyond chance."
            )
        elif not needed.empty:
            raises = "raises" if len(needed) == 1 else "raise"
            found.append(
                f"{alone} {len(needed)} of {of} {raises} the loss beyond chance, most {first} ({most})."
            )
        elif largest > 0:
            found.append(
                f"{alone} none of {of} raises the loss beyond chance; it rises most with {first} ({most})."
            )
        else:
            found.append(f"{alone} none of {of} raises the loss.")
    return found


def removable(cumulative: pd.DataFrame, unit: str) -> list[str]:
    """How many heads can go together at little loss, in the best order, as a sentence.

    An interval that lies above 0 ends an order, even where a later one does not. Where none does, and that
    of a model without any head holds 0, sentences are too few to say what can go.

    Args:
        cumulative: one row per order and number of heads.
        unit: what the loss is counted in.
    """
    found = {
        str(order): int((own[REMOVED_CHANGE.low] <= 0).cummin().sum()) - 1
        for order, own in cumulative.sort_values("heads_removed").groupby("order", sort=False)
    }
    # Of few sentences there are no intervals.
    if not found or cumulative[REMOVED_CHANGE.low].isna().any():
        return []
    best = max(found, key=found.__getitem__)
    where = ", on the half of the sentences that did not choose the order"
    if found[best] < 1:
        return [f"Already the first head that is removed raises the loss beyond chance{where}."]
    total = cumulative["heads_removed"].max()
    at = (cumulative["order"] == best) & (cumulative["heads_removed"] == found[best])
    last = cumulative[at].iloc[0].to_dict()
    change = f"{REMOVED_CHANGE.shown(last, signed=True)} {unit}"
    wide = last[REMOVED_CHANGE.high] - last[REMOVED_CHANGE.low] > _NEARLY_NONE
    if found[best] == total and last[REMOVED_CHANGE.high] >= 0 and wide:
        answer = (
            f"Which heads can go these sentences cannot tell: with all {total} removed the loss changes by "
            f"{change}, and that interval holds 0{where}."
        )
        return [answer]
    of = f"; the best of {len(found)} orders there" if len(found) > 1 else ""
    answer = (
        f"{found[best]} of {counted(total, 'head')} can go, one after another (order: {best}), before the "
        f"interval of the loss lies above that of the whole model; the loss changes by {change} till then"
        f"{where}{of}."
    )
    return [answer]


def draw_importance(
    heads: pd.DataFrame,
    cumulative: pd.DataFrame | None = None,
    *,
    unit: str = LOSS_UNITS["next tokens"],
) -> Figure:
    """Above: change of loss with each head replaced alone, with intervals, a panel per site, one scale.

    Below: loss (logarithmic) and BLEU of the model by the number of heads removed, a line per order.

    Args:
        heads: one row per head, as `importance(...).importance` and `importance.csv`.
        cumulative: one row per order and number of heads, as `importance(...).cumulative` and
            `cumulative.csv`; None: nothing is drawn below.
        unit: what the loss is counted in.

    Raises:
        InputError: one of them is no table, or lacks a column.
    """
    wanted = "importance(...).importance or importance.csv"
    check_table(heads, HEAD_KEYS, wanted)
    check_table(heads, _changes(heads), wanted)
    if cumulative is not None:
        check_table(cumulative, _CURVES, "importance(...).cumulative or cumulative.csv")
    sites = [table for _, table in heads.groupby("site", sort=False)]
    row = 0.24 if max(map(len, sites)) <= 24 else 0.15
    height = row * max(map(len, sites)) + 0.1
    wide = _LEFT + max(3, len(sites)) * (_WIDTH + _GAP)
    with style():
        below = 0.0 if cumulative is None else _BETWEEN + _CURVE_HEIGHT
        figure = blank(wide, _TOP + height + below + 0.55)
        for index, table in enumerate(sites):
            left = _LEFT + index * (_WIDTH + _GAP)
            axes = panel(figure, left, _TOP, _WIDTH, row * len(table) + 0.1)
            _draw_heads(axes, table, row, unit)
        limits = [axes.get_xlim() for axes in figure.axes]
        for axes in figure.axes:
            axes.set_xlim(min(low for low, _ in limits), max(high for _, high in limits))
        figure.legend(
            *figure.axes[0].get_legend_handles_labels(), loc="center right", frameon=False,
            bbox_to_anchor=(0.99, 1 - 0.2 / figure.get_figheight()), fontsize=8, ncols=3,
            columnspacing=1, handletextpad=0.1,
        )  # fmt: skip
        if cumulative is not None:
            _draw_curves(figure, cumulative, _TOP + height + _BETWEEN, wide, unit)
        figure.text(
            0.012, 1 - 0.2 / figure.get_figheight(),
            "Each head replaced alone (rows: layer.head; bars: 95% intervals; one scale)",
            va="center", fontsize=11,
        )  # fmt: skip
    return figure


def _changes(heads: pd.DataFrame) -> list[str]:
    """The columns with intervals: of each replacement in the table, or of one where it has none."""
    there = [change for change in LOSS.values() if change.name in heads] or [*LOSS.values()][:1]
    return [name for change in there for name in (change.name, change.low, change.high)]


def _draw_heads(axes: Axes, table: pd.DataFrame, row: float, unit: str) -> None:
    there = [name for name in REPLACEMENT_COLOURS if LOSS[name].name in table]
    for index, name in enumerate(there):
        shift = (index - (len(there) - 1) / 2) * 0.24
        heights = [number + shift for number in range(len(table))]
        colour, change = REPLACEMENT_COLOURS[name], LOSS[name]
        axes.hlines(
            heights, table[change.low], table[change.high],
            color=colour, linewidth=1, alpha=0.7,
        )  # fmt: skip
        axes.plot(
            table[change.name], heights, "o", color=colour, label=name,
            markersize=3 if row > 0.2 else 2,
        )  # fmt: skip
    axes.axvline(0, color=INK, linewidth=0.8, linestyle=":")
    names = [f"{layer}.{head}" for layer, head in zip(table["layer"], table["head"], strict=True)]
    axes.set_yticks(range(len(table)), names, fontsize=8 if row > 0.2 else 7)
    axes.set_ylim(len(table) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel(f"change of loss ({unit})", fontsize=8.5)
    axes.set_title(str(table["site"].iloc[0]), loc="left")
    axes.spines[["top", "right"]].set_visible(False)


def _draw_curves(figure: Figure, curves: pd.DataFrame, top: float, wide: float, unit: str) -> None:
    # A distance from the untouched model begins at 0, which has no logarithm.
    logarithmic = bool((curves["loss"] > _NEARLY_NONE).all())
    measures = {"loss": f"loss ({unit}{', logarithmic' if logarithmic else ''})"}
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
        if name == "loss" and logarithmic:
            axes.set_yscale("log")
            axes.yaxis.set_major_locator(LogLocator(subs=(1, 1.5, 2, 3, 5, 7)))
            axes.yaxis.set_minor_locator(NullLocator())
            axes.yaxis.set_major_formatter("{x:g}")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_xlabel(f"heads removed ({curves['replacement'].iloc[0]})", fontsize=8.5)
        axes.set_title(label, loc="left")
        axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="upper left", bbox_to_anchor=(1.02, 1.04), frameon=False, fontsize=7.5)
    figure.text(
        0.012, 1 - (top - 0.42) / figure.get_figheight(),
        "Heads removed one after another, in orders chosen on other sentences",
        va="center", fontsize=11,
    )  # fmt: skip
