"""From settings and an encoded corpus to what training starts with; nothing is written."""

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from rich.console import Console
from transformers import Seq2SeqTrainingArguments

from attnlab.attention import Mechanism, Sigma, load_frequencies, mechanisms_in, plan_of
from attnlab.core import (
    BETWEEN_LINES,
    FIRST_LINE,
    InputError,
    Processes,
    check_memory,
    counted,
    duration,
    repeated,
    seeded,
)
from attnlab.corpora import ParallelCorpus
from attnlab.models.configuration import TranslationConfig
from attnlab.models.first_embeddings import freeze_embeddings, load_first_vectors
from attnlab.models.model import OwnModel, model_class
from attnlab.models.tokenizer import Tokenizers, checksum
from attnlab.models.trainer import evaluation_order, training_arguments
from attnlab.models.training_batches import (
    STEPS_WANTED,
    EncodedCorpus,
    LastTokens,
    StepBudget,
    TokenPairs,
    encode_corpus,
    padded_length,
    step_budget,
    usual_batch_tokens,
)
from attnlab.models.training_settings import (
    TRANSLATION,
    ModelSettings,
    OptimizerSettings,
    RunSettings,
)

if TYPE_CHECKING:
    import datasets


def check_learnable(settings: ModelSettings) -> None:
    """Raises InputError for attention whose tables come from a trained model's attention."""
    for address, entry in plan_of(settings.attention).entries.items():
        if not isinstance(entry, Sigma):
            continue
        by_salience = entry.columns == "salience" and entry.num_pos > 0
        by_offsets = entry.entries == "offsets" and entry.extra > 0
        if by_salience or by_offsets:
            msg = (
                f"'{entry}' at '{address}' learns its tables from a trained model: train with "
                "columns='frequency', 'first' or 'random' and entries='random', or train with full "
                "attention and then call attnlab.attention.use and attnlab.attention.calibrate."
            )
            raise InputError(msg)


def load_token_counts(model: OwnModel, tokenizers: Tokenizers) -> None:
    """Tells every mechanism of the model that takes rare tokens how often its keys' types occur."""
    source = torch.tensor(list(tokenizers.source_counts.values()))
    target = torch.tensor(list(tokenizers.target_counts.values()))
    for at, _ in mechanisms_in(model):
        load_frequencies(at.module, target if at.site == "decoder" else source)


def check_lengths(
    model: OwnModel, settings: RunSettings, parts: Sequence[TokenPairs], *, written: int
) -> None:
    """Raises AttnlabError for a mechanism that was made for shorter sentences than there will be.

    Args:
        model: with the mechanisms.
        settings: of the run.
        parts: encoded pairs that the model will read.
        written: tokens that the model writes at most.
    """
    most = settings.corpus.max_tokens if settings.model.positions == "learned" else None
    source = padded_length(max(int(part.source_lengths.max()) for part in parts), most)
    target = padded_length(max(int(part.target_lengths.max()) for part in parts), most)
    longest = {
        "encoder": source,
        "cross": max(source, target, written),
        "decoder": max(target, written),
    }
    for at, mechanism in mechanisms_in(model):
        for part in mechanism.modules():
            made_for: Any = getattr(part, "spec", None)
            if isinstance(part, Mechanism) and hasattr(made_for, "max_length"):
                # Linformer mixes keys alone; other learned tables have a row for each query too.
                keys_alone = at.site == "cross" and part.positions == "keys"
                made_for.check_length(source if keys_alone else longest[at.site])


# Weight, gradient and both moments of AdamW, in single precision.
BYTES_A_PARAMETER = 16


def training_dataset(encoded: "datasets.Dataset", model: ModelSettings, seed: int) -> TokenPairs:
    """Encoded training pairs, with the labels that the model learns from."""
    return LastTokens(encoded, seed) if model.loss_tokens == "last" else TokenPairs(encoded)


