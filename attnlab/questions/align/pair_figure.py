"""Two sentences one above the other, with the links between their words as lines."""

import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.lines import Line2D
from matplotlib.patches import PathPatch, Rectangle
from matplotlib.path import Path

from attnlab.core import counted, shown
from attnlab.figures import INK, PAGE, WIDE, blank, panel, style

Link = tuple[int, int]
Place = tuple[float, float]

# Words of a longer sentence are left out.
MOST_WORDS = 40
# Of the identifiers of lines in an SVG, which the page shows by head.
LINKS = "links"
# A path of full transparency is not written.
UNSEEN = 0.001
# Inches: the report page has 12.4; words that need more stand upright.
_NARROWEST = 4.6
_MARGIN, _PAD, _GAP, _BOX = 0.1, 0.06, 0.07, 0.22
_UPRIGHT_STEP, _BETWEEN, _LEGEND_ROW = 0.29, 1.15, 0.19
_LONGEST_WORD = 18
_FONT_SIZE, _POINTS = 8.5, 72.0


@dataclass(frozen=True)
class Stroke:
    """How a kind of link is drawn; told apart by the line as well as by the colour."""

    meaning: str
    colour: str
    line: Any
    width: float


_GREY = "#757d88"
STROKES = {
    "right": Stroke("gold, found", INK, "solid", 1.5),
    "possible": Stroke("possible gold, found", _GREY, "solid", 1.0),
    "wrong": Stroke("found, not gold", "#d55e00", (0, (4, 2)), 1.5),
    "missed": Stroke("gold, not found", "#2f86c9", (0, (1, 1.6)), 1.7),
    "possible_missed": Stroke("possible gold, not found", _GREY, (0, (1, 3)), 1.0),
    "found": Stroke("found", INK, "solid", 1.3),
}


def links_by_kind(
    links: Collection[Link], sure: Collection[Link], possible: Collection[Link], *, gold: bool
) -> dict[str, list[Link]]:
    """Found and missed links by their kind, each once and in order; without gold all are `found`.

    Args:
        links: (source, target), from 0, of the heads.
        sure: gold links.
        possible: gold links, the sure ones too or not.
        gold: whether there are gold links.
    """
    given = set(links)
    if not gold:
        return {"found": sorted(given)}
    certain = set(sure)
    allowed = set(possible) - certain
    kinds = {
        "right": given & certain,
        "possible": given & allowed,
        "wrong": given - certain - allowed,
        "missed": certain - given,
        "possible_missed": allowed - given,
    }
    return {kind: sorted(of_kind) for kind, of_kind in kinds.items()}


