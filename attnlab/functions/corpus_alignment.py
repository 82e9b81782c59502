"""Alignment of sentences with a transformers tokenizer, and how much of a corpus could not be aligned."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from attnlab.extraction.tokens import Tokens
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
    tokenizer: Any, sentences: Sequence[GoldSentence], tokens: Sequence[Tokens]
) -> AlignedCorpus:
    """The alignment of every sentence; those that cannot be aligned are kept with their reasons.

    Args:
        tokenizer: of transformers, fast or not.
        sentences: texts with the positions of their words.
        tokens: what the tokenizer made of each text.
    """
    found: list[Alignment | None] = []
    reasons: dict[str, str] = {}
    for sentence, made in zip(sentences, tokens, strict=True):
        try:
            found.append(align_sentence(tokenizer, sentence, made))
        except UnalignedError as error:
            found.append(None)
            reasons[sentence.identifier] = str(error)
    return AlignedCorpus(tuple(found), reasons)


def align_sentence(tokenizer: Any, sentence: GoldSentence, tokens: Tokens) -> Alignment:
    """Alignment with the tokens that `tokenizer` made of the text, special tokens among them.

    Fast tokenizers say where their tokens stand in the text; those of others are found by their
    letters.

    Raises:
        UnalignedError: the tokens do not match the words.
    """
    if tokens.spans is not None:
        spans = [Span(*span) for span in tokens.spans]
    else:
        pieces = tokenizer.convert_ids_to_tokens(tokens.ids)
        spans = locate_tokens(sentence.text, pieces, tokens.special, tokenizer.unk_token)
    return align_offsets(sentence.text, sentence.spans, spans, tokens.special)
