"""An analysis as a folder: tables, kept matrices, figures and the report page."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pandas as pd

from attnlab.core.addresses import HEAD_COLUMNS, Head
from attnlab.core.files import write_table, write_text
from attnlab.core.folders import replacing_result
from attnlab.labels.label_columns import AGREEMENT, CONTROLS, LABELS, RELATIONS, STRUCTURE
from attnlab.reading.keeping import load_kept_matrices
from attnlab.reading.statistics_columns import DISTANCES, HEADS
from attnlab.reporting.figures import DRAWN
from attnlab.reporting.page.analysis_page import analysis_page
from attnlab.reporting.record import (
    ResultRecord,
    read_record,
    read_tables,
    write_record,
)
from attnlab.reporting.result_folder import ANALYSIS
from attnlab.studies.analysis.columns import FITS, SUMMARY
from attnlab.studies.analysis.labelling import Labelling
from attnlab.studies.analysis.measuring import Analysis
from attnlab.studies.analysis.summary import PRUNED

_FIGURES = (*(figure.name for figure in DRAWN), "heads_sentence*")
_MATRICES = "matrices.safetensors"
# Tables that there are only where they were asked for.
_LABELS = {"labels": LABELS, "relations": RELATIONS, "controls": CONTROLS, "agreement": AGREEMENT}


def write_analysis(
    analysis: Analysis,
    folder: str | Path,
    *,
    title: str,
    progress: Callable[[str, int, int], None] | None = None,
) -> Path:
    """Writes tables, matrices, figures and the page into `folder`; returns the path of the page.

    The files are `summary.csv`, `heads.csv`, `head_distances.csv`, `fits.csv`, `structure.csv`,
    `matrices.safetensors`, `result.json`, `figures/` and, last, `report.html`; where heads were
    labelled also `labels.csv`, `relations.csv`, `controls.csv` and `agreement.csv`. The page is made
    of the other files, so that it can be made of them again.

    An older analysis in the folder is replaced when the new one is whole. Of `figures/` only the
    figures of that analysis are deleted.

    Raises:
        AttnlabError: something could not be written.
    """
    with replacing_result(folder, ANALYSIS.last, _older) as aside:
        tables = write_tables(analysis, aside)
        analysis.matrices.write(aside / _MATRICES)
        details = {"views": list(analysis.views)}
        record = ResultRecord(
            ANALYSIS.what, title, analysis.about, analysis.notes, details, weights=analysis.weights
        )
        write_record(aside, record, tables)
        page = write_analysis_page(aside, progress=progress)
    return Path(folder) / page.name


def write_analysis_page(
    folder: str | Path, *, progress: Callable[[str, int, int], None] | None = None
) -> Path:
    """Draws the figures and writes the page of the analysis in `folder`; returns its path.

    Raises:
        InputError: the folder lacks a file of the analysis.
        AttnlabError: something could not be written.
    """
    folder = Path(folder)
    record = read_record(folder)
    analysis = _read_analysis(folder, record)
    page = analysis_page(analysis, folder / "figures", title=record.title, progress=progress)
    write_text(folder / ANALYSIS.last, page)
    return folder / ANALYSIS.last


def _read_analysis(folder: Path, record: ResultRecord) -> Analysis:
    tables = read_tables(folder, record)
    views = tuple(record.details["views"])
    structure = tables.get(STRUCTURE.file, pd.DataFrame())
    labelling = None
    if LABELS.file in tables:
        found = {name: tables.get(one.file, pd.DataFrame()) for name, one in _LABELS.items()}
        labelling = Labelling(**found, structure=structure, notes=(), views=views)
    return Analysis(
        heads=tables[HEADS.file],
        distances=tables[DISTANCES.file],
        fits=tables[FITS.file],
        structure=structure,
        matrices=load_kept_matrices(folder / _MATRICES),
        views=views,
        notes=record.notes,
        about=record.about,
        weights=record.weights,
        labelling=labelling,
        closed=_pruned_heads(tables.get(SUMMARY.file, pd.DataFrame())),
    )


def _pruned_heads(summary: pd.DataFrame) -> tuple[Head, ...]:
    if "output" not in summary:
        return ()
    rows = summary.loc[summary["output"] == PRUNED, HEAD_COLUMNS]
    return tuple(Head(*row) for row in rows.itertuples(index=False))


def _older(folder: Path) -> Iterator[Path]:
    """The files of an analysis that stands in the folder; where there is none, nothing."""
    if _holds_analysis(folder):
        yield from ANALYSIS.older(folder)
        for name in _FIGURES:
            for kind in ("svg", "png"):
                yield from (folder / "figures").glob(f"{name}.{kind}")


def _holds_analysis(folder: Path) -> bool:
    """Whether an analysis stands here; one that was broken off has its first tables but no page."""
    first = (HEADS.file, DISTANCES.file, FITS.file)
    return (folder / ANALYSIS.last).exists() or all((folder / name).exists() for name in first)


def write_tables(analysis: Analysis, folder: str | Path) -> Mapping[str, pd.DataFrame]:
    """Writes every table as a .csv file named after it; returns them by file.

    Raises:
        AttnlabError: something could not be written.
    """
    folder = Path(folder)
    always = {
        SUMMARY.file: analysis.summary,
        HEADS.file: analysis.heads,
        DISTANCES.file: analysis.distances,
        FITS.file: analysis.fits,
    }
    found = analysis.labelling
    labels = {
        one.file: None if found is None else getattr(found, name) for name, one in _LABELS.items()
    }
    # A table that there is not now is not left from an older analysis.
    some = {STRUCTURE.file: analysis.structure, **labels}
    there = {name: table for name, table in some.items() if table is not None and not table.empty}
    for name in some.keys() - there.keys():
        (folder / name).unlink(missing_ok=True)
    for name, table in {**always, **there}.items():
        write_table(folder / name, table)
    return {**always, **there}
