"""A comparison drawn: every mechanism by budget, and the answer in a sentence."""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from attnlab.budget import (
    ALL,
    ERROR,
    FULL,
    LOSS_GAIN,
    MASS,
    ORACLE,
    VISIBLE_KEYS,
    keys_allowed,
    over_budget,
    same_figures,
)
from attnlab.core import (
    BLEU,
    BLEU_CHANGE,
    LOSS_CHANGE,
    Estimate,
    InputError,
    briefly,
    chance_in_words,
    counted,
)
from attnlab.figures import (
    INK,
    LEVEL_COLOURS,
    LEVEL_MARKERS,
    blank,
    check_table,
    draw_pareto,
    example_of,
    panel,
    stretch,
    style,
)
from attnlab.figures import PAGE as PAGE_WIDTH
from attnlab.results import Contents, DrawnFigure, Result, readable

# What is drawn, where the table has it and in its order, with what is written below.
_AXES = {
    LOSS_CHANGE: "change of loss",
    BLEU_CHANGE: "change of BLEU",
    MASS: "share of attention captured",
    ERROR: "relative output error",
}
# Of these more is better.
_LARGER = (MASS, BLEU_CHANGE)
# What lies beyond is written in figures: an untrained Linformer would press all others together.
LIMITS = {MASS.name: 1.0, ERROR.name: 1.5}
# Up to there an axis of a change is linear.
_LINEAR = {LOSS_CHANGE.name: 0.1, BLEU_CHANGE.name: 1.0}
MORE_KEYS = "more keys"
_HEADS = {ALL: "All heads", "cross": "All heads of cross-attention"}
# How tables of mechanisms are filled; see `_learned_by`.
_LEARNED = {
    "counts": "load_frequencies(model, counts) with how often each token id is in training sentences",
    "attention": "calibrate(model, batches) on training sentences",
}
_LEFT, _GAP, _TOP, _PER_ROW = 1.9, 0.25, 0.75, 2


def contents(result: Result) -> Contents:
    """What the page of a comparison shows."""
    summary, figures = result.summary, []
    groups = list(_groups(result))
    known = summary["budget"].dropna().unique()
    # Full attention stands at all sites, also where no mechanism can.
    replaced = summary.loc[summary["replaced_heads"] > 0, "sites"]
    sites = sorted(
        (name for name in replaced.unique() if "," not in name), key=lambda name: name != ALL
    )
    for name in sites:
        where = _HEADS.get(name, f"All heads of the {name}")
        ring = "; a ring marks the best that can be used with so many keys"
        text = f"{where} replaced: each with its 95 % interval{ring if len(known) else ''}."
        figures.append(DrawnFigure(f"mechanisms_{name}", draw_comparison(summary, name), text))
        if len(known) > 1:
            text = (
                f"{where} replaced: output error by keys per row; the line joins what nothing that can be "
                "used beats."
            )
            own = summary[(summary["sites"] == name) & summary["budget"].notna()]
            figure = draw_pareto(own[own["steps"] == 0], width=PAGE_WIDTH)
            figures.append(DrawnFigure(f"pareto_{name}", figure, text))
    facts = {
        "Mechanisms": str(summary.loc[summary["replaced_heads"] > 0, "mechanism"].nunique()),
        "Keys per row": ", ".join(dict.fromkeys(str(budget) for budget, _, _ in groups)),
        "Sites": ", ".join(name for name in sites if name != ALL or len(sites) == 1),
        **{name: str(value) for name, value in result.about.items() if "sentences" in name},
    }
    return Contents(figures, facts)


def answers(result: Result) -> list[str]:
    """Which mechanism costs least at each budget, and how a model gets it."""
    against = result.details.get("against")
    said = (
        one
        for _, _, rows in _groups(result)
        for one in (answer_of(rows, against), installing_of(rows, result.tables, against))
    )
    return [one for one in said if one is not None]


def legend(result: Result) -> list[str]:
    """What names of mechanisms mean that say it to few."""
    shown = rows(result)
    names = " ".join(shown["mechanism"])
    meanings = {
        ORACLE: "chosen from what it replaces",
        MORE_KEYS: "than the budget, on these sentences",
        "sigma": "a band with chosen keys",
        "fixed": "the best pattern of one key",
    }
    widths = shown["replaced_heads"]
    fewer = widths[widths > 0].nunique() > 1
    below = ["rows of fewer sites below"] if fewer else []
    return below + [f"{name}: {meaning}" for name, meaning in meanings.items() if name in names]


