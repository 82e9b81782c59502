"""Texts as tokens: what a tokenizer makes of sentences and pairs, nothing cut off."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from attnlab.core import (
    InputError,
    panics,
    reason,
)
from attnlab.models import Model

Text = str | tuple[str, str]


def source_of(text: Text) -> str:
    """The sentence, or the source of a pair."""
    return text if isinstance(text, str) else text[0]


def lowered(text: Text) -> Text:
    """The text in lower case, or both of a pair."""
    return text.lower() if isinstance(text, str) else (text[0].lower(), text[1].lower())


@dataclass(frozen=True)
class Tokens:
    """Tokens of one side of a text.

    Attributes:
        ids: their ids, those of special tokens that the tokenizer adds among them.
        special: True where it added one.
        spans: where each stands in the text, (start, end); None of a tokenizer that cannot tell. Those of
            the second text of a pair are counted on behind the first and a space.
        types: token types of a pair that is read as one text; empty where the tokenizer gives none.
        second: position of the first token of the second text of such a pair.
    """

    ids: tuple[int, ...]
    special: tuple[bool, ...]
    spans: tuple[tuple[int, int], ...] | None
    types: tuple[int, ...] = ()
    second: int | None = None


@dataclass(frozen=True)
class TokenizedText:
    """A text with its tokens.

    Attributes:
        text: as it was handed in.
        source: of the sentence, of both sentences of a pair that a model of one stack reads, or of the first.
        target: of the second of a pair, which the decoder reads; None where there is no decoder for it.
    """

    text: Text
    source: Tokens
    target: Tokens | None


def tokens_of(
    tokenizer: Any,
    texts: Sequence[str],
    *,
    target: bool = False,
    seconds: Sequence[str] | None = None,
) -> list[Tokens]:
    """Tokens of every text, nothing cut off.

    Args:
        tokenizer: of transformers, fast or not.
        texts: sentences.
        target: whether these are translations, which a tokenizer may write unlike sources.
        seconds: the second text of each pair, where texts are read in pairs.

    Raises:
        InputError: the library of the tokenizer panics, as where a regular expression of its file matches a
            text in too many ways.
    """
    given = {"text_target" if target else "text": list(texts)}
    if seconds is not None:
        given["text_pair"] = list(seconds)
    try:
        encoded = tokenizer(
            **given,
            return_offsets_mapping=tokenizer.is_fast,
            return_special_tokens_mask=True,
            verbose=False,
        )
    except panics() as error:
        msg = (
            f"The tokenizer cannot read the texts ({reason(error)}); use other texts, or restore "
            "tokenizer.json."
        )
        raise InputError(msg) from error
    spans = encoded["offset_mapping"] if tokenizer.is_fast else [None] * len(texts)
    if seconds is not None:
        return [
            _tokens_of_pair(encoded, number, len(text), spans[number])
            for number, text in enumerate(texts)
        ]
    return [
        Tokens(
            tuple(ids),
            tuple(map(bool, special)),
            None if places is None else tuple(places),
        )
        for ids, special, places in zip(
            encoded["input_ids"], encoded["special_tokens_mask"], spans, strict=True
        )
    ]


def _tokens_of_pair(
    encoded: Any, number: int, length: int, spans: Sequence[tuple[int, int]] | None
) -> Tokens:
    """Tokens of a pair that was tokenized as one text, the first of `length` characters."""
    ids, special = encoded["input_ids"][number], encoded["special_tokens_mask"][number]
    types = tuple(encoded["token_type_ids"][number]) if "token_type_ids" in encoded else ()
    if spans is None:
        second = types.index(1) if 1 in types else None
        return Tokens(tuple(ids), tuple(map(bool, special)), None, types, second)
    sides = encoded.sequence_ids(number)
    moved = [
        (start + length + 1, end + length + 1) if side == 1 else (start, end)
        for side, (start, end) in zip(sides, spans, strict=True)
    ]
    second = sides.index(1) if 1 in sides else None
    return Tokens(tuple(ids), tuple(map(bool, special)), tuple(moved), types, second)


def tokenize(model: Model, texts: Sequence[Text]) -> tuple[TokenizedText, ...]:
    """Tokens of every text, of pairs as the model reads them.

    The decoder of an encoder-decoder reads the second texts, its translations; a model of one stack reads
    both texts of a pair as one, in the form of its tokenizer, such as `[CLS] a [SEP] b [SEP]`.

    Args:
        model: with its tokenizer.
        texts: sentences, or pairs of them.

    Raises:
        InputError: pairs for a model of one stack whose tokenizer has no form for them.
    """
    if not texts:
        return ()
    both = model.both_tokenizers
    sources = list(map(source_of, texts))
    seconds = [text[1] for text in texts if isinstance(text, tuple)]
    targets: Sequence[Tokens | None] = [None] * len(texts)
    if len(seconds) != len(texts):
        read = tokens_of(both.source, sources)
    elif model.model.config.is_encoder_decoder:
        read = tokens_of(both.source, sources)
        targets = tokens_of(both.target, seconds, target=True)
    else:
        check_takes_pairs(model)
        read = tokens_of(both.source, sources, seconds=seconds)
    return tuple(
        TokenizedText(text, source, target)
        for text, source, target in zip(texts, read, targets, strict=True)
    )


def check_takes_pairs(model: Model) -> None:
    """Raises InputError for a model of one stack whose tokenizer puts nothing between two texts."""
    tokenizer = model.both_tokenizers.source
    single, pair = (tokenizer.num_special_tokens_to_add(pair=both) for both in (False, True))
    if pair <= single:
        msg = (
            f"The tokenizer of {model.label} has no form for pairs of sentences, and the model no decoder "
            "for translations; hand in single texts."
        )
        raise InputError(msg)
