"""Time and memory of mechanisms against the number of tokens."""

import math
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from attnlab.figures.canvas import INK, blank, colour, panel, style
from attnlab.figures.drawing import PAGE, check_table

FULL = "full"
_WANTED = ("mechanism", "tokens", "seconds_both", "peak_bytes")
_STYLES = ("-", "--", ":")
_HEIGHT, _LEGEND_ROW, _LEGEND_COLUMNS = 2.5, 0.14, 2


def crossover(table: pd.DataFrame, name: str) -> float:
    """The length from which a mechanism is quicker than full attention, forward + backward; NaN: none.

    Args:
        table: one row per mechanism and length, with `mechanism, tokens, seconds_both`.
        name: of the mechanism.
    """
    full = table[table["mechanism"] == FULL].set_index("tokens")["seconds_both"]
    mine = table[table["mechanism"] == name].set_index("tokens")["seconds_both"]
    slower = [length for length in full.index if not mine.get(length, math.inf) < full[length]]
    later = [length for length in full.index if length > max(slower, default=0)]
    return float(min(later, default=math.nan))


def draw_scaling(table: pd.DataFrame, *, width: float = PAGE) -> Figure:
    """Seconds and bytes by tokens, both logarithmic, a line per mechanism; a ring where full is overtaken.

    Args:
        table: one row per mechanism and length, with `mechanism, tokens, seconds_both, peak_bytes`.
        width: of the figure in inches; both columns of a paper by default.

    Raises:
        InputError: it is no table, a column is missing, or there are no rows.
    """
    check_table(table, _WANTED, "the measurements of a study, table.csv")
    names = list(dict.fromkeys(table["mechanism"]))
    rows = -(-len(names) // _LEGEND_COLUMNS)
    below = rows * _LEGEND_ROW + 0.1
    size = (width - 1.2) / 2, _HEIGHT - 0.65
    with style():
        figure = blank(width, _HEIGHT + below)
        time_axes = panel(figure, 0.5, 0.22, *size)
        memory_axes = panel(figure, 0.5 + size[0] + 0.55, 0.22, *size)
        for index, name in enumerate(names):
            measured = table[table["mechanism"] == name].sort_values("tokens")
            _draw_mechanism(time_axes, memory_axes, measured, _look(index, str(name)))
            start = crossover(table, str(name))
            if not math.isnan(start):
                at = measured.loc[measured["tokens"] == start, "seconds_both"]
                time_axes.plot(
                    [start], at, "o", color=_look(index, str(name))["color"], fillstyle="none",
                    markersize=5,
                )  # fmt: skip
        time_axes.set_title("forward + backward (s); ring: quicker than full", loc="left")
        memory_axes.set_title("peak memory (MiB)", loc="left")
        _scale(time_axes, table["tokens"])
        _scale(memory_axes, table.dropna(subset=["peak_bytes"])["tokens"])
        figure.legend(
            *time_axes.get_legend_handles_labels(), loc="lower center", ncols=_LEGEND_COLUMNS,
            frameon=False, labelspacing=0.2, handlelength=2.2, fontsize=7,
        )  # fmt: skip
    return figure


def _look(index: int, name: str) -> dict[str, Any]:
    if name == FULL:
        return {"color": INK, "linestyle": "-"}
    return {"color": colour(index), "linestyle": _STYLES[index // 7 % len(_STYLES)]}


def _draw_mechanism(
    time_axes: Axes, memory_axes: Axes, rows: pd.DataFrame, look: dict[str, Any]
) -> None:
    name = rows["mechanism"].iloc[0]
    time_axes.plot(rows["tokens"], rows["seconds_both"], linewidth=1, label=name, **look)
    memory = rows.dropna(subset=["peak_bytes"])
    memory_axes.plot(memory["tokens"], memory["peak_bytes"] / 2**20, linewidth=1, **look)


def _scale(axes: Axes, tokens: "pd.Series") -> None:
    axes.set(xscale="log", yscale="log", xlabel="tokens")
    lengths = sorted(map(int, tokens.unique()))
    shown = lengths[:: max(1, math.ceil(len(lengths) / 5))]
    axes.set_xticks(shown, [str(length) for length in shown])
    axes.yaxis.set_major_formatter("{x:g}")
    axes.minorticks_off()
    axes.spines[["top", "right"]].set_visible(False)
