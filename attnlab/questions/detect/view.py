"""Detectors drawn as maps of heads, and on a terminal."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure

from attnlab.core import HEAD_KEYS, SITES, Column, InputError, counted, layer_name
from attnlab.figures import PAGE, WIDE, check_table, draw_heads
from attnlab.labels import HIT, PATTERN
from attnlab.questions.detect.question import (
    ABOVE_BAR,
    DETECTORS,
    GATE,
    GATE_UNTRAINED,
    PATTERNS,
    Detector,
)
from attnlab.results import (
    MOST_ROWS,
    Contents,
    DrawnFigure,
    Result,
    head_names,
)

_LEGEND = "rows: layers, columns: heads"
_TOO_FEW = "too few texts to tell heads from controls"


def contents(result: Result) -> Contents:
    """What the page of detectors shows."""
    if PATTERNS.name in result.tables:
        text = (
            "Hit of each head for the pattern that the panel names, the share of rows whose largest weight "
            "lies in it; a row a layer, crossed out where no row can meet it."
        )
        figure = draw_patterns(result.patterns, width=WIDE)
        return Contents([DrawnFigure(PATTERNS.name, figure, text)])
    # Of cross-attention that had nothing to copy there is no score.
    if not _columns(result.detectors):
        return Contents()
    text = "Score of each head as what the panel names; a row a layer, crossed out where nothing is scored."
    return Contents([DrawnFigure("detectors", draw_detectors(result.detectors, width=WIDE), text)])


def rows(result: Result) -> pd.DataFrame:
    """All heads; where a model has many those first that stand highest in any detector, or for a pattern."""
    heads = result.table
    if len(heads) <= MOST_ROWS:
        return heads
    if PATTERNS.name in result.tables:
        ranks = heads.groupby(PATTERN.name)[HIT.name].rank(ascending=False)
    else:
        ranks = heads[[one.name for one in _there(heads)]].rank(ascending=False).min(axis=1)
    return heads.loc[ranks.sort_values(kind="stable").index]


def _there(heads: pd.DataFrame) -> list[Detector]:
    return [one for one in DETECTORS if one.name in heads and heads[one.name].notna().any()]


def _columns(heads: pd.DataFrame) -> list[Column]:
    gates = [GATE] * (GATE.name in heads and bool(heads[GATE.name].notna().any()))
    return [detector.estimate.column for detector in _there(heads)] + gates


def answers(result: Result) -> list[str]:
    """How many heads are above their controls, and the first of each detector or pattern, as sentences."""
    if PATTERNS.name in result.tables:
        return list(
            map(_answer, (rows for _, rows in result.patterns.groupby(PATTERN.name, sort=False)))
        )
    sentences = []
    heads = result.detectors
    for one in _there(heads):
        rows = heads[heads[one.name].notna()].sort_values(one.name, ascending=False, kind="stable")
        above = ""
        if one.above in rows and rows[one.above].isna().all():
            above = f"{_TOO_FEW}, "
        elif one.above in rows:
            marked = rows[rows[one.above] == True]  # noqa: E712 - may be missing
            above = f"{len(marked)} of {counted(len(rows), 'head')} above controls, "
            # A head whose interval is wide may have a higher figure, and not be above them.
            above += "of these the " if len(marked) else ""
            rows = marked if len(marked) else rows
        best = f"highest {head_names(rows)[0]} ({one.estimate.shown(rows.iloc[0].to_dict())})"
        sentences.append(f"{one.estimate.column.heading.capitalize()}: {above}{best}.")
    if GATE_UNTRAINED.name in heads:
        best = heads.loc[[heads[GATE.name].idxmax()]]
        highest, most = best[GATE.name].item(), heads[GATE_UNTRAINED.name].max()
        sentences.append(
            f"{GATE.heading.capitalize()}: highest {head_names(best)[0]} ({GATE.shown(highest)}); in the "
            f"untrained model at most {GATE_UNTRAINED.shown(most)}."
        )
    if "emitted" in result.details:
        emitted, total = result.details["emitted"]
        sentences.append(
            f"The model emits {emitted} of {total} tokens of the needles ({emitted / total:.0%})."
        )
    return sentences


def draw_detectors(heads: pd.DataFrame, *, width: float = PAGE) -> Figure:
    """A map of layers and heads for each detector, a head without a score crossed out.

    Args:
        heads: one row per head, as `detect(...).detectors` and `detectors.csv`.
        width: of the figure in inches; both columns of a paper by default.

    Raises:
        InputError: it is no table, lacks a column, or has no score.
    """
    check_table(heads, HEAD_KEYS, "detect(...).detectors or detectors.csv")
    columns = _columns(heads)
    if not columns:
        msg = "No head has a score, so there is nothing to draw; detect in other sentences."
        raise InputError(msg)
    return _drawn(
        heads, {column.heading: heads.set_index(_AT)[column.name] for column in columns},
        "Scores of heads", f"score; {_LEGEND}", width,
    )  # fmt: skip


def draw_patterns(table: pd.DataFrame, *, width: float = PAGE) -> Figure:
    """A map of layers and heads for each pattern, a head that cannot meet it crossed out.

    Args:
        table: a row per head and pattern, as `detect(..., patterns=[...]).patterns` and `patterns.csv`.
        width: of the figure in inches; both columns of a paper by default.

    Raises:
        InputError: it is no table, or lacks a column.
    """
    check_table(table, [*HEAD_KEYS, PATTERN.name, HIT.name], PATTERNS.file)
    maps = {
        str(name): rows.set_index(_AT)[HIT.name]
        for name, rows in table.groupby(PATTERN.name, sort=False)
    }
    return _drawn(table, maps, "Hits of heads", f"hit; {_LEGEND}", width)


_AT = list(HEAD_KEYS)


def _drawn(
    heads: pd.DataFrame,
    maps: Mapping[str, "pd.Series[float]"],
    title: str,
    legend: str,
    width: float,
) -> Figure:
    """A map for each series of figures by head."""
    numbers, sites = range(int(heads["head"].max()) + 1), heads["site"].unique()
    layers = [
        (site, layer)
        for site in (site for site in SITES if site in sites)
        for layer in sorted(heads.loc[heads["site"] == site, "layer"].unique())
    ]
    drawn = [series.unstack().reindex(index=layers, columns=numbers) for series in maps.values()]
    figures = np.stack([frame.to_numpy(dtype=np.float32) for frame in drawn])
    return draw_heads(
        torch.from_numpy(figures),
        [layer_name(site, int(layer)) for site, layer in layers],
        [str(number) for number in numbers],
        title=f"{title}, {', '.join(sites)}",
        names=list(maps),
        legend=f"{legend}; x: not scored" if np.isnan(figures).any() else legend,
        width=width,
    )


def _answer(rows: pd.DataFrame) -> str:
    """How many heads are above the bar of a pattern, and the first of them."""
    marked = rows[rows[ABOVE_BAR.name] == True]  # noqa: E712 - may be missing
    ranked = (marked if len(marked) else rows).sort_values(HIT.name, ascending=False, kind="stable")
    best = ranked.iloc[0].to_dict()
    above = f"{len(marked)} of {counted(len(rows), 'head')} above controls"
    above = _TOO_FEW if rows[ABOVE_BAR.name].isna().all() else above
    which = "of these the highest" if len(marked) else "highest"
    return (
        f"{best[PATTERN.name]}: {above}, {which} "
        f"{head_names(ranked)[0]} (hit {HIT.shown(best)}, bar {HIT.column.shown(best['bar'])})."
    )
