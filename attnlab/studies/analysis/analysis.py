"""What the heads of a model do on some sentences, as tables: what `attnlab analyze` computes."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from attnlab.core.addresses import HEAD_COLUMNS
from attnlab.core.errors import AttnlabError, InputError, Note
from attnlab.core.files import is_matrix_file
from attnlab.core.options import options_of
from attnlab.core.processes import Processes, own_device, usable_device
from attnlab.corpora.rows import clean_sentence
from attnlab.evaluation.evaluator import Evaluator
from attnlab.evaluation.sources import (
    Subject,
    load_subject,
    model_in_words,
    notes_on_texts,
    source_of,
    versions_in_words,
)
from attnlab.labels.structure import HeadStructure
from attnlab.models.run import Source
from attnlab.reading.batches import TokenizedText
from attnlab.reading.capture import Coverage, prepare
from attnlab.reading.weights import ALL, CONTENT, PerLayer, View
from attnlab.studies.analysis.choosing import numbers_of
from attnlab.studies.analysis.closed import closed_among
from attnlab.studies.analysis.file_analysis import analyze_file
from attnlab.studies.analysis.label_ablation import ablate_for_labels, evaluator_for_labels
from attnlab.studies.analysis.labelling import Labeller, Labelling
from attnlab.studies.analysis.measuring import Analysis, measure
from attnlab.studies.analysis.notes import ClosedHeads, NoLoss, TooManyToAblate, TrainingSentences
from attnlab.studies.analysis.passes import Passes
from attnlab.studies.analysis.settings import MOST_HEADS_ABLATED, AnalysisSettings

# The column of heads that stands beside the labels too.
SINK_SHARE = "mass_on_special"


@options_of(AnalysisSettings)
def analyze(source: Source, settings: AnalysisSettings) -> Analysis:
    """What every head of a model or a file does, looks like and is needed for, and a few whole matrices.

    Heads of models are labelled, with controls and the loss without each head, unless `labels` is False;
    a file of matrices has no tokens to label by.

    Cost: a pass over the sentences; with labels two more for the controls, and one per head without it.

    Args:
        source: a run or its folder, a transformers folder or hub name, a pair (model, tokenizer), or a
            file of matrices, see `attnlab.reading.matrix_files.load_matrix_source`, such as the one
            that an analysis leaves, of which all arrays are read.
        settings: as keyword arguments.

    Raises:
        InputError: the source, the sentences or a site cannot be used.
        AttnlabError: a layer whose weights are no attention weights.
    """
    return analyze_together(source, settings, Processes())


def analyze_together(source: Source, settings: AnalysisSettings, processes: Processes) -> Analysis:
    """What `analyze` returns, the whole of it in each of several processes that share the sentences.

    Each of them calls this alike, inside `Processes.together`.

    Raises:
        InputError: see `analyze`.
        AttnlabError: see `analyze`, here or in another process.
    """
    views = (CONTENT, ALL) if settings.ignore_special else (ALL, CONTENT)
    if isinstance(source, str | Path) and is_matrix_file(source):
        return analyze_file(Path(source), settings, views)
    return _analyze_model(source, settings, processes, views)


def _analyze_model(
    source: Source,
    settings: AnalysisSettings,
    processes: Processes,
    views: tuple[View, ...],
) -> Analysis:
    settings.check_options_of_files()
    device = usable_device(own_device(settings.device, processes))
    subject = _subject(source, settings)
    reading = prepare(
        subject.model.to(device),
        subject.tokenizer,
        subject.texts,
        settings.sites,
        memory=settings.memory,
    )
    passes = Passes(settings.batch_size, settings.progress, processes)
    structure, labeller, evaluator = HeadStructure(settings.structure_sentences), None, None
    if subject.gold is not None:
        labeller = Labeller(reading, subject.gold, subject.type_counts, structure, views=views)
        evaluator = _evaluator(subject, reading.encoding.texts, settings)

    def run(what: str, consumers: Sequence[PerLayer[Any, Any]], first: int | None) -> Coverage:
        some = reading if first is None else reading.first(first)
        return passes.run(what, some, consumers)

    found, coverage = measure(
        run,
        keep_matrices=settings.keep_matrices,
        fit_sentences=settings.fit_sentences,
        structure=structure,
        views=views,
        also=[] if labeller is None else [labeller.functions],
        chosen=numbers_of(settings.show or (), reading.encoding),
    )
    closed = closed_among(reading)
    found = replace(
        found,
        about=_about(source, subject, coverage, found.sentences_kept),
        weights=subject.weights,
        notes=(
            *found.notes,
            *([ClosedHeads(tuple(map(str, closed)))] if closed else []),
            *notes_on_texts(subject, settings.sentences, settings.sites),
            *([] if settings.text is None else _notes_on_training(subject)),
        ),
        closed=closed,
    )
    if labeller is None:
        return found
    seed = subject.seed if settings.seed is None else settings.seed
    labelling = labeller.label(passes, seed=seed, there=subject.there, controls=not settings.quick)
    if evaluator is None:
        return _with_labels(found, labelling)
    return _with_labels(found, _beside_ablation(labelling, evaluator, passes, settings, seed=seed))


def _subject(source: Source, settings: AnalysisSettings) -> Subject:
    return load_subject(
        source,
        sentences=settings.wanted,
        text=settings.text,
        corpus=settings.corpus,
        pair=settings.pair,
        treebank=settings.treebank,
        gold=settings.labelled,
        scores=settings.ablated is not False,
    )


def _notes_on_training(subject: Subject) -> list[Note]:
    """How many of the sentences of a file the run was trained on; nothing where its corpus is gone."""
    if subject.run is None:
        return []
    try:
        rows = subject.run.corpus().train
    except AttnlabError:
        return []
    texts = {clean_sentence(source_of(text)) for text in subject.texts}
    learned = texts.intersection(rows["source"][:])
    return [TrainingSentences(len(learned), len(texts))] if learned else []


def _with_labels(found: Analysis, labelling: Labelling) -> Analysis:
    """The analysis with labels, and beside them the weight that each head puts on special tokens."""
    sinks = found.heads[[*HEAD_COLUMNS, SINK_SHARE]]
    labels = labelling.labels.merge(sinks, on=HEAD_COLUMNS, how="left", validate="m:1")
    return replace(
        found,
        labelling=replace(labelling, labels=labels),
        notes=(*found.notes, *labelling.notes),
    )


def _evaluator(
    subject: Subject, texts: Sequence[TokenizedText], settings: AnalysisSettings
) -> Evaluator | str | None:
    """The model with its loss, or why it has none; None where none is wanted.

    Raises:
        InputError: it has none although that was asked for.
    """
    if settings.ablated is False:
        return None
    found = evaluator_for_labels(subject, settings.batch_size, texts)
    if settings.ablation and isinstance(found, str):
        raise InputError(found)
    return found


def _beside_ablation(
    labelling: Labelling,
    evaluator: Evaluator | str,
    passes: Passes,
    settings: AnalysisSettings,
    *,
    seed: int,
) -> Labelling:
    """The labels with the loss without each head, or with a note that says why not."""
    if isinstance(evaluator, str):
        return replace(labelling, notes=(*labelling.notes, NoLoss(evaluator)))
    heads = labelling.labels[HEAD_COLUMNS].drop_duplicates()
    if settings.ablated is None and len(heads) > MOST_HEADS_ABLATED:
        note = TooManyToAblate(len(heads), MOST_HEADS_ABLATED)
        return replace(labelling, notes=(*labelling.notes, note))
    found = ablate_for_labels(evaluator, passes, heads["site"].unique().tolist(), seed=seed)
    labels = labelling.labels.merge(found, on=HEAD_COLUMNS, how="left")
    return replace(labelling, labels=labels)


def _about(source: Source, subject: Subject, coverage: Coverage, kept: int) -> dict[str, str]:
    model = subject.model
    layers = ", ".join(f"{site}: {count}" for site, count in coverage.layers.items())
    described = {
        **model_in_words(source, model),
        **subject.details,
        "Layers": layers,
        "Sentences": f"{coverage.sentences} from {subject.origin}",
        "Matrices kept": f"{kept} sentences",
        "Decoder input": "the reference translation (teacher forcing)"
        if "decoder" in coverage.layers and model.config.is_encoder_decoder
        else "",
        "Device": str(model.device),
        **versions_in_words(),
    }
    return {name: value for name, value in described.items() if value}
