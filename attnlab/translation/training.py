"""Training a translation model into a run directory, from text to best checkpoint."""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import datasets
import numpy as np
from rich.console import Console
from safetensors import SafetensorError
from transformers import (
    EvalPrediction,
    PrinterCallback,
    Seq2SeqTrainingArguments,
)

from attnlab.errors import AttnlabError, InputError
from attnlab.files import write_json
from attnlab.representations import OneLine
from attnlab.translation.batches import Collator, TokenPairs
from attnlab.translation.callbacks import (
    CHECKPOINTS,
    Interruption,
    Metrics,
    Patience,
    ProgressBar,
)
from attnlab.translation.configuration import IGNORED_LABEL, PAD, TranslationConfig
from attnlab.translation.corpus import ParallelCorpus
from attnlab.translation.encoding import EncodedCorpus, encode_corpus
from attnlab.translation.log_history import checkpoint_step
from attnlab.translation.model import TranslationModel
from attnlab.translation.randomness import seeded
from attnlab.translation.run import corpus_of, new_record, recorded_corpus, remove_run
from attnlab.translation.run_folder import SETTINGS, read_record, refuse_existing
from attnlab.translation.scoring import score
from attnlab.translation.settings import (
    ModelSettings,
    RunSettings,
    refuse_impossible_optimizer,
    settings_from,
)
from attnlab.translation.step_budget import StepBudget, step_budget
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
    usable run that `resume` takes up.

    Raises:
        InputError: a setting or the corpus cannot be used, or `folder` exists and `overwrite` is
            False; nothing is written then.
        AttnlabError: the disk is full, or the loss is no longer a number.
    """
    folder, settings = Path(folder), settings or RunSettings()
    refuse_existing(folder, overwrite=overwrite)
    refuse_impossible_tokenizer(settings.tokenizer.kind, settings.tokenizer.vocabulary)
    refuse_impossible_optimizer(settings.optimizer)
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
    settings = prepared.settings
    if overwrite:
        remove_run(folder)
    record = new_record(settings, corpus, encoded.dropped, command)
    folder.mkdir(parents=True, exist_ok=True)
    tokenizers.save(folder)
    write_json(folder / SETTINGS, record)
    return _fit(folder, settings, tokenizers, prepared, record=record, console=console)


def resume(
    folder: str | Path, *, epochs: int | None = None, console: Console | None = None
) -> Trained:
    """Goes on training the run in `folder` from its last complete checkpoint, to `epochs` in all.

    Raises:
        InputError: there is no run in `folder`, it is a pruned one, or its corpus is gone.
        AttnlabError: the corpus is no longer the same.
    """
    folder = Path(folder)
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
    refuse_impossible_optimizer(settings.optimizer)
    corpus = recorded_corpus(folder, settings, record)
    if corpus.checksum != record["corpus"]["checksum"]:
        msg = (
            f"The corpus '{corpus.name}' changed since {folder} was begun; train into a new folder."
        )
        raise AttnlabError(msg)
    tokenizers = load_tokenizers(folder)
    encoded = encode_corpus(corpus, tokenizers, max_tokens=settings.corpus.max_tokens)
    prepared = _prepare(folder, settings, corpus, tokenizers, encoded)
    write_json(folder / SETTINGS, record)
    return _fit(folder, prepared.settings, tokenizers, prepared, record=record, console=console)


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


def last_complete_checkpoint(folder: Path) -> Path | None:
    """The newest checkpoint that was written to its end."""
    complete = [
        path.parent
        for path in (folder / CHECKPOINTS).glob("checkpoint-*/trainer_state.json")
        if (path.parent / "model.safetensors").exists() and (path.parent / "optimizer.pt").exists()
    ]
    return max(complete, key=lambda path: checkpoint_step(path.name), default=None)


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
        references=[texts[rows[place]] for place in order],
    )


def _fit(
    folder: Path,
    settings: RunSettings,
    tokenizers: Tokenizers,
    prepared: _Prepared,
    *,
    record: dict[str, Any],
    console: Console | None,
) -> Trained:
    optimizer, model = settings.optimizer, prepared.model
    metrics = Metrics(folder, int(prepared.pairs.target_lengths.sum()))
    interruption = Interruption()
    smoothed = settings.model.label_smoothing > 0
    bar = ProgressBar(metrics, console, smoothed=smoothed) if console is not None else None
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


def scorer(
    tokenizers: Tokenizers, references: list[str]
) -> Callable[[EvalPrediction], dict[str, Any]]:
    """A function from predicted token ids to BLEU and chrF against the references as written.

    Decoded labels would not do: unknown words are missing from them.
    """

    def scores(prediction: EvalPrediction) -> dict[str, Any]:
        ids = np.asarray(prediction.predictions)
        real = np.where(ids == IGNORED_LABEL, PAD, ids)
        texts = tokenizers.target.batch_decode(real, skip_special_tokens=True)
        return score(texts, references).as_dict()

    return scores


def save_model(model: TranslationModel, folder: Path) -> None:
    """Writes weights and configuration into `folder`, each file whole or not at all.

    Raises:
        AttnlabError: the disk is full; the model that was there before is unchanged.
    """
    try:
        with tempfile.TemporaryDirectory(dir=folder, prefix=".model-") as temporary:
            model.save_pretrained(temporary)
            for path in sorted(Path(temporary).iterdir()):
                path.replace(folder / path.name)
    except (OSError, SafetensorError) as error:
        msg = f"Could not write the model to {folder}: {error}; what was there before is unchanged."
        raise AttnlabError(msg) from error
