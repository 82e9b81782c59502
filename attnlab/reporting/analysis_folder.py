"""Writes an analysis: tables, kept matrices, figures and the report page."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from attnlab.addresses import HEAD_COLUMNS, Head, Site
from attnlab.extraction.columns import DISTANCES, HEADS
from attnlab.extraction.keeping import KeptMatrices
from attnlab.extraction.views import ALL, CONTENT
from attnlab.files import write_table, write_text
from attnlab.reporting.canvas import write_figure
from attnlab.reporting.columns import columns_named
from attnlab.reporting.figures import DRAWN, figures_of
from attnlab.reporting.fit_sections import fit_sections
from attnlab.reporting.heatmaps import draw_heads
from attnlab.reporting.label_section import label_sections
from attnlab.reporting.naming import head_names, titled_heads
from attnlab.reporting.notes import describe_notes
from attnlab.reporting.overview import overview_of
from attnlab.reporting.page import PageFigure, Section, page_table, render_page
from attnlab.reporting.result_folder import ANALYSIS
from attnlab.reporting.viewer_data import SITES, viewer_data
from attnlab.studies.analysis.columns import FITS, SUMMARY
from attnlab.studies.analysis.measuring import Analysis

_FIGURES = (*(figure.name for figure in DRAWN), "heads_sentence*")
MOST_TOKENS_DRAWN = 80
_VIEW_COLUMNS = {
    ALL: ("entropy_nats", "normalised_entropy", "confidence", "mass_on_punctuation"),
    CONTENT: (
        "content_entropy_nats",
        "content_normalised_entropy",
        "content_confidence",
        "content_mass_on_punctuation",
    ),
}
_OTHER_COLUMNS = (
    "mean_offset",
    "mean_absolute_offset",
    "mass_on_special",
    "mass_on_opening",
    "mass_on_closing",
    "js_distance_to_others",
    "rows",
)
_FEWER_ROWS = tuple(
    f"rows_seeing_{name}" for name in ("special", "opening", "closing", "punctuation")
)


def write_analysis(
    analysis: Analysis,
    folder: str | Path,
    *,
    title: str,
    progress: Callable[[str, int, int], None] | None = None,
) -> Path:
    """Writes tables, matrices, figures and the page into `folder`; returns the path of the page.

    The files are `summary.csv`, `heads.csv`, `head_distances.csv`, `fits.csv`, `structure.csv`,
    `matrices.safetensors`, `figures/` and, last, `report.html`; where heads were labelled also
    `labels.csv`, `relations.csv`, `controls.csv` and `agreement.csv`.

    An older analysis in the folder is replaced: its page goes first, so that a folder with a page
    is always one whole analysis. Of `figures/` only the figures of that analysis are deleted.

    Raises:
        AttnlabError: something could not be written.
    """
    folder = Path(folder)
    _remove_older(folder)
    write_tables(analysis, folder)
    analysis.matrices.write(folder / "matrices.safetensors")
    sections = [
        _summary_section(analysis),
        *label_sections(analysis.labelling),
        _heads_section(analysis, folder / "figures"),
        *fit_sections(analysis, folder / "figures"),
        *_matrices_section(analysis, folder / "figures", progress),
    ]
    notes = describe_notes(analysis.notes)
    page = render_page(
        title,
        analysis.about,
        notes,
        sections,
        overview=overview_of(analysis),
        viewer=viewer_data(analysis, title),
    )
    write_text(folder / ANALYSIS.last, page)
    return folder / ANALYSIS.last


def _remove_older(folder: Path) -> None:
    """Deletes the page and the figures of an analysis; where there is none, nothing."""
    if not _holds_analysis(folder):
        return
    (folder / ANALYSIS.last).unlink(missing_ok=True)
    for name in _FIGURES:
        for kind in ("svg", "png"):
            for figure in (folder / "figures").glob(f"{name}.{kind}"):
                figure.unlink()


def _holds_analysis(folder: Path) -> bool:
    """Whether an analysis stands here; one that was broken off has its first tables but no page."""
    first = (HEADS.file, DISTANCES.file, FITS.file)
    return (folder / ANALYSIS.last).exists() or all((folder / name).exists() for name in first)


def write_tables(analysis: Analysis, folder: str | Path) -> None:
    """Writes every table as a .csv file named after it.

    Raises:
        AttnlabError: something could not be written.
    """
    folder = Path(folder)
    write_table(folder / SUMMARY.file, analysis.summary)
    write_table(folder / HEADS.file, analysis.heads)
    write_table(folder / DISTANCES.file, analysis.distances)
    write_table(folder / FITS.file, analysis.fits)
    _write_labels(analysis, folder)


def _write_labels(analysis: Analysis, folder: Path) -> None:
    """Structure and labels; a table that there is not now is not left from an older analysis."""
    found = analysis.labelling
    labels = ("labels", "relations", "controls", "agreement")
    tables = {name: None if found is None else getattr(found, name) for name in labels}
    for name, table in (tables | {"structure": analysis.structure}).items():
        if table is None or table.empty:
            (folder / f"{name}.csv").unlink(missing_ok=True)
        else:
            write_table(folder / f"{name}.csv", table)


def _summary_section(analysis: Analysis) -> Section:
    found = analysis.summary
    names = [column.name for column in SUMMARY.columns if column.name in found]
    shown = ["head_name", *(name for name in names if name not in (*HEAD_COLUMNS, "zero_relative"))]
    return Section(
        "summary",
        "Every head in one table",
        "What stands beside the controls, what the matrices look like, the nearest family of "
        "structured matrices beside equal weights (a matrix of zeros has distance 1), and what is "
        "lost without the head. Point at a heading for its meaning.",
        (
            page_table(
                found.assign(head_name=head_names(found)), columns_named(shown, SUMMARY.columns)
            ),
        ),
    )


def _heads_section(analysis: Analysis, figures: Path) -> Section:
    heads = analysis.heads
    named = heads.assign(head_name=head_names(heads))
    first, *others = (_VIEW_COLUMNS[keys] for keys in analysis.views)
    wanted = ("head_name", *first, *_OTHER_COLUMNS, *(name for view in others for name in view))
    columns = [name for name in wanted if named[name].notna().any()]
    columns += [n for n in ("empty_rows", "rows_without_content_mass") if heads[n].any()]
    # A share is a mean over the rows that could see such a token: said where they are fewer.
    columns += [n for n in _FEWER_ROWS if ((heads[n] < heads["rows"]) & (heads[n] > 0)).any()]
    return Section(
        "heads",
        "What each head looks at",
        "Means over all sentences. A token is what the tokenizer makes, which may be a part of a "
        "word. Special tokens and padding are not counted as tokens that look.",
        (page_table(named, columns_named(columns, HEADS.columns)),),
        figures_of("heads", analysis, figures),
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
            caption = f"Sentence {number}, {SITES[site]}, layer {layer}."
            drawn.append(PageFigure(name, write_figure(figure, figures, name), caption, True))
        if progress is not None:
            progress("Drawing figures", done + 1, len(kept.matrices))
    where = "the figures in figures/ as SVG and PNG" if drawn else "no figure is drawn"
    return [
        Section(
            "matrices",
            "The first sentences, matrix by matrix",
            "A row is the token that looks, a column the token that is looked at. The matrices are "
            f"in matrices.safetensors, {where}.{''.join(map(_said, left_out))}",
            figures=tuple(drawn),
        )
    ]


def _said(one: NotDrawn) -> str:
    return (
        f" Not drawn: sentence {one.sentence} of the {one.site}, since it has {one.tokens} tokens "
        f"and at most {one.limit} are drawn."
    )
