"""A plan search drawn: error and change of BLEU or loss by keys; in sentences; and its rows on a terminal."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from attnlab.core import Column, Estimate, counted
from attnlab.figures import INK, blank, panel, style
from attnlab.questions.plan.question import (
    BLEU_CHANGE,
    BLEU_GAIN,
    ERROR,
    FULL,
    LOSS_CHANGE,
    LOSS_GAIN,
    MECHANISMS,
    NOTHING,
    SCORES,
    SEARCHED,
)
from attnlab.results import Contents, DrawnFigure, Result, ShownTable, TerminalTable

# Plans are told by marker too, for readers who cannot tell the colours apart.
PLANS = {
    SEARCHED: ("#2178d9", "o"),
    "band": ("#6b7280", "s"),
    "longformer": ("#3a8f4d", "^"),
    "bigbird": ("#c2571a", "D"),
}


class Metric(NamedTuple):
    """What plans are ranked by.

    Attributes:
        column: its value.
        change: against the run as it is.
        gain: how much better the searched plan is than a row's.
        name: in a sentence.
        unit: of a gain.
        sign: 1 where more is better, else -1.
        label: of the axis of its change.
    """

    column: Column
    change: Estimate
    gain: Estimate
    name: str
    unit: str
    sign: int
    label: str


BY_BLEU = Metric(
    SCORES["bleu"], BLEU_CHANGE, BLEU_GAIN, "BLEU", "BLEU", 1, "change of BLEU (greedy)"
)
BY_LOSS = Metric(
    SCORES["loss"], LOSS_CHANGE, LOSS_GAIN, "loss", "nats per token", -1,
    "change of loss (nats per token)",
)  # fmt: skip


def metric_of(scores: pd.DataFrame) -> Metric:
    """BLEU where sentences were translated, else the loss."""
    return BY_BLEU if BY_BLEU.column.name in scores else BY_LOSS


def contents(result: Result) -> Contents:
    """What the page of a plan search shows."""
    figure = DrawnFigure(
        "plan",
        draw_planning(result.scores),
        f"Error, and change of {metric_of(result.scores).name} against the run as it is, by the keys per "
        "row on the test sentences, with 95 % intervals; those of the change are paired.",
    )
    shown = (
        ShownTable(SCORES.file, "Plans and their scores", ("seed",)),
        ShownTable(MECHANISMS.file, "What each head gets"),
    )
    sentences = result.about["sentences"]
    facts = {
        "Run": str(result.about["run"]),
        "Sentences": ", ".join(f"{count} {name}" for name, count in sentences.items()),
        "Families": ", ".join(result.about["families"]),
        "Seed": str(result.about["seed"]),
    }
    return Contents(planning_answers(result.scores, result.mechanisms), facts, [figure], shown)


def terminal(result: Result) -> Iterator[TerminalTable]:
    """Plans by budget in at most 80 columns, and what they say in sentences."""
    scores = result.scores
    names = ("keys_per_row", "error", "loss", "bleu")
    columns = [SCORES[name] for name in names if name in scores]
    gain = metric_of(scores).gain
    numbers = tuple(column.narrow for column in (*columns, gain.column))
    rows = tuple(
        (
            "" if row["plan"] == FULL else str(row["budget"]),
            row["plan"],
            *(column.shown(row[column.name]) for column in columns),
            gain.shown(row, signed=True),
        )
        for row in scores.to_dict("records")
    )
    said = (
        f"{ERROR.name}: {ERROR.column.meaning}",
        f"gain: {gain.column.meaning}",
        "Budgets are counted on validation sentences; the table has the keys of the test sentences.",
        *planning_answers(scores, result.mechanisms),
    )
    yield TerminalTable(
        (SCORES["budget"].narrow, SCORES["plan"].narrow, *numbers),
        rows,
        numbers,
        counted(scores["sentences"].iloc[0], "test sentence"),
        "\n".join(said),
    )


def planning_answers(scores: pd.DataFrame, heads: pd.DataFrame) -> list[str]:
    """Which plan of each budget is best, and what the searched one is like, a few sentences each.

    Args:
        scores: as `plan(...).scores`.
        heads: as `plan(...).mechanisms`.
    """
    return [
        " ".join(filter(None, (*_ranked(budget, rows), _without_keys(own))))
        for budget, rows in scores[scores["plan"] != FULL].groupby("budget", sort=False)
        for own in [heads[heads["budget"] == budget]]
    ]


def _ranked(budget: Any, rows: pd.DataFrame) -> tuple[str, str]:
    """The plan that is best on the test sentences, how the searched one stands beside it, and its error."""
    by, error = metric_of(rows), ERROR.column
    searched = rows[rows["plan"] == SEARCHED].iloc[0]
    others = rows[rows["plan"] != SEARCHED]
    own, own_error = (one.shown(searched[one.name]) for one in (by.column, error))
    at, named = f"At {counted(budget, 'key')} per row", f"searched plan ({searched['written']})"
    if others.empty:
        best = f"{at} the {named} has {by.name} {own}, and no baseline fits."
        return best, f"Its error is {own_error}."
    order = others.sort_values(by.column.name, ascending=by.sign < 0, kind="stable")
    baseline = order.iloc[0]
    theirs = by.column.shown(baseline[by.column.name])
    best_by = f"is best by {by.name} on these sentences:"
    if by.sign * searched[by.column.name] >= by.sign * baseline[by.column.name]:
        best = f"{at} the {named} {best_by} {own}, the next ({baseline['plan']}) {theirs}; it gains"
        gain = _gain(baseline, by, "over")
    else:
        best = f"{at} {baseline['plan']} {best_by} {theirs}. The {named} has {own}; it loses"
        gain = _gain(baseline, by, "to")
    least = others.sort_values(error.name, kind="stable").iloc[0]
    nearest = f"{error.shown(least[error.name])} ({least['plan']})"
    return f"{best} {gain}.", f"Its error is {own_error}; the least of a baseline is {nearest}."


def _gain(baseline: pd.Series, by: Metric, beside: str) -> str:
    """The size of the gain, its interval, and whether that holds 0."""
    column, (low, high) = by.gain.column, by.gain.ends(baseline.to_dict())
    interval = ", ".join(column.shown(end, signed=True) for end in (low, high))
    chance = ", which includes 0" if low <= 0 <= high else ""
    size = f"{column.shown(abs(baseline[column.name]))} {by.unit}"
    return f"{size} {beside} it (95 % interval of its gain [{interval}]{chance})"


def _without_keys(heads: pd.DataFrame) -> str:
    without = int((heads["family"] == NOTHING).sum())
    are = "1 is" if without == 1 else f"{without} are"
    return f"Of its {counted(len(heads), 'head')}, {are} left out ({NOTHING})." if without else ""


def draw_planning(scores: pd.DataFrame) -> Figure:
    """Error, and change of BLEU or else of loss, of each plan by the keys of its rows, with intervals.

    Changes are against the run as it is, the intervals theirs: paired, and none of BLEU itself.
    """
    by = metric_of(scores)
    figures = {ERROR: "relative l1 error", by.change: by.label}
    width, height, left, top = 3.2, 2.5, 0.65, 0.4
    with style():
        figure = blank(left + len(figures) * (width + 0.7) + 1.3, top + height + 0.55)
        for index, (estimate, label) in enumerate(figures.items()):
            axes = panel(figure, left + index * (width + 0.7), top, width, height)
            if estimate is not ERROR:
                full = scores.loc[scores["plan"] == FULL, by.column.name].iloc[0]
                named = f"full attention ({by.column.narrow} {by.column.shown(full)})"
                axes.axhline(0, color=INK, linewidth=1, linestyle=":", label=named)
            _draw(axes, scores, estimate)
            if estimate is ERROR:
                axes.set_ylim(bottom=0)
            axes.set_xlabel("keys per row, counted on test")
            axes.set_ylabel(label)
        axes.legend(frameon=False, fontsize=7.5, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure


def _draw(axes: Axes, scores: pd.DataFrame, estimate: Estimate) -> None:
    for plan, (colour, marker) in PLANS.items():
        own = scores[scores["plan"] == plan].sort_values("keys_per_row")
        if own.empty:
            continue
        keys = own["keys_per_row"]
        axes.vlines(keys, own[estimate.low], own[estimate.high], color=colour, linewidth=1)
        axes.plot(
            keys, own[estimate.name], color=colour, marker=marker, markersize=4, linewidth=1.2,
            label=plan,
        )  # fmt: skip
