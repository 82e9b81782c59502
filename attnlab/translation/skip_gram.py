"""Skip-gram vectors of the types of a tokenizer, from the training rows of a corpus."""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice, pairwise
from typing import TYPE_CHECKING

from attnlab.addresses import SIDES, Side
from attnlab.corpora.corpus import ParallelCorpus, Progress
from attnlab.corpora.rows import ROWS_AT_ONCE
from attnlab.embeddings.settings import SkipGramSettings
from attnlab.embeddings.skip_gram import train_skip_gram
from attnlab.embeddings.vectors import Embeddings
from attnlab.translation.frequencies import texts_of
from attnlab.translation.tokenizer import SPECIAL_TOKENS, Tokenizers

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast


def skip_gram_of(
    corpus: ParallelCorpus,
    tokenizers: Tokenizers,
    settings: SkipGramSettings,
    sides: Sequence[Side] = SIDES,
    progress: Progress | None = None,
) -> Embeddings:
    """Skip-gram vectors of the tokens of the training rows; each side of a row is a sentence of its own.

    Raises:
        InputError: no sentence has two tokens.
    """
    by_side = dict(zip(SIDES, (tokenizers.source, tokenizers.target), strict=True))
    parts = [TokenSentences(by_side[side], texts_of(corpus.train, side)) for side in sides]
    return train_skip_gram(_Together(parts), settings, progress)


class TokenSentences:
    """The tokens of texts, special ones left out, which are read as often as wanted.

    Four bytes a token are kept.
    """

    def __init__(self, tokenizer: "PreTrainedTokenizerFast", texts: Iterable[str]) -> None:
        self._types = tokenizer.convert_ids_to_tokens(range(len(tokenizer)))
        special = {number for number, text in enumerate(self._types) if text in SPECIAL_TOKENS}
        self._ids, self._ends = array("i"), array("q", [0])
        rest = iter(texts)
        while some := list(islice(rest, ROWS_AT_ONCE)):
            for ids in tokenizer(some, add_special_tokens=False)["input_ids"]:
                self._ids.extend(number for number in ids if number not in special)
                self._ends.append(len(self._ids))

    def __iter__(self) -> Iterator[list[str]]:
        for start, end in pairwise(self._ends):
            yield [self._types[number] for number in self._ids[start:end]]


class _Together:
    """Several collections of sentences one after another, which are read as often as wanted."""

    def __init__(self, parts: Sequence[Iterable[list[str]]]) -> None:
        self._parts = parts

    def __iter__(self) -> Iterator[list[str]]:
        return chain.from_iterable(self._parts)
