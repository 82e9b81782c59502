"""A run directory: what training leaves behind, and what everything else starts from."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from transformers import GenerationConfig

from attnlab.core.documents import document_text, fitting, parse_json
from attnlab.core.errors import AttnlabError, InputError, reason
from attnlab.core.files import file_checksum
from attnlab.core.installed import __version__, versions
from attnlab.core.pretrained import read_pretrained
from attnlab.core.texts import briefly
from attnlab.corpora.corpus import ParallelCorpus, load_corpus, local_path
from attnlab.corpora.readers import looks_like_a_path
from attnlab.corpora.rows import SPLITS
from attnlab.models.callbacks import read_metrics
from attnlab.models.loading import (
    UNREADABLE,
    DamagedModelError,
    check_checksum,
    check_generation_config,
    load_whole,
)
from attnlab.models.model import LanguageModel, OwnModel, TranslationModel, model_class
from attnlab.models.run_folder import (
    WEIGHTS,
    check_task,
    is_run,
    read_record,
    replaced_run,
    ways_on,
)
from attnlab.models.tokenizer import Tokenizers, load_tokenizers
from attnlab.models.training_settings import (
    LANGUAGE_MODEL,
    RUN_FORMAT,
    TRANSLATION,
    ModelSettings,
    RunSettings,
    settings_from,
)

ARCHITECTURE = (
    "task", "kind", "cell", "score", "dim", "heads", "scaled", "encoder_layers", "decoder_layers",
    "feed_forward", "norm", "positions", "tie_word_embeddings", "global_projections",
)  # fmt: skip


@dataclass(frozen=True, repr=False)
class Run:
    """A trained model with its tokenizers and everything that is needed to repeat it."""

    folder: Path
    model: OwnModel
    tokenizers: Tokenizers
    settings: RunSettings
    record: dict[str, Any]
    weights: str
    """Checksum of the file of weights, by which results tell of which state of the model they are."""

    def __repr__(self) -> str:
        shape = self.settings.model
        parameters = sum(parameter.numel() for parameter in self.model.parameters())
        text, stacks = self.settings.corpus.pair, f"{shape.encoder_layers} encoder and "
        if shape.task == LANGUAGE_MODEL:
            text, stacks = LANGUAGE_MODEL, ""
        return (
            f"Run({str(self.folder)!r}, {text}, {stacks}{shape.decoder_layers} decoder layers, "
            f"{shape.heads} heads, dim {shape.dim}, {parameters:,} parameters)"
        )

    @property
    def translator(self) -> TranslationModel:
        """The model of a translation run.

        Raises:
            InputError: the run is of another task.
        """
        check_task(self.folder, self.settings.model.task, TRANSLATION)
        assert isinstance(self.model, TranslationModel)  # noqa: S101 - the task says so
        return self.model

    @property
    def language_model(self) -> LanguageModel:
        """The model of a language model's run.

        Raises:
            InputError: the run is of another task.
        """
        check_task(self.folder, self.settings.model.task, LANGUAGE_MODEL)
        assert isinstance(self.model, LanguageModel)  # noqa: S101 - the task says so
        return self.model

    def corpus(self) -> ParallelCorpus:
        """The corpus that the run was trained on, loaded again.

        Raises:
            InputError: the corpus is no longer where it was.
            AttnlabError: the text is no longer the same as in training.
        """
        corpus = recorded_corpus(self.folder, self.settings, self.record)
        if corpus.checksum != self.record["corpus"]["checksum"]:
            msg = (
                f"The corpus '{corpus.name}' is not the one that {self.folder} was trained on "
                "(its checksum differs); put the old files back or train again."
            )
            raise AttnlabError(msg)
        return corpus

    def metrics(self) -> list[dict[str, Any]]:
        """What each evaluation during training gave, oldest first."""
        return read_metrics(self.folder)


# What is studied: a folder or the name of a model, a loaded run, or a pair (model, tokenizer).
Source = str | Path | Run | tuple[Any, Any]


def run_at(source: Source) -> Run | None:
    """The run that `source` is, or that is in that folder; None where it is something else."""
    if isinstance(source, Run):
        return source
    return load(source) if isinstance(source, str | Path) and is_run(source) else None


def load(folder: str | Path) -> Run:
    """The run in `folder`, its model in eval mode.

    Raises:
        InputError: there is no run, a newer attnlab wrote it, or its model is not whole: tensors are
            missing or not finite, or `config.json` disagrees with the rest.
        AttnlabError: the run holds no trained model yet.
    """
    folder = Path(folder)
    record = read_record(folder)
    if not (folder / WEIGHTS).exists():
        msg = (
            f"{folder} holds no trained model yet; finish it with: attnlab train {folder} --resume"
        )
        if replaced_run(folder) is not None:
            msg = f"{folder} holds no trained model yet; {ways_on(folder)}."
        raise AttnlabError(msg)
    settings, tokenizers = settings_from(record["settings"]), load_tokenizers(folder)
    try:
        model = load_model(folder, settings.model, tokenizers)
    except UNREADABLE as error:
        msg = (
            f"The model in {folder} is damaged ({reason(error)}); put its files back or train the "
            "run again."
        )
        raise InputError(msg) from error
    return Run(folder, model, tokenizers, settings, record, file_checksum(folder / WEIGHTS))


def load_model(folder: Path, settings: ModelSettings, tokenizers: Tokenizers) -> OwnModel:
    """The model whose files are in `folder`, in eval mode.

    Attention may differ from the settings: mechanisms can be put into a trained model and saved with it.

    Raises:
        DamagedModelError: it is not whole, or not of these settings and tokenizers.
        Exception: one of `UNREADABLE`, where transformers cannot read the files.
    """
    kind = model_class(settings)
    try:
        # First, since transformers takes other types of values than a configuration can have.
        _check_configuration(folder)
        configuration = read_pretrained(kind.config_class, folder)
    except InputError as error:
        msg = f"config.json: {reason(error)}"
        raise DamagedModelError(msg) from error
    wanted = {name: getattr(settings, name) for name in ARCHITECTURE} | {
        "vocab_size": len(tokenizers.target),
        "source_vocab_size": None if tokenizers.shared else len(tokenizers.source),
    }
    check_generation_config(folder)
    # Before a model of these sizes is made.
    _check_agreement("config.json", configuration, wanted)
    check_checksum(folder / WEIGHTS)
    model: OwnModel = load_whole(kind, folder)
    for tokenizer in (tokenizers.source, tokenizers.target):
        special = {
            "pad_token_id": tokenizer.pad_token_id,
            "bos_token_id": tokenizer.bos_token_id,
            "eos_token_id": tokenizer.eos_token_id,
            "decoder_start_token_id": (
                tokenizer.bos_token_id if model.config.is_encoder_decoder else None
            ),
        }
        _check_agreement("config.json", model.config, special)
        _check_agreement("generation_config.json", model.generation_config, special)
    # Every option of decoding is given where it is called; the file has no say in it.
    model.generation_config = GenerationConfig.from_model_config(model.config)
    return model


def _check_configuration(folder: Path) -> None:
    """Raises InputError where `config.json` is no table, or names a type of numbers that there is not."""
    values = fitting(dict[str, Any], parse_json(document_text(folder / "config.json")))
    for name in ("dtype", "torch_dtype"):
        if values.get(name) is not None:
            kind = getattr(torch, str(values[name]), None)
            if not (isinstance(kind, torch.dtype) and kind.is_floating_point):
                msg = f"{name} must be one such as float32, not {briefly(values[name])}"
                raise InputError(msg)


def _check_agreement(name: str, found: Any, wanted: dict[str, Any]) -> None:
    for field, value in wanted.items():
        if getattr(found, field) != value:
            there = briefly(getattr(found, field))
            msg = f"{field} is {there} in {name} and {value!r} in the rest of the run"
            raise DamagedModelError(msg)


def corpus_of(settings: RunSettings) -> ParallelCorpus:
    """The corpus that `settings` name."""
    chosen = settings.corpus
    return load_corpus(
        chosen.name,
        pair=chosen.pair,
        document=chosen.document,
        limit=chosen.limit,
        seed=settings.optimizer.seed,
        size=chosen.size,
        lowercase=chosen.lowercase,
        plain=settings.model.task == LANGUAGE_MODEL,
    )


def recorded_corpus(folder: Path, settings: RunSettings, record: dict[str, Any]) -> ParallelCorpus:
    """The corpus of the run in `folder`: where it lay in training, or where its name leads from here.

    It keeps the name that was typed.

    Raises:
        InputError: it was a file or folder, and is at neither path.
    """
    name = settings.corpus.name
    written = record["corpus"].get("path")
    for path in filter(None, (written, name)):
        found = local_path(path)
        if found is not None:
            moved = replace(settings, corpus=replace(settings.corpus, name=str(found)))
            return replace(corpus_of(moved), name=name)
    # Runs of the first versions hold the name alone.
    if written is not None or looks_like_a_path(name):
        where = written or name
        msg = (
            f"The corpus of {folder} is not at {where} any more; put it back there, or give the command "
            f"in a folder from which {name} leads to it."
        )
        raise InputError(msg)
    return corpus_of(settings)


def new_record(
    settings: RunSettings, corpus: ParallelCorpus, dropped: dict[str, int], command: str
) -> dict[str, Any]:
    """What `settings.json` says of a new run: settings, corpus with checksum, versions, command."""
    path = local_path(settings.corpus.name)
    return {
        "format": RUN_FORMAT,
        "attnlab": __version__,
        "command": command,
        "settings": settings.as_dict(),
        "corpus": {
            "name": corpus.name,
            "path": None if path is None else str(path),
            "checksum": corpus.checksum,
            "pairs": {name: len(corpus.part(name)) for name in SPLITS},
            "dropped_over_max_tokens": dropped,
        },
        "versions": versions(),
    }
