"""A comparison drawn: every mechanism by budget, and the answer in a sentence."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
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
from attnlab.evaluation import LOSS_UNITS
from attnlab.figures import (
    INK,
    LEVEL_COLOURS,
    LEVEL_MARKERS,
    PAGE,
    WIDE,
    blank,
    check_table,
    draw_pareto,
    example_of,
    panel,
    stretch,
    style,
)
from attnlab.results import Contents, DrawnFigure, Overview, Result, drawn_table, readable

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
# Of levels, and of mechanisms that are named by more than their class.
_MEANINGS = {
    ORACLE: "chosen from the very attention that it replaces: a bound, which nothing in use can reach",
    "calibrated": "chosen on other sentences, as it would be in use",
    "sigma salience": "a band, and columns of the tokens that had most weight outside it in training "
    "sentences",
    "sigma frequency": "a band, and columns of the tokens that are rarest in training sentences",
    "sigma first": "a band, and columns of the first tokens",
    "sigma random": "a band, and columns drawn at random",
    "sigma offsets": "a band, and single keys at the offsets that had most weight outside it in training "
    "sentences",
    "fixed": "the best pattern of one key",
}
# Inches: of names, between panels, above all, around a panel; and how many stand side by side in a paper.
_LEFT, _GAP, _TOP, _AROUND, _PER_ROW = 1.9, 0.25, 0.75, 0.85, 2
# Share of the width of a panel that the figure of the best mechanism takes beside its interval.
_SHARE_OF_FIGURE = 0.16


def contents(result: Result) -> Contents:
    """What the page of a comparison shows."""
    summary, figures = result.summary, []
    groups = list(_groups(result))
    known = summary["budget"].dropna().unique()
    # Full attention stands at all sites, also where no mechanism can.
    replaced = summary.loc[summary["replaced_heads"] > 0, "sites"].unique()
    # The figure of the answer stands first; several sites together have one only there.
    answered = (_usable(rows)[0]["sites"] for _, _, rows in groups)
    first = next((str(known.iloc[0]) for known in answered if len(known)), ALL)
    names = [name for name in replaced if "," not in name or name == first]
    for name in sorted(names, key=lambda name: name != first):
        where = _HEADS.get(name, f"All heads of the {_listed(name)}")
        text = f"{where} replaced, the least loss on top, each with its 95 % interval."
        against = result.details.get("against")
        figure = draw_comparison(summary, name, against=against, width=WIDE)
        file = name.replace(", ", "_")
        figures.append(DrawnFigure(f"mechanisms_{file}", figure, text))
        if len(known) > 1:
            text = (
                f"{where} replaced: output error by keys per row; the line joins what nothing that can be "
                "used beats."
            )
            own = summary[(summary["sites"] == name) & summary["budget"].notna()]
            figure = draw_pareto(own[own["steps"] == 0], width=WIDE)
            figures.append(DrawnFigure(f"pareto_{file}", figure, text))
    facts = {
        "Mechanisms": str(summary.loc[summary["replaced_heads"] > 0, "mechanism"].nunique()),
        "Keys per row": ", ".join(dict.fromkeys(str(budget) for budget, _, _ in groups)),
        "Sites": ", ".join(name for name in replaced if "," not in name and name != ALL) or ALL,
        **{name: str(value) for name, value in result.about.items() if "sentences" in name},
    }
    return Contents(figures, facts, overview=Overview(definitions=tuple(_definitions(result))))


def _definitions(result: Result) -> Iterator[tuple[str, str]]:
    """What levels and mechanisms of the table are."""
    from attnlab.attention import catalogue
    from attnlab.budget import uniform_mechanisms

    summaries = {entry.name: entry.summary for entry in catalogue()}
    of_class = {name: summaries[one.kind.name] for name, one in uniform_mechanisms().items()}
    meanings = {**of_class, **_MEANINGS}
    levels = (name for name in (ORACLE, "calibrated") if name in set(result.summary["level"]))
    names = dict.fromkeys((*levels, *result.summary["mechanism"]))
    yield from ((name, meanings[name]) for name in names if name in meanings)


def answers(result: Result) -> list[str]:
    """Which mechanism costs least at each budget, and how a model gets it."""
    against = result.details.get("against")
    unit, said = LOSS_UNITS[result.details.get("loss", "next tokens")], []
    for _, _, rows in _groups(result):
        said += answer_of(rows, against, unit)
        said += filter(None, [installing_of(rows, result.tables, against)])
    return said


def legend(result: Result) -> list[str]:
    """What names of mechanisms mean that say it to few."""
    names = " ".join(rows(result)["mechanism"])
    meanings = {
        "alone": "other sites keep full attention, so less is lost",
        ORACLE: "chosen from what it replaces",
        MORE_KEYS: "than the budget, on these sentences",
        "sigma": "a band with chosen keys",
        "fixed": _MEANINGS["fixed"],
    }
    against = result.details.get("against")
    below = [f"reference: {against}"] if against else []
    return below + [f"{name}: {meaning}" for name, meaning in meanings.items() if name in names]


def rows(result: Result) -> pd.DataFrame:
    """Each mechanism at all sites where it can be: those at all chosen sites first, then what costs least.

    Of fewer sites less is lost, so that their names say which.
    """
    shown = []
    for budget, _, group in _groups(result):
        by = LOSS_CHANGE if LOSS_CHANGE.name in group else ERROR
        whole = _whole(group)
        names = [
            ", ".join(filter(None, (_label(row, budget), _alone(row, whole))))
            for row in group.to_dict("records")
        ]
        order = group.assign(
            mechanism=names,
            last=group["level"] == ORACLE,
            then=(group["mechanism"] != FULL).astype(int) + (group["sites"] != whole),
            fewer=-group["replaced_heads"].where(group["sites"] != whole, 0),
        )
        by_cost = ["last", "then", "fewer", "sites", by.name, ERROR.name]
        order = order.sort_values(by_cost, kind="stable")
        shown.append(order.drop(columns=["last", "then", "fewer"]))
    return pd.concat(shown, ignore_index=True)


def _whole(rows: pd.DataFrame) -> str:
    """The sites that were chosen, as the column calls them: those of full attention."""
    return next(iter(rows.loc[rows["mechanism"] == FULL, "sites"]), ALL)


def _alone(row: Mapping[Any, Any], whole: str) -> str:
    """Such as `encoder and decoder alone`; empty where a row is of all chosen sites."""
    return "" if row["sites"] in {ALL, whole} else f"{_listed(row['sites'])} alone"


def _listed(sites: str) -> str:
    """Such as `encoder and decoder`."""
    return sites.replace(", ", " and ")


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


def answer_of(
    rows: pd.DataFrame, against: str | None = None, unit: str = LOSS_UNITS["next tokens"]
) -> list[str]:
    """Which mechanism to use at a budget, then what it replaces and beats; nothing where none can be used.

    Args:
        rows: those of one budget and number of steps.
        against: the mechanism whose gains over others they have.
        unit: of the loss.
    """
    known, lost = _usable(rows)
    row = _best(known, lost, against)
    if row is None:
        return []
    known, alike = _apart(known, row, against)
    steps, several = int(row["steps"]), len(known) > 1
    tuned = f" and {counted(steps, 'batch')} of fine-tuning" if steps else ""
    figure = _shown(lost, row, rows)
    if lost is ERROR:
        said = f"is nearest to full attention: output error {figure}"
        said = said if several else f"has an output error of {figure}"
    else:
        said = f"has the least loss: {figure}" if several else f"changes the loss by {figure}"
        said += f" {unit}"
    name = " in ".join(filter(None, (row["mechanism"], _alone(row, _whole(rows)))))
    lead = f"At {counted(int(row['budget']), 'key')} per row{tuned}, {name} {said}."
    details = (
        *_standing(row, known, alike),
        *_bleu(row, rows),
        *_next(known, row, lost, against, rows),
    )
    return [lead, " ".join(details)]


def _standing(row: Mapping[Any, Any], known: pd.DataFrame, alike: Sequence[str]) -> Iterator[str]:
    """What the best mechanism replaces, out of how many it is the best, and which attend like it."""
    among = (
        f", the best of {counted(len(known), 'mechanism')} that can be used"
        if len(known) > 1
        else ""
    )
    keys = row[VISIBLE_KEYS.name]
    beyond = ""
    if over_budget(keys, int(row["budget"])):
        beyond = f", with {VISIBLE_KEYS.shown(keys)} keys per row on these sentences"
    yield f"It replaces {counted(int(row['replaced_heads']), 'head')}{among}{beyond}."
    if alike:
        yield f"{' and '.join(alike)} {'attends' if len(alike) == 1 else 'attend'} alike."


def _bleu(row: Mapping[Any, Any], rows: pd.DataFrame) -> Iterator[str]:
    """The change of BLEU, and of how much, where that was measured."""
    change = _shown(BLEU_CHANGE, row, rows) if BLEU_CHANGE.name in row else ""
    if change:
        full = rows.loc[rows["mechanism"] == FULL, BLEU.name]
        yield f"BLEU changes by {change}{''.join(f' of {value:.1f}' for value in full)}."


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
    """The rows of what can be used at the budget at the same sites, and by what they are compared.

    Those are all chosen sites or, where nothing can be at all of them, those of the most heads.
    """
    known = rows[(rows["level"] != ORACLE) & (rows["replaced_heads"] > 0)]
    everywhere = known[known["sites"] == _whole(rows)]
    widest = known.nlargest(1, "replaced_heads") if everywhere.empty else everywhere
    known = known[known["sites"].isin(widest["sites"])]
    known = _fitting(known, int(rows["budget"].iloc[0]))
    return known, LOSS_CHANGE if LOSS_CHANGE.name in known else ERROR


def _next(
    known: pd.DataFrame,
    first: Mapping[Any, Any],
    estimate: Estimate,
    against: str | None,
    rows: pd.DataFrame,
) -> Iterator[str]:
    """What is second, and whether a test tells it from the first; nothing where there is no second."""
    second = winner(known[known["mechanism"] != first["mechanism"]], estimate)
    if second is None:
        return
    said = f"Next is {second['mechanism']}"
    if estimate is LOSS_CHANGE and against in {first["mechanism"], second["mechanism"]}:
        # The gain of the second over the first is what the first is better by, the other way round.
        is_first = first["mechanism"] == against
        held = second if is_first else first
        if pd.notna(held.get(LOSS_GAIN.name)):
            shown = LOSS_GAIN.shown(held if is_first else LOSS_GAIN.reversed(held), signed=True)
            chance = chance_in_words(*LOSS_GAIN.ends(held))
            yield f"{said}, a loss that is higher by {shown}{chance}."
            return
    yield f"{said} ({_shown(estimate, second, rows)}), a difference that is not tested here."


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
    cases = [_Case.of(*one, against) for one in _cases(summary[summary["sites"] == sites])]
    first = LOSS_CHANGE if LOSS_CHANGE.name in summary else ERROR
    measures = [first, *(one for one in _AXES if one is not first and one.name in summary)]
    beside = _PER_ROW if width <= PAGE else len(measures)
    panel_width, lines = (width - _LEFT) / beside - _GAP, -(-len(measures) // beside)
    with style():
        height = sum(lines * (case.height + _AROUND) for case in cases)
        figure, top = blank(width, _TOP + height), _TOP
        for case in cases:
            for number, estimate in enumerate(measures):
                line, column = divmod(number, beside)
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
        usable = _fitting(usable, int(budget)) if limited else usable
        ordered = rows.sort_values(by.name, ascending=False, kind="stable")
        is_usable = ordered.index.isin(usable.index)
        heights = {name: float(at) for at, name in enumerate(ordered.loc[is_usable, "mechanism"])}
        others = reversed(ordered.loc[~is_usable, "mechanism"].tolist())
        heights |= {name: -1.5 - at for at, name in enumerate(others)}
        return cls(rows, steps, budget, heights, _best(usable, by, against) if limited else None)

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
        return _label(row, int(self.budget)) if pd.notna(self.budget) else str(row["mechanism"])


def _mark_best(axes: Axes, case: _Case, estimate: Estimate) -> None:
    """A ring around the mechanism of the answer, with its figure."""
    if case.best is None:
        return
    best, y = case.best, case.heights[case.best["mechanism"]]
    value = best[estimate.name]
    colour = LEVEL_COLOURS.get(best["level"], INK)
    label = next(one for one in axes.get_yticklabels() if one.get_position()[1] == y)
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
