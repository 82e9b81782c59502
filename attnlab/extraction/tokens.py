"""Texts as tokens: the one place where sentences that a model reads meet its tokenizers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

Text = str | tuple[str, str]


class BothTokenizers(NamedTuple):
    """What the source and the target are tokenized with; one and the same for most models."""

    source: Any
    target: Any


def both_tokenizers(tokenizer: Any) -> BothTokenizers:
    """A tokenizer for both sides, or the `.source` and `.target` of an object that has them."""
    return BothTokenizers(
        getattr(tokenizer, "source", tokenizer), getattr(tokenizer, "target", tokenizer)
    )


@dataclass(frozen=True)
class Tokens:
    """Tokens of one side of a text.

    Attributes:
        ids: their ids, those of special tokens that the tokenizer adds among them.
        special: True where it added one.
        spans: where each stands in the text, (start, end); None of a tokenizer that cannot tell.
    """

    ids: tuple[int, ...]
    special: tuple[bool, ...]
    spans: tuple[tuple[int, int], ...] | None


@dataclass(frozen=True)
class TokenizedText:
    """A text with its tokens.

    Attributes:
        text: as it was handed in.
        source: of the sentence, or of the first of a pair.
        target: of its translation; None where there is none or the model has no decoder for it.
    """

    text: Text
    source: Tokens
    target: Tokens | None


def tokens_of(tokenizer: Any, texts: Sequence[str], *, target: bool = False) -> list[Tokens]:
    """Tokens of every text, nothing cut off.

    Args:
        tokenizer: of transformers, fast or not.
        texts: sentences.
        target: whether these are translations, which a tokenizer may write unlike sources.
    """
    encoded = tokenizer(
        **{"text_target" if target else "text": list(texts)},
        return_offsets_mapping=tokenizer.is_fast,
        return_special_tokens_mask=True,
        verbose=False,
    )
    spans = encoded["offset_mapping"] if tokenizer.is_fast else [None] * len(texts)
    return [
        Tokens(
            tuple(ids),
            tuple(map(bool, special)),
            None if places is None else tuple((start, end) for start, end in places),
        )
        for ids, special, places in zip(
            encoded["input_ids"], encoded["special_tokens_mask"], spans, strict=True
        )
    ]


def tokenize(model: Any, tokenizer: Any, texts: Sequence[Text]) -> tuple[TokenizedText, ...]:
    """Tokens of every text, of translations too where all texts have them and the model a decoder.

    Args:
        model: a transformers model.
        tokenizer: a tokenizer, or an object with a tokenizer in `.source` and one in `.target`.
        texts: sentences, or pairs of source and target.
    """
    if not texts:
        return ()
    both = both_tokenizers(tokenizer)
    sources = tokens_of(both.source, [t[0] if isinstance(t, tuple) else t for t in texts])
    pairs = [text for text in texts if isinstance(text, tuple)]
    targets: Sequence[Tokens | None] = [None] * len(texts)
    if model.config.is_encoder_decoder and len(pairs) == len(texts):
        targets = tokens_of(both.target, [text for _, text in pairs], target=True)
    return tuple(
        TokenizedText(text, source, target)
        for text, source, target in zip(texts, sources, targets, strict=True)
    )
