"""A plan search drawn: error, change of loss and of BLEU by keys; its sentences."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from attnlab.budget import (
    FULL,
    L1_ERROR,
    LOSS_GAIN,
    VISIBLE_KEYS,
    keys_allowed,
    same_figures,
)
from attnlab.core import BLEU_CHANGE, LOSS_CHANGE, Estimate, chance_in_words, counted
from attnlab.evaluation import LOSS_UNITS
from attnlab.figures import INK, PAGE, WIDE, blank, style
from attnlab.questions.plan.question import EMPTY, MECHANISMS, NOTHING, SEARCHED
from attnlab.results import Contents, DrawnFigure, Result, readable

# Plans are told by marker too, for readers who cannot tell the colours apart.
PLANS = {
    SEARCHED: ("#2178d9", "o"),
    "band": ("#6b7280", "s"),
    "longformer": ("#3a8f4d", "^"),
    "bigbird": ("#c2571a", "D"),
}
# A plan that sees a smaller share of the budget leaves keys unused; the rest is held-out sentences' lengths.
_USED = 0.9
# From this share of empty rows on a head is nearer to having no keys than to its family.
_MOSTLY = 0.5
DRAWN = {
    LOSS_CHANGE: "change of loss per token",
    BLEU_CHANGE: "change of BLEU (greedy)",
    L1_ERROR: "relative l1 error",
}


def contents(result: Result) -> Contents:
    """What the page of a plan search shows."""
    figure = DrawnFigure(
        "plan",
        draw_planning(result.summary, width=WIDE),
        "Error of each plan, and its changes against full attention (dotted), with 95 % intervals; those of "
        "the changes are paired.",
    )
    return Contents([figure])


def answers(result: Result) -> list[str]:
    """What the searched plan of each budget costs, then how it stands beside the best baseline."""
    summary, heads = result.summary, result.mechanisms
    plans = summary[summary["mechanism"] != FULL]
    unit = LOSS_UNITS[result.details.get("loss", "next tokens")]
    return [
        sentence
        for budget, rows in plans.groupby("budget", sort=False)
        for sentence in (
            _cost(budget, rows, unit),
            _details(budget, rows, heads[heads["budget"] == budget]),
        )
    ]


def rows(result: Result) -> pd.DataFrame:
    """Full attention, then the plans of each budget by loss; it stands at the only budget there is."""
    summary = result.summary
    budgets = summary["budget"].dropna().unique()
    summary = summary.assign(budget=budgets[0]) if len(budgets) == 1 else summary
    by_loss = summary.assign(full=summary["mechanism"] != FULL)
    order = by_loss.sort_values(["full", "budget", LOSS_CHANGE.name], kind="stable").index
    return summary.loc[order]


def legend(_: Result) -> list[str]:
    """What the words of the table mean."""
    return ["searched: the plan that the search found, which is the reference"]


def _cost(budget: Any, rows: pd.DataFrame, unit: str) -> str:
    """The price of the searched plan."""
    return (
        f"At {counted(budget, 'key')} per row the searched plan changes the loss by "
        f"{_change(_searched(rows), rows)} {unit}."
    )


def _details(budget: Any, rows: pd.DataFrame, heads: pd.DataFrame) -> str:
    """The plan beside the best baseline, its heads, and what favours or hinders it."""
    setting = _searched(rows)["setting"]
    families = f"Its {counted(len(heads), 'head')} by family: {setting} ({NOTHING}: left out)."
    parts = (
        _beside(rows),
        families,
        _mostly_empty(heads),
        _exceeded(budget, rows),
        _unused(budget, rows),
    )
    return " ".join(filter(None, parts))


def _searched(rows: pd.DataFrame) -> dict[Any, Any]:
    return rows[rows["mechanism"] == SEARCHED].iloc[0].to_dict()


def _change(row: Mapping[Any, Any], rows: pd.DataFrame) -> str:
    return replace(LOSS_CHANGE, column=readable(LOSS_CHANGE.column, rows)).shown(row, signed=True)


def _beside(rows: pd.DataFrame) -> str:
    """The price of the baseline that costs least, and the difference."""
    searched = _searched(rows)
    others = rows[rows["mechanism"] != SEARCHED].sort_values(LOSS_CHANGE.name, kind="stable")
    same = [row["mechanism"] for row in others.to_dict("records") if same_figures(row, searched)]
    others = others[~others["mechanism"].isin(same)]
    ties = f"It comes to the same figures as {_listed(same)}." if same else ""
    if others.empty:
        return ties or "No baseline fits."
    baseline = others.iloc[0].to_dict()
    lower = baseline[LOSS_GAIN.name] >= 0
    by = LOSS_GAIN.shown(baseline if lower else LOSS_GAIN.reversed(baseline))
    chance = chance_in_words(*LOSS_GAIN.ends(baseline))
    return (
        f"{ties} The best of the others, {baseline['mechanism']}, changes it by {_change(baseline, rows)}: "
        f"the loss of the plan is {'lower' if lower else 'higher'} by {by}{chance}."
    ).strip()


def _listed(names: Sequence[str]) -> str:
    """Names as a phrase, such as `band and bigbird`."""
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _exceeded(budget: Any, rows: pd.DataFrame) -> str:
    """A sentence where the plan sees more keys of these sentences than budget and others; else empty."""
    is_searched = rows["mechanism"] == SEARCHED
    keys = rows[VISIBLE_KEYS.name]
    if not keys[is_searched].iloc[0] > keys_allowed(keys[~is_searched].tolist(), int(budget)):
        return ""
    return (
        "It keeps to the budget on validation sentences and sees more keys of these, which favours it: "
        "compare it with mechanisms of as many keys."
    )


def _mostly_empty(heads: pd.DataFrame) -> str:
    """How many heads that are not left out have no key in most of their rows; empty where all have some."""
    empty = (heads[EMPTY.name] > _MOSTLY) & (heads["mechanism_family"] != NOTHING)
    mostly = int(empty.sum())
    have = "has" if mostly == 1 else "have"
    where = f"({EMPTY.name} in {MECHANISMS.file})"
    return f"{mostly} more {have} no key in more than half of the rows {where}." if mostly else ""


def _unused(budget: Any, rows: pd.DataFrame) -> str:
    """Why the searched plan sees clearly fewer keys than it may; empty where it does not."""
    seen = rows.loc[rows["mechanism"] == SEARCHED, VISIBLE_KEYS.name].iloc[0]
    if seen >= _USED * budget:
        return ""
    return (
        "It does not use the whole budget, since no other mechanism that was tried for a head and fits "
        "lowers the criterion on the validation sentences."
    )


def draw_planning(summary: pd.DataFrame, *, width: float = PAGE) -> Figure:
    """Changes of loss and BLEU and the error of each plan, with intervals.

    Of one budget a row a plan, what costs least loss on top; of several a line a plan, by the keys of its
    rows. Changes are against full attention, the intervals theirs: paired, and none of the loss itself.

    Args:
        summary: one row per plan and budget, as `plan(...).summary` and `summary.csv`.
        width: of the figure in inches; both columns of a paper by default.
    """
    drawn = {estimate: label for estimate, label in DRAWN.items() if estimate.name in summary}
    plans = summary[summary["mechanism"].isin(PLANS)]
    alone = plans["budget"].nunique() == 1
    with style():
        figure = blank(width, 0.8 + 0.24 * len(plans) if alone else 3.0)
        figure.set_layout_engine("constrained")
        panels = figure.subplots(1, len(drawn), squeeze=False, sharey=alone)[0]
        for axes, (estimate, label) in zip(panels, drawn.items(), strict=True):
            if alone:
                _draw_rows(axes, plans, estimate, label)
            else:
                _draw_lines(axes, plans, estimate, label, named=axes is panels[-1])
        if not alone:
            panels[-1].legend(frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
        sns.despine(figure)
    return figure


def _draw_rows(axes: Axes, plans: pd.DataFrame, estimate: Estimate, label: str) -> None:
    """A row a plan, with its interval."""
    ordered = plans.sort_values(LOSS_CHANGE.name, ascending=False, kind="stable")
    axes.set_yticks(range(len(ordered)), list(ordered["mechanism"]))
    axes.set_ylim(-0.6, len(ordered) - 0.4)
    if estimate is not L1_ERROR:
        axes.axvline(0, color=INK, linewidth=1, linestyle=":")
    for y, row in enumerate(ordered.to_dict("records")):
        colour, marker = PLANS[row["mechanism"]]
        axes.plot(estimate.ends(row), [y, y], color=colour, linewidth=1.2)
        axes.plot(row[estimate.name], y, marker, color=colour, markersize=5)
    if estimate is L1_ERROR:
        axes.set_xlim(left=0)
    axes.set_xlabel(label)


def _draw_lines(
    axes: Axes, plans: pd.DataFrame, estimate: Estimate, label: str, *, named: bool
) -> None:
    """A line a plan over budgets, with intervals."""
    if estimate is not L1_ERROR:
        axes.axhline(0, color=INK, linewidth=1, linestyle=":", label="full attention")
    colours, markers = ({plan: look[part] for plan, look in PLANS.items()} for part in (0, 1))
    axes.vlines(
        plans[VISIBLE_KEYS.name], plans[estimate.low], plans[estimate.high],
        colors=list(plans["mechanism"].map(colours)), linewidth=1,
    )  # fmt: skip
    sns.lineplot(
        plans, x=VISIBLE_KEYS.name, y=estimate.name, hue="mechanism", style="mechanism", palette=colours,
        markers=markers, markeredgewidth=0, dashes=False, errorbar=None, ax=axes, legend=named,
    )  # fmt: skip
    if estimate is L1_ERROR:
        axes.set_ylim(bottom=0)
    axes.set(xlabel="keys per row, counted", ylabel=label)
