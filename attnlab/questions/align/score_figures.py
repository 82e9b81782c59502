"""How well each head aligns, as a map; and how many pairs with gold links it takes to find out."""

from collections.abc import Collection, Sequence

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import Normalize, to_hex
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from attnlab.core import rounded
from attnlab.figures import COLUMN, INK, Mark, blank, check_table, colour, panel, style
from attnlab.questions.align.question import AER, CALIBRATION, HEADS, ROWS, SYSTEMS

_WITHOUT_GOLD = HEADS["score_without_gold"]
_TITLES = {
    "output": "output row: the step that predicts the word",
    "input": "input row: the step that reads it",
}
# Inches.
_LEFT, _TOP, _GAP = 0.45, 0.45, 0.55
_CELL, _WIDEST_CELL, _HEIGHT = 0.3, 0.5, 0.27
# More heads than these in a layer, and the panels stand one below the other.
_SIDE_BY_SIDE = 16
_SHAPES = ("--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)))


def measured(heads: pd.DataFrame) -> bool:
    """Whether the heads were scored on gold links."""
    return AER.name in heads and bool(heads[AER.name].notna().any())


def draw_scores(
    heads: pd.DataFrame, chosen: Collection[tuple[int, int]] = (), row: str = "", *, link: str = ""
) -> Figure:
    """Layers by heads, a panel per row of the weights: AER, or without gold links the score without them.

    The chosen heads have a ring in the panel of their row.

    Args:
        heads: one row per head and row, as `align(...).heads` and `heads.csv`.
        chosen: (layer, head) of the heads that were chosen.
        row: of the choice, `output` or `input`.
        link: beginning of the address that a cell of that row leads to, before the name of its head.

    Raises:
        InputError: it is no such table, or has no row.
    """
    gold = isinstance(heads, pd.DataFrame) and measured(heads)
    shown = AER.column if gold else _WITHOUT_GOLD
    check_table(heads, ["layer", "head", "row", shown.name], "align(...).heads or heads.csv")
    panels = [name for name in ROWS if (heads["row"] == name).any()]
    layers, count = int(heads["layer"].max()) + 1, int(heads["head"].max()) + 1
    beside = len(panels) if count <= _SIDE_BY_SIDE else 1
    cell = min(_WIDEST_CELL, max(_CELL, (7.0 / beside - _GAP - _LEFT) / count))
    width, height = cell * count, _HEIGHT * layers
    step = max(width, 2.7) + _GAP, height + 0.62
    down = -(-len(panels) // beside)
    with style():
        figure = blank(_LEFT + beside * step[0] - _GAP + 0.1, _TOP + down * step[1] - 0.24)
        values = heads[shown.name]
        scale = Normalize(values.min(), max(values.max(), values.min() + 0.01))
        for index, name in enumerate(panels):
            left, top = _LEFT + index % beside * step[0], _TOP + index // beside * step[1]
            axes = panel(figure, left, top, width, height)
            rings = set(chosen) if name == row else set()
            _draw_panel(axes, heads[heads["row"] == name], rings, scale, link if rings else "")
            axes.set_title(_TITLES[name], loc="left", pad=4)
        least = "less is better" if gold else "more is better"
        title = (
            f"{shown.heading[:1].upper()}{shown.heading[1:]} of each head ({least}; ring: chosen)"
        )
        figure.text(0.012, 1 - 0.13 / figure.get_figheight(), title, va="center", fontsize=9)
    return figure


def _draw_panel(
    axes: Axes,
    table: pd.DataFrame,
    rings: Collection[tuple[int, int]],
    scale: Normalize,
    link: str,
) -> None:
    column = AER.column if measured(table) else _WITHOUT_GOLD
    map_name = "cividis_r" if column is AER.column else "cividis"
    shades = mpl.colormaps[map_name]
    for one in table.to_dict("records"):
        layer, head, value = int(one["layer"]), int(one["head"]), one[column.name]
        known = pd.notna(value)
        ground = to_hex(shades(scale(value))) if known else "#e3e6ea"
        address = f"{link}{layer}.{head}" if link else None
        axes.add_patch(
            Rectangle(
                (head, layer), 1, 1, facecolor=ground, edgecolor="w", linewidth=0.6, url=address
            )
        )
        written = axes.text(
            head + 0.5, layer + 0.5, rounded(float(value), 2).removeprefix("0") if known else "-",
            color=Mark(ground).ink, ha="center", va="center", fontsize=7,
        )  # fmt: skip
        written.set_url(address)
    for layer, head in rings:
        _draw_ring(axes, layer, head)
    layers, heads = int(table["layer"].max()) + 1, int(table["head"].max()) + 1
    axes.set_xlim(0, heads)
    axes.set_ylim(layers, 0)
    axes.set_xticks(np.arange(heads) + 0.5, [str(head) for head in range(heads)])
    axes.set_yticks(np.arange(layers) + 0.5, [str(layer) for layer in range(layers)])
    axes.tick_params(length=0, pad=2)
    axes.set_xlabel("head", labelpad=2)
    axes.set_ylabel("layer", labelpad=3)
    for spine in axes.spines.values():
        spine.set_visible(False)


def _draw_ring(axes: Axes, layer: int, head: int) -> None:
    """Black in white, so that it is seen on every ground."""
    for colour_of_line, width in (("#ffffff", 3.4), ("#000000", 1.6)):
        axes.add_patch(
            Rectangle(
                (head + 0.05, layer + 0.07), 0.9, 0.86, facecolor="none",
                edgecolor=colour_of_line, linewidth=width, gid="chosen", clip_on=False,
            )
        )  # fmt: skip


def draw_calibration(
    calibration: pd.DataFrame, systems: pd.DataFrame | None = None, *, width: float = COLUMN * 1.6
) -> Figure:
    """AER of the heads that are chosen by the number of pairs with gold links, with its band over draws.

    Args:
        calibration: one row per number of pairs, as `align(...).calibration` and `calibration.csv`.
        systems: as `align(...).systems` and `systems.csv`; a line for each default and for the bound.
        width: of the figure in inches.

    Raises:
        InputError: it is no such table, or has no row.
    """
    wanted = [name for name in CALIBRATION if name not in {"draws", "heads"}]
    check_table(calibration, wanted, "align(...).calibration or calibration.csv")
    rows = calibration.dropna(subset=["aer"]).sort_values("pairs")
    height = 2.3
    with style():
        figure = blank(width, height)
        axes = panel(figure, 0.55, 0.12, width - 2.75, height - 0.6)
        axes.fill_between(
            rows["pairs"], rows["aer_low"], rows["aer_high"], color=colour(0), alpha=0.25,
            linewidth=0,
        )  # fmt: skip
        axes.plot(
            rows["pairs"], rows["aer"], color=colour(0), marker="o", markersize=3.5,
            label="chosen on so many pairs",
        )  # fmt: skip
        for label, value, line in _lines(systems):
            axes.axhline(value, color=INK, linestyle=line, linewidth=0.9, label=label)
        axes.margins(y=0.08)
        axes.set_xscale("log")
        sizes = [int(size) for size in rows["pairs"]]
        axes.set_xticks(sizes, [str(size) for size in sizes])
        axes.set_xticks([], minor=True)
        axes.set_xlabel("pairs with gold links that heads are chosen on")
        axes.set_ylabel("AER on the other pairs")
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(
            frameon=False, loc="upper left", bbox_to_anchor=(1.02, 1.03), handlelength=2.4,
            borderaxespad=0,
        )  # fmt: skip
    return figure


def _lines(systems: pd.DataFrame | None) -> list[tuple[str, float, object]]:
    """Name, AER and stroke of each line: the defaults, the highest first, and the bound below them."""
    if systems is None or AER.name not in systems:
        return []
    check_table(systems, ["system", "kind", AER.name], f"align(...).systems or {SYSTEMS.file}")
    known = systems[systems[AER.name].notna()]
    defaults = known[known["kind"] == "default"].sort_values(AER.name, ascending=False)
    bounds = known[known["kind"] == "bound"]
    lines: list[tuple[str, float, object]] = [
        (_wrapped(name), float(value), _SHAPES[index % len(_SHAPES)])
        for index, (name, value) in enumerate(_named(defaults))
    ]
    return lines + [(_wrapped(name), float(value), "-") for name, value in _named(bounds)]


def _named(table: pd.DataFrame) -> Sequence[tuple[str, float]]:
    return list(zip(table["system"].map(str), table[AER.name], strict=True))


def _wrapped(name: str) -> str:
    """A name in two lines where it is long."""
    middle = name.rfind(" ", 0, 26)
    return name if len(name) <= 26 else f"{name[:middle]}\n{name[middle + 1 :]}"
