"""Heat maps of attention matrices with their tokens on both axes."""

import math
import textwrap
from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from torch import Tensor

from attnlab.core import InputError, shown
from attnlab.figures.canvas import INK, WEIGHTS, blank, panel, style, text_width
from attnlab.figures.drawing import COLUMN
from attnlab.reading import KeptMatrices

# From nothing to full ink: the background of the page shows through, light or dark.
COLOURS = LinearSegmentedColormap.from_list(
    "attention", [(0.13, 0.47, 0.85, 0.0), (0.13, 0.47, 0.85, 1.0)]
)
_MARKS = str.maketrans({"▁": "_", "Ġ": "_", "Ċ": "\\n"})
MOST_COLUMNS = 4
# Inches; the report page has 12.4 in full width and shrinks what is wider, by a sixth at most here.
_PAGE_WIDTH = 14.8
# Inches of a character of a label.
_CHARACTER = 0.068
# Characters of a legend in an inch.
_PER_INCH = 15
# Inches of a second line of a name, and of the scale.
_LINE, _SCALE = 0.15, 2.2
# Points of labels, names, the legend and the title.
_LABELS, _NAMES, _LEGEND, _TITLE = 7.5, 8.5, 8.0, 11.0
LONGEST_LABEL = 12
_TICKS = (0, 0.05, 0.25, 0.5, 1)


