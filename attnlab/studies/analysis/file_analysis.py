"""An analysis of the matrices of a file: heads without a model."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from attnlab.core.errors import InputError
from attnlab.evaluation.sources import versions_in_words
from attnlab.labels.structure import HeadStructure
from attnlab.reading.capture import Coverage
from attnlab.reading.matrix_files import load_kept_source, load_matrix_source
from attnlab.reading.weights import ALL, PerLayer, View
from attnlab.studies.analysis.measuring import Analysis, measure
from attnlab.studies.analysis.settings import AnalysisSettings


def _check_sentence_options(source: str | Path, settings: AnalysisSettings) -> None:
    """Refuses what chooses sentences or reads tokens: a file of matrices is read whole."""
    for name in ("text", "corpus", "pair", "sentences", "show"):
        if getattr(settings, name) is not None:
            msg = f"{source} holds matrices and no sentences; leave {name} out, or analyze a model."
            raise InputError(msg)
    for name in ("device", "seed"):
        if getattr(settings, name) is not None:
            msg = f"{source} holds matrices and no model; leave {name} out."
            raise InputError(msg)
    if settings.labels or settings.ablation or settings.treebank is not None:
        msg = f"{source} has no tokens, so its heads cannot be labelled; analyze a model."
        raise InputError(msg)


def analyze_file(
    source: str | Path, settings: AnalysisSettings, views: tuple[View, ...]
) -> Analysis:
    """Statistics, band distances and a few whole matrices of every head of a file of matrices.

    Args:
        source: see `analyze`.
        settings: those that do not choose sentences or a model.
        views: in the order in which they are shown; a file without tokens has all keys alone.

    Raises:
        InputError: the file, or a setting that it has no use for.
    """
    _check_sentence_options(source, settings)
    reading: dict[str, Any] = {"normalize": settings.normalize, "sites": settings.sites}
    source_kept = None if settings.array else load_kept_source(source, **reading)
    matrices = source_kept or load_matrix_source(source, array=settings.array, **reading)
    if settings.ignore_special and source_kept is None:
        msg = f"{source} has no tokens, so none of them are special; leave ignore special out."
        raise InputError(msg)
    views = (ALL,) if source_kept is None else views

    def run(_: str, consumers: Sequence[PerLayer[Any, Any]], first: int | None) -> Coverage:
        return matrices.send(consumers, first)

    found, _ = measure(
        run,
        keep_matrices=settings.keep_matrices,
        fit_sentences=settings.fit_sentences,
        structure=HeadStructure(settings.structure_sentences),
        views=views,
    )
    kept = {"Matrices kept": f"{found.sentences_kept} sentences"}
    return replace(
        found,
        about={**matrices.about(), **kept, **versions_in_words()},
        notes=(*matrices.notes, *found.notes),
    )
