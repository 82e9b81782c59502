"""From settings and an encoded corpus to what training starts with; nothing is written."""

from dataclasses import dataclass, replace
from pathlib import Path

import datasets
from transformers import Seq2SeqTrainingArguments

from attnlab.corpora.corpus import ParallelCorpus
from attnlab.translation.batches import StepBudget, TokenPairs, step_budget
from attnlab.translation.configuration import TranslationConfig
from attnlab.translation.encoding import EncodedCorpus
from attnlab.translation.model import TranslationModel
from attnlab.translation.randomness import seeded
from attnlab.translation.settings import ModelSettings, RunSettings
from attnlab.translation.token_tables import load_token_counts
from attnlab.translation.tokenizer import Tokenizers
from attnlab.translation.trainer import evaluation_order, training_arguments


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
class Prepared:
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


def prepare(
    folder: Path,
    settings: RunSettings,
    corpus: ParallelCorpus,
    tokenizers: Tokenizers,
    encoded: EncodedCorpus,
) -> Prepared:
    """What a training with these settings into `folder` needs.

    Raises:
        AttnlabError: the device cannot train in the precision that is asked for.
    """
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
    return Prepared(
        settings=settings,
        steps=steps,
        model=model,
        arguments=training_arguments(
            optimizer,
            folder,
            target_limit=min(limit, longest),
            warmup=steps.warmup,
            spare_parameters=bool(settings.model.attention),
        ),
        pairs=training_pairs,
        held_out=pairs,
        references=[texts[rows[index]] for index in order],
    )


def _first(split: datasets.Dataset, count: int) -> datasets.Dataset:
    return split.select(range(min(count, len(split))))
