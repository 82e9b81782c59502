"""Figures without any global state: a canvas in inches, and its SVG, PDF and PNG forms."""

import functools
import io
import re
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_pdf import FigureCanvasPdf
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure

from attnlab.core import InputError, check_value, replacing

# Text and lines are drawn in this colour; a page that has its own puts it instead of this one.
INK = "#1c2127"
# The square root of a weight, so that 0.05 can be told from 0; one scale for all heads and figures.
WEIGHTS = PowerNorm(0.5, vmin=0.0, vmax=1.0)
# Dots per inch of pictures of dots, where nothing else is said.
DPI, _MOST_DPI = 200, 2400
_STYLE = Path(__file__).parent / "attnlab.mplstyle"
# An address of the page, such as that of a head, is no identifier of the figure.
_ID = re.compile(r'\b(id="|xlink:href="#(?!head=)|url\(#)')
_TAG = re.compile(r"<[^<>]+>")
# Matplotlib's own have no hyphen; those that a page refers to have.
_NAME, _NAMED = re.compile(r' id="([\w.]+)"'), re.compile(r"#([\w.-]+)")
# Scales below 1 keep their digits.
_LONG_NUMBER = re.compile(r"\b[1-9]\d*\.\d{3,}")
# Matplotlib has a window opened for every link.
_OPENED = re.compile(r'(<a xlink:href="#[^"]*") target="_blank"')
_XML = '<?xml version="1.0" encoding="utf-8"?>\n'
# The settings that are read only when a figure is written.
_WRITTEN = ("svg.fonttype", "pdf.fonttype", "text.parse_math")


@functools.cache
def _settings() -> Any:
    # Any: the names of settings are literals to type checkers.
    return mpl.rc_params_from_file(_STYLE, use_default_template=False)


@contextmanager
def style() -> Iterator[None]:
    """The settings of `attnlab.mplstyle`, while a figure is drawn; matplotlib's own come back."""
    with mpl.rc_context(_settings()):
        yield


def colour(index: int) -> str:
    """A colour of the style's cycle; said at once, since names such as `C0` are read when written."""
    colours: list[str] = _settings()["axes.prop_cycle"].by_key()["color"]
    return f"#{colours[index % len(colours)].removeprefix('#')}"


class PaperFigure(Figure):
    """A figure that a notebook shows without pyplot."""

    def _repr_png_(self) -> bytes:
        with io.BytesIO() as file:
            _write_png(self, file, "")
            return file.getvalue()


def blank(width: float, height: float) -> Figure:
    """An empty figure of that size in inches.

    Raises:
        InputError: the width is no number above 0, or leaves no height.
    """
    check_value("width", width, float, above=0)
    _check_room(width, height)
    return PaperFigure(figsize=(width, height), dpi=DPI)


def _check_room(whole: float, *sizes: float) -> None:
    """Raises InputError where a figure of that width has no room for what is drawn."""
    if min(sizes) <= 0:
        msg = (
            f"width is {whole:g} inches, which leaves no room for what is drawn; give a larger one."
        )
        raise InputError(msg)


def panel(figure: Figure, left: float, top: float, width: float, height: float) -> Axes:
    """Axes at a position in inches from the left and the top of the figure.

    Raises:
        InputError: the figure is too narrow for them.
    """
    whole_width, whole_height = figure.get_size_inches()
    _check_room(whole_width, width, height)
    return figure.add_axes(
        (
            left / whole_width,
            1 - (top + height) / whole_height,
            width / whole_width,
            height / whole_height,
        )
    )


def text_width(texts: Iterable[str], size: float) -> float:
    """Inches of the widest of some texts in the style's font at a size in points."""
    with style(), _drawing({}):
        figure = blank(1.0, 1.0)
        renderer = FigureCanvasAgg(figure).get_renderer()
        drawn = [figure.text(0, 0, text, fontsize=size) for text in dict.fromkeys(texts)]
        widths = [text.get_window_extent(renderer).width for text in drawn]
    return float(max(widths, default=0.0)) / figure.dpi