def rows(result: Result) -> pd.DataFrame:
    """Each mechanism at all sites where it can be: those at most heads first, then what costs least."""
    shown = []
    for budget, _, group in _groups(result):
        by = LOSS_CHANGE if LOSS_CHANGE.name in group else ERROR
        names = [_label(row, budget) for row in group.to_dict("records")]
        first = -group["replaced_heads"].where(group["mechanism"] != FULL, math.inf)
        order = group.assign(mechanism=names, first=first, oracle=group["level"] == ORACLE)
        # Of fewer sites less is lost, so rows are held only against those of the same sites.
        order = order.sort_values(["oracle", "first", "sites", by.name, ERROR.name], kind="stable")
        shown.append(order.drop(columns=["first", "oracle"]))
    return pd.concat(shown, ignore_index=True)


def _groups(result: Result) -> Iterator[tuple[int, int, pd.DataFrame]]:
    """Budget, steps and rows: full attention, plans, and each mechanism at all sites where it can be."""
    summary = result.summary
    asked = result.details.get("budgets", ())
    budgets = dict.fromkeys(int(one) for one in (*asked, *summary["budget"].dropna().unique()))
    known = summary.assign(level=summary["level"].fillna(""))
    for steps in known["steps"].unique():
        there = known[known["steps"] == steps]
        for budget in budgets:
            own = there[(there["budget"] == budget) | there["budget"].isna()]
            # Where no setting fits, plans of files may, which have no budget.
            if not own["mechanism"].ne(FULL).any():
                continue
            widest = own.groupby("mechanism", sort=False)["replaced_heads"].transform("max")
            yield (
                int(budget),
                int(steps),
                own[own["replaced_heads"] == widest].assign(budget=int(budget)),
            )


def answer_of(rows: pd.DataFrame, against: str | None = None) -> str | None:
    """Which mechanism to use at a budget, as a sentence; None where there is none that can be used.

    Args:
        rows: those of one budget and number of steps.
        against: the mechanism whose gains over others they have.
    """
    known, lost = _usable(rows)
    row = _best(known, lost, against)
    if row is None:
        return None
    known, alike = _apart(known, row, against)
    among = f" of {counted(len(known), 'mechanism')} that can be used" if len(known) > 1 else ""
    if lost is ERROR:
        error = f"output error {_shown(ERROR, row, rows)}"
        said = f"is nearest to full attention{among}: {error}" if among else f"has {error}"
    else:
        bleu = _shown(BLEU_CHANGE, row, rows) if BLEU_CHANGE.name in row else ""
        opening = f"costs least loss{among}:" if among else "changes the loss by"
        said = f"{opening} {_shown(LOSS_CHANGE, row, rows)} a token"
        full = rows.loc[rows["mechanism"] == FULL, BLEU.name] if bleu else ()
        of = "".join(f" of {value:.1f}" for value in full)
        said += f", {bleu}{of} BLEU" if bleu else ""
    steps, keys = int(row["steps"]), row[VISIBLE_KEYS.name]
    tuned = f" and {counted(steps, 'batch')} of fine-tuning" if steps else ""
    beyond = (
        f" with {VISIBLE_KEYS.shown(keys)} keys on these sentences"
        if over_budget(keys, int(row["budget"]))
        else ""
    )
    same = f" (and what attends like it: {', '.join(alike)})" if alike else ""
    return (
        f"At {counted(int(row['budget']), 'key')} per row{tuned}, {row['mechanism']}{same}{beyond} in place "
        f"of {counted(int(row['replaced_heads']), 'head')} {said}.{_next(known, row, lost, against, rows)}"
    )


def _shown(estimate: Estimate, row: Mapping[Any, Any], rows: pd.DataFrame) -> str:
    """A figure with its interval, with the decimals that this carries."""
    column = readable(estimate.column, rows[rows["mechanism"] != FULL])
    return replace(estimate, column=column).shown(row, signed=estimate is not ERROR)


