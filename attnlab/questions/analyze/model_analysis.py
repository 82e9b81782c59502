"""What the heads of a model do on some sentences: the part of `analyze` that reads models."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd
import torch
from torch import nn

from attnlab.ablation import Layer, Projections, closed_heads, find_projections
from attnlab.core import (
    HEAD_COLUMNS,
    AttnlabError,
    Head,
    InputError,
    Note,
    Processes,
    Sums,
    device_of_process,
    usable_device,
)
from attnlab.corpora import clean_sentence
from attnlab.evaluation import (
    ABLATION_SENTENCES,
    Evaluator,
    Texts,
    changes_without_heads,
    evaluator_of,
    model_and_texts,
    notes_on_texts,
)
from attnlab.labels import HeadStructure, Labeller
from attnlab.models import Model, Run, Source
from attnlab.questions.analyze.analysis_notes import (
    ClosedHeads,
    NotAblated,
    RowsDrawn,
    TooLongToLabel,
    TooManyToAblate,
    TrainingSentences,
)
from attnlab.questions.analyze.generation import compare_generated
from attnlab.questions.analyze.labelling import notes_on_labels
from attnlab.questions.analyze.measuring import KEPT_BYTES, measure, result_of
from attnlab.questions.analyze.question import MOST_HEADS_ABLATED, ROWS, AnalysisSettings
from attnlab.reading import (
    Coverage,
    KeptMatrices,
    MatrixKeeper,
    PerLayer,
    Reading,
    Selection,
    Sentences,
    SentenceStatistics,
    View,
    check_generates,
    few_tokens,
    first_rows,
    forward,
    prepare,
    read_sentences,
    ready_to_show,
    source_of,
    written_sentences,
)
from attnlab.results import Result

WITHOUT_LABELS = (
    "leave labels, treebank and ablation out, so that fits and structure are of drawn rows"
)
# The column of heads that stands beside the labels too.
SINK_SHARE = "mass_on_special"


def analyze_model(source: Source, settings: AnalysisSettings, views: tuple[View, ...]) -> Result:
    """Statistics, fits, labels and the need of every head of a model, as `analyze` says.

    Args:
        source: see `analyze`.
        settings: those that do not choose how a file is read.
        views: in the order in which they are shown.

    Raises:
        InputError: the model, the sentences or a site cannot be used.
        AttnlabError: a layer whose weights are no attention weights, here or in another process.
    """
    processes = settings.processes or Processes()
    device = usable_device(device_of_process(settings.device, processes))
    model, texts = model_and_texts(
        source, sentences=settings.sentences_to_read, text=settings.text, corpus=settings.corpus,
        pair=settings.pair, treebank=settings.treebank, gold=settings.labelled,
        scores=settings.ablated is not False or settings.generation,
    )  # fmt: skip
    model.move_to(device)
    sentences = read_sentences(model, texts.texts, texts.origin)
    whole = texts.gold is not None or settings.structure_sentences > 0 or settings.fit_sentences > 0
    reading = prepare(
        model,
        sentences,
        settings.sites,
        memory=settings.memory,
        whole=whole and WITHOUT_LABELS,
        rows_do=not (settings.labels or settings.treebank or settings.ablation),
        weights=settings.weights,
    )
    seed = model.seed if settings.seed is None else settings.seed
    drawn = Selection(rows=ROWS, seed=seed) if whole and reading.in_blocks else None
    if settings.generation:
        check_generates(model.model, sentences, reading.sites)
    structure, labeller, evaluator = HeadStructure(settings.structure_sentences), None, None
    if texts.gold is not None and drawn is None:
        labeller = Labeller(reading, texts.gold, model.type_counts, structure, views=views)
        evaluator = _evaluator(reading, settings, seed)

    def run(what: str, read: Reading, consumers: Sequence[PerLayer[Any, Any]]) -> Coverage:
        return _run(settings, processes, what, read, consumers)

    shown = numbers_of(settings.show or (), sentences)
    kept_texts = _kept_beside(
        model,
        sentences,
        [text for text, number in shown.items() if number is None],
        settings.weights,
    )
    forced = SentenceStatistics(len(sentences.texts), first_rows(model.model, sentences))
    also: list[PerLayer[Any, Any]] = [] if labeller is None else [labeller.functions]
    tables, kept, notes, coverage = measure(
        lambda what, to, first: run(what, _first_of(reading, first, drawn), to),
        settings,
        structure,
        views,
        also=[*also, *([forced] if settings.generation else [])],
        chosen=tuple(number for number in shown.values() if number is not None),
        by_rows=drawn is not None,
    )
    kept = kept_texts + kept
    notes += reading.notes
    notes += _notes_on_rows(
        drawn,
        sentences,
        labels=texts.gold is not None,
        measured=settings.structure_sentences > 0 or settings.fit_sentences > 0,
    )
    closed = _closed_among(reading, evaluator)
    if closed:
        notes.append(ClosedHeads(tuple(map(str, closed))))
    notes += notes_on_texts(model, texts, {"": sentences}, settings.sentences, settings.sites)
    if settings.text is not None:
        notes += _notes_on_training(model, texts)
    if settings.generation:
        tables["generated"] = _generated(reading, forced, run, settings)
    if labeller is not None:
        labelled = labeller.label(run, seed=seed, controls=not settings.quick)
        label_notes = notes_on_labels(labeller, texts.available, controls=not settings.quick)
        sinks = tables["heads"][[*HEAD_COLUMNS, SINK_SHARE]]
        labels, unmeasured = _beside_ablation(labelled["labels"], evaluator, settings, processes)
        labels = labels.merge(sinks, on=HEAD_COLUMNS, how="left", validate="m:1")
        tables |= labelled | {"labels": labels}
        notes += [*label_notes, *unmeasured]
    return result_of(
        model.short_name,
        tables,
        kept,
        views,
        about=_about(reading, coverage, len(kept.sentences)),
        notes=notes,
        figures=settings.figures,
        closed=closed,
        weights=model.weights,
        past_sinks=settings.ignore_special is None,
    )


def _first_of(reading: Reading, count: int | None, drawn: Selection | None) -> Reading:
    """What is read of all texts, or of the first few, of which rows may be drawn."""
    if count is None:
        return reading
    return replace(reading.first(count), selection=drawn or reading.selection)


def _notes_on_rows(
    drawn: Selection | None, sentences: Sentences, *, labels: bool, measured: bool
) -> list[Note]:
    if drawn is None:
        return []
    number, tokens = sentences.longest()
    rows = [RowsDrawn(number + 1, tokens, ROWS, drawn.seed)] if measured else []
    return [*rows, *([TooLongToLabel(number + 1, tokens)] if labels else [])]


def _generated(
    reading: Reading,
    forced: SentenceStatistics,
    run: Callable[[str, Reading, Sequence[PerLayer[Any, Any]]], Coverage],
    settings: AnalysisSettings,
) -> pd.DataFrame:
    """The heads of decoders while the model writes itself, beside what they did under teacher forcing."""
    written = written_sentences(
        reading.model, reading.sentences, settings.batch_size, settings.progress
    )
    sites = tuple(site for site in reading.sites if site != "encoder")
    itself = SentenceStatistics(len(written.texts), forced.starts)
    run("Reading own output", replace(reading, sentences=written, sites=sites), [itself])
    return compare_generated(forced, itself, [sentence.number for sentence in written.usable])


def _run(
    settings: AnalysisSettings,
    processes: Processes,
    what: str,
    reading: Reading,
    consumers: Sequence[PerLayer[Any, Any]],
) -> Coverage:
    """Feeds `consumers` the weights of all sentences; afterwards every process has the whole result.

    Raises:
        AttnlabError: as `Reading.feed` does, here or in another process.
    """
    tell = settings.progress
    coverage = reading.feed(
        consumers,
        batch_size=settings.batch_size,
        share=(processes.index, processes.count),
        progress=None if tell is None else lambda done, total: tell(what, done, total),
    )
    mine = Sums({"coverage": coverage} | {n: consumer.sums for n, consumer in enumerate(consumers)})
    sums = processes.sum(mine)
    for number, consumer in enumerate(consumers):
        consumer.sums = sums[number]
    whole: Coverage = sums["coverage"]
    return whole


def numbers_of(shown: Sequence[str], sentences: Sentences) -> dict[str, int | None]:
    """The number in `sentences` of each that is to be shown, the first of several that are alike.

    White space at the ends and capital letters make no difference; of a pair the source is compared. None
    stands at a sentence that is not among them.
    """
    numbers: dict[str, int] = {}
    for read in sentences.usable:
        numbers.setdefault(_compared(source_of(sentences.texts[read.number].text)), read.number)
    return {sentence: numbers.get(_compared(sentence)) for sentence in shown}


def _kept_beside(model: Model, read: Sentences, shown: Sequence[str], weights: str) -> KeptMatrices:
    """Matrices of sentences that are shown and counted nowhere, numbered behind those that are read.

    Behind a tab a sentence may have its translation; without, an encoder-decoder reads the source alone.

    Raises:
        InputError: one of them cannot be read.
    """
    kept = KeptMatrices()
    for number, sentence in enumerate(shown, start=len(read.texts)):
        source, tab, target = sentence.partition("\t")
        texts = [(source, target) if tab else source]
        keeper = MatrixKeeper(1, KEPT_BYTES)
        prepare(model, read_sentences(model, texts), weights=weights).feed([keeper])
        kept += keeper.kept().at(number)
    return kept


def _compared(sentence: str) -> str:
    return clean_sentence(sentence).casefold()


def _closed_among(reading: Reading, evaluator: Evaluator | str | None) -> tuple[Head, ...]:
    """The closed heads of the sites that are read, as a pruned run has them.

    Heads are closed in output projections, so a model without known ones has none closed.
    """
    try:
        projections = (
            evaluator.projections if isinstance(evaluator, Evaluator) else _projections(reading)
        )
    except AttnlabError:
        return ()
    return tuple(head for head in closed_heads(projections) if head.site in reading.sites)


def _projections(reading: Reading) -> Projections:
    """Projections before which the heads of the sites are apart, of a model without a loss too."""
    model, sentences = reading.model, reading.sentences
    attentions: dict[Layer, tuple[nn.Module, int]] = {
        (hook.site, hook.layer): (hook.module, hook.call)
        for hook in reading.attention_sites.hooks
        if hook.site in reading.sites
    }
    axes = sentences.axes([few_tokens(sentences)], model.device)
    with ready_to_show(model), torch.inference_mode():
        return find_projections(model, attentions, lambda: forward(model, axes, with_weights=True))


def _evaluator(reading: Reading, settings: AnalysisSettings, seed: int) -> Evaluator | str | None:
    """The model with the first of its texts to evaluate it on, or why it has no loss on them.

    Which of them are too long is decided as for `importance`, so that both find the same changes. None
    where no loss is wanted.

    Raises:
        InputError: it has none although that was asked for.
    """
    if settings.ablated is False:
        return None
    try:
        sentences = reading.sentences.first(ABLATION_SENTENCES)
        evaluator = evaluator_of(reading.loaded, sentences, settings.batch_size, seed=seed)
        if settings.ablation or not evaluator.scores:
            # Whatever forbids it is said before hours of work, and before importance is proposed.
            _ = evaluator.projections
        if settings.ablation:
            evaluator.check_finite()
        if evaluator.scores:
            return evaluator
        name = type(reading.model).__name__
        msg = (
            f"{name} scores no tokens, so there is no loss to evaluate its heads by; importance measures "
            "how far its final states move without each."
        )
        raise InputError(msg)
    except AttnlabError as error:
        if settings.ablation:
            raise InputError(str(error)) from error
        return str(error)


def _beside_ablation(
    labels: pd.DataFrame,
    evaluator: Evaluator | str | None,
    settings: AnalysisSettings,
    processes: Processes,
) -> tuple[pd.DataFrame, list[Note]]:
    """The labels with the loss without each head, or with a note that says why not."""
    if evaluator is None:
        return labels, []
    if isinstance(evaluator, str):
        return labels, [NotAblated(evaluator)]
    heads = labels[HEAD_COLUMNS].drop_duplicates()
    if settings.ablated is None and len(heads) > MOST_HEADS_ABLATED:
        return labels, [TooManyToAblate(len(heads), MOST_HEADS_ABLATED)]
    try:
        changes = changes_without_heads(
            evaluator,
            heads["site"].unique().tolist(),
            progress=settings.progress,
            processes=processes,
        )
    except AttnlabError as error:
        if settings.ablation:
            raise
        return labels, [NotAblated(str(error))]
    return labels.merge(changes, on=HEAD_COLUMNS, how="left"), []


def _about(reading: Reading, coverage: Coverage, kept: int) -> dict[str, str]:
    model = reading.model
    layers = ", ".join(f"{site}: {count}" for site, count in coverage.layers.items())
    described = {
        **reading.loaded.facts,
        **reading.loaded.history,
        "Layers": layers,
        "Sentences": f"{coverage.sentences} from {reading.sentences.origin}",
        **reading.facts,
        "Matrices kept": f"{kept} sentences",
        "Decoder input": "the reference translation (teacher forcing)"
        if "decoder" in coverage.layers and model.config.is_encoder_decoder
        else "",
    }
    return {name: value for name, value in described.items() if value}


def _notes_on_training(model: Model, chosen: Texts) -> list[Note]:
    """How many of the sentences of a file the run was trained on; nothing where its corpus is gone."""
    if not isinstance(model, Run):
        return []
    try:
        rows = model.corpus().train
    except AttnlabError:
        return []
    texts = {clean_sentence(source_of(text)) for text in chosen.texts}
    learned = texts.intersection(rows["source"][:])
    return [TrainingSentences(len(learned), len(texts))] if learned else []
