"""A run directory: what training leaves behind, and what everything else starts from."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from transformers import GenerationConfig

from attnlab.core import (
    AttnlabError,
    InputError,
    Progress,
    briefly,
    document_text,
    file_checksum,
    fitting,
    parse_json,
    path_label,
    read_pretrained,
    reason,
    seeded,
    versions,
)
from attnlab.core.installed import __version__
from attnlab.corpora import SPLITS, ParallelCorpus, load_corpus, local_path, looks_like_a_path
from attnlab.models.configuration import IGNORED_LABEL
from attnlab.models.loaded import Model
from attnlab.models.metrics import read_metrics
from attnlab.models.model import LanguageModel, OwnModel, TranslationModel, model_class
from attnlab.models.run_folder import (
    WEIGHTS,
    LocalPaths,
    check_task,
    kept_path,
    kept_steps,
    read_local,
    read_record,
    replaced_run,
    ways_on,
)
from attnlab.models.safe_loading import (
    UNREADABLE,
    DamagedModelError,
    check_checksum,
    check_generation_config,
    load_whole,
)
from attnlab.models.scoring import perplexity, score
from attnlab.models.tokenizer import Tokenizers, load_tokenizers
from attnlab.models.training_batches import LengthGroupedBatches, TokenPairs, collator, encode_rows
from attnlab.models.training_settings import (
    LANGUAGE_MODEL,
    RUN_FORMAT,
    TRANSLATION,
    GenerationSettings,
    ModelSettings,
    RunSettings,
    settings_from,
)
from attnlab.models.translating import translate

if TYPE_CHECKING:
    import datasets

ARCHITECTURE = (
    "task", "kind", "cell", "score", "dim", "heads", "scaled", "encoder_layers", "decoder_layers",
    "feed_forward", "norm", "positions", "tie_word_embeddings", "global_projections",
)  # fmt: skip


@dataclass(frozen=True, repr=False, kw_only=True)
class Run(Model):
    """A trained model with its tokenizers and everything that is needed to repeat it."""

    model: OwnModel
    tokenizer: Tokenizers
    weights: str
    folder: Path
    settings: RunSettings
    record: dict[str, Any]

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
    def tokenizers(self) -> Tokenizers:
        """The tokenizers of the source and of the target."""
        return self.tokenizer

    @property
    def type_counts(self) -> tuple[Tensor, ...]:
        """How often each type of the source and of the target stands in the training rows."""
        both = self.tokenizer.source_counts, self.tokenizer.target_counts
        return tuple(torch.tensor(list(counts.values())) for counts in both)

    @property
    def seed(self) -> int:
        """The seed that its first weights were drawn with."""
        return self.settings.optimizer.seed

    @property
    def most_tokens(self) -> int:
        """Most tokens of a sentence that it was trained on."""
        return self.settings.corpus.max_tokens

    @property
    def lowercase(self) -> bool:
        """Whether it was trained on text in lower case."""
        return self.settings.corpus.lowercase

    @property
    def short_name(self) -> str:
        """The name of its folder."""
        return self.folder.resolve().name

    @property
    def history(self) -> Mapping[str, str]:
        """Facts about its training in words, by heading; empty where there is none."""
        chosen, trained = self.settings, self.metrics()
        corpus, pairs = self.record["corpus"], self.record["corpus"]["pairs"]
        scores = [line["validation_bleu"] for line in trained if "validation_bleu" in line]
        perplexities = [line["validation_perplexity"] for line in trained if not scores]
        read = "texts" if chosen.model.task == LANGUAGE_MODEL else "pairs"
        mechanisms = {f"{site}: {name}" for site, name in self.model.config.attention.items()}
        return {
            "Trained on": f"{pairs['train']:,} {read} of {path_label(corpus['name'])} "
            f"({chosen.corpus.pair}), seed {self.seed}, checksum {corpus['checksum'][:12]}",
            "Attention": ", ".join(sorted(mechanisms)),
            "Best validation BLEU": f"{max(scores):.1f}" if scores else "",
            "Best validation perplexity": f"{min(perplexities):.1f}" if perplexities else "",
        }

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
        """The corpus that the run was trained on, loaded once.

        Raises:
            InputError: the corpus is no longer where it was.
            AttnlabError: the text is no longer the same as in training.
        """
        return self._corpus

    @cached_property
    def _corpus(self) -> ParallelCorpus:
        corpus = recorded_corpus(self.folder, self.settings)
        if corpus.checksum != self.record["corpus"]["checksum"]:
            msg = (
                f"The corpus '{corpus.name}' is not the one that {self.folder} was trained on "
                "(its checksum differs); put the old files back or train again."
            )
            raise AttnlabError(msg)
        return corpus

    def translate(
        self, sentences: str | Sequence[str], *, beams: int = 5, max_tokens: int | None = None
    ) -> list[str]:
        """Translations of sentences, in their order; see `translate`.

        Args:
            sentences: one, or several.
            beams: how many hypotheses are kept at each step; 1 is greedy.
            max_tokens: of a translation, start and end token counted; None: as in its training.

        Raises:
            InputError: the run is of another task, a sentence is blank or too long, or a value of the wrong
                kind.
        """
        texts = [sentences] if isinstance(sentences, str) else sentences
        most = self.settings.corpus.max_tokens if max_tokens is None else max_tokens
        return translate(self.translator, self.tokenizers, texts, beams=beams, max_tokens=most)

    def score(
        self, *, split: str = "test", beams: int = 5, progress: Progress | None = None
    ) -> dict[str, Any]:
        """BLEU and chrF on a part of its corpus; of a language model loss, perplexity and bits.

        Args:
            split: the part: train, validation or test.
            beams: how many hypotheses are kept at each step; 1 is greedy.
            progress: called with (what is being done, done, in all).

        Raises:
            InputError: there is no such part, or no text of it is short enough.
            AttnlabError: the corpus is no longer the one of the training.
        """
        if isinstance(self.model, LanguageModel):
            return score_language_model(self, split=split, progress=progress)
        return score_run(self, split=split, beams=beams, progress=progress)[0]

    @property
    def kept_steps(self) -> list[int]:
        """The steps of its training of which it keeps weights, see `keep_checkpoints`."""
        return kept_steps(self.folder)

    def at_step(self, step: int) -> "Run":
        """The run with the weights that it keeps of a step.

        Raises:
            Exception: one of `UNREADABLE`, where they are not there or damaged.
        """
        folder = kept_path(self.folder, step)
        model = load_model(folder, self.settings.model, self.tokenizers).to(self.model.device)
        return replace(self, model=model, weights=file_checksum(folder / WEIGHTS))

    def metrics(self) -> list[dict[str, Any]]:
        """Losses and scores of each evaluation during training, oldest first."""
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
    return Run(
        model=model,
        tokenizer=tokenizers,
        name=str(folder),
        weights=file_checksum(folder / WEIGHTS),
        folder=folder,
        settings=settings,
        record=record,
    )


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
    expected = {name: getattr(settings, name) for name in ARCHITECTURE} | {
        "vocab_size": len(tokenizers.target),
        "source_vocab_size": None if tokenizers.shared else len(tokenizers.source),
    }
    check_generation_config(folder)
    # Before a model of these sizes is made.
    _check_agreement("config.json", configuration, expected)
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


def _check_agreement(name: str, configuration: Any, expected: dict[str, Any]) -> None:
    """Raises DamagedModelError where a file of this name disagrees with the rest of the run."""
    for field, value in expected.items():
        if getattr(configuration, field) != value:
            value_in_file = briefly(getattr(configuration, field))
            msg = f"{field} is {value_in_file} in {name} and {value!r} in the rest of the run"
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


def labelled(settings: RunSettings) -> RunSettings:
    """The settings as `settings.json` has them: paths are those that were typed, or else labels.

    A label looks like a path, so that nobody takes it for the name of a corpus on the hub.
    """
    corpus, start = settings.corpus.name, settings.embeddings.start
    return replace(
        settings,
        corpus=replace(settings.corpus, name=_labelled(corpus)),
        embeddings=replace(settings.embeddings, start=start and _labelled(start)),
    )


def _labelled(name: str) -> str:
    label = path_label(name)
    return label if label == name or looks_like_a_path(label) else f"./{label}"


def local_paths(settings: RunSettings) -> LocalPaths:
    """Paths on this machine of the files that a run with these settings is made from."""
    corpus, start = local_path(settings.corpus.name), settings.embeddings.start
    embeddings = Path(start).absolute() if start is not None and Path(start).exists() else None
    return LocalPaths(
        corpus=None if corpus is None else str(corpus),
        embeddings=None if embeddings is None else str(embeddings),
    )


def settings_here(folder: Path, settings: RunSettings) -> RunSettings:
    """The settings of a run, with the paths of `local_paths.json` for the labels."""
    paths = read_local(folder)
    corpus = replace(settings.corpus, name=paths.corpus or settings.corpus.name)
    start = paths.embeddings or settings.embeddings.start
    return replace(settings, corpus=corpus, embeddings=replace(settings.embeddings, start=start))


def recorded_corpus(folder: Path, settings: RunSettings) -> ParallelCorpus:
    """The corpus of the run in `folder`: where it lay in training, or where its name leads from here.

    It keeps the name that the settings have.

    Raises:
        InputError: it was a file or folder, and is at neither path.
    """
    name = settings.corpus.name
    written = read_local(folder).corpus
    for path in filter(None, (written, name)):
        located = local_path(path)
        if located is not None:
            moved = replace(settings, corpus=replace(settings.corpus, name=str(located)))
            return replace(corpus_of(moved), name=name)
    # A run that was handed on holds the name alone.
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
    """The record of a new run for `settings.json`: settings, corpus with checksum, versions, command."""
    return {
        "format": RUN_FORMAT,
        "attnlab": __version__,
        "command": command,
        "settings": labelled(settings).as_dict(),
        "corpus": {
            "name": path_label(corpus.name),
            "checksum": corpus.checksum,
            "pairs": {name: len(corpus.part(name)) for name in SPLITS},
            "dropped_over_max_tokens": dropped,
        },
        "versions": versions(),
        "threads": torch.get_num_threads(),
    }


def score_run(
    run: Run, *, split: str = "test", beams: int = 5, progress: Progress | None = None
) -> tuple[dict[str, Any], list[str]]:
    """Scores of a translation run on a part of its corpus, and the translations in the order of the part.

    Pairs longer than the run's limit are left out, as in training, and counted in `dropped`.

    Raises:
        InputError: there is no such part, or the run is a language model.
        AttnlabError: the corpus is no longer the one of the training.
    """
    model, rows = run.translator, run.corpus().part(split)
    limit = run.settings.corpus.max_tokens
    kept = short_pairs(run, rows)
    texts = translate(
        model,
        run.tokenizers,
        kept["source"][:],
        beams=beams,
        max_tokens=limit,
        progress=progress,
    )
    scores = score(texts, kept["target"][:]).as_dict()
    return {"split": split, "beams": beams, **scores, "dropped": len(rows) - len(kept)}, texts


def short_pairs(run: Run, rows: "datasets.Dataset") -> "datasets.Dataset":
    """The pairs of a part of a corpus that are within the run's limit of tokens on both sides."""
    limit = run.settings.corpus.max_tokens
    lengths = [
        [len(ids) for ids in tokenizer(list(rows[side]))["input_ids"]]
        for tokenizer, side in (
            (run.tokenizers.source, "source"),
            (run.tokenizers.target, "target"),
        )
    ]
    short = [index for index, pair in enumerate(zip(*lengths, strict=True)) if max(pair) <= limit]
    return rows.select(short)


