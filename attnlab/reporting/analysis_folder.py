"""Writes an analysis: tables, kept matrices, figures and the report page."""

from collections.abc import Callable
from pathlib import Path

from attnlab.files import write_table, write_text
from attnlab.reporting.canvas import write_figure
from attnlab.reporting.curves import draw_mass_by_offset
from attnlab.reporting.fit_sections import fit_sections
from attnlab.reporting.heatmaps import draw_heads
from attnlab.reporting.label_section import label_sections
from attnlab.reporting.naming import head_names
from attnlab.reporting.page import PageFigure, Section, page_table, render_page
from attnlab.reporting.result_folder import ANALYSIS
from attnlab.studies.analysis import Analysis

_FIGURES = ("mass_by_offset", "distance_by_window", "heads_sentence*")
MOST_TOKENS_DRAWN = 80
_HEAD_COLUMNS = [
    "head_name",
    "entropy_nats",
    "normalised_entropy",
    "confidence",
    "mean_offset",
    "mean_absolute_offset",
    "mass_on_opening",
    "mass_on_closing",
    "mass_on_special",
    "mass_on_punctuation",
    "js_distance_to_others",
    "rows",
]


def write_analysis(
    analysis: Analysis,
    folder: str | Path,
    *,
    title: str,
    progress: Callable[[str, int, int], None] | None = None,
) -> Path:
    """Writes tables, matrices, figures and the page into `folder`; returns the path of the page.

    The files are `heads.csv`, `head_distances.csv`, `fits.csv`, `structure.csv`,
    `matrices.safetensors`, `figures/` and, last, `report.html`; where heads were labelled also
    `labels.csv`, `relations.csv`, `controls.csv` and `agreement.csv`.

    An older analysis in the folder is replaced: its page goes first, so that a folder with a page
    is always one whole analysis. Of `figures/` only the figures of that analysis are deleted.

    Raises:
        AttnlabError: something could not be written.
    """
    folder = Path(folder)
    _remove_older(folder)
    write_table(folder / "heads.csv", analysis.heads)
    write_table(folder / "head_distances.csv", analysis.distances)
    write_table(folder / "fits.csv", analysis.fits)
    _write_labels(analysis, folder)
    analysis.matrices.write(folder / "matrices.safetensors")
    sections = [
        *label_sections(analysis.labelling),
        _heads_section(analysis, folder / "figures"),
        *fit_sections(analysis, folder / "figures"),
        *_matrices_section(analysis, folder / "figures", progress),
    ]
    write_text(
        folder / ANALYSIS.last, render_page(title, analysis.about, analysis.warnings, sections)
    )
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
    first = ("heads.csv", "head_distances.csv", "fits.csv")
    return (folder / ANALYSIS.last).exists() or all((folder / name).exists() for name in first)


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


def _heads_section(analysis: Analysis, figures: Path) -> Section:
    heads = analysis.heads
    named = heads.assign(head_name=head_names(heads))
    columns = [name for name in _HEAD_COLUMNS if named[name].notna().any()]
    columns += ["empty_rows"] if heads["empty_rows"].any() else []
    drawn = write_figure(draw_mass_by_offset(heads), figures, "mass_by_offset")
    return Section(
        "heads",
        "What each head looks at",
        "Means over all sentences. A token is what the tokenizer makes, which may be a part of a "
        "word. Special tokens and padding are not counted as tokens that look.",
        (page_table(named, columns),),
        (
            PageFigure(
                "mass_by_offset",
                drawn,
                "Mean attention weight on the token at each offset: -1 is the token before, 0 the "
                "token itself, +1 the next. Offsets that no row may see are left out. The colour follows "
                "the square root, as in all figures of weights.",
            ),
        ),
    )


def _matrices_section(
    analysis: Analysis, figures: Path, progress: Callable[[str, int, int], None] | None
) -> list[Section]:
    kept = analysis.matrices
    drawn = []
    for done, ((number, site, layer), weights) in enumerate(kept.matrices.items()):
        queries, keys = kept.tokens[number, site]
        name = f"heads_sentence{number}_{site}_layer{layer}"
        if max(len(queries), len(keys)) <= MOST_TOKENS_DRAWN:
            figure = draw_heads(
                weights,
                queries,
                keys,
                title=f"Sentence {number}, {site} layer {layer}",
                names=[f"{site}.{layer}.{head}" for head in range(len(weights))],
            )
            caption = f"Sentence {number}, {_SITES[site]}, layer {layer}."
            drawn.append(PageFigure(name, write_figure(figure, figures, name), caption))
        if progress is not None:
            progress("Drawing figures", done + 1, len(kept.matrices))
    if not drawn:
        return []
    return [
        Section(
            "matrices",
            "The first sentences, matrix by matrix",
            "A row is the token that looks, a column the token that is looked at. The matrices are "
            "in matrices.safetensors, the figures in figures/ as SVG and PNG.",
            figures=tuple(drawn),
        )
    ]


_SITES = {
    "encoder": "encoder self-attention (source looks at source)",
    "decoder": "decoder self-attention (the row of a token predicts the next one)",
    "cross": "cross-attention (target looks at source; the row of a token predicts the next one)",
    "unknown": "matrices of a file",
}
