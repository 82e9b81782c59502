"""Sentences with what a model writes itself in place of what it was to read."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

import torch

from attnlab.core import InputError, Progress, input_device
from attnlab.models import IGNORED_LABEL
from attnlab.reading.calling import GREEDY, inputs_of
from attnlab.reading.hooks import ready_to_show
from attnlab.reading.sentences import Sentence, Sentences

# A prompt of fewer tokens is none.
LEAST_TOKENS = 4
# A translation ends at so many times the tokens of the longest side of its batch, if not before.
MOST_TIMES = 3


def check_generates(
    model: Any, sentences: Sentences, sites: Sequence[str] = ("decoder", "cross")
) -> None:
    """Raises InputError where the model writes nothing, cannot tell what to write, or no decoder is read."""
    if not callable(getattr(model, "can_generate", None)) or not model.can_generate():
        msg = f"{type(model).__name__} writes no text; leave generation out."
        raise InputError(msg)
    if set(sites) <= {"encoder"}:
        msg = "Heads of the encoder do the same while the model writes; leave generation out."
        raise InputError(msg)
    if not model.config.is_encoder_decoder:
        return
    if not sentences.paired or any(sentence.features is not None for sentence in sentences.usable):
        msg = "An encoder-decoder is compared with translations of text; give pairs, or leave generation out."
        raise InputError(msg)


@torch.inference_mode()
def written_sentences(
    model: Any, sentences: Sentences, batch_size: int, progress: Progress | None = None
) -> Sentences:
    """The same sentences with what the model writes in place of what it was to read.

    An encoder-decoder translates the source; a model of one stack continues the first half of a text until
    as many tokens stand there as before. Greedy decoding gives a row the same attention as reading what was
    written does, so the tokens are read again. The last token that is written is never read.

    Raises:
        InputError: see `check_generates`; or no text is long enough.
    """
    check_generates(model, sentences)
    write = translated if model.config.is_encoder_decoder else _continued
    rewritten: list[Sentence] = []
    with ready_to_show(model):
        for batch in write(model, sentences, batch_size):
            rewritten += batch
            if progress is not None:
                progress("Writing", len(rewritten), len(sentences))
    if not rewritten:
        msg = f"No text has {LEAST_TOKENS} tokens, so that half of it could be continued; give longer texts."
        raise InputError(msg)
    return replace(sentences, usable=tuple(sorted(rewritten, key=lambda sentence: sentence.number)))


def first_rows(model: Any, sentences: Sentences) -> dict[int, int]:
    """The first row that the model writes itself, by number of the sentence, where it is not the first."""
    if model.config.is_encoder_decoder:
        return {}
    return {sentence.number: _prompt(sentence) for sentence in sentences.usable}


def _prompt(sentence: Sentence) -> int:
    """How many tokens of a text are continued."""
    return len(sentence.source) // 2


def translated(model: Any, sentences: Sentences, batch_size: int) -> Iterator[list[Sentence]]:
    """The sentences with greedy translations that an encoder-decoder writes, batch by batch.

    One whose translation would be empty is left out.
    """
    for batch in sentences.batches(batch_size, weights_a_cell=1):
        inputs = inputs_of(model, {"source": sentences.axes(batch, model.device)["source"]})
        longest = max(max(len(sentence.source), len(sentence.labels)) for sentence in batch)
        beginning = sentences.forced_beginning(batch, model.device)
        rows = model.generate(
            **{name: inputs[name] for name in ("input_ids", "attention_mask")}, **beginning,
            **GREEDY, max_length=min(sentences.most_tokens, MOST_TIMES * longest),
        )  # fmt: skip
        # The first tokens may be the same as the one that ends a text.
        begin = beginning["decoder_input_ids"].shape[1] if beginning else 1
        written = [_ended(row.tolist(), model, begin=begin) for row in rows]
        yield [
            replace(sentence, target=tuple(ids[:-1]), labels=tuple(ids[1:]))
            for sentence, ids in zip(batch, written, strict=True)
            if len(ids) > 1
        ]


def _continued(model: Any, sentences: Sentences, batch_size: int) -> Iterator[list[Sentence]]:
    long = [sentence for sentence in sentences.usable if len(sentence.source) >= LEAST_TOKENS]
    ordered = sorted(long, key=lambda sentence: (len(sentence.source), sentence.number))
    for length, alike in groupby(ordered, key=lambda sentence: len(sentence.source)):
        same = list(alike)
        for start in range(0, len(same), batch_size):
            batch, prompt = same[start : start + batch_size], _prompt(same[0])
            # Prompts of one length, so that none is padded.
            ids = torch.tensor(
                [sentence.source[:prompt] for sentence in batch], device=input_device(model.device)
            )
            rows = model.generate(
                ids, attention_mask=torch.ones_like(ids), **GREEDY,
                max_length=length + 1, pad_token_id=0,
            )  # fmt: skip
            yield [
                _read(sentence, _ended(row.tolist(), model, begin=prompt))
                for sentence, row in zip(batch, rows, strict=True)
            ]


def _read(sentence: Sentence, written: Sequence[int]) -> Sentence:
    ids = tuple(written[:-1])
    return replace(sentence, source=ids, labels=(*ids[1:], IGNORED_LABEL), types=())


def _ended(ids: list[int], model: Any, *, begin: int) -> list[int]:
    """The ids up to the first that ends a text, padding behind it left out."""
    ends = model.generation_config.eos_token_id
    end_ids = {ends} if isinstance(ends, int) else set(ends or ())
    for index in range(begin, len(ids)):
        if ids[index] in end_ids:
            return ids[: index + 1]
    return ids