def configuration(
    model: ModelSettings, *, vocabulary: int, source_vocabulary: int | None = None, longest: int = 1
) -> TranslationConfig:
    """The model configuration for vocabularies of these sizes and texts up to `longest` tokens."""
    return model_class(model).config_class(
        vocab_size=vocabulary,
        source_vocab_size=source_vocabulary,
        max_positions=longest,
        **vars(model),
    )


@dataclass(frozen=True)
class Prepared:
    """The parts of a training, made before anything is written: what cannot be made is refused here.

    Attributes:
        settings: those asked for, with batch size and warm-up filled in.
        steps: batch size, number of steps and warm-up.
        model: the model with its first weights.
        arguments: the Trainer's.
        pairs: encoded training pairs.
        held_out: encoded validation pairs.
        training_sample: as many training pairs, or all where there are fewer, evenly spread.
        references: what the validation pairs predict, as written, in the order of evaluation.
    """

    settings: RunSettings
    steps: StepBudget
    model: OwnModel
    arguments: Seq2SeqTrainingArguments
    pairs: TokenPairs
    held_out: TokenPairs
    training_sample: TokenPairs
    references: list[str]


def check_model_size(settings: RunSettings) -> None:
    """Raises InputError for a model whose training needs more memory than is free."""
    model = settings.model
    square, inner = model.dim**2, 2 * model.dim * model.feed_forward
    parameters = (
        settings.tokenizer.vocabulary * model.dim
        + model.encoder_layers * (4 * square + inner)
        + model.decoder_layers * (8 * square + inner)
    )
    what = f"Training a model of {parameters:,} parameters"
    check_memory(BYTES_A_PARAMETER * parameters, what, "choose a smaller one")


def encoded_corpus(
    settings: RunSettings, corpus: ParallelCorpus, tokenizers: Tokenizers
) -> EncodedCorpus:
    """The corpus as token ids, for the side that the model predicts.

    Raises:
        InputError: a part holds no text that is short enough.
    """
    return encode_corpus(
        corpus,
        tokenizers,
        max_tokens=settings.corpus.max_tokens,
        predicted=settings.model.predicted_side,
    )