def draw_heads(
    weights: Float[Tensor, "head query key"],
    queries: Sequence[str] | None = None,
    keys: Sequence[str] | None = None,
    *,
    title: str = "",
    names: Sequence[str] | None = None,
    legend: str = "attention weight; each row adds up to 1; rows: queries, columns: keys",
    width: float | None = None,
) -> Figure:
    """One heat map a head; a row is a token that looks. All have one scale, from 0 to 1.

    Args:
        weights: attention weights; a cell that is NaN is crossed out.
        queries: tokens of the rows; None: their numbers.
        keys: tokens of the columns; None: their numbers.
        title: stands above all.
        names: one a head, of one line or two; None: their numbers.
        legend: beside the scale.
        width: of the figure in inches, such as that of a column of a paper: three heads to a column, with the
            tokens at the border alone; None: up to four side by side as wide as their tokens need, each with
            its own.

    Raises:
        InputError: there are no such weights, or not a token for each row and column.
    """
    names, queries, keys = _given_or_numbers(weights, names, queries, keys)
    weights = weights.detach()
    if width is not None:
        sides = (names, queries, keys)
        return _draw_narrow(weights, sides, title=title, legend=legend, width=width)
    cell = 0.19 if max(len(queries), len(keys)) <= 24 else 0.15
    width, height = max(cell * len(keys), 1.0), max(cell * len(queries), 0.8)
    left = 0.12 + _label_width(queries)
    below = 0.06 + _label_width(keys)
    lines = [name.split("\n") for name in names]
    above = 0.28 + _LINE * (max(map(len, lines)) - 1)
    named = text_width((line for name in lines for line in name), _NAMES)
    step_x, step_y, top = max(width, named) + left + 0.12, height + below + above + 0.1, 0.4
    columns = _columns(len(names), step_x)
    rows = math.ceil(len(names) / columns)
    whole = max(columns * step_x, left + _SCALE, text_width([title], _TITLE)) + 0.1
    legend_lines = _legend_lines(legend, whole - left)
    with style():
        figure = blank(whole, top + rows * step_y + 0.55 + _LINE * (len(legend_lines) - 1))
        figure.text(
            0.08 / whole, 1 - 0.24 / figure.get_figheight(), title, va="center", fontsize=_TITLE
        )
        for index, name in enumerate(names):
            axes = panel(
                figure,
                left + step_x * (index % columns),
                top + above + step_y * (index // columns),
                width,
                height,
            )
            _draw_head(axes, weights[index], queries, keys)
            axes.set_title(name, loc="left", pad=4)
        _draw_scale(figure, left, top + rows * step_y + 0.12, legend_lines)
    return figure


def _label_width(tokens: Sequence[str]) -> float:
    labels = [short(token) for token in tokens]
    return max(_CHARACTER * max(map(len, labels)), text_width(labels, _LABELS))


def _draw_narrow(
    weights: Float[Tensor, "head query key"],
    named: tuple[Sequence[str], ...],
    *,
    title: str,
    legend: str,
    width: float,
) -> Figure:
    """Heads three to a column, with their tokens at the border; names are of heads, queries and keys."""
    names, queries, keys = named
    columns = min(len(names), max(1, round(3 * width / COLUMN)))
    rows = math.ceil(len(names) / columns)
    below = _CHARACTER * max(map(len, map(short, keys)))
    side = (width - 0.1 - _CHARACTER * max(map(len, map(short, queries)))) / columns
    lines = max(name.count("\n") + 1 for name in names)
    size = min(7.0, max(4.0, 72 * side / max(len(queries), len(keys))))
    with style():
        height = side * len(queries) / len(keys) + _LINE * lines
        figure = blank(width, rows * height + below + 0.75)
        figure.set_layout_engine("constrained", w_pad=0.02, h_pad=0.02)
        panels = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
        for axes in panels.flat[len(names) :]:
            axes.remove()
        for axes, name, matrix in zip(panels.flat, names, weights, strict=False):
            _draw_head(axes, matrix, queries, keys, size)
            axes.set_title(name, loc="left", pad=2, fontsize=7)
        for axes in panels.flat[max(0, len(names) - columns) : len(names)]:
            axes.tick_params(labelbottom=True)
        figure.suptitle(title, x=0.01, ha="left", fontsize=9)
        bar = figure.colorbar(
            mpl.cm.ScalarMappable(WEIGHTS, COLOURS), ax=figure.axes, location="bottom",
            ticks=_TICKS, format="{x:g}", shrink=0.5, aspect=30,
        )  # fmt: skip
        bar.set_label(textwrap.fill(legend, int(_PER_INCH * width)), fontsize=7)
    return figure


def _given_or_numbers(weights: Any, *sides: Sequence[str] | None) -> list[Sequence[str]]:
    """Names of heads, queries and keys, those that are not given from 0.

    Raises:
        InputError: there are no such weights, or not a name for each.
    """
    if not isinstance(weights, Tensor):
        example = ""
        if isinstance(weights, KeptMatrices) and weights.matrices:
            number, site, layer = next(iter(weights.matrices))
            example = (
                f", such as those of one sentence and layer, kept.matrices[{number}, {site!r}, {layer}], "
                f"with their tokens, *kept.tokens[{number}, {site!r}]"
            )
        msg = (
            "Heat maps are drawn from attention weights [head, query, key] and not from an object of "
            f"the class {type(weights).__name__}; give a tensor of torch{example}."
        )
        raise InputError(msg)
    if weights.ndim == len(sides):
        sizes = zip(sides, weights.shape, strict=True)
        sides = tuple(
            [str(n) for n in range(size)] if side is None else side for side, size in sizes
        )
    expected = ["any" if side is None else len(side) for side in sides]
    if list(weights.shape) != expected:
        msg = (
            f"The weights have the shape {list(weights.shape)} beside names, queries and keys for "
            f"{expected}; give a name for each head and a token for each row and column."
        )
        raise InputError(msg)
    return [side for side in sides if side is not None]


def _columns(panels: int, step: float) -> int:
    """Number of panels side by side: as many as a page is wide, in full rows where that is possible."""
    most = max(1, min(panels, MOST_COLUMNS, int(_PAGE_WIDTH / step)))
    whole = [count for count in range(most, 1, -1) if panels % count == 0]
    return whole[0] if whole else most


def _draw_head(
    axes: Axes,
    weights: Float[Tensor, "query key"],
    queries: Sequence[str],
    keys: Sequence[str],
    size: float = _LABELS,
) -> None:
    # As an image of one pixel a weight: 22 bytes a weight as shapes would fill the page (heads.md, trap 9).
    axes.imshow(
        weights.float().numpy(), cmap=COLOURS, norm=WEIGHTS, aspect="auto", interpolation="none"
    )
    missing = weights.isnan().nonzero()
    if len(missing):
        axes.plot(
            *missing.fliplr().T, "x", color=INK, markersize=size, markeredgewidth=0.5,
            scalex=False, scaley=False,
        )  # fmt: skip
    axes.set_xticks(range(len(keys)), [short(key) for key in keys], rotation=90, fontsize=size)
    axes.set_yticks(range(len(queries)), [short(query) for query in queries], fontsize=size)
    axes.tick_params(length=0, pad=2)
    for spine in axes.spines.values():
        spine.set(linewidth=0.5, alpha=0.5)


def _legend_lines(legend: str, room: float) -> list[str]:
    """The legend in one line, for beside the scale, or in an empty one and those that stand below it."""
    inches = text_width([legend], _LEGEND)
    if inches <= room - 1.04 * _SCALE - 0.1:
        return [legend]
    for characters in range(len(legend), 0, -1):
        lines = textwrap.wrap(legend, characters)
        if text_width(lines, _LEGEND) <= room - 0.1:
            break
    return ["", *lines]


def _draw_scale(figure: Figure, left: float, top: float, lines: Sequence[str]) -> None:
    axes = panel(figure, left, top, _SCALE, 0.11)
    bar = figure.colorbar(
        mpl.cm.ScalarMappable(WEIGHTS, COLOURS), cax=axes, orientation="horizontal"
    )
    bar.set_ticks(_TICKS, labels=[f"{tick:g}" for tick in _TICKS])
    bar.ax.tick_params(labelsize=7.5, length=2)
    bar.outline.set(linewidth=0.5, edgecolor=INK)
    beside, *others = lines
    axes.text(1.04, 0.5, beside, transform=axes.transAxes, va="center", fontsize=_LEGEND)
    if others:
        axes.set_xlabel("\n".join(others), loc="left", fontsize=_LEGEND)


def short(token: str) -> str:
    """A token as a label: marks of word starts as `_`, what is not seen escaped, long ones shortened.

    >>> short("▁internationalisation")
    '_inter…ation'
    """
    label = plain(token)
    if len(label) <= LONGEST_LABEL:
        return label
    return f"{label[:6]}…{label[-5:]}"


def plain(token: str) -> str:
    """A token with marks of word starts as `_` and what is not seen escaped."""
    return shown(token.translate(_MARKS))
