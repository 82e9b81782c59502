"""Figures of an analysis: a map of the heads, mean weight by offset, and distance by window."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from attnlab.core import HEAD_KEYS, InputError, Site, briefly
from attnlab.figures import (
    COLUMN,
    WEIGHTS,
    Mark,
    blank,
    check_table,
    marks_of_names,
    panel,
    style,
)
from attnlab.questions.analyze.question import QUESTION
from attnlab.questions.analyze.summary import marked
from attnlab.reading import (
    ALL,
    CONTENT,
    CONTENT_OFFSET_PREFIX,
    OFFSET_PREFIX,
    OFFSETS,
    KeptMatrices,
    View,
)
from attnlab.results import Result, declared_columns, family_words

# Of the longer side of a matrix.
MOST_TOKENS_DRAWN = 80
_LEFT, _TOP, _BETWEEN, _LEGEND_ROW = 0.42, 0.24, 0.42, 0.16
_LOWEST, _HIGHEST = 0.12, 0.3
_TITLES = {
    "role": "closest role of each head",
    "structure": "what each head looks like",
}
_PREFIXES = {ALL: OFFSET_PREFIX, CONTENT: CONTENT_OFFSET_PREFIX}
_OFFSET_TITLES = {
    ALL: "Mean weight by offset",
    CONTENT: "Mean share of the content tokens by offset",
}
UNIFORM = "uniform"
_WANTED = (*HEAD_KEYS, "approximation", "window", "relative", "queries", "keys")
_GRID_LEFT, _RIGHT, _GRID_TOP, _GRID_BETWEEN, _BELOW = 0.55, 0.08, 0.46, 0.34, 0.62
_MOST_NUMBERED = 30
# Darker cells have white numbers.
_DARK = 0.55


def draw_heads(
    table: pd.DataFrame | Result, value: str = "role", *, width: float = COLUMN
) -> Figure:
    """Layers by heads, a panel per site: the closest role of each head as a colour and a letter.

    A role that is not confirmed and significant against controls (confirmed, where these were left out)
    is pale. Other columns may name several
    things a head, joined by semicolons, then it has a stripe for each.

    Args:
        table: a result of `analyze`, or one row per head with `site, layer, head` and the column `value`,
            such as `summary.csv`.
        value: the column that colours the cells: `role`, `structure` or any other of names.
        width: of the figure in inches.

    Raises:
        InputError: it is no table of heads, or has no such column.
    """
    if isinstance(table, Result):
        table = table.table
    check_table(table, HEAD_KEYS, "analyze(...).summary or summary.csv")
    if value not in table:
        msg = f"The table has no column '{value}'; choose from: {', '.join(map(str, table))}."
        raise InputError(msg)
    sites = {str(site): own for site, own in table.groupby("site", sort=False)}
    marks = marks_of_names({name for cell in table[value] for name in str(cell).split("; ")})
    sure = (
        marked(table) if value == "role" and "confirmed" in table else pd.Series(True, table.index)
    )
    pale = "" if sure.all() else _pale_said(table)
    columns = int(table["head"].max()) + 1
    cell = (width - _LEFT - 0.05) / columns
    height = min(max(cell, _LOWEST), _HIGHEST)
    rows = {site: int(own["layer"].max()) + 1 for site, own in sites.items()}
    below = (_legend_rows(marks, width) + bool(pale)) * _LEGEND_ROW + 0.36
    whole = _TOP + sum(rows.values()) * height + _BETWEEN * (len(sites) - 1) + 0.1 + below
    with style():
        figure = blank(width, whole)
        top = _TOP
        for site, own in sites.items():
            axes = panel(figure, _LEFT, top, cell * columns, height * rows[site])
            shown = own.assign(sure=sure[own.index])
            _draw_site(axes, shown, value, marks, (rows[site], columns))
            axes.set_title(site, loc="left", pad=3)
            top += height * rows[site] + _BETWEEN
        axes.set_xlabel("head", labelpad=1)
        _draw_legend(figure, marks, width, pale=pale)
        figure.text(
            0.99, 1 - 0.13 / whole, _TITLES.get(value) or _heading(table, value),
            ha="right", va="center", fontsize=7,
        )  # fmt: skip
    return figure


def _pale_said(table: pd.DataFrame) -> str:
    if "significant" in table:
        return "pale: not confirmed and significant"
    return "pale: not confirmed; controls were left out"


def _heading(table: pd.DataFrame, name: str) -> str:
    (column,) = declared_columns(table[[name]], declared=QUESTION.tables)
    return column.heading


def _draw_site(
    axes: Axes,
    table: pd.DataFrame,
    value: str,
    marks: Mapping[str, Mark],
    shape: tuple[int, int],
) -> None:
    for row in table.to_dict("records"):
        named = [marks[name] for name in str(row[value]).split("; ")]
        shades = named if row["sure"] else [mark.pale for mark in named]
        _draw_cell(axes, row["layer"], row["head"], shades)
    rows, columns = shape
    axes.set_xlim(0, columns)
    axes.set_ylim(rows, 0)
    step = 1 if columns <= 16 else 4
    shown = range(0, columns, step)
    axes.set_xticks([head + 0.5 for head in shown], [*map(str, shown)])
    step = 1 if rows <= 12 else 4
    shown = range(0, rows, step)
    axes.set_yticks([layer + 0.5 for layer in shown], [*map(str, shown)])
    axes.tick_params(length=0, pad=1.5)
    axes.set_ylabel("layer", labelpad=2)
    for spine in axes.spines.values():
        spine.set_visible(False)


def _draw_cell(axes: Axes, layer: int, head: int, marks: Sequence[Mark]) -> None:
    wide = 0.92 / len(marks)
    for index, mark in enumerate(marks):
        left = head + 0.04 + index * wide
        axes.add_patch(Rectangle((left, layer + 0.04), wide, 0.92, color=mark.colour, linewidth=0))
        axes.text(
            left + wide / 2, layer + 0.52, mark.letter, color=mark.ink,
            ha="center", va="center", fontsize=7,
        )  # fmt: skip


def _legend_columns(marks: Mapping[str, Mark], width: float) -> int:
    longest = max(len(family_words(name)) for name in marks)
    return max(1, min(len(marks), int((width - 0.1) / (0.07 * longest + 0.42))))


def _legend_rows(marks: Mapping[str, Mark], width: float) -> int:
    return -(-len(marks) // _legend_columns(marks, width))


def _draw_legend(figure: Figure, marks: Mapping[str, Mark], width: float, *, pale: str) -> None:
    handles = [
        Patch(facecolor=mark.colour, label=f"{mark.letter} {family_words(name)}".strip())
        for name, mark in marks.items()
    ]
    row = _LEGEND_ROW / figure.get_figheight() if pale else 0
    if pale:
        figure.text(0.03, row / 2, pale, fontsize=7, va="center")
    figure.legend(
        handles=handles, loc="lower left", bbox_to_anchor=(0.02, row), frameon=False,
        ncols=_legend_columns(marks, width), handlelength=0.9, handleheight=0.9,
        columnspacing=1.0, handletextpad=0.4, labelspacing=0.3,
    )  # fmt: skip


def draw_offsets(heads: pd.DataFrame, keys: View = ALL, *, width: float = COLUMN) -> Figure:
    """Mean weight at offsets -5..5 (key - query position): a row per head, a panel per site.

    Args:
        heads: one row per head, such as `analyze(...).heads` or `heads.csv`.
        keys: `all`, or `content`: shares of the weight on content tokens.
        width: of the figure in inches; sites stand side by side where there is room.

    Raises:
        InputError: it is no table of heads, a column is missing, or there is no such view.
    """
    if keys not in _PREFIXES:
        msg = f"keys must be one of {', '.join(_PREFIXES)}, not {briefly(keys)}."
        raise InputError(msg)
    prefix = _PREFIXES[keys]
    wanted = [*HEAD_KEYS, *(f"{prefix}{offset}" for offset in OFFSETS)]
    check_table(heads, wanted, "analyze(...).heads or heads.csv")
    sites = heads.groupby("site", sort=False)
    grid = Grid(
        title=_OFFSET_TITLES[keys],
        across="offset: key - query position (tokens)",
        scale="mean weight (square root scale)",
        ticks=(0.0, 0.05, 0.25, 1.0),
        norm=WEIGHTS,
    )
    tables = {str(site): _by_offset(table, prefix) for site, table in sites}
    return draw_grids(tables, grid, width=width)


def _by_offset(heads: pd.DataFrame, prefix: str) -> pd.DataFrame:
    """Mean weight, a row per head and a column per offset; missing where no row may look."""
    columns = [name for name in map(str, heads) if name.startswith(prefix)]
    offsets = [int(name.removeprefix(prefix)) for name in columns]
    table = heads[columns].set_axis([f"{o:+d}" if o else "0" for o in offsets], axis="columns")
    names = [f"{row.layer}.{row.head}" for row in heads.itertuples()]
    return table.set_axis(names, axis="index")


def distance_by_window(fits: pd.DataFrame) -> pd.DataFrame:
    """Mean relative distance from the band of each width: a row per head, then `uniform` of each site.

    The distance of equal weights from a band of width w is the share of them that lies farther than w
    from the diagonal: `1 - band / (queries keys)`, and row by row where no key ahead is visible.

    Args:
        fits: one row per head, sentence and approximation, see `analyze(...).fits`.

    Raises:
        InputError: there is no band in it.
    """
    bands = fits[(fits["approximation"] == "band") & fits["window"].notna()]
    if bands.empty:
        msg = "The table has no bands; make it with sentences to fit matrices to."
        raise InputError(msg)
    heads = bands.assign(name=bands["layer"].astype(str) + "." + bands["head"].astype(str))
    order = heads.drop_duplicates(["site", "name"])
    means = heads.pivot_table(index=["site", "name"], columns="window", values="relative")
    means = means.reindex(pd.MultiIndex.from_frame(order[["site", "name"]]))
    tables = []
    for site in order["site"].unique():
        own = bands[bands["site"] == site]
        one = own[(own["layer"] == own["layer"].iloc[0]) & (own["head"] == own["head"].iloc[0])]
        beyond = one.apply(_uniform_beyond, axis="columns", causal=site == "decoder")
        uniform = beyond.groupby(one["window"]).mean().to_frame((site, UNIFORM)).T
        tables += [means.loc[[site]], uniform]
    return pd.concat(tables).rename_axis(index=["site", "name"])


def _uniform_beyond(row: "pd.Series", *, causal: bool) -> float:
    """The share of equal weights farther than the window from the diagonal of one matrix."""
    window, queries, keys = int(row["window"]), int(row["queries"]), int(row["keys"])
    within = 0.0
    for query in range(queries):
        last = min(query, keys - 1) if causal else keys - 1
        near = min(query + window, last) - max(query - window, 0) + 1
        within += max(near, 0) / (last + 1)
    return 1 - within / queries


def draw_windows(fits: pd.DataFrame, *, width: float = COLUMN) -> Figure:
    """Relative distance from the best band of each width: a row per head, `uniform` beneath each site.

    A head whose row is much lighter than that of equal weights at the same width keeps near the diagonal.

    Args:
        fits: one row per head, sentence and approximation, such as `analyze(...).fits` or `fits.csv`.
        width: of the figure in inches; sites stand side by side where there is room.

    Raises:
        InputError: it is no table of fits, or there is no band in it.
    """
    check_table(fits, _WANTED, "analyze(...).fits or fits.csv")
    table = distance_by_window(fits).rename(columns=int)
    sites = {str(site): own.droplevel("site") for site, own in table.groupby("site", sort=False)}
    return draw_grids(sites, _GRID, width=width)


@dataclass(frozen=True)
class Grid:
    """What a figure of such tables says.

    Attributes:
        title: above all.
        across: what the columns are.
        scale: what the numbers are.
        ticks: of the scale.
        norm: from numbers to colours.
        reference: name of a row that is set apart from the heads; None where there is none.
    """

    title: str
    across: str
    scale: str
    ticks: tuple[float, ...] = (0.0, 0.5, 1.0)
    norm: Normalize = Normalize(0.0, 1.0)
    reference: str | None = None


def draw_grids(tables: Mapping[str, pd.DataFrame], grid: Grid, *, width: float) -> Figure:
    """A panel per table, as many side by side as columns of a paper fit into the width.

    Args:
        tables: numbers by site; the index names the rows, the columns are what is across.
        grid: what the figure says.
        width: of the figure in inches.
    """
    beside = max(1, min(len(tables), int(width / COLUMN + 0.05)))
    step = width / beside
    numbers = max(map(len, tables.values())) <= _MOST_NUMBERED
    row = 0.15 if numbers else max(4.5 / sum(map(len, tables.values())), 0.035)
    heights = [row * len(_spaced(table, grid.reference)) for table in tables.values()]
    lines = [max(heights[at : at + beside]) for at in range(0, len(heights), beside)]
    whole = _GRID_TOP + sum(lines) + _GRID_BETWEEN * (len(lines) - 1) + _BELOW
    last = len(tables) - beside
    with style():
        figure = blank(width, whole)
        for index, (site, table) in enumerate(tables.items()):
            line = index // beside
            top = _GRID_TOP + sum(lines[:line]) + _GRID_BETWEEN * line
            left = _GRID_LEFT + step * (index % beside)
            axes = panel(figure, left, top, step - _GRID_LEFT - _RIGHT, heights[index])
            _draw_grid(axes, table, grid, numbers=numbers)
            axes.set_title(site, loc="left", pad=3)
            axes.tick_params(labelbottom=index >= last)
            if index >= last:
                axes.set_xlabel(grid.across, labelpad=2)
        figure.text(0.1 / width, 1 - 0.15 / whole, grid.title, va="center", fontsize=9)
        _draw_scale(figure, grid, whole)
    return figure


def _draw_scale(figure: Figure, grid: Grid, whole: float) -> None:
    bar = panel(figure, _GRID_LEFT, whole - 0.22, 1.0, 0.07)
    shades = ScalarMappable(grid.norm, "Blues")
    figure.colorbar(shades, cax=bar, orientation="horizontal", ticks=grid.ticks, format="{x:g}")
    bar.tick_params(length=2, pad=1, labelsize=7)
    bar.set_title("")
    at = (_GRID_LEFT + 1.1) / figure.get_figwidth(), 0.185 / whole
    figure.text(*at, grid.scale, va="center", fontsize=7)


def _draw_grid(axes: Axes, table: pd.DataFrame, grid: Grid, *, numbers: bool) -> None:
    spaced = _spaced(table, grid.reference)
    columns, rows = len(spaced.columns), len(spaced)
    # One image per panel: identical images, as of the same reference at two sites, would share a name.
    axes.imshow(
        spaced.to_numpy(float), extent=(0, columns, rows, 0), cmap="Blues", norm=grid.norm,
        aspect="auto", interpolation="none",
    )  # fmt: skip
    axes.set_xticks([column + 0.5 for column in range(columns)], table.columns)
    named = [
        (index + 0.5, name)
        for index, name in enumerate(spaced.index)
        if name and (numbers or name.endswith(".0") or name == grid.reference)
    ]
    axes.set_yticks([middle for middle, _ in named], [name for _, name in named])
    if numbers:
        _write_numbers(axes, spaced, grid)
    axes.tick_params(length=0, pad=2)
    axes.spines[:].set_visible(False)


def _spaced(table: pd.DataFrame, reference: str | None) -> pd.DataFrame:
    """The rows with an empty one before the reference."""
    if reference not in table.index:
        return table
    order = [name for name in table.index if name != reference]
    return table.reindex([*order, "", reference])


def _write_numbers(axes: Axes, table: pd.DataFrame, grid: Grid) -> None:
    for index, (_, row) in enumerate(table.iterrows()):
        for column, value in enumerate(row):
            if not pd.isna(value):
                axes.text(
                    column + 0.5, index + 0.54, f"{value:.2f}".removeprefix("0"), ha="center",
                    va="center", fontsize=7,
                    color="#ffffff" if grid.norm(value) > _DARK else "#000000",
                )  # fmt: skip


_GRID = Grid(
    title="Distance from the best band of each width",
    across="window w (tokens on either side)",
    scale="mean relative l1 distance",
    reference=UNIFORM,
)


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