def prepare(
    folder: Path,
    settings: RunSettings,
    corpus: ParallelCorpus,
    tokenizers: Tokenizers,
    encoded: EncodedCorpus,
    *,
    device: str | None = None,
    begins: bool = True,
) -> Prepared:
    """The parts of a training with these settings into `folder`.

    Args:
        folder: the run directory.
        settings: all that is chosen.
        corpus: the text.
        tokenizers: what cuts it into tokens.
        encoded: the text as token ids.
        device: on which to train; None: the best there is.
        begins: whether the model starts anew; otherwise a checkpoint brings its weights.

    Raises:
        InputError: the device cannot be used, or the embeddings to start from are of another
            vocabulary.
        AttnlabError: the device cannot train in the precision that is asked for, or a mechanism was made for
            shorter sentences.
    """
    training_pairs = training_dataset(encoded.train, settings.model, settings.optimizer.seed)
    steps = step_budget(training_pairs, settings.optimizer)
    optimizer = replace(settings.optimizer, batch_tokens=steps.batch_tokens, warmup=steps.warmup)
    settings, limit = replace(settings, optimizer=optimizer), settings.corpus.max_tokens
    most = min(optimizer.validation_sentences, len(encoded.validation))
    held_out = encoded.validation.select(range(most))
    pairs = TokenPairs(held_out)
    texts = corpus.validation[settings.model.predicted_side][:]
    rows = held_out["row"][:]
    order = evaluation_order(pairs, steps.batch_tokens)
    shared = tokenizers.source is tokenizers.target
    with seeded(optimizer.seed):
        model = model_class(settings.model)(
            configuration(
                settings.model,
                vocabulary=len(tokenizers.target),
                source_vocabulary=None if shared else len(tokenizers.source),
                longest=limit,
            )
        )
        load_token_counts(model, tokenizers)
    translates = settings.model.task == TRANSLATION
    target_limit = min(limit, int(pairs.target_lengths.max()) * 3 // 2 + 5)
    # A model that has learned little writes until the limit.
    written = target_limit if translates else 0
    check_lengths(model, settings, (training_pairs, pairs), written=written)
    if begins:
        load_first_vectors(model, settings, corpus, tokenizers)
    if settings.embeddings.frozen:
        freeze_embeddings(model, tokenizers)
    return Prepared(
        settings=settings,
        steps=steps,
        model=model,
        arguments=training_arguments(
            optimizer,
            folder,
            target_limit=target_limit,
            translates=translates,
            warmup=steps.warmup,
            spare_parameters=bool(settings.model.attention),
            device=device,
        ),
        pairs=training_pairs,
        held_out=pairs,
        training_sample=TokenPairs(_spread(encoded.train, len(held_out))),
        references=[texts[rows[index]] for index in order],
    )


def _spread(split: "datasets.Dataset", count: int) -> "datasets.Dataset":
    """`count` rows at equal distances, since neighbours in a corpus may be alike."""
    count = min(count, len(split))
    return split.select([number * len(split) // count for number in range(count)])


@contextmanager
def stage(
    what: str,
    console: Console | None,
    *,
    first: float = FIRST_LINE,
    between: float = BETWEEN_LINES,
) -> Iterator[None]:
    """Prints how long the work in the block has lasted, a line every few seconds, through a pipe too.

    Args:
        what: is being done.
        console: where to; None for nowhere.
        first: seconds after which the first line is printed.
        between: seconds between two lines.
    """
    if console is None:
        yield
        return
    begun = time.monotonic()

    def tell(end: str) -> None:
        lasted = duration(time.monotonic() - begun)
        console.print(f"{what}: {lasted}{end}", soft_wrap=True, highlight=False, markup=False)

    with repeated(lambda: tell(" so far"), first=first, between=between):
        yield
    if time.monotonic() - begun > first:
        tell("")


def tell_batches(optimizer: OptimizerSettings, prepared: Prepared, console: Console) -> None:
    """Says where the number of epochs made the batches others than those of the default number."""
    usual = usual_batch_tokens(prepared.pairs, optimizer)
    if prepared.steps.batch_tokens != usual:
        console.print(
            f"Note: batches of {prepared.steps.batch_tokens:,} tokens, for {STEPS_WANTED:,} steps in "
            f"{counted(optimizer.epochs, 'epoch')}; a run of {OptimizerSettings().epochs} epochs would have "
            f"batches of {usual:,} (batch_tokens sets it), and is not comparable with this one.",
            soft_wrap=True,
            highlight=False,
        )


def check_same_training(
    processes: Processes,
    prepared: Prepared,
    corpus: ParallelCorpus,
    tokenizers: Tokenizers,
    checkpoint: Path | None,
) -> None:
    """Raises InputError where processes would not train the same model on the same pairs."""
    facts = {
        "settings": json.dumps(prepared.settings.as_dict()),
        "corpus": corpus.checksum,
        "tokenizers": [checksum(tokenizer) for tokenizer in (tokenizers.source, tokenizers.target)],
        "checkpoint": checkpoint and checkpoint.name,
        "precision": "bf16" if prepared.arguments.bf16 else "fp32",
        "number of processes": prepared.arguments.world_size,
    }
    for number, other in enumerate(processes.gather(facts)):
        for name, fact in facts.items():
            if other[name] != fact:
                msg = (
                    f"Process {number} has another {name} than process {processes.index}; give all of "
                    "them the same options and files."
                )
                raise InputError(msg)
    if prepared.arguments.world_size != processes.count:
        msg = (
            f"There are {processes.count} processes, but transformers sees "
            f"{prepared.arguments.world_size}; start them with torchrun or accelerate launch."
        )
        raise InputError(msg)
