"""An alignment drawn: how well each head aligns, and its links in sentences; the answer in a sentence."""

import json
from collections.abc import Collection, Iterator, Mapping
from math import isnan
from typing import Any

import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from attnlab.alignment import ENGINE_ROW, MARIAN_LAYER
from attnlab.core import Column, Estimate, chance_in_words, counted, rounded
from attnlab.figures import INK, PAGE, WIDE, blank, check_table, colour, style
from attnlab.labels import AER
from attnlab.questions.align.pair_figure import UNSEEN, draw_pair
from attnlab.questions.align.question import (
    AER_CHANGE,
    CALIBRATION,
    CHOSEN,
    HEADS,
    ROWS,
    START_CHANGE,
    START_ERROR,
    SYSTEMS,
)
from attnlab.results import Contents, DrawnFigure, Part, Result, Section, page_table

_MOST_NAMED = 8
_READ = {"input": "read one step later", "output": "read at the step that predicts the word"}
_WITHOUT_GOLD = HEADS["score_without_gold"]
# Beginning of the address that shows the links of one head.
_ADDRESS = "#head="
# Bytes of the page for links of single heads, and what a link and a kind of links of a head take.
_MOST_BYTES, _LINK_BYTES, _KIND_BYTES = 2_500_000, 50, 260
# More heads than these in a layer, and the panels stand one below the other.
_SIDE_BY_SIDE = 12
_SHAPES = ("--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)))


def contents(result: Result) -> Contents:
    """What the page of an alignment shows."""
    details = result.details
    heads = f"{_named(details['chosen'])}, {_READ[details['row']]} ({details['row']} row)"
    facts = {"Chosen": f"{heads}, of {details['layers']} x {details['heads_per_layer']}"}
    facts |= _configuration(details["configuration"], details["row"])
    parts = [*_pairs(result), *_curve(result)]
    return Contents(list(_map(result)), facts, parts=parts)


def answers(result: Result) -> Iterator[str]:
    """Which heads align best, how well, and beside engines' defaults and what reads no attention."""
    systems, details = result.systems, result.details
    plural, chosen = len(details["chosen"]) > 1, _row_of(systems, CHOSEN)
    heads = f"{_capital(_named(details['chosen']))}, {_READ[details['row']]},"
    for estimate, change in ((AER, AER_CHANGE), (START_ERROR, START_CHANGE)):
        if _is_known(systems, estimate):
            score = f"{estimate.column.heading} {estimate.shown(chosen)}"
            difference = _beside_default(systems, estimate, change)
            others = _beside_others(systems, estimate, change)
            yield f"{heads} {'have' if plural else 'has'} {score}{difference}{others}."
            break
    else:
        pairs = counted(int(chosen["pairs"]), "pair")
        yield (
            f"{heads} {'give' if plural else 'gives'} {counted(int(chosen['links_given']), 'link')} in "
            f"{pairs}; without gold links nothing says how good these links are."
        )


def _row_of(systems: pd.DataFrame, name: str) -> dict[Any, Any]:
    return dict(systems[systems["system"] == name].iloc[0])


def _is_known(table: pd.DataFrame, estimate: Estimate) -> bool:
    return estimate.name in table and bool(table[estimate.name].notna().any())


def _best(systems: pd.DataFrame, estimate: Estimate) -> dict[Any, Any] | None:
    """The row of the lowest error; None where none is known."""
    ranked = systems[systems[estimate.name].notna()].sort_values(estimate.name, kind="stable")
    return None if ranked.empty else ranked.iloc[0].to_dict()


def _beside_default(systems: pd.DataFrame, estimate: Estimate, change: Estimate) -> str:
    """How the chosen heads do beside the best ones that engines take; empty where these are not known."""
    default = _best(systems[systems["system_kind"] == "default"], estimate)
    if default is None:
        return ""
    low, high = change.ends(default)
    if isnan(low):
        return f", of too few pairs to tell from what engines take by default ({default['system']})"
    verdict = "better" if low > 0 else "worse" if high < 0 else "no better beyond chance"
    return f", {verdict} than what engines take by default ({default['system']})"


def _beside_others(systems: pd.DataFrame, estimate: Estimate, change: Estimate) -> str:
    """By how much the best that reads no attention differs from the chosen heads; empty where none is."""
    without_heads = (systems["system_kind"] == "baseline") & (systems["heads"] == "")
    other = _best(systems[without_heads], estimate)
    if other is None:
        return ""
    is_better = other[change.name] < 0
    by = change.shown(change.reversed(other) if is_better else other)
    chance = chance_in_words(*change.ends(other))
    return (
        f"; the {other['system']}, which reads no attention, is {'better' if is_better else 'worse'} by "
        f"{by}{chance}"
    )


def _named(heads: list[list[int]]) -> str:
    """The names of heads behind the word for them, the first ones where there are many."""
    *names, last = (f"{layer}.{head}" for layer, head in heads)
    more = len(heads) - _MOST_NAMED
    if more > 1:
        names, last = [*names, last][:_MOST_NAMED], f"{more} more"
    return f"heads {', '.join(names)} and {last}" if names else f"head {last}"


def _configuration(given: Mapping[str, Any], row: str) -> dict[str, str]:
    """What other programs take of the heads, as lines to copy; none where no head is better than others."""
    if given["generation_config"] is None:
        return {}
    if "ctranslate2" not in given:
        line = json.dumps(given["generation_config"])[1:-1]
        # CTranslate2's converter takes the line of transformers, and reads other rows than transformers does.
        engine = {"CTranslate2, config.json": line} if row == ENGINE_ROW else {}
        return {"generation_config.json (of Whisper)": line} | engine
    lines = {}
    parts, marian = given["ctranslate2"], given["marian"]
    if parts is None:
        lines["CTranslate2"] = (
            f"nothing: translation models are read on the {ENGINE_ROW} row"
            if row != ENGINE_ROW
            else "nothing: the heads are of several layers"
        )
    else:
        settings = ((name, value) for name, value in parts.items() if name != "heads")
        lines[f"CTranslate2, {_named(sorted(parts['heads']))}"] = ", ".join(
            f"{name} = {json.dumps(value)}" for name, value in settings
        )
    if marian is not None:
        lines[f"Marian, {_named(marian['heads'])}"] = f"{MARIAN_LAYER}: {marian[MARIAN_LAYER]}"
    return lines


def _map(result: Result) -> Iterator[DrawnFigure]:
    """The score of every head; nothing of heads that were given, which have none."""
    details, heads = result.details, result.heads
    column = _score_of(heads)
    if column.name in heads:
        chosen = [(layer, head) for layer, head in details["chosen"]]
        link = _ADDRESS if details["pairs"] else ""
        figure = draw_scores(heads, chosen, details["row"], link=link, width=WIDE)
        click = " A head of the panel with the ring leads to its links." if link else ""
        text = f"{_capital(column.heading)} of every head alone; ring: chosen.{click}"
        yield DrawnFigure("heads", figure, text)


def _pairs(result: Result) -> Iterator[Part]:
    """Links of the chosen heads in sentences, with those of every head unseen, as far as there is room."""
    details, gold = result.details, result.details["gold"]

    def drawn() -> Iterator[DrawnFigure]:
        room = _MOST_BYTES
        for number, pair in enumerate(details["pairs"], start=1):
            alone = [name for name in pair["links"] if name != "chosen"]
            room -= _size(pair, gold=gold)
            heads = alone if room > 0 else ()
            figure = draw_pair(pair, gold=gold, heads=heads, legend=number == 1)
            yield DrawnFigure(f"pair_{number}", figure, f"Pair {number}")

    if details["pairs"]:
        text = f"Source above, translation below; lines: links of the {details['links_of']}."
        yield Part(
            Section("pairs", "Links in sentences", text, folded=True), drawn, len(details["pairs"])
        )


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _size(pair: Mapping[str, Any], *, gold: bool) -> int:
    """About how many bytes the links of all heads of a pair take in the page."""
    missed = len(pair["possible"]) if gold else 0
    kinds = 5 if gold else 1
    return sum(
        kinds * _KIND_BYTES + (len(links) + missed) * _LINK_BYTES
        for name, links in pair["links"].items()
        if name != "chosen"
    )


def _curve(result: Result) -> Iterator[Part]:
    """How many pairs with gold links it takes, folded; nothing where only one number was tried."""
    curve: pd.DataFrame = result.tables.get(CALIBRATION.name, pd.DataFrame({"mean_aer": []}))
    curve = curve[curve["mean_aer"].notna()]
    if len(curve) < 2:
        return
    text = (
        "AER of the heads that are chosen on so many pairs, mean over draws of these pairs and the 95 % of "
        "draws between; lines: what engines take by default, and the bound."
    )

    def drawn() -> list[DrawnFigure]:
        return [DrawnFigure(CALIBRATION.name, draw_calibration(curve, result.systems), text)]

    table = page_table(curve, CALIBRATION.columns)
    heading = "How many pairs with gold links it takes"
    section = Section(
        "calibration", heading, f"All is in {CALIBRATION.file}.", (table,), folded=True
    )
    yield Part(section, drawn, 1)


def _score_of(heads: pd.DataFrame) -> Column:
    """The score of heads that is known: of links, of times, or without gold links."""
    measured = (estimate.column for estimate in (AER, START_ERROR) if _is_known(heads, estimate))
    return next(measured, _WITHOUT_GOLD)


def draw_scores(
    heads: pd.DataFrame,
    chosen: Collection[tuple[int, int]] = (),
    row: str = "",
    *,
    link: str = "",
    width: float = PAGE,
) -> Figure:
    """A map of heads per row of the weights: AER, error of starts, or the score without gold links.

    The chosen heads have a ring in the panel of their row.

    Args:
        heads: one row per head and row, as `align(...).heads` and `heads.csv`.
        chosen: (layer, head) of the heads that were chosen.
        row: of the choice, `output` or `input`.
        link: beginning of the address that a cell of that row leads to, before the name of its head.
        width: in inches.

    Raises:
        InputError: it is no such table, or has no row.
    """
    check_table(heads, ["layer", "head", "row"], "align(...).heads or heads.csv")
    column = _score_of(heads)
    check_table(heads, [column.name], "align(...).heads or heads.csv")
    panels = [name for name in ROWS if (heads["row"] == name).any()]
    layers, count = int(heads["layer"].max()) + 1, int(heads["head"].max()) + 1
    across = len(panels) if count <= _SIDE_BY_SIDE else 1
    down = -(-len(panels) // across)
    with style():
        figure = blank(width, down * (0.75 + 0.27 * layers))
        figure.set_layout_engine("constrained")
        every = figure.subplots(down, across, squeeze=False).flat
        for axes, name in zip(every, panels, strict=True):
            table = heads[heads["row"] == name]
            _draw_panel(axes, table, column, (heads[column.name].min(), heads[column.name].max()))
            axes.set_title(_READ[name], loc="left", pad=4)
            if name == row:
                _draw_rings(axes, chosen)
                _add_links(axes, table, link)
    return figure


def _draw_panel(axes: Axes, heads: pd.DataFrame, column: Column, ends: tuple[float, float]) -> None:
    """A cell for each head, with its score."""
    table = heads.pivot_table(column.name, "layer", "head", dropna=False)
    sns.heatmap(
        table, ax=axes, vmin=ends[0], vmax=max(ends[1], ends[0] + 0.01), cbar=False, linewidths=0.6,
        cmap="cividis" if column is _WITHOUT_GOLD else "cividis_r", annot_kws={"fontsize": 7}, fmt="",
        annot=table.map(lambda value: rounded(value, 2).removeprefix("0")),
    )  # fmt: skip
    axes.tick_params(length=0, labelrotation=0)


def _draw_rings(axes: Axes, heads: Collection[tuple[int, int]]) -> None:
    """Draws a ring around each head, black in white, so that it is seen on every ground."""
    for layer, head in heads:
        for colour_of_line, width in (("#ffffff", 3.4), ("#000000", 1.6)):
            axes.add_patch(
                Rectangle(
                    (head + 0.05, layer + 0.07), 0.9, 0.86, facecolor="none",
                    edgecolor=colour_of_line, linewidth=width, gid="chosen", clip_on=False,
                )
            )  # fmt: skip


def _add_links(axes: Axes, heads: pd.DataFrame, link: str) -> None:
    """Lets each cell lead to the address of its head."""
    for layer, head in zip(heads["layer"], heads["head"], strict=True) if link else ():
        # What is not filled cannot be clicked.
        cell = Rectangle(
            (head, layer), 1, 1, alpha=UNSEEN, linewidth=0, url=f"{link}{layer}.{head}"
        )
        axes.add_patch(cell)


def draw_calibration(calibration: pd.DataFrame, systems: pd.DataFrame | None = None) -> Figure:
    """AER of the heads that are chosen by the number of pairs with gold links, with its band over draws.

    Args:
        calibration: one row per number of pairs, as `align(...).calibration` and `calibration.csv`.
        systems: as `align(...).systems` and `systems.csv`; a line for each default and for the bound.

    Raises:
        InputError: it is no such table, or has no row.
    """
    names = [name for name in CALIBRATION if name not in {"draws", "mean_heads"}]
    check_table(calibration, names, "align(...).calibration or calibration.csv")
    rows = calibration.dropna(subset=["mean_aer"]).sort_values("calibration_pairs")
    sizes = [int(size) for size in rows["calibration_pairs"]]
    with style():
        figure = blank(PAGE, 2.3)
        figure.set_layout_engine("constrained")
        axes = figure.subplots()
        axes.fill_between(
            sizes,
            rows["mean_aer_low"],
            rows["mean_aer_high"],
            color=colour(0),
            alpha=0.25,
            linewidth=0,
        )
        sns.lineplot(
            x=sizes, y=rows["mean_aer"], color=colour(0), marker="o", markersize=4, ax=axes, errorbar=None,
            label="chosen on so many pairs", legend=False,
        )  # fmt: skip
        for label, aer, line in _lines(systems):
            axes.axhline(aer, color=INK, linestyle=line, linewidth=0.9, label=label)
        axes.set_xscale("log")
        axes.set_xticks(sizes, list(map(str, sizes)))
        axes.set_xticks([], minor=True)
        axes.set(
            xlabel="pairs with gold links that heads are chosen on", ylabel="AER on the other pairs"
        )
        figure.legend(loc="outside right upper", frameon=False)
        sns.despine(figure)
    return figure


def _lines(systems: pd.DataFrame | None) -> Iterator[tuple[str, float, Any]]:
    """Name, AER and stroke of each line: the defaults, the highest first, and the bound below them."""
    if systems is None or AER.name not in systems:
        return
    check_table(
        systems, ["system", "system_kind", AER.name], f"align(...).systems or {SYSTEMS.file}"
    )
    ordered = systems.dropna(subset=[AER.name]).sort_values(AER.name, ascending=False)
    for index, row in enumerate(ordered[ordered["system_kind"] == "default"].to_dict("records")):
        yield row["system"], row[AER.name], _SHAPES[index % len(_SHAPES)]
    for row in ordered[ordered["system_kind"] == "bound"].to_dict("records"):
        yield row["system"], row[AER.name], "-"
