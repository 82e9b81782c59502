"""Sentences as token ids with the tokens that a model is to predict, in padded batches."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from attnlab.errors import InputError
from attnlab.extraction.tokens import Text, TokenizedText, both_tokenizers
from attnlab.translation.configuration import IGNORED_LABEL


@dataclass(frozen=True)
class Example:
    """Token ids of one sentence.

    Attributes:
        text: what they stand for.
        source: what the encoder reads; empty for a model of one stack.
        target: a start token and every token that is predicted, in order.
    """

    text: Text
    source: tuple[int, ...]
    target: tuple[int, ...]


@dataclass(frozen=True)
class ScoredBatch:
    """Sentences of like length, padded; `target` is read up to the last token, `labels` are predicted.

    Attributes:
        numbers: indices of the sentences in the evaluator's order.
        inputs: what the model is called with.
        labels: ids that the rows of the decoder predict, -100 where there is padding.
    """

    numbers: tuple[int, ...]
    inputs: dict[str, Any]
    labels: Int[Tensor, "batch target"]


def examples_of(
    model: Any, tokenizer: Any, texts: Sequence[TokenizedText], most_tokens: int
) -> tuple[Example, ...]:
    """The texts that have tokens and fit.

    Raises:
        InputError: no texts, no pairs for an encoder-decoder, or none that the model can take.
    """
    both = both_tokenizers(tokenizer)
    if not texts:
        msg = "There are no sentences to evaluate the model on; hand in at least one."
        raise InputError(msg)
    limit = min(most_tokens, both.source.model_max_length)
    special = [set(one.all_special_ids) - {one.unk_token_id} for one in both]
    examples = []
    for one in texts:
        ids, target = _read_and_predicted(model, one)
        full = (not ids or set(ids) - special[0]) and set(target) - special[1]
        if full and len(target) > 1 and max(len(ids), len(target)) <= limit:
            examples.append(Example(one.text, ids, target))
    if not examples:
        msg = (
            f"None of the {len(texts)} sentences can be used: all are empty or over {limit} tokens."
        )
        raise InputError(msg)
    return tuple(examples)


def _read_and_predicted(model: Any, text: TokenizedText) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """What the encoder reads, and what is predicted with the start token in front."""
    if not model.config.is_encoder_decoder:
        return (), text.source.ids
    if text.target is None:
        msg = (
            "An encoder-decoder is evaluated on pairs; hand in source, tab and translation on each "
            "line."
        )
        raise InputError(msg)
    start, labels = model.config.decoder_start_token_id, text.target.ids
    begun = start is None or labels[:1] == (start,)
    return text.source.ids, labels if begun else (start, *labels)


def scored_batches(
    examples: Sequence[Example], size: int, tokenizer: Any, model: Any
) -> Iterator[ScoredBatch]:
    """Sentences of like length together, longest first."""
    pad, pad_target = (one.pad_token_id or 0 for one in both_tokenizers(tokenizer))
    order = sorted(
        range(len(examples)), key=lambda n: (-len(examples[n].target), -len(examples[n].source), n)
    )
    for first in range(0, len(order), size):
        numbers = order[first : first + size]
        rows = [examples[number] for number in numbers]
        read = _padded([row.target[:-1] for row in rows], pad_target)
        labels = _padded([row.target[1:] for row in rows], IGNORED_LABEL)
        real = (labels != IGNORED_LABEL).long()
        if model.config.is_encoder_decoder:
            lengths = torch.tensor([len(row.source) for row in rows])
            source = _padded([row.source for row in rows], pad)
            inputs = {
                "input_ids": source,
                "attention_mask": (torch.arange(source.shape[1]) < lengths[:, None]).long(),
                "decoder_input_ids": read,
                "decoder_attention_mask": real,
            }
        else:
            inputs = {"input_ids": read, "attention_mask": real}
        placed = {name: tensor.to(model.device) for name, tensor in inputs.items()}
        yield ScoredBatch(tuple(numbers), placed, labels.to(model.device))


def _padded(rows: Sequence[Sequence[int]], value: int) -> Int[Tensor, "row token"]:
    longest = max(map(len, rows))
    return torch.tensor([[*row, *[value] * (longest - len(row))] for row in rows])
