"""Training a translation model into a run directory, from text to best checkpoint."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import datasets
from rich.console import Console
from transformers import (
    PrinterCallback,
    Seq2SeqTrainingArguments,
)

from attnlab.corpora.corpus import ParallelCorpus
from attnlab.errors import AttnlabError, InputError
from attnlab.files import write_json
from attnlab.representations import OneLine
from attnlab.translation.batches import Collator, StepBudget, TokenPairs, step_budget
from attnlab.translation.callbacks import (
    Interruption,
    Metrics,
    Patience,
    ProgressBar,
)
from attnlab.translation.configuration import TranslationConfig
from attnlab.translation.encoding import EncodedCorpus, encode_corpus
from attnlab.translation.model import TranslationModel
from attnlab.translation.randomness import seeded
from attnlab.translation.runs.checkpoints import (
    refuse_damaged_checkpoints,
    refuse_fewer_epochs,
    refuse_lost_checkpoints,
    save_model,
)
from attnlab.translation.runs.files import (
    checkpoint_step,
    is_trained,
    last_complete_checkpoint,
)
from attnlab.translation.runs.folder import (
    SETTINGS,
    is_run,
    read_record,
    refuse_existing,
    replaced_run,
)
from attnlab.translation.runs.replacement import delete_replaced, falling_back, recover, set_aside
from attnlab.translation.runs.run import corpus_of, new_record, recorded_corpus
from attnlab.translation.scoring import scorer
from attnlab.translation.settings import (
    ModelSettings,
    RunSettings,
    settings_from,
)
from attnlab.translation.token_tables import load_token_counts, refuse_unlearned
from attnlab.translation.tokenizer import (
    Tokenizers,
    load_tokenizers,
    refuse_impossible_tokenizer,
    train_tokenizers,
)
from attnlab.translation.trainer import (
    TranslationTrainer,
    evaluation_order,
    training_arguments,
)


@dataclass(frozen=True, repr=False)
class Trained(OneLine):
    """How training ended: the evaluations, what was dropped, whether Ctrl-C ended it, what was kept."""

    folder: Path
    metrics: list[dict[str, Any]]
    record: dict[str, Any]
    interrupted: bool
    parameters: int
    kept_step: int | None
    replaced: Path | None = None
    """Where the run is that this one replaces: it is kept after Ctrl-C, or could not be deleted."""


def train(
    folder: str | Path,
    settings: RunSettings | None = None,
    *,
    overwrite: bool = False,
    command: str = "",
    console: Console | None = None,
) -> Trained:
    """Trains a model on the corpus of `settings` and leaves a run directory in `folder`.

    Tokenizers are trained on the training split only; the best checkpoint on validation becomes
    the model. The global random state is the same afterwards. Interrupted by Ctrl-C, it leaves a
    usable run that `resume` takes up. With `overwrite` the run in `folder` is deleted when the new
    one is trained; links are deleted, what they lead to is not.

    Raises:
        InputError: a setting or the corpus cannot be used, or `folder` exists and `overwrite` is
            False; nothing is written then.
        AttnlabError: the disk is full, or the loss is no longer a number. A run that was to be
            replaced is as it was then or, once there is a complete checkpoint, in `.replaced-run`.
    """
    folder, settings = Path(folder), settings or RunSettings()
    recover(folder, overwrite=overwrite)
    refuse_existing(folder, overwrite=overwrite)
    refuse_impossible_tokenizer(settings.tokenizer.kind, settings.tokenizer.vocabulary)
    refuse_unlearned(settings.model)
    configuration(settings.model, vocabulary=settings.tokenizer.vocabulary)
    corpus = corpus_of(settings)
    tokenizers = train_tokenizers(
        corpus,
        kind=settings.tokenizer.kind,
        vocabulary=settings.tokenizer.vocabulary,
        shared=settings.tokenizer.shared,
    )
    encoded = encode_corpus(corpus, tokenizers, max_tokens=settings.corpus.max_tokens)
    prepared = _prepare(folder, settings, corpus, tokenizers, encoded)
    record = new_record(prepared.settings, corpus, encoded.dropped, command)
    with falling_back(folder):
        if is_run(folder):
            set_aside(folder)
        # A folder with settings is a run, which can be resumed whatever else is missing.
        write_json(folder / SETTINGS, record)
        tokenizers.save(folder)
        trained = _fit(folder, tokenizers, prepared, record=record, console=console)
    return _without_replaced(trained)


def resume(
    folder: str | Path, *, epochs: int | None = None, console: Console | None = None
) -> Trained:
    """Goes on training the run in `folder` from its last complete checkpoint, to `epochs` in all.

    A run that was never trained to a checkpoint begins again.

    Raises:
        InputError: there is no run in `folder`, it is a pruned one, its corpus is gone, it is trained for
            more than `epochs`, or the newest or the best checkpoint is not whole; nothing is written then.
        AttnlabError: the corpus is no longer the same, or see `train`.
    """
    folder = Path(folder)
    recover(folder)
    record = read_record(folder)
    if "pruned" in record:
        msg = (
            f"{folder} was pruned from {record['pruned']['run']} and has no checkpoint to go on from; "
            "train that run on, or a new one."
        )
        raise InputError(msg)
    if epochs is not None:
        record["settings"]["optimizer"]["epochs"] = epochs
    settings = settings_from(record["settings"])
    refuse_lost_checkpoints(folder)
    refuse_fewer_epochs(folder, settings.optimizer.epochs)
    tokenizers = _written_tokenizers(folder)
    if tokenizers is not None:
        refuse_damaged_checkpoints(folder, settings.model, tokenizers)
    corpus = recorded_corpus(folder, settings, record)
    if corpus.checksum != record["corpus"]["checksum"]:
        msg = (
            f"The corpus '{corpus.name}' changed since {folder} was begun; train into a new folder."
        )
        raise AttnlabError(msg)
    chosen = tokenizers or train_tokenizers(corpus, **vars(settings.tokenizer))
    encoded = encode_corpus(corpus, chosen, max_tokens=settings.corpus.max_tokens)
    prepared = _prepare(folder, settings, corpus, chosen, encoded)
    with falling_back(folder):
        write_json(folder / SETTINGS, record)
        if tokenizers is None:
            chosen.save(folder)
        trained = _fit(folder, chosen, prepared, record=record, console=console)
    return _without_replaced(trained)


def _written_tokenizers(folder: Path) -> Tokenizers | None:
    """Those of the run; None where training ended before they were written."""
    try:
        return load_tokenizers(folder)
    except InputError:
        if is_trained(folder):
            raise
        return None


def _without_replaced(trained: Trained) -> Trained:
    """Deletes the run that `trained` replaces, unless Ctrl-C ended training."""
    keeps = replaced_run if trained.interrupted else delete_replaced
    return replace(trained, replaced=keeps(trained.folder))


def configuration(
    model: ModelSettings, *, vocabulary: int, source_vocabulary: int | None = None, longest: int = 1
) -> TranslationConfig:
    """The model configuration for vocabularies of these sizes and texts up to `longest` tokens."""
    return TranslationConfig(
        vocab_size=vocabulary,
        source_vocab_size=source_vocabulary,
        max_positions=longest,
        **vars(model),
    )


@dataclass(frozen=True)
class _Prepared:
    """What training needs, made before anything is written: what cannot be made is refused here.

    Attributes:
        settings: those asked for, with batch size and warm-up filled in.
        steps: batch size, number of steps and warm-up.
        model: the model with its first weights.
        arguments: the Trainer's.
        pairs: encoded training pairs.
        held_out: encoded validation pairs.
        references: translations of the validation pairs as written, in the order of evaluation.
    """

    settings: RunSettings
    steps: StepBudget
    model: TranslationModel
    arguments: Seq2SeqTrainingArguments
    pairs: TokenPairs
    held_out: TokenPairs
    references: list[str]


def _prepare(
    folder: Path,
    settings: RunSettings,
    corpus: ParallelCorpus,
    tokenizers: Tokenizers,
    encoded: EncodedCorpus,
) -> _Prepared:
    training_pairs = TokenPairs(encoded.train)
    steps = step_budget(training_pairs, settings.optimizer)
    optimizer = replace(settings.optimizer, batch_tokens=steps.batch_tokens, warmup=steps.warmup)
    settings, limit = replace(settings, optimizer=optimizer), settings.corpus.max_tokens
    held_out = _first(encoded.validation, optimizer.validation_sentences)
    pairs = TokenPairs(held_out)
    texts = corpus.validation["target"][:]
    rows = held_out["row"][:]
    order = evaluation_order(pairs, steps.batch_tokens)
    shared = tokenizers.source is tokenizers.target
    with seeded(optimizer.seed):
        model = TranslationModel(
            configuration(
                settings.model,
                vocabulary=len(tokenizers.target),
                source_vocabulary=None if shared else len(tokenizers.source),
                longest=limit,
            )
        )
        load_token_counts(model, tokenizers)
    longest = int(pairs.target_lengths.max()) * 3 // 2 + 5
    return _Prepared(
        settings=settings,
        steps=steps,
        model=model,
        arguments=training_arguments(
            optimizer, folder, target_limit=min(limit, longest), warmup=steps.warmup
        ),
        pairs=training_pairs,
        held_out=pairs,
        references=[texts[rows[index]] for index in order],
    )


def _fit(
    folder: Path,
    tokenizers: Tokenizers,
    prepared: _Prepared,
    *,
    record: dict[str, Any],
    console: Console | None,
) -> Trained:
    settings, model = prepared.settings, prepared.model
    optimizer = settings.optimizer
    metrics = Metrics(folder, int(prepared.pairs.target_lengths.sum()))
    interruption = Interruption()
    bar = ProgressBar(metrics, console) if console is not None else None
    with seeded(optimizer.seed), interruption.watching():
        trainer = TranslationTrainer(
            batch_tokens=prepared.steps.batch_tokens,
            model=model,
            args=prepared.arguments,
            data_collator=Collator(),
            train_dataset=prepared.pairs,
            eval_dataset=prepared.held_out,
            compute_metrics=scorer(tokenizers, prepared.references),
            callbacks=[
                metrics,
                interruption,
                Patience(optimizer.patience, warmup=prepared.steps.warmup),
            ],
        )
        trainer.remove_callback(PrinterCallback)
        if bar is not None:
            trainer.add_callback(bar)
        checkpoint = last_complete_checkpoint(folder)
        try:
            trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
        finally:
            if bar is not None:
                bar.close()
    save_model(model, folder)
    parameters = sum(weight.numel() for weight in model.parameters())
    best = trainer.state.best_model_checkpoint
    kept = None if best is None else checkpoint_step(best)
    return Trained(folder, metrics.rows, record, interruption.asked, parameters, kept)


def kept_evaluation(trained: Trained) -> dict[str, Any] | None:
    """The evaluation of the checkpoint that became the model; None before the first."""
    return next((row for row in trained.metrics if row["step"] == trained.kept_step), None)


def _first(split: datasets.Dataset, count: int) -> datasets.Dataset:
    return split.select(range(min(count, len(split))))
