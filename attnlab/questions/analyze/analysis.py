"""What the heads of a model do on some sentences, as tables: what `attnlab analyze` computes."""

from pathlib import Path
from typing import Any

from attnlab.core import InputError, is_matrix_file, options_of
from attnlab.labels import HeadStructure
from attnlab.models import Source, leaving_modes
from attnlab.questions.analyze.measuring import measure, result_of
from attnlab.questions.analyze.question import AnalysisSettings
from attnlab.reading import ALL, CONTENT, View, load_kept_source, load_matrix_source
from attnlab.results import Result, notes_on_weights


@options_of(AnalysisSettings)
@leaving_modes
def analyze(source: Source, settings: AnalysisSettings) -> Result:
    """What every head of a model or a file does, looks like and is needed for, and a few whole matrices.

    Heads of models are labelled, with controls and the loss without each head, unless `labels` is False;
    a file of matrices has no tokens to label by.

    Cost: a pass over the sentences; with labels two more for the controls, and one per head without it.

    Args:
        source: a run or its folder, a transformers folder or hub name, a pair (model, tokenizer), or a
            file of matrices, see `attnlab.reading.matrix_files.load_matrix_source`, such as the one
            that an analysis leaves, of which all arrays are read.
        settings: as keyword arguments.

    Returns:
        The tables `summary` (a row per head, of the view that is shown first), `heads`, `head_distances` and,
        where they were measured, `fits` (with `keep_fits` also `fits_by_sentence`), `structure`, `labels`,
        `relations`, `controls` and
        `generated`; and `matrices`, those of a few sentences with their tokens.

    Raises:
        InputError: the source, the sentences or a site cannot be used.
        AttnlabError: a layer whose weights are no attention weights, here or in another process.
    """
    views = (CONTENT, ALL) if settings.ignore_special else (ALL, CONTENT)
    if isinstance(source, str | Path) and is_matrix_file(source):
        return _analyze_file(Path(source), settings, views)
    # What reads models takes seconds to import, which files need not wait for.
    from attnlab.questions.analyze.model_analysis import analyze_model

    return analyze_model(source, settings, views)


def _analyze_file(source: Path, settings: AnalysisSettings, views: tuple[View, ...]) -> Result:
    """Statistics, band distances and a few whole matrices of every head of a file of matrices.

    Args:
        source: see `analyze`.
        settings: those that do not choose sentences or a model.
        views: in the order in which they are shown; a file without tokens has all keys alone.

    Raises:
        InputError: the file, or a setting that it has no use for.
    """
    reading: dict[str, Any] = {
        name: getattr(settings, name) for name in ("normalize", "sites", "axes")
    }
    source_kept = None if settings.array else load_kept_source(source, **reading)
    matrices = source_kept or load_matrix_source(source, array=settings.array, **reading)
    if settings.ignore_special and source_kept is None:
        msg = f"{source} has no tokens, so none of them are special; leave ignore special out."
        raise InputError(msg)
    views = (ALL,) if source_kept is None else views
    tables, kept, notes, _ = measure(
        lambda _, consumers, first: matrices.send(consumers, first),
        settings,
        HeadStructure(settings.structure_sentences),
        views,
    )
    about = {
        **matrices.about(),
        "Matrices kept": f"{len(kept.sentences)} sentences",
    }
    all_notes = [*matrices.notes, *notes_on_weights(source.parent), *notes]
    return result_of(
        source.resolve().name,
        tables,
        kept,
        views,
        about=about,
        notes=all_notes,
        figures=settings.figures,
    )
