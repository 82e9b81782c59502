"""From settings and an encoded corpus to what training starts with; nothing is written."""

from dataclasses import dataclass, replace
from pathlib import Path

import datasets
from transformers import Seq2SeqTrainingArguments

from attnlab.corpora.corpus import ParallelCorpus
from attnlab.limits import refuse_beyond_memory
from attnlab.translation.base import OwnModel
from attnlab.translation.batches import (
    LastTokens,
    StepBudget,
    TokenPairs,
    step_budget,
)
from attnlab.translation.configuration import TranslationConfig
from attnlab.translation.encoding import EncodedCorpus, encode_corpus
from attnlab.translation.first_embeddings import freeze_embeddings, load_first_vectors
from attnlab.translation.model_settings import TRANSLATION, ModelSettings
from attnlab.translation.models import model_class
from attnlab.translation.randomness import seeded
from attnlab.translation.settings import RunSettings
from attnlab.translation.token_tables import load_token_counts
from attnlab.translation.tokenizer import Tokenizers
from attnlab.translation.trainer import evaluation_order, training_arguments

# Weight, gradient and both moments of AdamW, in single precision.
BYTES_A_PARAMETER = 16


def training_dataset(encoded: datasets.Dataset, model: ModelSettings, seed: int) -> TokenPairs:
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
    """What training needs, made before anything is written: what cannot be made is refused here.

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


def refuse_large_model(settings: RunSettings) -> None:
    """Raises InputError for a model whose training needs more memory than is free."""
    model = settings.model
    own, inner = model.dim**2, 2 * model.dim * model.feed_forward
    parameters = (
        settings.tokenizer.vocabulary * model.dim
        + model.encoder_layers * (4 * own + inner)
        + model.decoder_layers * (8 * own + inner)
    )
    what = f"Training a model of {parameters:,} parameters"
    refuse_beyond_memory(BYTES_A_PARAMETER * parameters, what, "choose a smaller one")


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
    """What a training with these settings into `folder` needs.

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
        AttnlabError: the device cannot train in the precision that is asked for.
    """
    training_pairs = training_dataset(encoded.train, settings.model, settings.optimizer.seed)
    steps = step_budget(training_pairs, settings.optimizer)
    optimizer = replace(settings.optimizer, batch_tokens=steps.batch_tokens, warmup=steps.warmup)
    settings, limit = replace(settings, optimizer=optimizer), settings.corpus.max_tokens
    held_out = _first(encoded.validation, optimizer.validation_sentences)
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
    if begins:
        load_first_vectors(model, settings, corpus, tokenizers)
    if settings.embeddings.frozen:
        freeze_embeddings(model, tokenizers)
    longest = int(pairs.target_lengths.max()) * 3 // 2 + 5
    return Prepared(
        settings=settings,
        steps=steps,
        model=model,
        arguments=training_arguments(
            optimizer,
            folder,
            target_limit=min(limit, longest),
            translates=settings.model.task == TRANSLATION,
            warmup=steps.warmup,
            spare_parameters=bool(settings.model.attention),
            device=device,
        ),
        pairs=training_pairs,
        held_out=pairs,
        training_sample=TokenPairs(_spread(encoded.train, len(held_out))),
        references=[texts[rows[index]] for index in order],
    )


def _first(split: datasets.Dataset, count: int) -> datasets.Dataset:
    return split.select(range(min(count, len(split))))


def _spread(split: datasets.Dataset, count: int) -> datasets.Dataset:
    """`count` rows at equal distances, since neighbours in a corpus may be alike."""
    count = min(count, len(split))
    return split.select([number * len(split) // count for number in range(count)])
