"""Tokenizers of four families, built from a few pieces or trained on a few sentences, offline."""

from collections.abc import Callable, Sequence

import pytest
from tokenizers import (
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)
from transformers import PreTrainedTokenizerFast


def wrapped(tokenizer: Tokenizer) -> PreTrainedTokenizerFast:
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]"
    )


def framed(tokenizer: Tokenizer) -> Tokenizer:
    """Adds [CLS] before and [SEP] behind every sentence."""
    special = [(name, tokenizer.token_to_id(name)) for name in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=special
    )
    return tokenizer


def numbered(pieces: Sequence[str]) -> dict[str, int]:
    return {piece: number for number, piece in enumerate(pieces)}


SPECIAL = ["[UNK]", "[CLS]", "[SEP]"]


def word_piece() -> Tokenizer:
    pieces = [*SPECIAL, "the", "dog", "##s", "bark", "##ed", "at", "don", "'", "t", ".", '"']
    tokenizer = Tokenizer(models.WordPiece(numbered(pieces), unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return framed(tokenizer)


def byte_level(*, prefix_space: bool = False, trim: bool = False) -> Tokenizer:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    merges = [("d", "o"), ("Ġ", "do"), ("Ġdo", "g"), (".", '"')]
    pieces = [*SPECIAL, *alphabet, *("".join(pair) for pair in merges)]
    tokenizer = Tokenizer(models.BPE(numbered(pieces), merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix_space)
    tokenizer.decoder = decoders.ByteLevel()
    framed(tokenizer)
    if trim:
        frame = tokenizer.post_processor
        tokenizer.post_processor = processors.Sequence(
            [processors.ByteLevel(trim_offsets=True), frame]
        )
    return tokenizer


def unigram() -> Tokenizer:
    scores = [*((name, 0.0) for name in SPECIAL), ("▁", -1.0), ("▁the", -2.0), ("dog", -2.0)]
    scores += [("s", -2.0), ("▁ba", -2.0), ("rk", -2.0), ("ed", -2.0), (".", -2.0), ('"', -2.0)]
    tokenizer = Tokenizer(models.Unigram(scores, unk_id=0))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    return framed(tokenizer)


def word_level() -> Tokenizer:
    pieces = [*SPECIAL, "The", "dogs", "barked", "."]
    tokenizer = Tokenizer(models.WordLevel(numbered(pieces), unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    return framed(tokenizer)


@pytest.fixture
def tokenizer_of() -> Callable[..., PreTrainedTokenizerFast]:
    """A tokenizer of the named family, with a vocabulary of a few pieces."""
    families = {
        "word_piece": word_piece,
        "byte_level": byte_level,
        "unigram": unigram,
        "word_level": word_level,
    }

    def build(family: str, **options: bool) -> PreTrainedTokenizerFast:
        return wrapped(families[family](**options))

    return build


@pytest.fixture(scope="session")
def trained_byte_level() -> Callable[[Sequence[str], int], PreTrainedTokenizerFast]:
    """Byte-level BPE as GPT-2 has it, trained on the given texts."""

    def train(texts: Sequence[str], pieces: int) -> PreTrainedTokenizerFast:
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(
            vocab_size=pieces,
            special_tokens=SPECIAL,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
        tokenizer.train_from_iterator(texts, trainer)
        return wrapped(framed(tokenizer))

    return train
