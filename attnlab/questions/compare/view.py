"""A comparison drawn: every mechanism by budget for each site, and its rows on a terminal."""

from collections.abc import Iterator
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from attnlab.budget.bounds import TOLERANCE
from attnlab.core.columns import Column
from attnlab.core.errors import InputError
from attnlab.core.texts import briefly, counted
from attnlab.questions.compare.question import MECHANISMS_BY_HEAD, SUMMARY
from attnlab.reporting.canvas import INK, blank, panel, style
from attnlab.reporting.drawing.given import check_table
from attnlab.reporting.drawing.levels import LEVEL_COLOURS, LEVEL_MARKERS, example_of
from attnlab.reporting.drawing.palette import PAGE as PAGE_WIDTH
from attnlab.reporting.drawing.pareto import draw_pareto
from attnlab.reporting.naming import SITE_NAMES
from attnlab.reporting.page.result_page import Contents, DrawnFigure, ShownTable
from attnlab.results.result import Result
from attnlab.results.terminal import TerminalTable

_AXES = {"mass_fraction": "share of attention captured", "output_error": "relative output error"}
# What lies beyond is written in figures: an untrained Linformer would press all others together.
LIMITS = {"mass_fraction": 1.0, "output_error": 1.5}
_LEFT, _GAP, _TOP = 1.9, 0.25, 0.75
# So many budgets stand side by side on a terminal of 80 columns.
_BESIDE = 2


def contents(result: Result) -> Contents:
    """What the page of a comparison shows."""
    summary = result.summary
    sites, budgets = (list(dict.fromkeys(summary[name])) for name in ("site", "budget"))
    figures = []
    for site in sites:
        of_site = summary[summary["site"] == site]
        text = (
            f"{SITE_NAMES[site]}: each mechanism's mean over heads and sentences with its 95 % interval; a "
            "ring marks the best that can be used."
        )
        figures.append(DrawnFigure(f"mechanisms_{site}", draw_comparison(of_site, site), text))
        if len(budgets) > 1:
            text = (
                f"{SITE_NAMES[site]}: output error by keys per row; the line joins what nothing that can be "
                "used beats."
            )
            figure = draw_pareto(of_site, width=PAGE_WIDTH)
            figures.append(DrawnFigure(f"pareto_{site}", figure, text))
    facts = {
        "Mechanisms": str(summary["mechanism"].nunique()),
        "Keys per row": ", ".join(map(str, budgets)),
        "Sites": ", ".join(sites),
        **{name: str(result.about[name]) for name in ("Held-out sentences", "Training sentences")},
    }
    shown = (
        ShownTable(SUMMARY.file, "Mechanisms by site and budget"),
        ShownTable(MECHANISMS_BY_HEAD.file, "Mechanisms by head"),
    )
    return Contents([_winners(summary, site) for site in sites], facts, figures, shown)


def terminal(result: Result) -> Iterator[TerminalTable]:
    """Mechanisms of each site by mean output error, a column a budget."""
    columns = [SUMMARY[name] for name in ("mass_fraction", "output_error", "visible_keys")]
    names = [SUMMARY[name].narrow for name in ("mechanism", "level")]
    for site, of_site in result.summary.groupby("site", sort=False):
        budgets = list(dict.fromkeys(of_site["budget"]))
        for first in range(0, len(budgets), _BESIDE):
            shown = budgets[first : first + _BESIDE]
            rows = of_site[of_site["budget"].isin(shown)]
            keys = tuple(f"{budget} keys" for budget in shown)
            yield TerminalTable(
                headings=(*names, *keys),
                rows=tuple(_terminal_rows(rows, shown, columns)),
                numbers=keys,
                title=f"\n{site}: {', '.join(column.narrow for column in columns)}",
            )


def _terminal_rows(
    rows: pd.DataFrame, budgets: list[int], columns: list[Column]
) -> Iterator[tuple[str, ...]]:
    order = rows.groupby("mechanism")["output_error"].mean().sort_values().index
    for name in order:
        by_budget = rows[rows["mechanism"] == name].set_index("budget")
        cells = (
            " ".join(_figure(column, by_budget.at[budget, column.name]) for column in columns)
            for budget in budgets
        )
        yield name, by_budget["level"].iloc[0], *cells


def _figure(column: Column, value: float) -> str:
    """A figure below 10; a dash as wide where there is none."""
    return column.shown(value) or "-".rjust(2 + (column.digits or 0))


def _winners(summary: pd.DataFrame, site: str) -> str:
    """The best mechanism of a site that can be used, by budget, as a sentence."""
    parts = []
    error = SUMMARY["output_error"]
    for budget, rows in summary[summary["site"] == site].groupby("budget", sort=False):
        best = winner(rows, error.name)
        if best is not None:
            low, high = (error.shown(best[f"{error.name}_{end}"]) for end in ("low", "high"))
            keys = SUMMARY["visible_keys"].shown(best["visible_keys"])
            shown = error.shown(best[error.name])
            alike = _usable(rows, error.name)[error.name].map(error.shown).eq(shown).sum() - 1
            others = f", the same as {counted(int(alike), 'other')}" if alike else ""
            parts.append(
                f"{best['mechanism']} at {budget} keys per row ({keys} counted, output error {shown} "
                f"[{low}, {high}]{others})"
            )
    if not parts:
        return f"{site.capitalize()}: no mechanism that can be used is within the budget."
    named = f"{'are' if len(parts) > 1 else 'is'} {'; '.join(parts)}"
    answer = f"{site.capitalize()}: nearest to full attention, of what can be used, {named}."
    without = (summary["site"] == site) & summary["visible_keys"].isna()
    unsized = _best(summary[without & summary[error.name].notna()], error.name)
    if unsized is None:
        return answer
    return f"{answer} Without a number of keys: {unsized['mechanism']}, {error.shown(unsized[error.name])}."


