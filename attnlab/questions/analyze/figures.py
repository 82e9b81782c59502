"""Figures of an analysis: a map of the heads, mean weight by offset, and distance by window."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import lcm
from typing import Any, cast

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize, to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle
from pandas.api.types import is_float_dtype, is_numeric_dtype

from attnlab.core import (
    HEAD_KEYS,
    InputError,
    Site,
    address_of,
    briefly,
    layer_name,
)
from attnlab.figures import (
    COLUMN,
    WEIGHTS,
    Mark,
    blank,
    check_table,
    colour,
    marks_of_names,
    style,
)
from attnlab.figures import draw_heads as draw_matrices
from attnlab.labels import NO_ROLE
from attnlab.questions.analyze.head_table import head_rows
from attnlab.questions.analyze.question import QUESTION
from attnlab.questions.analyze.summary import marked
from attnlab.reading import (
    ALL,
    CONTENT,
    CONTENT_OFFSET_PREFIX,
    OFFSET_PREFIX,
    OFFSETS,
    Capture,
    KeptMatrices,
    View,
)
from attnlab.results import Result, declared_columns, drawn_table, family_words

# Of the longer side of a matrix.
MOST_TOKENS_DRAWN = 80
# Inches.
_LOWEST, _HIGHEST, _AROUND, _LEGEND_LINE = 0.12, 0.3, 0.42, 0.17
_POSITIONAL = "positional"
_TITLES = {"role": "closest role of each head", "structure": "shape of each head"}
_PREFIXES = {ALL: OFFSET_PREFIX, CONTENT: CONTENT_OFFSET_PREFIX}
_OFFSET_TITLES = {
    ALL: "Mean weight by offset",
    CONTENT: "Mean share of the content tokens by offset",
}
UNIFORM = "uniform"
_OF_FITS = (*HEAD_KEYS, "approximation", "window", "relative", "equal_weights")
_MOST_NUMBERED, _MOST_NAMED = 30, 150
# Inches of a row that has numbers, and of one that has its name alone, which is so many points high.
_NUMBERED, _NAMED, _NAME_SIZE = 0.15, 0.066, 4.6
# Inches of a cell that has room for an offset beside its letter.
_WITH_OFFSET = 0.18
# From so many heads on a violin says more than their strokes.
_MANY = 12
# Darker cells have white numbers.
_DARK = 0.55


def draw_head(
    result: Result | Capture, head: str | tuple[str | int, ...], *, sentence: int | None = None
) -> Figure:
    """A heat map of one head in a sentence whose matrices are kept, with its tokens.

    Args:
        result: of `analyze`, or a capture.
        head: its address, such as `encoder.0.2`, or `0.2` where one site has it.
        sentence: its number; None: the first that is kept.

    Raises:
        InputError: it is no result, or no matrix of that head and sentence is kept.
    """
    given: object = result
    if not isinstance(given, Result | Capture):
        msg = f"A head is drawn from a result and not from {briefly(given)}; give one of analyze(...)."
        raise InputError(msg)
    kept = result.matrices if isinstance(result, Result) else result.kept
    name = address_of(head, kept.names)
    matrices = kept.of_head(name)
    number = next(iter(matrices), None) if sentence is None else sentence
    if number in matrices:
        queries, keys = kept.tokens[number, cast("Site", name.partition(".")[0])]
        weights = matrices[number][None].float()
        title = f"{name} in sentence {number}"
        return draw_matrices(weights, queries[: weights.shape[1]], keys, title=title, names=[""])
    kept_numbers = ", ".join(map(str, matrices))
    msg = (
        f"No matrix of sentence {number} is kept; give one of {kept_numbers}, or set keep_matrices."
    )
    raise InputError(msg)


def draw_heads(
    table: pd.DataFrame | Result, value: str = "role", *, width: float = COLUMN
) -> Figure:
    """Layers by heads, a panel per site: the closest role of each head as a colour and a letter.

    A positional head has its offset (key - query position) beside its letter, where the table has `detail`
    and cells have room. A role that is not confirmed and significant against controls (confirmed, where
    these were left out) is pale, with a bar as long as its strength. Other columns may name several things
    a head, joined by semicolons, then it has a stripe for each.

    Args:
        table: a result of `analyze`, or one row per head with `site, layer, head` and the column `value`,
            such as `summary.csv`.
        value: the column that colours the cells: `role`, `structure` or any other of names.
        width: of the figure in inches.

    Raises:
        InputError: it is no table of heads, or has no such column, or one of numbers.
    """
    if isinstance(table, Result):
        table = table.table
    check_table(table, HEAD_KEYS, "analyze(...).summary or summary.csv")
    if value not in table:
        msg = f"The table has no column '{value}'; choose from: {', '.join(map(str, table))}."
        raise InputError(msg)
    if is_float_dtype(table[value]):
        msg = f"{value} is a column of numbers and not of names; draw it with plot.distribution."
        raise InputError(msg)
    if value == "role" and {"confirmed", "strength"} <= set(table):
        table = head_rows(table)
    marks = marks_of_names({name for cell in table[value] for name in str(cell).split("; ")})
    strong = (
        marked(table) if value == "role" and "confirmed" in table else pd.Series(True, table.index)
    )
    layers = table.groupby("site", sort=False)["layer"].max() + 1
    columns = int(table["head"].max()) + 1
    cell = min(max((width - _AROUND) / columns, _LOWEST), _HIGHEST)
    with_offsets = value == "role" and "detail" in table and cell >= _WITH_OFFSET
    offsets = _offsets_of(table) if with_offsets else pd.Series("", table.index)
    added = {_POSITIONAL: ", offset"} if offsets.any() else {}
    legend = [
        Patch(
            facecolor=mark.colour,
            label=f"{mark.letter} {family_words(name)}{added.get(name, '')}".strip(),
        )
        for name, mark in marks.items()
    ]
    across = max(1, int(width / (0.07 * max(len(str(key.get_label())) for key in legend) + 0.42)))
    below = _LEGEND_LINE * (-(-len(legend) // across) + (not strong.all()))
    with style():
        figure = blank(width, cell * int(layers.sum()) + _AROUND * (len(layers) + 1) + below)
        figure.set_layout_engine("constrained", h_pad=0.02, w_pad=0.02)
        panels = figure.subplots(len(layers), squeeze=False, height_ratios=layers.tolist())[:, 0]
        for axes, site in zip(panels, layers.index, strict=True):
            rows = table.assign(strong=strong, offset=offsets)[table["site"] == site]
            _draw_site(axes, rows, value, marks, columns)
            axes.set_title(site, loc="left", pad=3)
        panels[-1].set_xlabel("head", labelpad=1)
        title = _TITLES.get(value) or _heading(table, value)
        panels[0].set_title(title, loc="right", pad=3, fontsize=7)
        figure.legend(
            handles=legend, loc="outside lower left", frameon=False, ncols=across,
            handlelength=0.9, handleheight=0.9, columnspacing=1.0, handletextpad=0.4,
            title=None if strong.all() else _pale_words(table), alignment="left",
        )  # fmt: skip
    return figure


def _offsets_of(table: pd.DataFrame) -> "pd.Series[str]":
    """The offset of each positional head, such as `-1`; empty for others."""
    offsets = table["detail"].astype(str).str.removeprefix("offset ").replace("+0", "0")
    return offsets.where(table["role"] == _POSITIONAL, "")


def _pale_words(table: pd.DataFrame) -> str:
    bar = "; bar: strength" if "strength" in table else ""
    if "significant" in table:
        return f"pale: not confirmed against controls{bar}"
    return f"pale: not confirmed; controls were left out{bar}"


def _heading(table: pd.DataFrame, name: str) -> str:
    (column,) = declared_columns(table[[name]], declared=QUESTION.tables)
    return column.heading


def _draw_site(
    axes: Axes, table: pd.DataFrame, value: str, marks: Mapping[str, Mark], columns: int
) -> None:
    """Draws one image of the heads of a site, as many pixels wide a head as stripes of all need."""
    named = [[marks[name] for name in str(cell).split("; ")] for cell in table[value]]
    shades = [
        each if strong else [mark.pale for mark in each]
        for each, strong in zip(named, table["strong"], strict=True)
    ]
    rows, stripes = int(table["layer"].max()) + 1, lcm(*map(len, shades))
    image = np.ones((rows, columns, stripes, 3))
    cells = zip(table["layer"], table["head"], table["offset"], shades, strict=True)
    for layer, head, offset, each in cells:
        image[layer, head] = np.repeat(
            [to_rgb(mark.colour) for mark in each], stripes // len(each), axis=0
        )
        for index, mark in enumerate(each):
            axes.text(
                head + (index + 0.5) / len(each), layer + 0.52, f"{mark.letter}{offset}", color=mark.ink,
                ha="center", va="center", fontsize=7,
            )  # fmt: skip
    _show_image(axes, image.reshape(rows, columns * stripes, 3), (columns, rows))
    if value == "role" and "strength" in table:
        _draw_strengths(axes, table[~table["strong"] & (table["role"] != NO_ROLE)], marks)
    for axis, count, most in ((axes.xaxis, columns, 16), (axes.yaxis, rows, 12)):
        axis.set_ticks(np.arange(1, count), minor=True)
        numbers = range(0, count, 1 if count <= most else 4)
        axis.set_ticks([number + 0.5 for number in numbers], [*map(str, numbers)])
    # Cells are apart.
    axes.grid(which="minor", color="#ffffff", linewidth=1.5)
    axes.set_axisbelow(False)
    axes.tick_params(which="both", length=0, pad=1.5)
    axes.set_ylabel("layer", labelpad=2)


def _draw_strengths(axes: Axes, heads: pd.DataFrame, marks: Mapping[str, Mark]) -> None:
    """A bar at the bottom of each cell, as long as the head's role is strong."""
    columns = heads[["layer", "head", "role", "strength"]]
    for layer, head, role, strength in columns.itertuples(index=False, name=None):
        bar = Rectangle((head, layer + 0.84), strength, 0.14, color=marks[role].colour, linewidth=0)
        axes.add_patch(bar)


