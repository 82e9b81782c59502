"""The map of a model's heads: a cell per head, coloured by what it does or looks like."""

from collections.abc import Mapping, Sequence

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from attnlab.core.columns import HEAD_KEYS
from attnlab.core.errors import InputError
from attnlab.reporting.canvas import blank, panel, style
from attnlab.reporting.drawing.given import check_table
from attnlab.reporting.drawing.palette import COLUMN, FUNCTIONS, OTHERS, STRUCTURES, Mark
from attnlab.reporting.export import declared_columns
from attnlab.reporting.naming import family_words
from attnlab.studies.analysis.roles import marked

_LEFT, _TOP, _BETWEEN, _LEGEND_ROW = 0.42, 0.24, 0.42, 0.16
_LOWEST, _HIGHEST = 0.12, 0.3
_TITLES = {
    "role": "closest role of each head",
    "structure": "what each head looks like",
}


def draw_heads(table: pd.DataFrame, value: str = "role", *, width: float = COLUMN) -> Figure:
    """Layers by heads, a panel per site: the closest role of each head as a colour and a letter.

    A role that is not confirmed and significant against controls (confirmed, where these were left out)
    is pale. Other columns may name several
    things a head, joined by `; `, then it has a stripe for each.

    Args:
        table: one row per head with `site, layer, head` and the column `value`, such as `Analysis.summary`
            or `summary.csv`.
        value: the column that colours the cells: `role`, `structure` or any other of names.
        width: of the figure in inches.

    Raises:
        InputError: it is no table of heads, or has no such column.
    """
    check_table(table, HEAD_KEYS, "Analysis.summary or summary.csv")
    if value not in table:
        msg = f"The table has no column '{value}'; choose from: {', '.join(map(str, table))}."
        raise InputError(msg)
    sites = {str(site): own for site, own in table.groupby("site", sort=False)}
    marks = _marks(table[value])
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
    (column,) = declared_columns(table[[name]])
    return column.heading


def _marks(values: "pd.Series[str]") -> dict[str, Mark]:
    """How each name that occurs is shown, known ones first."""
    found = {name for cell in values for name in str(cell).split("; ")}
    known = FUNCTIONS if found & (set(FUNCTIONS) - set(STRUCTURES)) else STRUCTURES
    marks = {name: mark for name, mark in known.items() if name in found}
    others = sorted(found - set(marks))
    return marks | {
        name: Mark(OTHERS[index % len(OTHERS)], name[:1].upper())
        for index, name in enumerate(others)
    }


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