def draw_comparison(summary: pd.DataFrame, site: str) -> Figure:
    """A row of panels per budget: each mechanism's mean at a site with its interval, by level.

    The best mechanism that could be used (calibrated or static) has a ring, its figure beside it and,
    for the output error, its name in bold: an oracle is fitted to what it is measured on.

    Args:
        summary: one row per mechanism, budget and site, as `compare(...).summary` and `summary.csv`.
        site: encoder, decoder or cross.

    Raises:
        InputError: it is no such table, or has no row of the site.
    """
    bounds = [f"{name}_{end}" for name in _AXES for end in ("low", "high")]
    wanted = ["site", "budget", "mechanism", "level", "visible_keys", *_AXES, *bounds]
    check_table(summary, wanted, "compare(...).summary or summary.csv")
    sites = list(dict.fromkeys(summary["site"]))
    if site not in sites:
        msg = f"The table has no site {briefly(site)}; choose from: {', '.join(sites)}."
        raise InputError(msg)
    summary = summary[summary["site"] == site]
    budgets = list(dict.fromkeys(summary["budget"]))
    names = summary.groupby("mechanism")["output_error"].mean().sort_values(ascending=False).index
    width, height = 2.9, 0.2 * len(names) + 0.2
    whole = _LEFT + len(_AXES) * (width + _GAP), _TOP + len(budgets) * (height + 0.75) - 0.2
    with style():
        figure = blank(*whole)
        for index, budget in enumerate(budgets):
            top = _TOP + index * (height + 0.75)
            for column, (name, label) in enumerate(_AXES.items()):
                axes = panel(figure, _LEFT + column * (width + _GAP), top, width, height)
                rows = summary[summary["budget"] == budget]
                _draw(axes, rows, list(names), name)
                _mark_winner(axes, rows, list(names), name)
                axes.set_xlabel(label)
                axes.tick_params(axis="y", labelleft=column == 0, length=0)
                if column == 0:
                    axes.set_title(f"{site}, {budget} visible keys per row", loc="left")
        figure.legend(
            handles=[*(example_of(level) for level in LEVEL_COLOURS), _ring()],
            loc="upper right",
            ncols=len(LEVEL_COLOURS) + 1,
            frameon=False,
            fontsize=8,
        )
    return figure


def winner(rows: pd.DataFrame, figure: str) -> dict[Any, Any] | None:
    """The row of the best mechanism that could be used, by one figure; None where there is none.

    Its keys are counted and within the budget: what attends to every key, as linear attention does, has none.
    """
    return _best(_usable(rows, figure), figure)


def _usable(rows: pd.DataFrame, figure: str) -> pd.DataFrame:
    """The rows that could be used at their budget, and have the figure."""
    within = rows["visible_keys"] <= rows["budget"] * (1 + TOLERANCE)
    return rows[within & (rows["level"] != "oracle") & rows[figure].notna()]


def _best(usable: pd.DataFrame, figure: str) -> dict[Any, Any] | None:
    if usable.empty:
        return None
    order = usable[figure].sort_values(ascending=figure != "mass_fraction", kind="stable")
    return usable.loc[order.index[0]].to_dict()


def _mark_winner(axes: Axes, rows: pd.DataFrame, names: list[str], figure: str) -> None:
    best = winner(rows, figure)
    if best is None or best[figure] > LIMITS[figure]:
        return
    y, value, colour = names.index(best["mechanism"]), best[figure], LEVEL_COLOURS[best["level"]]
    axes.plot(
        [value], [y], "o", color=colour, fillstyle="none", markersize=8.5, markeredgewidth=1.1
    )
    left = value > 0.6 * LIMITS[figure]
    reach = 0.05 * LIMITS[figure]
    axes.text(
        best[f"{figure}_low"] - reach if left else best[f"{figure}_high"] + reach, y, f"{value:.2f}",
        color=colour, ha="right" if left else "left", va="center", fontsize=8, fontweight="bold",
    )  # fmt: skip
    if figure == "output_error":
        # The names stand at the first panel, which shows the other figure.
        axes.figure.axes[-len(_AXES)].get_yticklabels()[y].set_fontweight("bold")


def _ring() -> Line2D:
    return Line2D(
        [], [], linestyle="none", marker="o", markersize=8.5, fillstyle="none", color=INK,
        label="best that can be used",
    )  # fmt: skip


def _draw(axes: Axes, table: pd.DataFrame, names: list[str], figure: str) -> None:
    axes.grid(axis="y", color="#e5e7eb", linewidth=0.6)
    axes.set_axisbelow(True)
    limit = LIMITS[figure]
    for row in table.to_dict("records"):
        y, colour = names.index(row["mechanism"]), LEVEL_COLOURS[row["level"]]
        if row[figure] > limit:
            text = f"{row[figure]:.1f} \N{RIGHTWARDS ARROW}"
            axes.text(limit, y, text, color=colour, ha="right", va="center", fontsize=8)
        elif pd.notna(row[figure]):
            axes.plot([row[f"{figure}_low"], row[f"{figure}_high"]], [y, y], color=colour)
            axes.plot(row[figure], y, LEVEL_MARKERS[row["level"]], color=colour, markersize=4)
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(-0.7, len(names) - 0.3)
    axes.set_xlim(-0.02 * limit, 1.02 * limit)
