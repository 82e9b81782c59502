"""One self-contained page: tables, figures and a viewer inside, works offline, bounded in size."""

import base64
import hashlib
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from typing import Any

import pandas as pd
import torch
from jaxtyping import Float, UInt8
from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup
from torch import Tensor
from torch.nn.functional import max_pool2d

from attnlab.core import Column, shown
from attnlab.figures import FUNCTIONS, INK, OTHERS, STRUCTURES, Mark
from attnlab.results.export import cell, is_number


@dataclass(frozen=True)
class PageFigure:
    """A drawn figure: its `<svg>` element, the file it also stands in, and what it shows.

    One that a viewer shows better is left to readers without JavaScript: `fallback`.
    """

    name: str
    svg: str
    caption: str
    fallback: bool = False


@dataclass(frozen=True)
class PageTable:
    """A table ready to be shown: every cell is text; the caption says what tells it from others.

    Attributes:
        columns: what stands above.
        rows: text.
        caption: empty where the heading of the section will do.
        numeric: which columns are numbers, and aligned at the right.
    """

    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    caption: str = ""
    numeric: tuple[bool, ...] = ()


@dataclass(frozen=True)
class Section:
    """A heading with tables, a note below them, figures and a text; folded where readers open it."""

    anchor: str
    heading: str
    text: str
    tables: tuple[PageTable, ...] = ()
    figures: tuple[PageFigure, ...] = field(default_factory=tuple)
    folded: bool = False
    note: str = ""


@dataclass(frozen=True)
class Cell:
    """A head in a map.

    Attributes:
        head: its name.
        kind: what it is, a class of the style sheet with hyphens.
        style: filled, dashed, framed, partial or empty.
        short: in the cell.
        detail: below it, smaller.
        meaning: the whole, for a pointer and a reader of the screen.
        strength: of a role, from 0 to 1.
        mark: of a role; empty where it has none.
    """

    head: str
    kind: str
    style: str
    short: str
    detail: str
    meaning: str
    strength: float = 1.0
    mark: str = ""


@dataclass(frozen=True)
class HeadMap:
    """Layers by heads.

    Attributes:
        caption: what the map shows.
        heads: numbers of the columns.
        rows: name of a layer and its cells, None where it has no such head.
        kinds: class, name, letter, number of heads, and how many of these have a mark, such as `1 ✓`, of
            every kind, most heads first.
        styles: the styles that there are, and what they mean.
    """

    caption: str
    heads: range
    rows: tuple[tuple[str, tuple[Cell | None, ...]], ...]
    kinds: tuple[tuple[str, str, str, int, str], ...]
    styles: tuple[tuple[str, str], ...]

    @property
    def letters(self) -> dict[str, str]:
        """What narrow cells hold, by the class of their kind."""
        return {kind: letter for kind, _, letter, *_ in self.kinds}


@dataclass(frozen=True)
class Highlight:
    """A head that is worth a look, and why."""

    head: str
    reason: str
    phrase: str


@dataclass(frozen=True)
class Overview:
    """The first screen of the page.

    Attributes:
        maps: of the view that comes first.
        other_maps: of the other view of the keys, and what it is called.
        highlights: at most three heads.
        facts: of model, corpus and scores.
        answers: what was found, in a sentence.
        more: what else was found, a sentence each.
        words: the words of the maps, each with what it means.
        definitions: words of maps, figures and tables, each with what it means.
        steps: maps of which a slider shows one at a time, such as of several models.
    """

    maps: tuple[HeadMap, ...] = ()
    other_maps: tuple[tuple[str, tuple[HeadMap, ...]], ...] = ()
    highlights: tuple[Highlight, ...] = ()
    facts: Mapping[str, str] = field(default_factory=dict)
    answers: tuple[str, ...] = ()
    more: tuple[str, ...] = ()
    words: tuple[tuple[str, str], ...] = ()
    definitions: tuple[tuple[str, str], ...] = ()
    steps: tuple[HeadMap, ...] = ()


def page_table(frame: pd.DataFrame, columns: Sequence[Column], caption: str = "") -> PageTable:
    """These columns of a frame as text, rounded; a missing number is an empty cell."""
    chosen = frame[[column.name for column in columns]]
    return PageTable(
        tuple(columns),
        tuple(
            tuple(cell(value, of) for value, of in zip(row, columns, strict=True))
            for row in chosen.itertuples(index=False)
        ),
        caption,
        tuple(map(is_number, (chosen.iloc[:, index] for index in range(len(columns))))),
    )


LEVELS = 255
# Of vectors, on either side of 0.
_MOST_LEVEL = 127