def draw_distribution(
    table: pd.DataFrame | Result,
    value: str = "strength",
    by: str = "role",
    *,
    width: float = COLUMN,
) -> Figure:
    """How a figure of heads is distributed over groups of them: a stroke per head, and violins of many.

    Args:
        table: a result of `analyze`, or one row per head, such as `summary.csv` or `heads.csv`.
        value: a column of numbers, such as `strength` or `normalised_entropy`.
        by: a column of groups, such as `role`, `structure` or `layer`, which is that of a site.
        width: of the figure in inches.

    Raises:
        InputError: it is no table of heads, or lacks a column.
    """
    if isinstance(table, Result):
        heads, table = table.tables.get("heads"), table.table
        if heads is not None:
            new = [name for name in heads if name not in table]
            table = table.merge(heads[[*HEAD_KEYS, *new]], on=[*HEAD_KEYS])
    check_table(table, [*HEAD_KEYS, value, by], "analyze(...).summary, heads.csv or summary.csv")
    if not is_numeric_dtype(table[value]):
        msg = f"{value} is no column of numbers; give one, such as strength."
        raise InputError(msg)
    if by == "role" and {"confirmed", "strength"} <= set(table):
        table = head_rows(table)
    named = zip(table["site"], table["layer"], strict=True)
    groups = [layer_name(*layer) for layer in named] if by == "layer" else table[by].astype(str)
    rows = pd.DataFrame({"group": groups, value: table[value]}).dropna()
    sizes = rows["group"].value_counts()
    order = list(dict.fromkeys(groups)) if by == "layer" else list(sizes.index)
    colours = dict.fromkeys(order, colour(0))
    if by in _TITLES:
        colours = {name: mark.colour for name, mark in marks_of_names(order).items()}
    many = rows[rows["group"].isin(sizes.index[sizes >= _MANY])]
    with style():
        figure = blank(width, 0.55 + 0.24 * len(order))
        figure.set_layout_engine("constrained")
        axes = figure.subplots()
        drawn: dict[str, Any] = {
            "x": value,
            "y": "group",
            "order": order,
            "hue": "group",
            "ax": axes,
        }
        drawn |= {"palette": colours, "legend": False}
        if len(many):
            sns.violinplot(many, inner=None, cut=0, linewidth=0, alpha=0.35, width=0.9, **drawn)
        # Random jitter would give other bytes each time.
        sns.stripplot(rows, jitter=False, marker="|", size=7, linewidth=1.2, **drawn)
        axes.set(xlabel=_heading(table, value), ylabel="")
        axes.set_yticks(
            range(len(order)), [f"{family_words(name)} ({sizes[name]})" for name in order]
        )
        if rows[value].between(0, 1).all():
            axes.set_xlim(-0.02, 1.02)
        sns.despine(figure)
    return figure


