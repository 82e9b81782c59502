"""The figures of an analysis, a line each: where they stand, what draws them, what they show."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from matplotlib.figure import Figure

from attnlab.reporting.canvas import write_figure
from attnlab.reporting.curves import draw_distance_by_window, draw_mass_by_offset
from attnlab.reporting.naming import VIEW_NAMES
from attnlab.reporting.page import PageFigure
from attnlab.studies.analysis.measuring import Analysis


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
        lambda analysis: draw_mass_by_offset(analysis.heads, analysis.views[0]),
        "Mean attention weight ({view}) on the token at each offset: -1 is the token before, 0 the "
        "token itself, +1 the next. Offsets that no row may see are left out. The colour follows "
        "the square root, as in all figures of weights.",
    ),
    Drawn(
        "distance_by_window",
        "bands",
        lambda analysis: draw_distance_by_window(analysis.fits),
        "Relative distance from the best band of each window, a line per head. Below the dotted "
        "line a band is better than a matrix of zeros.",
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