@dataclass(frozen=True)
class EncodedWeights:
    """Weights of the heads of one layer and sentence as text.

    Attributes:
        text: base64 of the deflated bytes, one per weight, ordered by head, query and key.
        shape: heads, queries and keys.
        scale: what the largest byte stands for: 1, or the largest weight where that is more.
    """

    text: str
    shape: tuple[int, int, int]
    scale: float


@dataclass(frozen=True)
class Stored:
    """Weights as they stand in the page.

    Attributes:
        address: sentence, site and layer, after `weights.` or `small.`.
        encoded: the weights.
    """

    address: str
    encoded: EncodedWeights


@dataclass(frozen=True)
class StoredVectors:
    """Queries or keys of the heads of one layer and sentence as they stand in the page.

    Attributes:
        address: sentence, site and layer, after `queries.` or `keys.`.
        text: base64 of the deflated bytes, one per entry, ordered by head, token and dimension.
        shape: heads, tokens and dimensions.
        scales: by head, what a level stands for.
    """

    address: str
    text: str
    shape: tuple[int, int, int]
    scales: tuple[float, ...]


@dataclass(frozen=True)
class CutQueries:
    """A sentence of which only the first queries are kept at a site.

    Attributes:
        sentence: its number.
        site: in words.
        queries: how many are kept.
        all_queries: how many there are.
    """

    sentence: int
    site: str
    queries: int
    all_queries: int


@dataclass(frozen=True)
class ViewerData:
    """What the viewer reads.

    Attributes:
        facts: JSON that may stand within a script element.
        heads: names of the heads.
        weights: of every sentence, site and layer, and small pictures of long sentences.
        blocks: tokens per entry along each side, of the sentences too large to be stored whole.
        left_out: sentences for which there was no room.
        largest_kept: rows whose largest weight is still the largest, and all rows.
        cut: what is kept of sentences that are too large to be kept whole.
        analyzed: whether more is known of the heads than their matrices.
        vectors: queries and keys.
        without_vectors: why there are none, in words; empty where nobody asks.
    """

    facts: str
    heads: tuple[str, ...]
    weights: tuple[Stored, ...]
    blocks: dict[int, int]
    left_out: tuple[int, ...]
    largest_kept: tuple[int, int]
    cut: tuple[CutQueries, ...] = ()
    analyzed: bool = True
    vectors: tuple[StoredVectors, ...] = ()
    without_vectors: str = ""


def encode_weights(weights: Float[Tensor, "head query key"]) -> EncodedWeights:
    """Each weight as the nearest of 256 levels of its square root.

    The square root of a weight is off by at most half a level, 1/510 of the square root of `scale`; a
    weight by at most twice that share of `scale` and 1/510 squared.
    """
    scale = max(1.0, float(weights.max()) if weights.numel() else 1.0)
    # The highest level takes four times as long for 1 % less.
    deflated = zlib.compress(quantised(weights, scale).numpy().tobytes(), 6)
    heads, queries, keys = weights.shape
    return EncodedWeights(base64.b64encode(deflated).decode(), (heads, queries, keys), scale)


def stored_vectors(address: str, vectors: Float[Tensor, "head token dim"]) -> StoredVectors:
    """Each entry as the nearest of 255 levels, the largest of which is the largest entry of the head.

    It is off by at most half a level, 1/254 of that entry.
    """
    largest = vectors.abs().amax((1, 2)).clamp_min(torch.finfo(vectors.dtype).tiny)
    levels = (vectors / largest[:, None, None] * _MOST_LEVEL).round().to(torch.int8)
    # They are noise to a compressor: more effort saves nothing.
    text = base64.b64encode(zlib.compress(levels.contiguous().numpy().tobytes(), 1)).decode()
    scales = tuple(float(f"{scale:.7g}") for scale in (largest / _MOST_LEVEL).tolist())
    heads, tokens, dim = vectors.shape
    return StoredVectors(address, text, (heads, tokens, dim), scales)


def quantised(
    weights: Float[Tensor, "head query key"], scale: float
) -> UInt8[Tensor, "head query key"]:
    """The level of each weight, 0 to 255; what lies below 0 is 0."""
    roots = (weights.double() / scale).clamp(0, 1).sqrt()
    return (roots * LEVELS).round().to(torch.uint8).contiguous()


def block_maxima(
    weights: Float[Tensor, "head query key"], block: int
) -> Float[Tensor, "head query_block key_block"]:
    """The largest weight of each square of `block` queries and keys; squares at the end may be cut."""
    return max_pool2d(weights.float(), block, block, ceil_mode=True) if block > 1 else weights


def rows_keeping_largest(weights: Float[Tensor, "head query key"]) -> tuple[int, int]:
    """In how many rows the largest level is that of the largest weight, and how many rows there are."""
    levels = quantised(weights, max(1.0, float(weights.max())))
    kept = levels.argmax(-1) == weights.argmax(-1)
    return int(kept.sum()), kept.numel()