def _show_image(
    axes: Axes, image: np.ndarray, size: tuple[int, int], norm: Normalize | None = None
) -> None:
    """Draws an image over so many columns and rows, without a frame."""
    columns, rows = size
    axes.imshow(
        image, extent=(0, columns, rows, 0), cmap="Blues", norm=norm, aspect="auto",
        interpolation="none",
    )  # fmt: skip
    axes.spines[:].set_visible(False)


def draw_offsets(
    heads: pd.DataFrame | Result, keys: View = ALL, *, width: float = COLUMN
) -> Figure:
    """Mean weight at offsets -5..5 (key - query position): a row per head, a panel per site.

    Args:
        heads: a result of `analyze`, or one row per head, such as `heads.csv`.
        keys: `all`, or `content`: shares of the weight on content tokens.
        width: of the figure in inches; sites stand side by side where there is room.

    Raises:
        InputError: it is no table of heads, a column is missing, or there is no such view.
    """
    if keys not in _PREFIXES:
        msg = f"keys must be one of {', '.join(_PREFIXES)}, not {briefly(keys)}."
        raise InputError(msg)
    columns = {
        f"{_PREFIXES[keys]}{offset}": f"{offset:+d}" if offset else "0" for offset in OFFSETS
    }
    heads = drawn_table(heads, "heads")
    check_table(heads, [*HEAD_KEYS, *columns], "analyze(...).heads or heads.csv")
    named = heads.set_index(heads["layer"].astype(str) + "." + heads["head"].astype(str))
    tables = {
        str(site): rows[[*columns]].rename(columns=columns)
        for site, rows in named.groupby("site", sort=False)
    }
    scale = Scale("mean weight (square root scale)", (0.0, 0.05, 0.25, 1.0), WEIGHTS)
    across = "offset: key - query position (tokens)"
    return _draw_tables(tables, _OFFSET_TITLES[keys], across, scale, width=width)