def _best(known: pd.DataFrame, estimate: Estimate, against: str | None) -> dict[Any, Any] | None:
    """The row of the winner or, where it attends alike, of the mechanism that others are held against."""
    row = winner(known, estimate)
    named = known[known["mechanism"] == against].to_dict("records")
    return next((one for one in named if row is not None and same_figures(one, row)), row)


def _apart(
    known: pd.DataFrame, best: Mapping[Any, Any], against: str | None
) -> tuple[pd.DataFrame, list[str]]:
    """One row of all mechanisms that attend alike, and which attend like the best one.

    No mechanism is second to itself then. The best stands for those like it, and the one that others are
    held against.
    """
    kept: dict[Any, dict[Any, Any]] = {}
    alike = []
    first = known["mechanism"].map({best["mechanism"]: 0, against: 1}).fillna(2)
    ordered = known.loc[first.sort_values(kind="stable").index]
    for index, row in ordered.to_dict("index").items():
        if same_figures(row, best) and row["mechanism"] != best["mechanism"]:
            alike.append(str(row["mechanism"]))
        elif not any(same_figures(row, other) for other in kept.values()):
            kept[index] = row
    return known.loc[[index for index in known.index if index in kept]], alike


def installing_of(
    rows: pd.DataFrame, tables: Mapping[str, pd.DataFrame], against: str | None = None
) -> str | None:
    """How a model gets the mechanism that costs least, in a sentence; None of a plan, or where none is named.

    Args:
        rows: those of one budget and number of steps.
        tables: of the comparison, `mechanisms_by_head` among them.
        against: the mechanism whose gains over others the rows have.
    """
    # It imports models of transformers, which other pages do without.
    from attnlab.attention import catalogue, parse
    from attnlab.budget import uniform_mechanisms

    row = _best(*_usable(rows), against)
    by_head = tables.get("mechanisms_by_head")
    if row is None or by_head is None or by_head.empty or row["level"] == "":
        return None
    # Which pattern each head has in `fixed` stands in no table, nor what was trained with a mechanism.
    if row["steps"] or row["mechanism"] not in uniform_mechanisms():
        return None
    own = by_head[(by_head["mechanism"] == row["mechanism"]) & (by_head["budget"] == row["budget"])]
    sites = own["site"] if row["sites"] == ALL else row["sites"].split(", ")
    settings = own[own["site"].isin(sites)].groupby("site", sort=False)["setting"].first().to_dict()
    # What is drawn and not trained would be drawn anew.
    trained = {entry.name for entry in catalogue() if entry.traits.learned}
    if not settings or any(parse(setting).name in trained for setting in settings.values()):
        return None
    learned = [_LEARNED[how] for how in _learned_by(settings.values())]
    then = f", then {' and '.join(learned)}" if learned else ""
    return f"A model gets it by attnlab.attention.install(model, {settings}){then}."


def _learned_by(settings: Iterable[str]) -> list[str]:
    """By what of training sentences tables are filled that mechanisms choose keys by."""
    from attnlab.attention import Sigma, parse

    sigmas = [one for one in map(parse, settings) if isinstance(one, Sigma)]
    found = {
        "counts": any(one.num_pos and one.columns == "frequency" for one in sigmas),
        "attention": any(
            (one.num_pos and one.columns == "salience") or (one.extra and one.entries == "offsets")
            for one in sigmas
        ),
    }
    return [how for how, needed in found.items() if needed]


def _usable(rows: pd.DataFrame) -> tuple[pd.DataFrame, Estimate]:
    """The rows of what can be used at the budget in as many heads as any, and by what they are compared."""
    widest = rows["replaced_heads"] == rows["replaced_heads"].max()
    known = rows[widest & (rows["level"] != ORACLE) & (rows["replaced_heads"] > 0)]
    known = _fitting(known, int(rows["budget"].iloc[0]))
    return known, LOSS_CHANGE if LOSS_CHANGE.name in known else ERROR


