"""A run directory: what training leaves behind, and what everything else starts from."""

import platform
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from attnlab import __version__
from attnlab.corpora.corpus import ParallelCorpus, load_corpus, local_path
from attnlab.corpora.files import looks_like_a_path
from attnlab.corpora.splits import SPLITS
from attnlab.errors import AttnlabError, InputError, reason
from attnlab.translation.callbacks import read_metrics
from attnlab.translation.configuration import TranslationConfig
from attnlab.translation.loading import UNREADABLE, DamagedModelError, load_whole
from attnlab.translation.model import TranslationModel
from attnlab.translation.runs.folder import read_record
from attnlab.translation.settings import RUN_FORMAT, ModelSettings, RunSettings, settings_from
from attnlab.translation.tokenizer import Tokenizers, load_tokenizers

ARCHITECTURE = (
    "dim", "heads", "encoder_layers", "decoder_layers", "feed_forward", "norm", "positions",
    "tie_word_embeddings", "global_projections",
)  # fmt: skip
LIBRARIES = ("torch", "transformers", "datasets", "tokenizers", "sacrebleu", "numpy")


@dataclass(frozen=True, repr=False)
class Run:
    """A trained model with its tokenizers and everything that is needed to repeat it."""

    folder: Path
    model: TranslationModel
    tokenizers: Tokenizers
    settings: RunSettings
    record: dict[str, Any]

    def __repr__(self) -> str:
        shape = self.settings.model
        parameters = sum(parameter.numel() for parameter in self.model.parameters())
        return (
            f"Run({str(self.folder)!r}, {self.settings.corpus.pair}, {shape.encoder_layers} encoder and "
            f"{shape.decoder_layers} decoder layers, {shape.heads} heads, dim {shape.dim}, "
            f"{parameters:,} parameters)"
        )

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


def load(folder: str | Path) -> Run:
    """The run in `folder`, its model in eval mode.

    Raises:
        InputError: there is no run, a newer attnlab wrote it, or its model is not whole: tensors are
            missing or not finite, or `config.json` disagrees with the rest.
        AttnlabError: the run holds no trained model yet.
    """
    folder = Path(folder)
    record = read_record(folder)
    if not (folder / "model.safetensors").exists():
        msg = (
            f"{folder} holds no trained model yet; finish it with: attnlab train {folder} --resume"
        )
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
    return Run(folder, model, tokenizers, settings, record)


def load_model(folder: Path, settings: ModelSettings, tokenizers: Tokenizers) -> TranslationModel:
    """The model whose files are in `folder`, in eval mode.

    Attention may differ from the settings: mechanisms can be put into a trained model and saved with it.

    Raises:
        DamagedModelError: it is not whole, or not of these settings and tokenizers.
        Exception: one of `UNREADABLE`, where transformers cannot read the files.
    """
    try:
        TranslationConfig.from_pretrained(folder)
    except InputError as error:
        msg = f"config.json: {reason(error)}"
        raise DamagedModelError(msg) from error
    model: TranslationModel = load_whole(TranslationModel, folder)
    wanted = {name: getattr(settings, name) for name in ARCHITECTURE} | {
        "vocab_size": len(tokenizers.target),
        "source_vocab_size": None if tokenizers.shared else len(tokenizers.source),
    }
    _refuse_disagreement("config.json", model.config, wanted)
    for tokenizer in (tokenizers.source, tokenizers.target):
        special = {
            "pad_token_id": tokenizer.pad_token_id,
            "bos_token_id": tokenizer.bos_token_id,
            "eos_token_id": tokenizer.eos_token_id,
            "decoder_start_token_id": tokenizer.bos_token_id,
        }
        _refuse_disagreement("config.json", model.config, special)
        _refuse_disagreement("generation_config.json", model.generation_config, special)
    return model


def _refuse_disagreement(name: str, found: Any, wanted: dict[str, Any]) -> None:
    for field, value in wanted.items():
        if getattr(found, field) != value:
            msg = f"{field} is {getattr(found, field)} in {name} and {value} in the rest of the run"
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
        "versions": {"python": platform.python_version()}
        | {name: version(name) for name in LIBRARIES},
    }