def distance_by_window(fits: pd.DataFrame) -> pd.DataFrame:
    """Mean relative distance from the band of each width: a row per head, then `uniform` of each site.

    Args:
        fits: one row per head and approximation, see `analyze(...).fits`.

    Raises:
        InputError: there is no band in it.
    """
    bands = fits[(fits["approximation"] == "band") & fits["window"].notna()]
    if bands.empty:
        msg = "The table has no bands; make it with sentences to fit matrices to."
        raise InputError(msg)
    names = bands["layer"].astype(str) + "." + bands["head"].astype(str)
    bands = bands.assign(name=names).astype({"window": int})
    tables = []
    for _, of_site in bands.groupby("site", sort=False):
        # Equal weights are as far from a band whatever the head.
        equal = of_site.drop_duplicates("window").assign(name=UNIFORM)
        rows = pd.concat([of_site, equal.assign(relative=equal["equal_weights"])])
        table = rows.pivot(index=["site", "name"], columns="window", values="relative")
        tables.append(table.reindex(pd.MultiIndex.from_frame(rows[["site", "name"]]).unique()))
    return pd.concat(tables)


def draw_windows(fits: pd.DataFrame | Result, *, width: float = COLUMN) -> Figure:
    """Relative distance from the best band of each width: a row per head, `uniform` beneath each site.

    A head whose row is much lighter than that of equal weights at the same width keeps near the diagonal.

    Args:
        fits: a result of `analyze`, or one row per head and approximation, such as `fits.csv`.
        width: of the figure in inches; sites stand side by side where there is room.

    Raises:
        InputError: it is no table of fits, or there is no band in it.
    """
    fits = drawn_table(fits, "fits")
    check_table(fits, _OF_FITS, "analyze(...).fits or fits.csv")
    by_site = distance_by_window(fits).groupby("site", sort=False)
    tables = {str(site): rows.droplevel("site") for site, rows in by_site}
    title, across = "Distance from the best band of each width", "window w (tokens on either side)"
    return _draw_tables(tables, title, across, Scale("mean relative l1 distance"), width=width)