def _next(
    known: pd.DataFrame,
    first: Mapping[Any, Any],
    estimate: Estimate,
    against: str | None,
    rows: pd.DataFrame,
) -> str:
    """What is second, and whether a test tells it from the first; empty where there is no second."""
    second = winner(known[known["mechanism"] != first["mechanism"]], estimate)
    if second is None:
        return ""
    said = f" Next is {second['mechanism']}"
    if estimate is LOSS_CHANGE and against in {first["mechanism"], second["mechanism"]}:
        # The gain of the second over the first is what the first is better by, the other way round.
        is_first = first["mechanism"] == against
        held = second if is_first else first
        if pd.notna(held.get(LOSS_GAIN.name)):
            shown = LOSS_GAIN.shown(held if is_first else LOSS_GAIN.reversed(held), signed=True)
            chance = chance_in_words(*LOSS_GAIN.ends(held))
            return f"{said}, a loss that is higher by {shown}{chance}."
    return f"{said} ({_shown(estimate, second, rows)}), a difference that is not tested here."


def winner(rows: pd.DataFrame, estimate: Estimate) -> dict[Any, Any] | None:
    """The row of the best mechanism that could be used, by one figure; None where there is none."""
    usable = rows[(rows["level"] != ORACLE) & (rows["mechanism"] != FULL)]
    order = (
        usable[estimate.name].dropna().sort_values(ascending=estimate not in _LARGER, kind="stable")
    )
    return None if order.empty else usable.loc[order.index[0]].to_dict()


def _fitting(rows: pd.DataFrame, budget: int) -> pd.DataFrame:
    """The rows that can be held against each other at a budget.

    Those are the mechanisms that were set for it, and plans that are known to see no more keys than it or
    than one of these.
    """
    planned = rows["level"].eq("") & rows["mechanism"].ne(FULL)
    set_for_it = ~planned & rows["level"].ne(ORACLE) & rows["mechanism"].ne(FULL)
    keys = rows[VISIBLE_KEYS.name].astype(float)
    return rows[~planned | (keys <= keys_allowed(keys[set_for_it].tolist(), budget))]


def _is_beyond(row: Mapping[Any, Any], budget: int) -> bool:
    """Whether a row that could be used sees more keys than this budget."""
    could = row["level"] != ORACLE and row["mechanism"] != FULL
    return could and over_budget(row[VISIBLE_KEYS.name], budget)


def _label(row: Mapping[Any, Any], budget: int) -> str:
    if row["level"] == ORACLE:
        return f"{row['mechanism']} ({ORACLE})"
    if _is_beyond(row, budget):
        return f"{row['mechanism']} ({MORE_KEYS})"
    if row["level"] == "" and row["mechanism"] != FULL and pd.isna(row[VISIBLE_KEYS.name]):
        return f"{row['mechanism']} (keys not counted)"
    return str(row["mechanism"])


