"""The marks of levels in figures of mechanisms."""

from matplotlib.lines import Line2D

LEVEL_COLOURS = {"oracle": "#c2570c", "calibrated": "#2178d9", "static": "#6b7280"}
# Level is told by shape too, for readers who cannot tell the colours apart.
LEVEL_MARKERS = {"oracle": "D", "calibrated": "o", "static": "s"}


def example_of(level: str) -> Line2D:
    """The mark of a level in a legend."""
    colour, marker = LEVEL_COLOURS[level], LEVEL_MARKERS[level]
    return Line2D([], [], color=colour, marker=marker, markersize=4, label=level)