MOST_PAGE_BYTES = 4 * 2**20
# Of a light page and of a dark one.
BACKGROUNDS = ("#ffffff", "#14171b")
# In the order in which they need each other.
SCRIPTS = (
    "matrix",
    "weights",
    "colours",
    "elements",
    "address",
    "theme",
    "canvas",
    "lines",
    "overlay",
    "neurons",
    "grid",
    "budget",
    "head_matrix",
    "evidence",
    "tables",
    "links",
    "steps",
    "saving",
    "keyboard",
    "picker",
    "head_view",
    "main",
)
_IMPORT = re.compile(r"^import [^;]*;\n", re.MULTILINE)
_EXPORT = re.compile(r"^export ", re.MULTILINE)


@cache
def _template() -> Template:
    environment = Environment(
        loader=PackageLoader("attnlab.results.page", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_visible,
    )
    return environment.get_template("report.html.j2")


def render_page(
    title: str,
    about: Mapping[str, str],
    notes: Sequence[str],
    sections: Sequence[Section],
    *,
    overview: Overview | None = None,
    viewer: ViewerData | None = None,
    start: str = "",
    most_bytes: int = MOST_PAGE_BYTES,
) -> str:
    """The page as HTML; figures that would take it over `most_bytes` are left out and named.

    Figures are drawn in one ink; here it becomes the colour of the page's text. The weights of
    `viewer` have limits of their own and do not count.

    Args:
        title: of the page.
        about: what was studied, in words.
        notes: what a reader must know before trusting a number.
        sections: tables and figures, in their order.
        overview: the first screen.
        viewer: what the interactive part shows.
        start: what it shows first where the page has no address of its own, as behind # in one.
        most_bytes: of figures, tables and text.
    """
    kept, left_out = _within(sections, most_bytes)
    return _template().render(
        title=title,
        about=about,
        notes=notes,
        sections=kept,
        left_out=left_out,
        overview=overview,
        viewer=viewer,
        start=start,
        addressed=_first_with_heads(kept),
        style=Markup(f"{_read('page.css')}\n{kind_styles()}"),  # noqa: S704 - of this package
        script=Markup(bundled_script()),  # noqa: S704 - likewise
        script_hash=_hash(bundled_script()),
        budget=f"{most_bytes / 2**20:g} MiB",
    )


@cache
def bundled_script() -> str:
    """All modules of viewer/ as one script, without the lines that join them."""
    modules = (_read(f"{name}.js") for name in SCRIPTS)
    return "\n".join(_EXPORT.sub("", _IMPORT.sub("", module)) for module in modules)


@cache
def kind_styles() -> str:
    """The colours of labels and families as rules of the page: those of the figures."""
    marks = {**STRUCTURES, **FUNCTIONS}
    rules = [_rule(".cell, .swatch", Mark(OTHERS[0]))]
    rules += [
        _rule(f".k-{name.replace('_', '-').replace(' ', '-')}", mark)
        for name, mark in marks.items()
    ]
    return "\n".join(rules)


def _rule(selector: str, mark: Mark) -> str:
    light, dark = (mark.edge(background) for background in BACKGROUNDS)
    return (
        f"{selector} {{ --kind: {mark.colour}; --on-kind: {mark.ink}; "
        f"--edge: light-dark({light}, {dark}); }}"
    )


@cache
def _read(name: str) -> str:
    return files("attnlab.results.page").joinpath("viewer", name).read_text(encoding="utf-8")


def _hash(script: str) -> str:
    """What a browser compares an inline script with before it runs it."""
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _visible(value: Any) -> Any:
    """Text of ours or of a user without characters that HTML forbids or that disturb its lines."""
    return shown(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _first_with_heads(sections: Sequence[Section]) -> PageTable | None:
    """The table whose rows links to heads lead to where there is no JavaScript: a row per head."""
    tables = (table for section in sections for table in section.tables)
    return next((table for table in tables if table.columns[0].name == "head_name"), None)


def _within(sections: Sequence[Section], most_bytes: int) -> tuple[list[Section], list[str]]:
    # Tables and text come first: what is left is for figures.
    room = most_bytes - 2**15 - sum(len(repr(section.tables)) * 2 for section in sections)
    kept: list[Section] = []
    left_out = []
    for section in sections:
        figures = []
        for figure in section.figures:
            size = len(figure.svg.encode())
            if size > room:
                left_out.append(figure.name)
                continue
            room -= size
            # The SVG comes from matplotlib, which escapes the text it is given.
            themed = Markup(figure.svg.replace(INK, "currentColor"))  # noqa: S704
            figures.append(replace(figure, svg=themed))
        kept.append(replace(section, figures=tuple(figures)))
    return kept, left_out
