"""Maps of layers by heads: which cells there are, and a legend of those that occur."""

from collections import Counter
from collections.abc import Iterable, Mapping

from attnlab.core import layer_name
from attnlab.figures import marks_of_names
from attnlab.results.export import family_words
from attnlab.results.page.rendering import Cell, HeadMap


def style_class(kind: str) -> str:
    """The class of a kind in the style sheet."""
    return kind.replace(" + ", "-").replace(" ", "-")


def head_map(caption: str, cells: Iterable[tuple[Cell, str]], styles: Mapping[str, str]) -> HeadMap:
    """The map of heads with what each is, which names its colour.

    Args:
        caption: what the map shows.
        cells: of the heads, each with what it is.
        styles: what each style of a cell means.
    """
    cells = list(cells)
    layers: dict[str, dict[int, Cell]] = {}
    for cell, _ in cells:
        site, layer, head = cell.head.rsplit(".", 2)
        layers.setdefault(layer_name(site, int(layer)), {})[int(head)] = cell
    heads = range(1 + max((max(row) for row in layers.values()), default=-1))
    counts = Counter(kind for _, kind in cells)
    letters = marks_of_names(counts)
    marks = Counter((kind, cell.mark) for cell, kind in cells if cell.mark)
    used = {cell.style for cell, _ in cells}
    return HeadMap(
        caption,
        heads,
        tuple(
            (name.replace(".", " "), tuple(row.get(head) for head in heads))
            for name, row in layers.items()
        ),
        tuple(
            (
                style_class(family_words(kind)),
                family_words(kind),
                letters[kind].letter,
                count,
                _marked(kind, marks),
            )
            for kind, count in counts.most_common()
        ),
        tuple((style, meaning) for style, meaning in styles.items() if style in used),
    )


def _marked(kind: str, marks: Mapping[tuple[str, str], int]) -> str:
    """How many heads of this kind have a mark, such as `2 ✓`; empty where none has."""
    return ", ".join(f"{count} {mark}" for (name, mark), count in marks.items() if name == kind)
