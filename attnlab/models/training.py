"""Training a model into a run directory, from text to best checkpoint."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from transformers import PrinterCallback, TrainerCallback

from attnlab.attention import AttentionPlan
from attnlab.core import (
    AttnlabError,
    InputError,
    Processes,
    ShortRepr,
    arguments_told,
    launched_processes,
    locked,
    one_of_several,
    paths_in,
    seeded,
    write_json,
)
from attnlab.corpora import ParallelCorpus, corpus_paths
from attnlab.models.callbacks import KeptCheckpoints, Metrics, Patience, ProgressBar
from attnlab.models.checkpoints import Beginning, beginning, check_epochs, save_model
from attnlab.models.first_embeddings import check_embeddings
from attnlab.models.preparing import (
    Prepared,
    check_learnable,
    check_model_size,
    check_same_training,
    configuration,
    encoded_corpus,
    prepare,
    stage,
    tell_batches,
)
from attnlab.models.run import corpus_of, local_paths, new_record, recorded_corpus, settings_here
from attnlab.models.run_folder import (
    SETTINGS,
    LocalPaths,
    checkpoint_step,
    is_run,
    is_trained,
    read_record,
    replaced_run,
    write_local,
)
from attnlab.models.run_replacement import (
    back_up,
    delete_replaced,
    prepare_folder,
    prepare_resuming,
    restoring_on_failure,
)
from attnlab.models.scoring import scorer
from attnlab.models.tokenizer import (
    Tokenizers,
    check_tokenizer,
    checksum,
    load_tokenizers,
    train_tokenizers,
)
from attnlab.models.trainer import Interruption, StepSeeds, TranslationTrainer, training_device
from attnlab.models.training_batches import EncodedCorpus, collator, with_counts
from attnlab.models.training_settings import RunSettings, settings_from


@dataclass(frozen=True, repr=False)
class Trained(ShortRepr):
    """The end of a training: the evaluations, what was dropped, whether Ctrl-C ended it, what was kept."""

    folder: Path
    metrics: list[dict[str, Any]]
    record: dict[str, Any]
    interrupted: bool
    parameters: int
    kept_step: int | None
    replaced: Path | None = None
    """Where the run is that this one replaces: it is kept after Ctrl-C, or could not be deleted."""


@arguments_told
def train(
    folder: str | Path,
    settings: RunSettings | None = None,
    *,
    overwrite: bool = False,
    command: str = "",
    device: str | None = None,
    console: Console | None = None,
    callbacks: Sequence[TrainerCallback] = (),
) -> Trained:
    """Trains a model on the corpus of `settings` and leaves a run directory in `folder`.

    Tokenizers are trained on the training split only; the best checkpoint on validation becomes
    the model. The global random state is the same afterwards. Interrupted by Ctrl-C, it leaves a
    usable run that `resume` takes up. With `overwrite` the run in `folder` is deleted when the new
    one is trained; links are deleted, what they lead to is not. Processes that torchrun started share
    each batch; the first of them writes, and only its result is whole. `callbacks` are transformers'
    own, such as one that keeps the weights at chosen steps; they are told after those of attnlab.

    Raises:
        InputError: a setting or the corpus cannot be used, `folder` exists and `overwrite` is False, or
            another process trains there; nothing is written then.
        AttnlabError: the disk is full, or the loss is no longer a number. A run that was to be
            replaced is as it was then or, once there is a complete checkpoint, in `.replaced-run`.
    """
    folder, settings = Path(folder), settings or RunSettings()
    with _sharing(folder, device) as processes:
        inputs = paths_in(
            {"corpus": corpus_paths(settings.corpus.name), "embeddings": settings.embeddings.start}
        )
        processes.by_first(lambda: prepare_folder(folder, overwrite=overwrite, inputs=inputs))
        check_tokenizer(settings.tokenizer.kind, settings.tokenizer.vocabulary)
        check_learnable(settings.model)
        check_model_size(settings)
        configuration(settings.model, vocabulary=settings.tokenizer.vocabulary)
        check_embeddings(settings)
        own_console = console if processes.first else None
        with stage("Reading the corpus", own_console):
            corpus = corpus_of(settings)
        tokenizers, encoded = _tokenized(settings, corpus, None, own_console)
        with stage("Making batches and the model", own_console):
            prepared = prepare(folder, settings, corpus, tokenizers, encoded, device=device)
        if own_console is not None:
            tell_batches(settings.optimizer, prepared, own_console)
        check_same_training(processes, prepared, corpus, tokenizers, None)
        record = new_record(prepared.settings, corpus, encoded.dropped, command)
        record["processes"] = processes.count
        with restoring_on_failure(folder) if processes.first else nullcontext():
            paths = local_paths(settings)
            processes.by_first(lambda: _begin(folder, record, paths, tokenizers))
            trained = _fit(
                folder, tokenizers, prepared, processes,
                record=record, console=console, callbacks=callbacks,
            )  # fmt: skip
        return _delete_replaced_run(trained) if processes.first else trained


@arguments_told
def resume(
    folder: str | Path,
    *,
    epochs: int | None = None,
    device: str | None = None,
    console: Console | None = None,
) -> Trained:
    """Goes on training the run in `folder` from its last complete checkpoint, to `epochs` in all.

    A run that was never trained to a checkpoint begins again.

    Raises:
        InputError: there is no run in `folder`, it is a pruned one, another process trains it, it cannot be
            written, its corpus is gone, it is trained for more than `epochs`, or no checkpoint or not the
            best one is whole; nothing is written then. Of a damaged newest checkpoint the console is told.
        AttnlabError: the corpus is no longer the same, or see `train`.
    """
    folder = Path(folder)
    with _sharing(folder, device) as processes:
        processes.by_first(lambda: prepare_resuming(folder))
        record = read_record(folder)
        _check_not_pruned(folder, record)
        if epochs is not None:
            record["settings"]["optimizer"]["epochs"] = epochs
        settings = settings_here(folder, settings_from(record["settings"]))
        written = _written_tokenizers(folder)
        start = beginning(folder, settings.model, written)
        check_epochs(folder, start.checkpoint, settings.optimizer.epochs)
        own_console = console if processes.first else None
        with stage("Reading the corpus", own_console):
            corpus = recorded_corpus(folder, settings)
        if corpus.checksum != record["corpus"]["checksum"]:
            msg = f"The corpus '{corpus.name}' changed since {folder} was begun; train into a new folder."
            raise AttnlabError(msg)
        tokenizers, encoded = _tokenized(settings, corpus, written, own_console)
        begins = start.checkpoint is None
        with stage("Making batches and the model", own_console):
            prepared = prepare(
                folder, settings, corpus, tokenizers, encoded, device=device, begins=begins
            )
        check_same_training(processes, prepared, corpus, tokenizers, start.checkpoint)
        if processes.first and console is not None:
            _tell_damaged(start, console)
        with restoring_on_failure(folder) if processes.first else nullcontext():
            unwritten = tokenizers if written is None else None
            processes.by_first(lambda: _write_beginning(folder, record, unwritten))
            trained = _fit(
                folder, tokenizers, prepared, processes,
                record=record, checkpoint=start.checkpoint, console=console,
            )  # fmt: skip
        return _delete_replaced_run(trained) if processes.first else trained


@contextmanager
def _sharing(folder: Path, device: str | None) -> Iterator[Processes]:
    """The processes that train together in `folder`; of others, none can train there in the block.

    Raises:
        InputError: another process trains there, a launcher is only half described, or the device cannot
            be used.
    """
    processes = launched_processes()
    if processes.count == 1 and one_of_several():
        msg = (
            "The environment variable WORLD_SIZE names several processes, and MASTER_ADDR no meeting point; "
            "start them with torchrun, or unset it."
        )
        raise InputError(msg)
    with (
        processes.together(gpus=training_device(device).type == "cuda"),
        locked(folder) if processes.first else nullcontext(),
    ):
        yield processes


def _tell_damaged(start: Beginning, console: Console) -> None:
    for path, wrong in start.damaged.items():
        console.print(
            f"Warning: the checkpoint {path} is damaged ({wrong}); going on from {start.checkpoint}.",
            style="yellow",
            soft_wrap=True,
            markup=False,
        )


def _begin(folder: Path, record: dict[str, Any], paths: LocalPaths, tokenizers: Tokenizers) -> None:
    if is_run(folder):
        back_up(folder)
    _write_beginning(folder, record, None)
    write_local(folder, paths)
    tokenizers.save(folder)


def _write_beginning(folder: Path, record: dict[str, Any], tokenizers: Tokenizers | None) -> None:
    # A folder with settings is a run, which can be resumed whatever else is missing.
    write_json(folder / SETTINGS, record)
    if tokenizers is not None:
        tokenizers.save(folder)


def _check_not_pruned(folder: Path, record: dict[str, Any]) -> None:
    if "pruned" in record:
        msg = (
            f"{folder} was pruned from {record['pruned']['run']} and has no checkpoint to go on from; "
            "train that run on, or a new one."
        )
        raise InputError(msg)


def _tokenized(
    settings: RunSettings,
    corpus: ParallelCorpus,
    written: Tokenizers | None,
    console: Console | None,
) -> tuple[Tokenizers, EncodedCorpus]:
    """The tokenizers, those that are written already or else new ones, and the corpus as token ids."""
    with stage("Training the tokenizer", console):
        tokenizers = written or _learned_tokenizers(settings, corpus)
    with stage("Encoding the corpus", console):
        encoded = encoded_corpus(settings, corpus, tokenizers)
        if written is None:
            side = settings.model.predicted_side
            tokenizers = with_counts(tokenizers, corpus, encoded, side)
        return tokenizers, encoded


def _learned_tokenizers(settings: RunSettings, corpus: ParallelCorpus) -> Tokenizers:
    """Tokenizers as the settings have them, trained on the corpus.

    Raises:
        InputError: the attention plan names token ids of another tokenizer.
    """
    chosen = settings.tokenizer
    tokenizers = train_tokenizers(
        corpus,
        kind=chosen.kind,
        vocabulary=chosen.vocabulary,
        shared=chosen.shared,
        predicted=settings.model.predicted_side,
        counted=False,
    )
    plan = AttentionPlan({}, chosen.checksum)
    plan.check_same_tokenizer(checksum(tokenizers.source), "The attention plan")
    return tokenizers


def _written_tokenizers(folder: Path) -> Tokenizers | None:
    """The tokenizers of the run; None where training ended before they were written."""
    try:
        return load_tokenizers(folder)
    except InputError:
        if is_trained(folder):
            raise
        return None


def _delete_replaced_run(trained: Trained) -> Trained:
    """Deletes the run that `trained` replaces, unless Ctrl-C ended training."""
    keeps = replaced_run if trained.interrupted else delete_replaced
    return replace(trained, replaced=keeps(trained.folder))


def _fit(
    folder: Path,
    tokenizers: Tokenizers,
    prepared: Prepared,
    processes: Processes,
    *,
    record: dict[str, Any],
    checkpoint: Path | None = None,
    console: Console | None,
    callbacks: Sequence[TrainerCallback] = (),
) -> Trained:
    settings, model = prepared.settings, prepared.model
    optimizer = settings.optimizer
    metrics = Metrics(folder, int(prepared.pairs.target_lengths.sum()))
    interruption = Interruption(processes)
    keeps = optimizer.keep_checkpoints > 0 and processes.first
    patience = Patience(optimizer.patience, warmup=prepared.steps.warmup)
    keeping = [KeptCheckpoints(folder, optimizer.keep_checkpoints, patience)] if keeps else []
    bar = ProgressBar(metrics, console) if console is not None and processes.first else None
    with seeded(optimizer.seed), interruption.watching(), processes.on_its_own():
        trainer = TranslationTrainer(
            batch_tokens=prepared.steps.batch_tokens,
            processes=processes,
            model=model,
            args=prepared.arguments,
            data_collator=collator(settings),
            train_dataset=prepared.pairs,
            eval_dataset=prepared.held_out,
            training_sample=prepared.training_sample,
            compute_metrics=scorer(tokenizers, prepared.references),
            callbacks=[
                metrics,
                interruption,
                StepSeeds(processes, optimizer.seed),
                patience,
                *keeping,
                *callbacks,
            ],
        )
        trainer.remove_callback(PrinterCallback)
        if bar is not None:
            trainer.add_callback(bar)
        try:
            trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
        finally:
            if bar is not None:
                bar.close()
        if processes.first:
            save_model(model, folder)
    parameters = sum(weight.numel() for weight in model.parameters())
    best = trainer.state.best_model_checkpoint
    kept = None if best is None else checkpoint_step(best)
    return Trained(folder, metrics.rows, record, interruption.agreed, parameters, kept)


def kept_evaluation(trained: Trained) -> dict[str, Any] | None:
    """The evaluation of the checkpoint that became the model; None before the first."""
    return next((row for row in trained.metrics if row["step"] == trained.kept_step), None)