def draw_comparison(summary: pd.DataFrame, sites: str | None = None) -> Figure:
    """Two panels a line, a page wide: each mechanism's figures with their intervals, by level and budget.

    The best mechanism that could be used has a ring and its figure beside it: an oracle is fitted to what
    it is measured on.

    Args:
        summary: one row per mechanism, budget and sites, as `compare(...).summary` and `summary.csv`.
        sites: encoder, decoder, cross or all; None: all, or the only site.

    Raises:
        InputError: it is no such table, or has no row of these sites.
    """
    wanted = ["sites", "budget", "mechanism", "level", "visible_keys"]
    wanted += [column.name for one in (MASS, ERROR) for column in one]
    check_table(summary, wanted, "compare(...).summary or summary.csv")
    summary = summary[summary["mechanism"] != FULL].assign(
        steps=summary.get("steps", 0), level=summary["level"].fillna("")
    )
    known = list(dict.fromkeys(summary["sites"]))
    if sites is None:
        sites = ALL if ALL in known else known[0]
    if sites not in known:
        msg = f"The table has no sites {briefly(sites)}; choose from: {', '.join(known)}."
        raise InputError(msg)
    summary = summary[summary["sites"] == sites]
    axes_shown = {one: label for one, label in _AXES.items() if one.name in summary}
    cases = summary[["steps", "budget"]].drop_duplicates()
    # A plan of a file stands at every budget; alone it is drawn as it is.
    cases = cases.dropna() if cases["budget"].notna().any() else cases
    # As the table has them, the best one above.
    by = LOSS_CHANGE.name if LOSS_CHANGE.name in summary else ERROR.name
    order = summary.groupby("mechanism")[by].mean().sort_values(ascending=False)
    names = [str(name) for name in order.index]
    width, height = (PAGE_WIDTH - _LEFT) / _PER_ROW - _GAP, 0.2 * len(names) + 0.2
    lines = -(-len(axes_shown) // _PER_ROW)
    row = height + 0.75 + 0.15 * (lines > 1)
    with style():
        figure = blank(PAGE_WIDTH, _TOP + len(cases) * lines * row - 0.05)
        for index, (steps, budget) in enumerate(cases.to_numpy().tolist()):
            at = summary["budget"].isna() | (summary["budget"] == budget)
            rows = summary[at & (summary["steps"] == steps)]
            for number, (estimate, label) in enumerate(axes_shown.items()):
                line, column = divmod(number, _PER_ROW)
                left, top = _LEFT + column * (width + _GAP), _TOP + (index * lines + line) * row
                axes = panel(figure, left, top, width, height)
                stretched = _draw(axes, rows, names, estimate)
                if pd.notna(budget):
                    _mark_winner(axes, _fitting(rows, int(budget)), names, estimate)
                axes.set_xlabel(f"{label}{stretched}")
                axes.tick_params(axis="y", labelleft=column == 0, length=0)
                if number == 0:
                    tuned = f", after {counted(int(steps), 'batch')}" if steps else ""
                    keys = f", {counted(int(budget), 'key')} per row" if pd.notna(budget) else ""
                    axes.set_title(f"{sites}{keys}{tuned}", loc="left")
        levels = [level for level in LEVEL_COLOURS if (summary["level"] == level).any()]
        ring = [_ring()] if summary["budget"].notna().any() else []
        handles = [*map(example_of, levels), *ring]
        figure.legend(
            handles=handles,
            loc="upper right",
            ncols=max(1, len(handles)),
            frameon=False,
            fontsize=8,
        )
    return figure


def _mark_winner(axes: Axes, rows: pd.DataFrame, names: list[str], estimate: Estimate) -> None:
    best = winner(rows, estimate)
    if best is None or best[estimate.name] > LIMITS.get(estimate.name, float("inf")):
        return
    y, value = names.index(best["mechanism"]), best[estimate.name]
    colour = LEVEL_COLOURS.get(best["level"], INK)
    axes.plot(
        [value], [y], "o", color=colour, fillstyle="none", markersize=8.5, markeredgewidth=1.1
    )
    low, high = (value if pd.isna(end) else end for end in estimate.ends(best))
    at = axes.transLimits.transform(axes.transScale.transform((value, 0)))[0]
    left = at > 0.6
    axes.annotate(
        f"{value:.2f}", (low if left else high, y), xytext=(-7 if left else 7, 0),
        textcoords="offset points", color=colour, ha="right" if left else "left", va="center",
        fontsize=8, fontweight="bold",
    )  # fmt: skip
    axes.get_yticklabels()[y].set_fontweight("bold")


def _ring() -> Line2D:
    return Line2D(
        [], [], linestyle="none", marker="o", markersize=8.5, fillstyle="none", color=INK,
        label="best that can be used",
    )  # fmt: skip


def _draw(axes: Axes, table: pd.DataFrame, names: list[str], estimate: Estimate) -> str:
    """Draws every mechanism's figure; what is to be said of the scale."""
    axes.grid(axis="y", color="#e5e7eb", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(-0.7, len(names) - 0.3)
    limit, stretched = LIMITS.get(estimate.name), ""
    if limit is not None:
        axes.set_xlim(-0.02 * limit, 1.02 * limit)
    else:
        axes.axvline(0, color=INK, linewidth=0.8, linestyle=":")
        axes.margins(x=0.08)
        drawn = table[[estimate.name, estimate.low, estimate.high]].abs().max().max()
        largest = 0.0 if pd.isna(drawn) else float(drawn)
        stretched = stretch(axes, "x", threshold=_LINEAR[estimate.name], largest=largest)
    for row in table.to_dict("records"):
        y, value = names.index(row["mechanism"]), row[estimate.name]
        colour = LEVEL_COLOURS.get(row["level"], INK)
        if limit is not None and value > limit:
            text = f"{value:.1f} \N{RIGHTWARDS ARROW}"
            axes.text(limit, y, text, color=colour, ha="right", va="center", fontsize=8)
        elif pd.notna(value):
            axes.plot(estimate.ends(row), [y, y], color=colour)
            axes.plot(value, y, LEVEL_MARKERS.get(row["level"], "*"), color=colour, markersize=4)
    return stretched