def svg(figure: Figure, name: str) -> str:
    """The figure as an `<svg>` element; `name` keeps its identifiers apart from other figures'.

    Matplotlib's identifiers that nothing refers to are left out; coordinates have two decimals of a point.
    """
    text, dpi = io.StringIO(), figure.dpi
    with _drawing({"svg.hashsalt": name}):
        FigureCanvasSVG(figure).print_svg(text, metadata={"Date": None, "Creator": "attnlab"})
    # It sets 72, with which a picture of dots would be drawn afterwards.
    figure.dpi = dpi
    whole = text.getvalue()
    within = _OPENED.sub(r"\g<1>", whole[whole.index("<svg") :])
    named = set(_NAMED.findall(within))
    short = _TAG.sub(lambda tag: _shortened(tag[0], named), within)
    return _ID.sub(rf"\g<1>{name}-", short)


def _shortened(tag: str, named: set[str]) -> str:
    """A tag without matplotlib's identifier unless it is `named`, its coordinates with two decimals."""
    tag = _NAME.sub(lambda match: match[0] if match[1] in named else "", tag)
    return _LONG_NUMBER.sub(lambda match: f"{float(match[0]):.2f}", tag)


def save_figure(figure: Figure, path: str | Path, *, dpi: int = DPI) -> Path:
    """Writes a figure as `.svg`, `.pdf` or `.png` (white background), by its suffix.

    The same figure gives the same bytes, whenever it is written.

    Args:
        figure: what a function of `attnlab.plot` returns.
        path: of the file.
        dpi: dots per inch of a `.png`.

    Raises:
        InputError: the suffix is another, it is no figure, or there cannot be so many dots.
        AttnlabError: the file could not be written.
    """
    path = Path(path)
    check_suffix(path)
    _check_figure(figure)
    check_value("dpi", dpi, least=1, most=_MOST_DPI)
    before, figure.dpi = figure.dpi, dpi
    try:
        with replacing(path) as temporary, temporary.open("wb") as file:
            WRITERS[path.suffix](figure, file, path.stem)
    finally:
        figure.dpi = before
    return path


def _check_figure(figure: Any) -> None:
    if not isinstance(figure, Figure):
        msg = (
            f"A figure is written and not an object of the class {type(figure).__name__}; give what a "
            "function of attnlab.plot returns."
        )
        raise InputError(msg)


def check_suffix(path: str | Path) -> None:
    """Raises InputError for a file that is no figure by its suffix."""
    path = Path(path)
    if path.suffix not in WRITERS:
        msg = f"{path} must end in {', '.join(WRITERS)}; '{path.suffix}' cannot be written."
        raise InputError(msg)


def _write_svg(figure: Figure, file: BinaryIO, name: str) -> None:
    file.write(f"{_XML}{svg(figure, name)}".encode())


def _write_pdf(figure: Figure, file: BinaryIO, _: str) -> None:
    with _drawing({}):
        FigureCanvasPdf(figure).print_pdf(file, metadata={"CreationDate": None})


def _write_png(figure: Figure, file: BinaryIO | io.BytesIO, _: str) -> None:
    colour = figure.get_facecolor()
    figure.set_facecolor("white")
    with _drawing({}):
        FigureCanvasAgg(figure).print_png(file, metadata={"Software": "attnlab"})
    figure.set_facecolor(colour)


WRITERS = {".svg": _write_svg, ".pdf": _write_pdf, ".png": _write_png}


def write_figure(figure: Figure, folder: str | Path, name: str) -> str:
    """Writes `name.svg` and `name.png` (white background); returns the `<svg>`."""
    folder = Path(folder)
    element = svg(figure, name)
    with replacing(folder / f"{name}.svg") as temporary:
        temporary.write_text(f"{_XML}{element}", encoding="utf-8")
    save_figure(figure, folder / f"{name}.png")
    return element


@contextmanager
def _drawing(settings: dict[str, str]) -> Iterator[None]:
    """While a figure is written: its ticks, which are made only now, read the settings of texts too."""
    kept: dict[Any, Any] = {name: _settings()[name] for name in _WRITTEN}
    with mpl.rc_context(kept | settings), warnings.catch_warnings():
        # A letter that the font does not have is drawn as a box in the picture; the text is there.
        warnings.filterwarnings("ignore", message=r"Glyph .* missing from")
        yield
