"""What the heads of a model do on some sentences, as tables: what `attnlab analyze` computes."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from attnlab.addresses import HEAD_COLUMNS
from attnlab.errors import InputError
from attnlab.extraction.devices import own_device, usable_device
from attnlab.extraction.kept_source import load_kept_source
from attnlab.extraction.matrix_source import is_matrix_file, load_matrix_source
from attnlab.extraction.processes import Processes
from attnlab.extraction.reading import Coverage, prepare
from attnlab.extraction.sums import PerLayer
from attnlab.extraction.tokens import TokenizedText
from attnlab.extraction.views import ALL, CONTENT, View
from attnlab.functions.structure import HeadStructure
from attnlab.options import options_of
from attnlab.studies.analysis.label_ablation import ablate_for_labels, evaluator_for_labels
from attnlab.studies.analysis.labelling import Labeller, Labelling
from attnlab.studies.analysis.measuring import Analysis, measure
from attnlab.studies.analysis.notes import NoLoss
from attnlab.studies.analysis.passes import Passes
from attnlab.studies.analysis.settings import AnalysisSettings
from attnlab.studies.evaluation import Evaluator
from attnlab.studies.sources import Subject, load_subject, notes_on_texts

# The column of heads that stands beside the labels too.
SINK_SHARE = "mass_on_special"


@options_of(AnalysisSettings)
def analyze(source: str | Path | tuple[Any, Any], settings: AnalysisSettings) -> Analysis:
    """Statistics, band distances and a few whole matrices of every head of a model or a file.

    Args:
        source: a run folder, a transformers folder or hub name, a pair (model, tokenizer), or a
            file of matrices, see `attnlab.extraction.matrix_source.load_matrix_source`, such as the one
            that an analysis leaves, of which all arrays are read.
        settings: as keyword arguments.

    Raises:
        InputError: the source, the sentences or a site cannot be used.
        AttnlabError: a layer whose weights are no attention weights.
    """
    return analyze_together(source, settings, Processes())


def analyze_together(
    source: str | Path | tuple[Any, Any], settings: AnalysisSettings, processes: Processes
) -> Analysis:
    """What `analyze` returns, the whole of it in each of several processes that share the sentences.

    Each of them calls this alike, inside `Processes.together`.

    Raises:
        InputError: see `analyze`.
        AttnlabError: see `analyze`, here or in another process.
    """
    views = (CONTENT, ALL) if settings.ignore_special else (ALL, CONTENT)
    if isinstance(source, str | Path) and is_matrix_file(source):
        return _analyze_file(Path(source), settings, views)
    device = usable_device(own_device(settings.device, processes))
    subject = load_subject(
        source,
        sentences=settings.wanted,
        text=settings.text,
        corpus=settings.corpus,
        pair=settings.pair,
        treebank=settings.treebank,
        gold=settings.labelled,
        scores=settings.labelled and settings.ablation is not False,
    )
    model = subject.model.to(device)
    reading = prepare(model, subject.tokenizer, subject.texts, settings.sites)
    labeller, evaluator = None, None
    if subject.gold is not None:
        labeller = Labeller(
            reading,
            subject.gold,
            subject.type_counts,
            settings.structure_sentences,
            views=views,
        )
        evaluator = _evaluator(subject, reading.encoding.texts, settings)
    passes = Passes(settings.batch_size, settings.progress, processes)

    def run(what: str, consumers: Sequence[PerLayer[Any, Any]], first: int | None) -> Coverage:
        some = reading if first is None else reading.first(first)
        return passes.run(what, some, consumers)

    structure = HeadStructure(settings.structure_sentences)
    found, coverage = measure(
        run,
        keep_matrices=settings.keep_matrices,
        fit_sentences=settings.fit_sentences,
        structure=structure if labeller is None else labeller.structure,
        views=views,
        also=[] if labeller is None else [labeller.functions],
    )
    labelling = (
        None if labeller is None else labeller.label(passes, seed=subject.seed, there=subject.there)
    )
    if labelling is not None:
        labelling = _beside_ablation(labelling, evaluator, passes, reading.sites, subject.seed)
        sinks = found.heads[[*HEAD_COLUMNS, SINK_SHARE]]
        labels_of_heads = labelling.labels.merge(sinks, on=HEAD_COLUMNS, how="left", validate="m:1")
        labelling = replace(labelling, labels=labels_of_heads)
    return replace(
        found,
        about=_about(source, subject, coverage, found.sentences_kept),
        notes=(
            *found.notes,
            *notes_on_texts(subject, settings.sentences, settings.sites),
            *(labelling.notes if labelling else ()),
        ),
        labelling=labelling,
    )


def _evaluator(
    subject: Subject, texts: Sequence[TokenizedText], settings: AnalysisSettings
) -> Evaluator | str | None:
    """The model with its loss, or why it has none; None where none is wanted.

    Raises:
        InputError: it has none although that was asked for.
    """
    if settings.ablation is False:
        return None
    found = evaluator_for_labels(subject, settings.batch_size, texts)
    if settings.ablation and isinstance(found, str):
        raise InputError(found)
    return found


def _beside_ablation(
    labelling: Labelling,
    evaluator: Evaluator | str | None,
    passes: Passes,
    sites: Sequence[str],
    seed: int,
) -> Labelling:
    """The labels with the loss without each head, or with a note that says why not."""
    if evaluator is None:
        return labelling
    if isinstance(evaluator, str):
        return replace(labelling, notes=(*labelling.notes, NoLoss(evaluator)))
    found = ablate_for_labels(evaluator, passes, sites, seed=seed)
    labels = labelling.labels.merge(found, on=HEAD_COLUMNS, how="left")
    return replace(labelling, labels=labels)


def _refuse_sentences(source: Path, settings: AnalysisSettings) -> None:
    """Refuses what chooses sentences or reads tokens: a file of matrices is read whole."""
    for name in ("text", "corpus", "pair", "sentences"):
        if getattr(settings, name) is not None:
            msg = f"{source} holds matrices and no sentences; leave {name} out, or analyze a model."
            raise InputError(msg)
    if settings.labelled:
        msg = f"{source} has no tokens, so its heads cannot be labelled; analyze a model."
        raise InputError(msg)


def _analyze_file(source: Path, settings: AnalysisSettings, views: tuple[View, ...]) -> Analysis:
    _refuse_sentences(source, settings)
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
        about={**matrices.about(), **kept, **versions()},
        notes=(*matrices.notes, *found.notes),
    )


def _about(
    source: str | Path | tuple[Any, Any], subject: Subject, coverage: Coverage, kept: int
) -> dict[str, str]:
    model = subject.model
    layers = ", ".join(f"{site}: {count}" for site, count in coverage.layers.items())
    parameters = sum(parameter.numel() for parameter in model.parameters())
    described = {
        "Source": type(model).__name__ if isinstance(source, tuple) else str(source),
        "Model": f"{type(model).__name__}, {parameters:,} parameters",
        **subject.details,
        "Layers": layers,
        "Sentences": f"{coverage.sentences} from {subject.origin}",
        "Matrices kept": f"{kept} sentences",
        "Decoder input": "the reference translation (teacher forcing)"
        if "decoder" in coverage.layers and model.config.is_encoder_decoder
        else "",
        "Device": str(model.device),
        **versions(),
    }
    return {name: value for name, value in described.items() if value}


def versions() -> dict[str, str]:
    """What the figures were computed with, in words."""
    import transformers

    from attnlab import __version__

    parts = {"attnlab": __version__, "torch": torch.__version__}
    parts["transformers"] = transformers.__version__
    return {"Versions": ", ".join(f"{name} {version}" for name, version in parts.items())}
