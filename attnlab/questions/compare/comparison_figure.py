"""A comparison drawn: every mechanism by budget."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from attnlab.budget import ALL, ERROR, FULL, MASS, ORACLE
from attnlab.core import BLEU_CHANGE, LOSS_CHANGE, Estimate, InputError, briefly, counted
from attnlab.figures import (
    INK,
    LEVEL_COLOURS,
    LEVEL_MARKERS,
    PAGE,
    blank,
    check_table,
    example_of,
    panel,
    stretch,
    style,
)
from attnlab.questions.compare.ranking import best_of, fitting, row_label
from attnlab.results import Result, drawn_table

# What is drawn, where the table has it and in its order, with what is written below.
_AXES = {
    LOSS_CHANGE: "change of loss",
    BLEU_CHANGE: "change of BLEU",
    MASS: "share of attention captured",
    ERROR: "relative output error",
}
# What lies beyond is written in figures: an untrained Linformer would press all others together.
LIMITS = {MASS.name: 1.0, ERROR.name: 1.5}
# Up to there an axis of a change is linear.
_LINEAR = {LOSS_CHANGE.name: 0.1, BLEU_CHANGE.name: 1.0}
# Inches: of names, between panels, above all, around a panel; and how many stand side by side in a paper.
_LEFT, _GAP, _TOP, _AROUND, _PER_ROW = 1.9, 0.25, 0.75, 0.85, 2
# Share of the width of a panel that the figure of the best mechanism takes beside its interval.
_SHARE_OF_FIGURE = 0.16


def draw_comparison(
    summary: pd.DataFrame | Result,
    sites: str | None = None,
    *,
    against: str | None = None,
    width: float = PAGE,
) -> Figure:
    """Each mechanism's figures with their intervals, a line of panels a budget, what costs least on top.

    The order, and the ring around the best mechanism, are those of the loss, or of the output error where no
    loss was measured. What cannot be used at the budget stands apart below: an oracle is fitted to what it is
    measured on, and a plan may see more keys.

    Args:
        summary: a result of `compare`, or one row per mechanism, budget and sites, as `summary.csv`.
        sites: encoder, decoder, cross or all; None: all, or the only site.
        against: the mechanism that stands for those that attend like it.
        width: of the figure in inches; on both columns of a paper, the default, two panels stand in a line.

    Raises:
        InputError: it is no such table, or has no row of these sites.
    """
    summary = drawn_table(summary, "summary")
    needed = ["sites", "budget", "mechanism", "level", "visible_keys"]
    needed += [column.name for estimate in (MASS, ERROR) for column in estimate]
    check_table(summary, needed, "compare(...).summary or summary.csv")
    summary = summary[summary["mechanism"] != FULL].assign(
        steps=summary.get("steps", 0), level=summary["level"].fillna("")
    )
    choices = list(dict.fromkeys(summary["sites"]))
    if sites is None:
        sites = ALL if ALL in choices else choices[0]
    if sites not in choices:
        msg = f"The table has no sites {briefly(sites)}; choose from: {', '.join(choices)}."
        raise InputError(msg)
    cases = [_Case.of(*group, against) for group in _cases(summary[summary["sites"] == sites])]
    first = LOSS_CHANGE if LOSS_CHANGE.name in summary else ERROR
    measures = [first, *(other for other in _AXES if other is not first and other.name in summary)]
    per_line = _PER_ROW if width <= PAGE else len(measures)
    panel_width, lines = (width - _LEFT) / per_line - _GAP, -(-len(measures) // per_line)
    with style():
        height = sum(lines * (case.height + _AROUND) for case in cases)
        figure, top = blank(width, _TOP + height), _TOP
        for case in cases:
            for number, estimate in enumerate(measures):
                line, column = divmod(number, per_line)
                left = _LEFT + column * (panel_width + _GAP)
                above = top + line * (case.height + _AROUND)
                axes = panel(figure, left, above, panel_width, case.height)
                stretched = _draw(axes, case, estimate)
                axes.set_xlabel(f"{_AXES[estimate]}{stretched}")
                axes.tick_params(axis="y", labelleft=column == 0, length=0)
                if number == 0:
                    axes.set_title(case.title(sites), loc="left")
                    _mark_best(axes, case, estimate)
            top += lines * (case.height + _AROUND)
        columns = 6 if width > PAGE else 3
        handles = list(_handles(cases))
        figure.legend(handles=handles, loc="upper right", ncols=columns, frameon=False, fontsize=8)
    return figure


def _cases(summary: pd.DataFrame) -> Iterator[tuple[pd.DataFrame, int, float]]:
    """Rows, steps and budget of each line of panels; a plan of a file stands at every budget."""
    cases = summary[["steps", "budget"]].astype(float).drop_duplicates()
    # Alone it is drawn as it is.
    cases = cases.dropna() if cases["budget"].notna().any() else cases
    for steps, budget in cases.to_numpy().tolist():
        at = summary["budget"].isna() | (summary["budget"] == budget)
        yield summary[at & (summary["steps"] == steps)], int(steps), budget


@dataclass(frozen=True)
class _Case:
    """A line of panels.

    Attributes:
        rows: those of one budget and number of steps.
        steps: batches of fine-tuning.
        budget: keys per row; NaN where that is not known.
        heights: by mechanism, the best one highest; what cannot be used lies below 0.
        best: the row that the answer names; None without a budget, or where nothing can be used.
    """

    rows: pd.DataFrame
    steps: int
    budget: float
    heights: Mapping[str, float]
    best: Mapping[Any, Any] | None

    @classmethod
    def of(cls, rows: pd.DataFrame, steps: int, budget: float, against: str | None) -> "_Case":
        by = LOSS_CHANGE if LOSS_CHANGE.name in rows else ERROR
        limited = pd.notna(budget)
        usable = rows[rows["level"] != ORACLE]
        usable = fitting(usable, int(budget)) if limited else usable
        ordered = rows.sort_values(by.name, ascending=False, kind="stable")
        is_usable = ordered.index.isin(usable.index)
        heights = {name: float(at) for at, name in enumerate(ordered.loc[is_usable, "mechanism"])}
        others = reversed(ordered.loc[~is_usable, "mechanism"].tolist())
        heights |= {name: -1.5 - at for at, name in enumerate(others)}
        return cls(rows, steps, budget, heights, best_of(usable, by, against) if limited else None)

    @property
    def height(self) -> float:
        """Inches of a panel."""
        return 0.2 * (max(self.heights.values()) - min(self.heights.values()) + 1) + 0.2

    def title(self, sites: str) -> str:
        """What stands above its panels."""
        keys = f", {counted(int(self.budget), 'key')} per row" if pd.notna(self.budget) else ""
        tuned = f", after {counted(self.steps, 'batch')}" if self.steps else ""
        return f"{sites}{keys}{tuned}"

    def label(self, row: Mapping[Any, Any]) -> str:
        """The mechanism of a row, as the table calls it."""
        return row_label(row, int(self.budget)) if pd.notna(self.budget) else str(row["mechanism"])


def _mark_best(axes: Axes, case: _Case, estimate: Estimate) -> None:
    """A ring around the mechanism of the answer, with its figure."""
    if case.best is None:
        return
    best, y = case.best, case.heights[case.best["mechanism"]]
    value = best[estimate.name]
    colour = LEVEL_COLOURS.get(best["level"], INK)
    label = next(tick for tick in axes.get_yticklabels() if tick.get_position()[1] == y)
    label.set_fontweight("bold")
    if value > LIMITS.get(estimate.name, math.inf):
        return
    axes.plot(
        [value], [y], "o", color=colour, fillstyle="none", markersize=8.5, markeredgewidth=1.1
    )
    low, high = (value if pd.isna(end) else end for end in estimate.ends(best))
    across = axes.transScale + axes.transLimits
    room_left, room_right = across.transform((low, 0))[0], 1 - across.transform((high, 0))[0]
    at, offset, side, level = high, (7, 0), "left", "center"
    if max(room_left, room_right) < _SHARE_OF_FIGURE:
        at, offset, level = value, (6, 1), "bottom"
    elif room_left > room_right:
        at, offset, side = low, (-7, 0), "right"
    axes.annotate(
        f"{value:.2f}", (at, y), xytext=offset, textcoords="offset points", color=colour, ha=side,
        va=level, fontsize=8, fontweight="bold",
    )  # fmt: skip


def _handles(cases: Sequence[_Case]) -> Iterator[Line2D]:
    """What the legend explains: levels, the ring, and both lines."""
    levels = {level for case in cases for level in case.rows["level"]}
    yield from (example_of(level) for level in LEVEL_COLOURS if level in levels)
    if any(case.best is not None for case in cases):
        yield Line2D(
            [], [], linestyle="none", marker="o", markersize=8.5, fillstyle="none", color=INK,
            label="best that can be used",
        )  # fmt: skip
    if any(min(case.heights.values()) < 0 for case in cases):
        yield Line2D([], [], color=INK, linewidth=0.6, label="below: cannot be used")
    yield Line2D(
        [], [], color=INK, linewidth=0.8, linestyle="--", label="error 1: as without these heads"
    )


def _draw(axes: Axes, case: _Case, estimate: Estimate) -> str:
    """Draws every mechanism's figure; what is to be said of the scale."""
    axes.grid(axis="y", color=INK, alpha=0.12, linewidth=0.6)
    axes.set_axisbelow(True)
    rows = case.rows.to_dict("records")
    axes.set_yticks([case.heights[row["mechanism"]] for row in rows], list(map(case.label, rows)))
    axes.set_ylim(min(case.heights.values()) - 0.7, max(case.heights.values()) + 0.7)
    if min(case.heights.values()) < 0:
        axes.axhline(-0.75, color=INK, linewidth=0.6)
    limit, stretched = LIMITS.get(estimate.name), ""
    if estimate is ERROR:
        axes.axvline(1, color=INK, linewidth=0.8, linestyle="--")
    if limit is not None:
        axes.set_xlim(-0.02 * limit, 1.02 * limit)
    else:
        axes.axvline(0, color=INK, linewidth=0.8, linestyle=":")
        axes.margins(x=0.08)
        drawn = case.rows[[estimate.name, estimate.low, estimate.high]].abs().max().max()
        largest = 0.0 if pd.isna(drawn) else float(drawn)
        stretched = stretch(axes, "x", threshold=_LINEAR[estimate.name], largest=largest)
    for row in rows:
        y, value = case.heights[row["mechanism"]], row[estimate.name]
        colour = LEVEL_COLOURS.get(row["level"], INK)
        if limit is not None and value > limit:
            text = f"{value:.1f} \N{RIGHTWARDS ARROW}"
            axes.text(limit, y, text, color=colour, ha="right", va="center", fontsize=8)
        elif pd.notna(value):
            axes.plot(estimate.ends(row), [y, y], color=colour)
            axes.plot(value, y, LEVEL_MARKERS.get(row["level"], "*"), color=colour, markersize=4)
    return stretched
