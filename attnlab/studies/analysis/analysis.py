"""What the heads of a model do on some sentences, as tables: what `attnlab analyze` computes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from attnlab.addresses import refuse_unknown_sites
from attnlab.errors import InputError
from attnlab.extraction.batches import Text
from attnlab.extraction.devices import own_device, usable_device
from attnlab.extraction.keeping import KeptMatrices
from attnlab.extraction.kept_source import KeptSource, load_kept_source
from attnlab.extraction.matrix_source import MatrixSource, is_matrix_file, load_matrix_source
from attnlab.extraction.processes import Processes
from attnlab.extraction.reading import Coverage, prepare
from attnlab.extraction.sums import PerLayer
from attnlab.extraction.views import ALL, CONTENT, VIEWS, View
from attnlab.functions.labels import HEAD
from attnlab.functions.structure import HeadStructure
from attnlab.representations import OneLine
from attnlab.studies.analysis.label_ablation import ablate_for_labels, judge_for_labels
from attnlab.studies.analysis.labelling import Labeller, Labelling
from attnlab.studies.analysis.measuring import measure
from attnlab.studies.analysis.passes import Passes, Progress
from attnlab.studies.evaluation import Judge
from attnlab.studies.sources import Subject, load_subject, what_is_lacking

SENTENCES = 200
LABELLED_SENTENCES = 1000
FIT_SENTENCES = 100
STRUCTURE_SENTENCES = 100
KEPT_MATRICES = 3
# The column of heads that stands beside the labels too.
SINK_SHARE = "mass_on_special"


@dataclass(frozen=True, repr=False)
class Analysis(OneLine):
    """Tables of one analysis.

    Attributes:
        heads: one row a head, see `HeadStatistics.heads`.
        distances: one row a pair of heads of one layer: Jensen-Shannon distance.
        fits: one row a head, sentence and approximation, see `HeadFits`.
        structure: one row a head and family of matrices: bits per row of its best member, see
            `HeadStructure.families`; empty where that was not measured.
        matrices: the matrices of the first sentences, with their tokens.
        about: what was analyzed, in words, in the order to print it.
        warnings: what a reader must know before trusting a number.
        labelling: what each head does, where that was asked for.
        views: which keys are looked at, in the order in which figures are shown.
    """

    heads: pd.DataFrame
    distances: pd.DataFrame
    fits: pd.DataFrame
    structure: pd.DataFrame
    matrices: KeptMatrices
    about: Mapping[str, str]
    warnings: tuple[str, ...] = field(default_factory=tuple)
    labelling: Labelling | None = None
    views: tuple[View, ...] = VIEWS


def analyze(
    source: str | Path | tuple[Any, Any],
    *,
    sentences: int | Sequence[Text] | None = None,
    text: str | Path | None = None,
    corpus: str | None = None,
    pair: str | None = None,
    treebank: str | Path | None = None,
    labels: bool = False,
    structure_sentences: int = STRUCTURE_SENTENCES,
    ignore_special: bool = False,
    ablation: bool | None = None,
    sites: Sequence[str] | None = None,
    array: str | None = None,
    normalize: str = "none",
    keep_matrices: int = KEPT_MATRICES,
    fit_sentences: int = FIT_SENTENCES,
    batch_size: int = 32,
    device: str | None = None,
    progress: Progress | None = None,
    processes: Processes | None = None,
) -> Analysis:
    """Statistics, band distances and a few whole matrices of every head of a model or a file.

    Args:
        source: a run folder, a transformers folder or hub name, a pair (model, tokenizer), or a
            file of matrices, see `attnlab.extraction.matrix_source.load_matrix_source`, such as the one
            that an analysis leaves, of which all arrays are read.
        sentences: how many held-out sentences, or the sentences themselves; None for 200, or 1,000
            where heads are labelled. A file of matrices takes neither these nor `text`, `corpus`, `pair`.
        text: a file with one sentence a line, instead of the run's own corpus.
        corpus: a corpus by name or path, instead of the run's own.
        pair: languages of `corpus`; None: those of the run, or `en-it`.
        treebank: a CoNLL-U file (.conllu or .conllu.gz) whose sentences and trees are used.
        labels: whether to say what each head does, with controls; a treebank asks for it too.
        structure_sentences: over how many of the first sentences it is decided which family of
            matrices describes each head in the fewest bits; 0 for none.
        ignore_special: whether labels and figures of content tokens alone are shown first, see
            `attnlab.extraction.views`; the tables hold both views either way.
        ablation: with labels, whether to take each head away too and measure the loss; None for yes
            where the model has a loss on the sentences.
        sites: any of encoder, decoder, cross; None for all there are. Of a file: what it holds.
        array: which array of a file of matrices that holds several.
        normalize: `rows` divides the rows of a file's matrices by their sums.
        keep_matrices: how many of the first sentences to keep whole.
        fit_sentences: how many of the first sentences to fit.
        batch_size: most sentences in one forward pass.
        device: where the model runs, such as `cpu` or `cuda`; None: a GPU if there is one.
        progress: called with (what is being done, sentences done, sentences in all).
        processes: who shares the sentences; each of them calls this alike, inside
            `Processes.together`, and gets the whole result. None: this process alone.

    Raises:
        InputError: the source, the sentences or a site cannot be used.
        AttnlabError: a layer whose weights are no attention weights.
    """
    _refuse(
        sites,
        batch_size=batch_size,
        keep_matrices=keep_matrices,
        fit_sentences=fit_sentences,
        structure_sentences=structure_sentences,
    )
    labels = labels or treebank is not None
    views = (CONTENT, ALL) if ignore_special else (ALL, CONTENT)
    if ablation and not labels:
        msg = "--ablation stands beside labels; add --labels, or leave it out."
        raise InputError(msg)
    if isinstance(source, str | Path) and is_matrix_file(source):
        _refuse_sentences(source, text=text, corpus=corpus, pair=pair, sentences=sentences)
        if labels:
            msg = f"{source} has no tokens, so its heads cannot be labelled; analyze a model."
            raise InputError(msg)
        kept = (
            load_kept_source(Path(source), normalize=normalize, sites=sites) if not array else None
        )
        matrices = kept or load_matrix_source(
            Path(source), array=array, normalize=normalize, sites=sites
        )
        if ignore_special and kept is None:
            msg = (
                f"{source} has no tokens, so none of them are special; leave --ignore-special out."
            )
            raise InputError(msg)
        structure = HeadStructure(structure_sentences)
        return _analyze_file(
            matrices,
            keep_matrices,
            fit_sentences,
            structure,
            views=(ALL,) if kept is None else views,
        )
    processes = processes or Processes()
    place = usable_device(own_device(device, processes))
    count = LABELLED_SENTENCES if labels else SENTENCES
    wanted = count if sentences is None else sentences
    subject = load_subject(
        source,
        sentences=wanted,
        text=text,
        corpus=corpus,
        pair=pair,
        treebank=treebank,
        gold=labels,
        scores=labels and ablation is not False,
    )
    reading = prepare(subject.model.to(place), subject.tokenizer, subject.texts, sites)
    all_read = isinstance(wanted, int) and len(subject.texts) < wanted
    labeller, judge = None, None
    if subject.gold is not None:
        labeller = Labeller(
            reading,
            subject.gold,
            subject.type_counts,
            structure_sentences,
            views=views,
        )
        judge = _judge(subject, batch_size, ablation)
    passes = Passes(batch_size, progress, processes)

    def run(what: str, consumers: Sequence[PerLayer[Any, Any]], first: int | None) -> Coverage:
        some = reading if first is None else reading.first(first)
        return passes.run(what, some, consumers)

    found = measure(
        run,
        keep_matrices=keep_matrices,
        fit_sentences=fit_sentences,
        structure=HeadStructure(structure_sentences) if labeller is None else labeller.structure,
        views=views,
        also=[] if labeller is None else [labeller.functions],
    )
    labelling = (
        None if labeller is None else labeller.judge(passes, seed=subject.seed, all_read=all_read)
    )
    if labelling is not None:
        labelling = _beside_ablation(labelling, judge, passes, reading.sites, subject.seed)
        sinks = found.heads[[*HEAD, SINK_SHARE]]
        labels_of_heads = labelling.labels.merge(sinks, on=HEAD, how="left", validate="m:1")
        labelling = replace(labelling, labels=labels_of_heads)
    return Analysis(
        heads=found.heads,
        distances=found.distances,
        fits=found.fits,
        structure=found.structure,
        matrices=found.matrices,
        about=_about(source, subject, found.coverage, found.sentences_kept),
        warnings=(
            *found.warnings,
            *what_is_lacking(subject, sentences if all_read else None, sites),
            *(labelling.warnings if labelling else ()),
        ),
        labelling=labelling,
        views=views,
    )


def _judge(subject: Subject, batch_size: int, wanted: bool | None) -> Judge | str | None:
    """The model with its loss, or why it has none; None where none is wanted.

    Raises:
        InputError: it has none although that was asked for.
    """
    if wanted is False:
        return None
    found = judge_for_labels(subject, batch_size)
    if wanted and isinstance(found, str):
        raise InputError(found)
    return found


def _beside_ablation(
    labelling: Labelling,
    judge: Judge | str | None,
    passes: Passes,
    sites: Sequence[str],
    seed: int,
) -> Labelling:
    """The labels with the loss without each head, or with a note that says why not."""
    if judge is None:
        return labelling
    if isinstance(judge, str):
        note = (
            f"No head was taken away to see what the loss loses, since there is none here: {judge}"
        )
        return replace(labelling, warnings=(*labelling.warnings, note))
    found = ablate_for_labels(judge, passes, sites, seed=seed)
    labels = labelling.labels.merge(found, on=HEAD, how="left")
    return replace(labelling, labels=labels)


def _refuse_sentences(source: str | Path, **options: object) -> None:
    """Refuses what chooses sentences: a file of matrices is read whole."""
    for name, value in options.items():
        if value is not None:
            msg = (
                f"{source} holds matrices and no sentences; leave --{name} out, or analyze a model."
            )
            raise InputError(msg)


def _analyze_file(
    matrices: MatrixSource | KeptSource,
    keep_matrices: int,
    fit_sentences: int,
    structure: HeadStructure,
    *,
    views: tuple[View, ...],
) -> Analysis:
    def run(_: str, consumers: Sequence[PerLayer[Any, Any]], first: int | None) -> Coverage:
        return matrices.send(consumers, first)

    found = measure(
        run,
        keep_matrices=keep_matrices,
        fit_sentences=fit_sentences,
        structure=structure,
        views=views,
    )
    return Analysis(
        heads=found.heads,
        distances=found.distances,
        fits=found.fits,
        structure=found.structure,
        matrices=found.matrices,
        about={
            **matrices.about(),
            "Matrices kept": f"{found.sentences_kept} sentences",
            **versions(),
        },
        warnings=(*matrices.warnings, *found.warnings),
        views=views,
    )


def _refuse(sites: Sequence[str] | None, **numbers: int) -> None:
    refuse_unknown_sites(sites or ())
    for name, number in numbers.items():
        if number < (1 if name == "batch_size" else 0):
            msg = f"--{name.replace('_', '-')} must be a positive number, not {number}."
            raise InputError(msg)


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
