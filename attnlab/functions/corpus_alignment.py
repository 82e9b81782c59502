"""Alignment of sentences with a transformers tokenizer, and how much of a corpus could not be aligned."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from attnlab.functions.treebank import GoldSentence
from attnlab.functions.words import (
    Alignment,
    Span,
    UnalignedError,
    align_offsets,
    locate_tokens,
)


@dataclass(frozen=True)
class AlignedCorpus:
    """The alignment of every sentence, and the reasons where there is none.

    Attributes:
        alignments: one for each sentence, in order; None where tokens and words do not match.
        reasons: for each sentence that is not aligned, its identifier and why.
    """

    alignments: tuple[Alignment | None, ...]
    reasons: dict[str, str]

    @property
    def coverage(self) -> float:
        """Share of sentences that are aligned, 0 to 1."""
        return 1 - self.alignments.count(None) / len(self.alignments)


def align_corpus(
    tokenizer: Any, sentences: Sequence[GoldSentence], *, target: bool = False
) -> AlignedCorpus:
    """The alignment of every sentence; those that cannot be aligned are kept with their reasons.

    Args:
        tokenizer: of transformers, fast or not.
        sentences: texts with the positions of their words.
        target: whether these are translations, which a tokenizer may write unlike sources.
    """
    found: list[Alignment | None] = []
    reasons: dict[str, str] = {}
    for sentence in sentences:
        try:
            found.append(align_sentence(tokenizer, sentence, target=target))
        except UnalignedError as error:
            found.append(None)
            reasons[sentence.identifier] = str(error)
    return AlignedCorpus(tuple(found), reasons)


def align_sentence(tokenizer: Any, sentence: GoldSentence, *, target: bool = False) -> Alignment:
    """Alignment with the tokens that `tokenizer` makes of the text, special tokens among them.

    Fast tokenizers say where their tokens stand in the text; those of others are found by their
    letters.

    Raises:
        UnalignedError: the tokens do not match the words.
    """
    encoded = tokenizer(
        **{"text_target" if target else "text": sentence.text},
        return_offsets_mapping=tokenizer.is_fast,
        return_special_tokens_mask=True,
        verbose=False,
    )
    special = [bool(added) for added in encoded["special_tokens_mask"]]
    if tokenizer.is_fast:
        spans = [Span(*offset) for offset in encoded["offset_mapping"]]
    else:
        tokens = tokenizer.convert_ids_to_tokens(encoded["input_ids"])
        spans = locate_tokens(sentence.text, tokens, special, tokenizer.unk_token)
    return align_offsets(sentence.text, sentence.spans, spans, special)