def draw_pair(
    pair: Mapping[str, Any], *, gold: bool, heads: Sequence[str] = (), legend: bool = True
) -> Figure:
    """Source words above, target words below, each in a box, and the links of the chosen heads as lines.

    Words stand upright where they would be wider than a page, and only the first 40 of a sentence are drawn.

    Args:
        pair: `source` and `target` words; links as (source, target) from 0: `sure` and `possible` gold
            links, and in `links` those that were found, by head as `layer.head`, and as `chosen` for the
            chosen heads.
        gold: whether the pair has gold links.
        heads: those whose links are put beside the others unseen, for the page to show.
        legend: whether the kinds of links are named below.
    """
    sources, targets = _words(pair["source"]), _words(pair["target"])
    kept = {
        name: _links_of(pair, name, len(sources), len(targets), gold=gold)
        for name in ("chosen", *heads)
    }
    kinds = _kinds_shown(pair, kept["chosen"], gold=gold) if legend else []
    with style():
        layout = _layout(sources, targets)
        note = _left_out(pair, sources, targets)
        columns = 5 if layout.width > PAGE else 3
        below = (-(-len(kinds) // columns) + bool(note)) * _LEGEND_ROW + 0.1
        figure = blank(layout.width, layout.height + below)
        axes = panel(figure, 0.0, 0.0, layout.width, layout.height)
        axes.set(xlim=(0, layout.width), ylim=(layout.height, 0))
        axes.set_axis_off()
        for name, links in kept.items():
            _draw_links(axes, layout, name, links)
        for word, box in zip((*sources, *targets), (*layout.sources, *layout.targets), strict=True):
            _draw_word(axes, word, box, upright=layout.upright)
        if note:
            figure.text(_MARGIN / layout.width, 0.01, note, fontsize=7, va="bottom")
        if kinds:
            figure.legend(
                handles=[_example(STROKES[kind]) for kind in kinds], loc="upper left", frameon=False,
                bbox_to_anchor=(0.0, below / figure.get_figheight()), borderaxespad=0.2,
                ncols=columns, handlelength=2.6, columnspacing=1.4,
            )  # fmt: skip
    return figure


def _words(words: Sequence[str]) -> list[str]:
    return [_shortened(shown(word)) for word in words[:MOST_WORDS]]


def _shortened(word: str) -> str:
    if len(word) <= _LONGEST_WORD:
        return word
    half = _LONGEST_WORD // 2
    return f"{word[:half]}…{word[1 - half :]}"


def _links_of(
    pair: Mapping[str, Any], name: str, sources: int, targets: int, *, gold: bool
) -> dict[str, list[Link]]:
    of_heads, sure, possible = (
        [(s, t) for s, t in links if s < sources and t < targets]
        for links in (pair["links"].get(name, ()), pair["sure"], pair["possible"])
    )
    return links_by_kind(of_heads, sure, possible, gold=gold)


def _kinds_shown(
    pair: Mapping[str, Any], links: Mapping[str, Sequence[Link]], *, gold: bool
) -> list[str]:
    """The kinds that the legend names: those of possible links only where there are such."""
    if not gold:
        return list(links)
    only_possible = {tuple(link) for link in pair["possible"]} - {
        tuple(link) for link in pair["sure"]
    }
    return [kind for kind in links if only_possible or not kind.startswith("possible")]


def _left_out(pair: Mapping[str, Any], sources: Sequence[str], targets: Sequence[str]) -> str:
    """What a figure of cut sentences says of the rest; empty where there is none."""
    sizes = len(pair["source"]), len(pair["target"])
    if sizes == (len(sources), len(targets)):
        return ""
    links = {tuple(link) for link in (*pair["possible"], *pair["sure"], *pair["links"]["chosen"])}
    beyond = sum(s >= len(sources) or t >= len(targets) for s, t in links)
    return (
        f"The first {MOST_WORDS} words of {sizes[0]} and {sizes[1]}; "
        f"{counted(beyond, 'link')} of the others left out."
    )


@dataclass(frozen=True)
class _Layout:
    """Where the words stand, in inches from the left and the top: (left, top, width, height) each."""

    sources: list[tuple[float, float, float, float]]
    targets: list[tuple[float, float, float, float]]
    width: float
    height: float
    upright: bool

    def line(self, link: Link) -> tuple[Place, Place]:
        """The ends of a line: below the source word and above the target word."""
        left, top, width, height = self.sources[link[0]]
        other, below, wide, _ = self.targets[link[1]]
        return (left + width / 2, top + height), (other + wide / 2, below)


def _layout(sources: Sequence[str], targets: Sequence[str]) -> _Layout:
    widths = [[width + 2 * _PAD for width in _text_widths(side)] for side in (sources, targets)]
    whole = max(sum(side) + _GAP * (len(side) - 1) for side in widths) + 2 * _MARGIN
    if whole > WIDE:
        return _upright(widths[0], widths[1])
    below = _MARGIN + _BOX + _BETWEEN
    above, under = (
        [(left, top, width, _BOX) for left, width in _spread(side, whole)]
        for side, top in ((widths[0], _MARGIN), (widths[1], below))
    )
    return _Layout(above, under, max(whole, _NARROWEST), below + _BOX + _MARGIN, upright=False)


def _upright(sources: Sequence[float], targets: Sequence[float]) -> _Layout:
    """The layout of upright words of these lengths, which end, or begin, where the lines do."""
    whole = max(len(sources), len(targets)) * _UPRIGHT_STEP + 2 * _MARGIN
    longest = max(sources, default=_BOX), max(targets, default=_BOX)
    top = _MARGIN + longest[0]
    below = top + _BETWEEN
    above, under = (
        list(zip(_spread([_BOX] * len(side), whole), side, strict=True))
        for side in (sources, targets)
    )
    return _Layout(
        [(left, top - length, width, length) for (left, width), length in above],
        [(left, below, width, length) for (left, width), length in under],
        max(whole, _NARROWEST),
        below + longest[1] + _MARGIN,
        upright=True,
    )


def _spread(widths: Sequence[float], whole: float) -> Iterator[tuple[float, float]]:
    """Left end and width of boxes with equal gaps, so that both sentences are equally wide."""
    gap = (whole - 2 * _MARGIN - sum(widths)) / max(1, len(widths) - 1)
    left = _MARGIN
    for width in widths:
        yield left, width
        left += width + gap


def _text_widths(words: Sequence[str]) -> Iterator[float]:
    """Inches that each word needs."""
    renderer = FigureCanvasAgg(Figure(dpi=_POINTS)).get_renderer()
    font = FontProperties(size=_FONT_SIZE)
    with warnings.catch_warnings():
        # A letter that the font does not have is as wide as its box.
        warnings.filterwarnings("ignore", message=r"Glyph .* missing from")
        for word in words:
            width, _, _ = renderer.get_text_width_height_descent(word, font, ismath=False)
            wide = sum(ord(letter) >= 0x1100 for letter in word)
            # Widths of whole pixels, of which one is a point, may be one too small.
            yield (max(width, wide * _FONT_SIZE) + 1) / _POINTS


def _draw_word(
    axes: Axes, word: str, box: tuple[float, float, float, float], *, upright: bool
) -> None:
    left, top, width, height = box
    axes.add_patch(
        Rectangle((left, top), width, height, facecolor="none", edgecolor=_GREY, linewidth=0.7)
    )
    axes.text(
        left + width / 2, top + height / 2, word, ha="center", va="center", fontsize=_FONT_SIZE,
        rotation=90 if upright else 0, gid="word",
    )  # fmt: skip


def _draw_links(
    axes: Axes, layout: _Layout, name: str, links: Mapping[str, Sequence[Link]]
) -> None:
    for kind, of_kind in links.items():
        if not of_kind:
            continue
        stroke, lines = STROKES[kind], [layout.line(link) for link in of_kind]
        look = {
            "linestyle": stroke.line,
            "linewidth": stroke.width,
            "gid": f"{LINKS}-{name}-{kind}",
        }
        if name == "chosen":
            axes.add_collection(LineCollection(lines, colors=stroke.colour, **look))
            continue
        # One path for all: there may be hundreds of heads.
        path = Path(
            [place for line in lines for place in line], [Path.MOVETO, Path.LINETO] * len(lines)
        )
        patch = PathPatch(path, facecolor="none", edgecolor=stroke.colour, alpha=UNSEEN, **look)
        patch.set_clip_on(False)
        axes.add_artist(patch)


def _example(stroke: Stroke) -> Line2D:
    """A line of a kind of links, for the legend."""
    return Line2D(
        [], [], color=stroke.colour, linestyle=stroke.line, linewidth=stroke.width,
        label=stroke.meaning,
    )  # fmt: skip
