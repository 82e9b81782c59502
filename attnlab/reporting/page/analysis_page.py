"""The page of an analysis: its sections, made of tables and kept matrices."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from attnlab.core.addresses import Head, Site
from attnlab.reading.keeping import KeptMatrices
from attnlab.reading.statistics_columns import HEADS
from attnlab.reading.weights import ALL, CONTENT, VIEWS
from attnlab.reporting.canvas import write_figure
from attnlab.reporting.columns import columns_named
from attnlab.reporting.figures import figures_of
from attnlab.reporting.heads_shown import heads_shown
from attnlab.reporting.heatmaps import draw_heads
from attnlab.reporting.naming import SITE_NAMES, VIEW_NAMES, head_names, titled_heads
from attnlab.reporting.notes import describe_notes
from attnlab.reporting.page.fit_sections import fit_sections
from attnlab.reporting.page.label_section import label_sections
from attnlab.reporting.page.overview import overview_of
from attnlab.reporting.page.parts import PageFigure, PageTable, Section, page_table
from attnlab.reporting.page.rendering import render_page
from attnlab.reporting.page.viewer_data import viewer_data
from attnlab.studies.analysis.measuring import Analysis

MOST_TOKENS_DRAWN = 80
_VIEW_COLUMNS = {
    ALL: (
        "entropy_nats",
        "normalised_entropy",
        "confidence",
        "mass_on_punctuation",
        "mass_on_special",
        "mass_on_opening",
        "mass_on_closing",
        "js_distance_to_others",
    ),
    CONTENT: (
        "content_entropy_nats",
        "content_normalised_entropy",
        "content_confidence",
        "content_mass_on_punctuation",
        "mean_offset",
        "mean_absolute_offset",
    ),
}
# A share is a mean over the rows that could attend to such a token: said where they are fewer.
_FEWER_ROWS = tuple(
    f"rows_seeing_{name}" for name in ("special", "opening", "closing", "punctuation")
)


def analysis_page(
    analysis: Analysis,
    figures: str | Path,
    *,
    title: str,
    progress: Callable[[str, int, int], None] | None = None,
) -> str:
    """The page of an analysis as HTML; its figures are written into the folder `figures` too.

    Raises:
        AttnlabError: a figure could not be written.
    """
    figures = Path(figures)
    sections = [
        _summary_section(analysis),
        *label_sections(analysis.labelling),
        _heads_section(analysis, figures),
        *fit_sections(analysis, figures),
        *_matrices_section(analysis, figures, progress),
    ]
    return render_page(
        title,
        analysis.about,
        describe_notes(analysis.notes),
        sections,
        overview=overview_of(analysis),
        viewer=viewer_data(analysis, title),
        start=_start(analysis.matrices),
    )


def _start(kept: KeptMatrices) -> str:
    """The address of the first chosen sentence, which the page then begins with."""
    return f"#sentence={kept.sentences[0]}" if kept.chosen else ""


def _summary_section(analysis: Analysis) -> Section:
    table, columns = heads_shown(analysis.summary)
    return Section(
        "summary",
        "Every head in one table",
        "The closest role of each head with its strength and figure, the family of its matrices, and "
        "what is lost without it. Point at a heading for its meaning.",
        (page_table(table, columns),),
    )


def _heads_section(analysis: Analysis, figures: Path) -> Section:
    return Section(
        "heads",
        "Attention statistics of each head",
        "Means over all sentences. A token is what the tokenizer makes, which may be a part of a "
        "word. Rows of special tokens and padding are not counted.",
        _statistics_tables(analysis),
        figures_of("heads", analysis, figures),
    )


def _statistics_tables(analysis: Analysis) -> tuple[PageTable, ...]:
    """A table per view of the keys, and one of the rows that were counted; each fits a window."""
    heads = analysis.heads
    named = heads.assign(head_name=head_names(heads))
    views = [*analysis.views, *(keys for keys in VIEWS if keys not in analysis.views)]
    counts = ["rows"]
    counts += [n for n in ("empty_rows", "rows_without_content_mass") if heads[n].any()]
    counts += [n for n in _FEWER_ROWS if ((heads[n] < heads["rows"]) & (heads[n] > 0)).any()]
    columns = {VIEW_NAMES[keys]: _VIEW_COLUMNS[keys] for keys in views}
    columns["counted rows"] = tuple(counts)
    return tuple(
        page_table(named, columns_named(["head_name", *known], HEADS.columns), caption)
        for caption, wanted in columns.items()
        if (known := [name for name in wanted if named[name].notna().any()])
    )


@dataclass(frozen=True)
class NotDrawn:
    """A kept sentence whose matrices at a site are too large for a figure.

    Attributes:
        sentence: its number, from 0.
        site: encoder, decoder or cross.
        tokens: how many tokens the longer side has.
        limit: how many there may be.
    """

    sentence: int
    site: Site
    tokens: int
    limit: int


def not_drawn(kept: KeptMatrices, limit: int = MOST_TOKENS_DRAWN) -> tuple[NotDrawn, ...]:
    """What is kept but too large to be drawn, in order of sentence."""
    longest = {at: max(len(side) for side in sides) for at, sides in kept.tokens.items()}
    return tuple(
        NotDrawn(sentence, site, tokens, limit)
        for (sentence, site), tokens in longest.items()
        if tokens > limit
    )


def _matrices_section(
    analysis: Analysis, figures: Path, progress: Callable[[str, int, int], None] | None
) -> list[Section]:
    kept = analysis.matrices
    if not kept.matrices:
        return []
    left_out = not_drawn(kept)
    titles = titled_heads(analysis.summary)
    too_large = {(one.sentence, one.site) for one in left_out}
    drawn = []
    for done, ((number, site, layer), weights) in enumerate(kept.matrices.items()):
        queries, keys = kept.tokens[number, site]
        name = f"heads_sentence{number}_{site}_layer{layer}"
        if (number, site) not in too_large:
            figure = draw_heads(
                weights,
                queries,
                keys,
                title=f"Sentence {number}, {site} layer {layer}",
                names=[titles[Head(site, layer, head)] for head in range(len(weights))],
            )
            caption = f"Sentence {number}, {SITE_NAMES[site]}, layer {layer}."
            drawn.append(PageFigure(name, write_figure(figure, figures, name), caption, True))
        if progress is not None:
            progress("Drawing figures", done + 1, len(kept.matrices))
    where = "the figures in figures/ as SVG and PNG" if drawn else "no figure is drawn"
    return [
        Section(
            "matrices",
            "The kept sentences, matrix by matrix",
            "Rows are queries, columns are keys. The matrices are "
            f"in matrices.safetensors, {where}.{''.join(map(_said, left_out))}",
            figures=tuple(drawn),
        )
    ]


def _said(one: NotDrawn) -> str:
    return (
        f" Not drawn: sentence {one.sentence} of the {one.site}, since it has {one.tokens} tokens "
        f"and at most {one.limit} are drawn."
    )
