"""Training a translation model into a run directory, from text to best checkpoint."""

import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import datasets
import numpy as np
from rich.console import Console
from transformers import EarlyStoppingCallback, EvalPrediction, PrinterCallback

from attnlab.errors import AttnlabError, InputError
from attnlab.files import write_json
from attnlab.translation.batches import Collator, TokenPairs
from attnlab.translation.callbacks import Interruption, Metrics, ProgressBar
from attnlab.translation.configuration import IGNORED_LABEL, PAD, TranslationConfig
from attnlab.translation.encoding import EncodedCorpus, encode_corpus
from attnlab.translation.model import TranslationModel
from attnlab.translation.randomness import seeded
from attnlab.translation.run import SETTINGS, corpus_of, new_record, read_record
from attnlab.translation.scoring import score
from attnlab.translation.settings import (
    ModelSettings,
    RunSettings,
    refuse_impossible_optimizer,
    settings_from,
)
from attnlab.translation.tokenizer import Tokenizers, load_tokenizers, train_tokenizers
from attnlab.translation.trainer import TranslationTrainer, training_arguments

CHECKPOINTS = "checkpoints"


@dataclass(frozen=True)
class Trained:
    """How training ended: the evaluations, what was dropped, whether Ctrl-C ended it."""

    folder: Path
    metrics: list[dict[str, Any]]
    record: dict[str, Any]
    interrupted: bool
    parameters: int


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
    refuse_impossible_optimizer(settings.optimizer)
    configuration(settings.model, vocabulary=settings.tokenizer.vocabulary)
    corpus = corpus_of(settings)
    tokenizers = train_tokenizers(
        corpus,
        kind=settings.tokenizer.kind,
        vocabulary=settings.tokenizer.vocabulary,
        shared=settings.tokenizer.shared,
    )
    encoded = encode_corpus(corpus, tokenizers, max_tokens=settings.corpus.max_tokens)
    if overwrite and folder.exists():
        shutil.rmtree(folder)
    record = new_record(settings, corpus, encoded.dropped, command)
    folder.mkdir(parents=True, exist_ok=True)
    tokenizers.save(folder)
    write_json(folder / SETTINGS, record)
    return _fit(folder, settings, tokenizers, encoded, record=record, console=console)


def resume(
    folder: str | Path, *, epochs: int | None = None, console: Console | None = None
) -> Trained:
    """Goes on training the run in `folder` from its last complete checkpoint, to `epochs` in all.

    Raises:
        InputError: there is no run in `folder`.
        AttnlabError: the corpus is no longer the same.
    """
    folder = Path(folder)
    record = read_record(folder)
    if epochs is not None:
        record["settings"]["optimizer"]["epochs"] = epochs
    settings = settings_from(record["settings"])
    refuse_impossible_optimizer(settings.optimizer)
    corpus = corpus_of(settings)
    if corpus.checksum != record["corpus"]["checksum"]:
        msg = (
            f"The corpus '{corpus.name}' changed since {folder} was begun; train into a new folder."
        )
        raise AttnlabError(msg)
    tokenizers = load_tokenizers(folder)
    encoded = encode_corpus(corpus, tokenizers, max_tokens=settings.corpus.max_tokens)
    write_json(folder / SETTINGS, record)
    return _fit(folder, settings, tokenizers, encoded, record=record, console=console)


def refuse_existing(folder: Path, *, overwrite: bool) -> None:
    """Raises InputError where training into `folder` would damage what is there."""
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    if not folder.is_dir() or not (folder / SETTINGS).exists():
        msg = f"{folder} exists and is not a run directory; choose another folder for the run."
        raise InputError(msg)
    if not overwrite:
        msg = f"{folder} already holds a run; add --resume to go on, or --overwrite to start anew."
        raise InputError(msg)


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
    return max(complete, key=lambda path: int(path.name.split("-")[1]), default=None)


def _fit(
    folder: Path,
    settings: RunSettings,
    tokenizers: Tokenizers,
    encoded: EncodedCorpus,
    *,
    record: dict[str, Any],
    console: Console | None,
) -> Trained:
    optimizer = settings.optimizer
    pairs = TokenPairs(encoded.train)
    held_out = _first(encoded.validation, optimizer.validation_sentences)
    longest = max(map(len, held_out["labels"]))
    arguments = training_arguments(
        optimizer, folder, target_limit=min(settings.corpus.max_tokens, longest * 3 // 2 + 5)
    )
    metrics = Metrics(folder, int(pairs.target_lengths.sum()))
    interruption = Interruption()
    shared = tokenizers.source is tokenizers.target
    with seeded(optimizer.seed), interruption.watching():
        model = TranslationModel(
            configuration(
                settings.model,
                vocabulary=len(tokenizers.target),
                source_vocabulary=None if shared else len(tokenizers.source),
                longest=settings.corpus.max_tokens,
            )
        )
        trainer = TranslationTrainer(
            batch_tokens=optimizer.batch_tokens,
            model=model,
            args=arguments,
            data_collator=Collator(),
            train_dataset=pairs,
            eval_dataset=TokenPairs(held_out),
            compute_metrics=scorer(tokenizers),
            callbacks=[metrics, interruption, EarlyStoppingCallback(optimizer.patience)],
        )
        trainer.remove_callback(PrinterCallback)
        if console is not None:
            trainer.add_callback(ProgressBar(metrics, console))
        checkpoint = last_complete_checkpoint(folder)
        trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    save_model(model, folder)
    parameters = sum(weight.numel() for weight in model.parameters())
    return Trained(folder, metrics.rows, record, interruption.asked, parameters)


def _first(split: datasets.Dataset, count: int) -> datasets.Dataset:
    return split.select(range(min(count, len(split))))


def scorer(tokenizers: Tokenizers) -> Callable[[EvalPrediction], dict[str, Any]]:
    """A function from predicted and gold token ids to BLEU and chrF of their texts."""

    def scores(prediction: EvalPrediction) -> dict[str, Any]:
        texts = []
        for ids in (prediction.predictions, prediction.label_ids):
            real = np.where(np.asarray(ids) == IGNORED_LABEL, PAD, ids)
            texts.append(tokenizers.target.batch_decode(real, skip_special_tokens=True))
        return score(*texts).as_dict()

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
    except OSError as error:
        msg = f"Could not write the model to {folder}: {error.strerror or error}."
        raise AttnlabError(msg) from error
