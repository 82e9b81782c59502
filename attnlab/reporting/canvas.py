"""Figures without any global state: a canvas in inches, and its SVG and PNG forms."""

import io
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib as mpl
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure

from attnlab.files import replacing

# Text and lines are drawn in this colour; a page that has its own puts it instead of this one.
INK = "#1c2127"
FONTS = ["DejaVu Sans", "Verdana", "Arial", "sans-serif"]
# The square root of a weight, so that 0.05 can be told from 0; one scale for all heads and figures.
WEIGHTS = PowerNorm(0.5, vmin=0.0, vmax=1.0)
_ID = re.compile(r'\b(id="|xlink:href="#|url\(#)')


_TEXT: dict[Any, Any] = {
    # Text stays text: it can be searched and copied, and files are small.
    "svg.fonttype": "none",
    # A dollar sign in a token begins no formula.
    "text.parse_math": False,
}


@contextmanager
def style() -> Iterator[None]:
    """Seaborn's ticks in attnlab's ink, while a figure is drawn; matplotlib's settings come back."""
    settings = (
        sns.axes_style("ticks")
        | {
            "font.family": "sans-serif",
            "font.sans-serif": FONTS,
            "font.size": 9,
            "text.color": INK,
            "axes.edgecolor": INK,
            "axes.labelcolor": INK,
            "axes.titlesize": 10,
            "xtick.color": INK,
            "ytick.color": INK,
            "axes.facecolor": "none",
            "figure.facecolor": "none",
        }
        | _TEXT
    )
    with mpl.rc_context(settings):
        yield


def blank(width: float, height: float) -> Figure:
    """An empty figure of that size in inches."""
    return Figure(figsize=(width, height), dpi=150)


def panel(figure: Figure, left: float, top: float, width: float, height: float) -> Axes:
    """Axes at a position in inches from the left and the top of the figure."""
    whole_width, whole_height = figure.get_size_inches()
    return figure.add_axes(
        (
            left / whole_width,
            1 - (top + height) / whole_height,
            width / whole_width,
            height / whole_height,
        )
    )


def svg(figure: Figure, name: str) -> str:
    """The figure as an `<svg>` element; `name` keeps its identifiers apart from other figures'."""
    text = io.StringIO()
    with _drawing({"svg.hashsalt": name}):
        FigureCanvasSVG(figure).print_svg(text, metadata={"Date": None, "Creator": "attnlab"})
    whole = text.getvalue()
    return _ID.sub(rf"\g<1>{name}-", whole[whole.index("<svg") :])


def write_figure(figure: Figure, folder: str | Path, name: str) -> str:
    """Writes `name.svg` and `name.png` (white background, 150 dots an inch); returns the `<svg>`."""
    folder = Path(folder)
    element = svg(figure, name)
    header = '<?xml version="1.0" encoding="utf-8"?>\n'
    with replacing(folder / f"{name}.svg") as temporary:
        temporary.write_text(header + element, encoding="utf-8")
    figure.set_facecolor("white")
    png = folder / f"{name}.png"
    with replacing(png) as temporary, temporary.open("wb") as file, _drawing({}):
        FigureCanvasAgg(figure).print_png(file, metadata={"Software": "attnlab"})
    return element


@contextmanager
def _drawing(settings: dict[str, str]) -> Iterator[None]:
    """While a figure is written: its ticks, which are made only now, read the settings of texts too."""
    with mpl.rc_context(_TEXT | settings), warnings.catch_warnings():
        # A letter that the font does not have is drawn as a box in the picture; the text is there.
        warnings.filterwarnings("ignore", message=r"Glyph .* missing from")
        yield
