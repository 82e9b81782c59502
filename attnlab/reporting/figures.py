"""The figures of an analysis, a line each: where they stand, what draws them, what they show."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from matplotlib.figure import Figure

from attnlab.reporting.canvas import write_figure
from attnlab.reporting.drawing.offsets import draw_offsets
from attnlab.reporting.drawing.palette import COLUMN
from attnlab.reporting.drawing.windows import draw_windows
from attnlab.reporting.naming import VIEW_NAMES
from attnlab.reporting.page.parts import PageFigure
from attnlab.studies.analysis.measuring import Analysis

# Inches: three sites side by side.
PAGE_WIDTH = 3 * COLUMN


@dataclass(frozen=True)
class Drawn:
    """A figure of the report.

    Attributes:
        name: of its files, without the suffix.
        section: anchor of the section in which it stands.
        draw: makes it.
        caption: what it shows; `{view}` is the view of the keys that comes first.
    """

    name: str
    section: str
    draw: Callable[[Analysis], Figure]
    caption: str


DRAWN = (
    Drawn(
        "mass_by_offset",
        "heads",
        lambda analysis: draw_offsets(analysis.heads, analysis.views[0], width=PAGE_WIDTH),
        "Mean attention weight ({view}) on the token at each offset: -1 is the token before, 0 the "
        "token itself, +1 the next. Offsets that no row may see are left out. The colour follows "
        "the square root, as in all figures of weights.",
    ),
    Drawn(
        "distance_by_window",
        "bands",
        lambda analysis: draw_windows(analysis.fits, width=PAGE_WIDTH),
        "Relative distance from the best band of each window, a row per head (layer.head); a matrix of "
        "zeros has 1. The last row of each site is that of equal weights: a head that is no nearer to a "
        "band of that width does not keep to the diagonal.",
    ),
)


def figures_of(section: str, analysis: Analysis, folder: str | Path) -> tuple[PageFigure, ...]:
    """Draws and writes the figures of one section."""
    return tuple(
        PageFigure(
            one.name,
            write_figure(one.draw(analysis), Path(folder), one.name),
            one.caption.format(view=VIEW_NAMES[analysis.views[0]]),
        )
        for one in DRAWN
        if one.section == section
    )
