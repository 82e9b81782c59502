"""The viewer of the report page in the cell of a notebook."""

from dataclasses import dataclass

from markupsafe import Markup

from attnlab.core.addresses import Head
from attnlab.core.errors import InputError
from attnlab.reporting.naming import head_names
from attnlab.reporting.page.rendering import render_page
from attnlab.reporting.page.viewer_data import viewer_data
from attnlab.studies.analysis.measuring import Analysis


@dataclass(frozen=True)
class HeadViewer:
    """A page of heads that a notebook shows in a frame.

    Attributes:
        page: as HTML; it needs nothing else.
        shown: the name of the head that it opens with, or none.
        height: of the frame, in pixels.
    """

    page: str
    shown: str | None
    height: int

    def __repr__(self) -> str:
        what = self.shown or "all heads"
        return f"HeadViewer({what}, {len(self.page) / 2**20:.1f} MiB)"

    def _repr_html_(self) -> str:
        frame = Markup(
            '<iframe srcdoc="{}" sandbox="allow-scripts allow-downloads" title="Attention heads" '
            'style="width:100%;height:{}px;border:0"></iframe>'
        )
        return str(frame.format(self.page, self.height))


def view(
    analysis: Analysis, head: str | Head | None = None, *, sentence: int = 0, height: int = 820
) -> HeadViewer:
    """The heads of an analysis as its report page shows them, for the cell of a notebook.

    Args:
        analysis: with matrices that were kept.
        head: the one to begin with, such as `encoder.0.3`; without it all of them.
        sentence: number of a sentence whose matrices were kept, from 0.
        height: of the frame, in pixels.

    Raises:
        InputError: no matrices were kept, or there is no such head or sentence.
    """
    kept = sorted({number for number, _ in analysis.matrices.tokens})
    if not kept:
        msg = "No matrices were kept; analyze with keep_matrices of at least 1."
        raise InputError(msg)
    if sentence not in kept:
        numbers = ", ".join(map(str, kept))
        msg = f"The matrices of sentence {sentence} were not kept; choose from: {numbers}."
        raise InputError(msg)
    name = None if head is None else str(head)
    names = head_names(analysis.heads)
    if name is not None and name not in names:
        msg = f"There is no head {name}; choose from: {', '.join(names)}."
        raise InputError(msg)
    shown = viewer_data(analysis, "Attention heads")
    if shown is None or sentence in shown.left_out:
        msg = f"Sentence {sentence} is too long for a page; choose a shorter one, or analyze fewer."
        raise InputError(msg)
    start = "" if name is None else f"head={name}&"
    page = render_page(
        "Attention heads", analysis.about, [], [],
        viewer=shown, start=f"#{start}sentence={sentence}",
    )  # fmt: skip
    return HeadViewer(page, name, height)