BATCH_TOKENS = 4096


@torch.inference_mode()
def generate(
    run: Run, prompt: str | None = None, settings: GenerationSettings | None = None
) -> list[str]:
    """Texts that a language model writes behind `prompt`, which is their beginning.

    The global random state is the same afterwards.

    Raises:
        InputError: the run is no language model, or the prompt is empty or as long as a text may be.
    """
    chosen = settings or GenerationSettings()
    model, tokenizer = run.language_model, run.tokenizers.source
    if prompt is not None and not prompt.strip():
        msg = "The prompt is empty; leave it out to let the model begin."
        raise InputError(msg)
    # Without the end token, behind which nothing comes.
    ids = [tokenizer.bos_token_id] if prompt is None else tokenizer(prompt)["input_ids"][:-1]
    most = chosen.max_tokens or run.settings.corpus.max_tokens
    if len(ids) >= most:
        msg = f"The prompt has {len(ids)} tokens, which leaves nothing to write of {most}."
        raise InputError(msg)
    sampling: dict[str, Any] = {"do_sample": False, "num_return_sequences": 1}
    if chosen.temperature > 0:
        sampling = {
            "do_sample": True,
            "temperature": chosen.temperature,
            # 0 means all to transformers, whose own default is 50.
            "top_k": chosen.top_k or 0,
            "num_return_sequences": chosen.samples,
        }
    with seeded(chosen.seed):
        written = model.generate(
            torch.tensor([ids], device=model.device), num_beams=1, max_length=most, **sampling
        )
    return tokenizer.batch_decode(written, skip_special_tokens=True)


