"""Translating sentences with a trained model, greedily or with beams."""

import math
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from attnlab.core.errors import InputError
from attnlab.core.library_state import seeded
from attnlab.core.texts import shown
from attnlab.models.batches import LengthGroupedBatches, TokenPairs, collator, encode_rows
from attnlab.models.configuration import IGNORED_LABEL
from attnlab.models.model import TranslationModel
from attnlab.models.run import Run
from attnlab.models.scoring import perplexity, score
from attnlab.models.tokenizer import Tokenizers
from attnlab.models.training_settings import GenerationSettings

if TYPE_CHECKING:
    import datasets

# Called with (what is being done, done, in all).
Progress = Callable[[str, int, int], None]


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
            its number.
    """
    if beams < 1:
        msg = f"beams must be 1 (greedy) or more, not {beams}."
        raise InputError(msg)
    encoded = tokenizers.source(list(sentences))["input_ids"] if sentences else []
    for number, (ids, text) in enumerate(zip(encoded, sentences, strict=True), 1):
        if not text.strip() and not keep_blank:
            msg = f"Sentence {number} is empty; give one sentence a line."
            raise InputError(msg)
        if len(ids) > max_tokens:
            msg = f"Sentence {number} has {len(ids)} tokens, more than the limit of {max_tokens}."
            raise InputError(msg)
    written = translate_ids(
        model,
        tokenizers,
        [ids for ids, text in zip(encoded, sentences, strict=True) if text.strip()],
        beams=beams,
        max_tokens=max_tokens,
        batch_tokens=batch_tokens,
        progress=progress,
    )
    filled = iter(written)
    return [next(filled) if text.strip() else "" for text in sentences]


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
    for indices in _by_length(sentences, batch_tokens // beams):
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
    """What of the sentences the source vocabulary does not hold, each once, in their order."""
    if not sentences:
        return []
    encoded = tokenizers.source(list(sentences), return_offsets_mapping=True)
    unknown = tokenizers.source.unk_token_id
    rows = zip(sentences, encoded["input_ids"], encoded["offset_mapping"], strict=True)
    found = [
        _with_marks(text, start, end)
        for text, ids, spans in rows
        for token, (start, end) in zip(ids, spans, strict=True)
        if token == unknown
    ]
    return list(dict.fromkeys(found))


def _with_marks(text: str, start: int, end: int) -> str:
    """The stretch with the combining marks behind it, so that it can be seen."""
    while end < len(text) and unicodedata.combining(text[end]):
        end += 1
    return shown(text[start:end])


def _by_length(encoded: Sequence[Sequence[int]], batch_tokens: int) -> Iterator[list[int]]:
    lengths = np.array([len(ids) for ids in encoded], dtype=np.int64)
    yield from LengthGroupedBatches(lengths, lengths, batch_tokens=batch_tokens, shuffle=False)


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
    """Those pairs of a part of a corpus that are within the run's limit of tokens on both sides."""
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
    run: Run, *, split: str = "test", progress: Callable[[str, int, int], None] | None = None
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
