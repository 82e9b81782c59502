"""Translations of sentences, by greedy or beam search, in batches of like length."""

import unicodedata
from collections.abc import Sequence

import numpy as np
import torch

from attnlab.core import (
    LONGEST_TEXT,
    MOST_BEAMS,
    InputError,
    Progress,
    briefly,
    check_value,
    shown,
    texts_of,
)
from attnlab.models.model import TranslationModel
from attnlab.models.tokenizer import Tokenizers
from attnlab.models.training_batches import LengthGroupedBatches


def translate(
    model: TranslationModel,
    tokenizers: Tokenizers,
    sentences: Sequence[str],
    *,
    beams: int = 5,
    max_tokens: int = 128,
    batch_tokens: int = 2048,
    keep_blank: bool = False,
    progress: Progress | None = None,
) -> list[str]:
    """Translations in the order of `sentences`.

    Sentences are batched by length; a translation does not depend on the others. It has at most
    `max_tokens` tokens, start and end token counted; beams are ranked by the mean log-probability
    per token, end token counted. With `keep_blank` the translation of a blank sentence is empty.
    `progress` is called with ("Translating", sentences done, sentences).

    Raises:
        InputError: a sentence is blank and not kept, or longer than `max_tokens`; the message gives
            its number. Or what is given is no list of sentences, or no whole number from 1 up.
    """
    check_value("beams", beams, least=1, most=MOST_BEAMS)
    check_value("max_tokens", max_tokens, least=1, most=LONGEST_TEXT)
    texts = _single_texts(sentences)
    encoded = tokenizers.source(texts)["input_ids"]
    for number, (ids, text) in enumerate(zip(encoded, texts, strict=True), 1):
        if not text.strip() and not keep_blank:
            msg = f"Sentence {number} is empty; give one sentence a line."
            raise InputError(msg)
        if len(ids) > max_tokens:
            msg = f"Sentence {number} has {len(ids)} tokens, more than the limit of {max_tokens}."
            raise InputError(msg)
    written = translate_ids(
        model,
        tokenizers,
        [ids for ids, text in zip(encoded, texts, strict=True) if text.strip()],
        beams=beams,
        max_tokens=max_tokens,
        batch_tokens=batch_tokens,
        progress=progress,
    )
    filled = iter(written)
    return [next(filled) if text.strip() else "" for text in texts]


def _single_texts(sentences: object) -> list[str]:
    """Sentences without translations, as a list.

    Raises:
        InputError: something else, or none.
    """
    texts = []
    for number, text in enumerate(texts_of(sentences), start=1):
        if not isinstance(text, str):
            msg = f"Sentence {number} is the pair {briefly(text)}; hand in the sentence alone."
            raise InputError(msg)
        texts.append(text)
    return texts


@torch.inference_mode()
def translate_ids(
    model: TranslationModel,
    tokenizers: Tokenizers,
    sentences: Sequence[Sequence[int]],
    *,
    beams: int = 5,
    max_tokens: int = 128,
    batch_tokens: int = 2048,
    progress: Progress | None = None,
) -> list[str]:
    """Translations of sentences that are token ids already; arguments as in `translate`.

    None of them may be empty or longer than `max_tokens`.
    """
    translations = [""] * len(sentences)
    done = 0
    lengths = np.array([len(ids) for ids in sentences], dtype=np.int64)
    for indices in LengthGroupedBatches(
        lengths, lengths, batch_tokens=batch_tokens // beams, shuffle=False
    ):
        padded = tokenizers.source.pad(
            {"input_ids": [list(sentences[index]) for index in indices]}, return_tensors="pt"
        )
        written = model.generate(
            padded["input_ids"].to(model.device),
            attention_mask=padded["attention_mask"].to(model.device),
            num_beams=beams,
            do_sample=False,
            max_length=max_tokens,
            length_penalty=1.0,
            early_stopping=beams > 1,
        )
        texts = tokenizers.target.batch_decode(written, skip_special_tokens=True)
        for index, text in zip(indices, texts, strict=True):
            translations[index] = text
        done += len(indices)
        if progress is not None:
            progress("Translating", done, len(sentences))
    return translations


def unknown_texts(tokenizers: Tokenizers, sentences: Sequence[str]) -> list[str]:
    """Parts of the sentences that the source vocabulary does not hold, each once, in their order."""
    if not sentences:
        return []
    encoded = tokenizers.source(list(sentences), return_offsets_mapping=True)
    unknown = tokenizers.source.unk_token_id
    rows = zip(sentences, encoded["input_ids"], encoded["offset_mapping"], strict=True)
    stretches = [
        _visible_stretch(text, start, end)
        for text, ids, spans in rows
        for token, (start, end) in zip(ids, spans, strict=True)
        if token == unknown
    ]
    return list(dict.fromkeys(stretches))


def _visible_stretch(text: str, start: int, end: int) -> str:
    """A stretch of a text with the combining marks behind it, so that it can be seen."""
    while end < len(text) and unicodedata.combining(text[end]):
        end += 1
    return shown(text[start:end])