@torch.inference_mode()
def score_language_model(
    run: Run, *, split: str = "test", progress: Progress | None = None
) -> dict[str, Any]:
    """Loss per token in nats, perplexity and bits per character on a part of the run's corpus.

    The end of a text counts as a token; its beginning is given. Texts longer than the run's limit are
    left out, as in training, and counted in `dropped`. Bits per character can be compared between
    models of different vocabularies.

    Raises:
        InputError: there is no such part, no text of it is short enough, or the run is no language
            model.
        AttnlabError: the corpus is no longer the one of the training.
    """
    model, rows = run.language_model, run.corpus().part(split)
    limit = run.settings.corpus.max_tokens
    encoded = encode_rows(rows, run.tokenizers, limit, f"Encoding {split}", "source")
    if not len(encoded):
        msg = f"None of the {len(rows)} texts of the {split} part has at most {limit} tokens."
        raise InputError(msg)
    texts = TokenPairs(encoded)
    lengths = np.asarray(texts.source_lengths)
    collate = collator(run.settings)
    loss, tokens, done = 0.0, 0, 0
    for batch in LengthGroupedBatches(lengths, lengths, batch_tokens=BATCH_TOKENS, shuffle=False):
        inputs = collate([texts[index] for index in batch])
        count = int((inputs["labels"] != IGNORED_LABEL).sum())
        here = {name: tensor.to(model.device) for name, tensor in inputs.items()}
        loss += float(model(**here).loss) * count
        tokens, done = tokens + count, done + len(batch)
        if progress is not None:
            progress("Scoring", done, len(texts))
    characters = sum(len(rows[index]["source"]) for index in encoded["row"][:])
    return {
        "split": split,
        "loss_nats": loss / tokens,
        "perplexity": perplexity(loss / tokens),
        "bits_per_character": loss / math.log(2) / characters,
        "tokens": tokens,
        "sentences": len(texts),
        "dropped": len(rows) - len(texts),
    }