@dataclass(frozen=True)
class Scale:
    """What the colours of a figure mean.

    Attributes:
        label: what the numbers are.
        ticks: numbers that stand beside the scale.
        norm: from numbers to colours.
    """

    label: str
    ticks: tuple[float, ...] = (0.0, 0.5, 1.0)
    norm: Normalize = Normalize(0.0, 1.0)


def _draw_tables(
    tables: Mapping[str, pd.DataFrame], title: str, across: str, scale: Scale, *, width: float
) -> Figure:
    """A panel per site, as many side by side as columns of a paper fit into the width."""
    per_line = max(1, min(len(tables), int(width / COLUMN + 0.05)))
    longest = [max(map(len, line)) for line in _lines_of(list(tables.values()), per_line)]
    numbers = max(longest) <= _MOST_NUMBERED
    named = sum(longest) <= _MOST_NAMED
    row = _NUMBERED if numbers else _NAMED if named else max(4.5 / sum(longest), 0.035)
    with style():
        figure = blank(width, row * sum(longest) + 0.4 * len(longest) + 0.8)
        figure.set_layout_engine("constrained")
        panels = figure.subplots(len(longest), per_line, squeeze=False, height_ratios=longest)
        for axes in panels.flat[len(tables) :]:
            axes.remove()
        for axes, (site, table) in zip(panels.flat, tables.items(), strict=False):
            _draw_table(axes, table, scale, named=named, numbers=numbers)
            axes.set_title(site, loc="left", pad=3)
        for axes in panels.flat[len(tables) - per_line : len(tables)]:
            axes.set_xlabel(across, labelpad=2)
        figure.suptitle(title, x=0.01, ha="left", fontsize=9)
        lowest = list(panels.flat[per_line * (len(longest) - 1) : len(tables)])
        bar = figure.colorbar(
            ScalarMappable(scale.norm, "Blues"), ax=lowest, location="bottom",
            ticks=scale.ticks, format="{x:g}", fraction=0.07 / row / longest[-1], shrink=0.4, aspect=30,
        )  # fmt: skip
        bar.set_label(scale.label, fontsize=7)
    return figure


def _lines_of(tables: Sequence[pd.DataFrame], per_line: int) -> list[Sequence[pd.DataFrame]]:
    return [tables[first : first + per_line] for first in range(0, len(tables), per_line)]


def _draw_table(
    axes: Axes, table: pd.DataFrame, scale: Scale, *, named: bool, numbers: bool
) -> None:
    _show_image(axes, table.to_numpy(float), table.shape[::-1], scale.norm)
    axes.set_xticks(np.arange(len(table.columns)) + 0.5, table.columns)
    rows = [
        (index + 0.5, name)
        for index, name in enumerate(table.index)
        if named or name.endswith(".0") or name == UNIFORM
    ]
    size = None if numbers or not named else _NAME_SIZE
    axes.set_yticks([middle for middle, _ in rows], [name for _, name in rows], fontsize=size)
    if UNIFORM in table.index:
        # Equal weights are apart from the heads.
        axes.axhline(len(table) - 1, color="#ffffff", linewidth=3)
    axes.tick_params(length=0, pad=2)
    if numbers:
        _write_numbers(axes, table, scale.norm)


def _write_numbers(axes: Axes, table: pd.DataFrame, norm: Normalize) -> None:
    for (row, column), value in np.ndenumerate(table.to_numpy(float)):
        if not np.isnan(value):
            axes.text(
                column + 0.5, row + 0.54, f"{value:.2f}".removeprefix("0"), ha="center",
                va="center", fontsize=7, color="#ffffff" if norm(value) > _DARK else "#000000",
            )  # fmt: skip


@dataclass(frozen=True)
class NotDrawn:
    """A kept sentence whose matrices at a site are too large for a figure.

    Attributes:
        sentence: its number, from 0.
        site: encoder, decoder or cross.
        tokens: how many tokens the longer side has.
        limit: how many there may be.
    """

    sentence: int
    site: Site
    tokens: int
    limit: int


def not_drawn(kept: KeptMatrices, limit: int = MOST_TOKENS_DRAWN) -> tuple[NotDrawn, ...]:
    """What is kept but too large to be drawn, in order of sentence."""
    longest = {at: max(len(side) for side in sides) for at, sides in kept.tokens.items()}
    return tuple(
        NotDrawn(sentence, site, tokens, limit)
        for (sentence, site), tokens in longest.items()
        if tokens > limit
    )
