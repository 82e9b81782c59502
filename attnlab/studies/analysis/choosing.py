"""Sentences that a user chose by their words, among those that a model reads."""

from collections.abc import Sequence

from attnlab.core.errors import InputError
from attnlab.core.texts import briefly
from attnlab.corpora.rows import clean_sentence
from attnlab.evaluation.sources import source_of
from attnlab.reading.batches import Encoding


def numbers_of(sentences: Sequence[str], encoding: Encoding) -> tuple[int, ...]:
    """The number in `encoding` of each of `sentences`, the first of several that are alike.

    White space at the ends and capital letters make no difference; of a pair the source is compared.

    Raises:
        InputError: a sentence that is not read.
    """
    numbers: dict[str, int] = {}
    for read in encoding.sentences:
        numbers.setdefault(_compared(source_of(encoding.texts[read.number].text)), read.number)
    for sentence in sentences:
        if _compared(sentence) not in numbers:
            msg = (
                f"{briefly(sentence)} cannot be shown, since it is not among the "
                f"{len(encoding.sentences):,} sentences that are read; put it into a file of sentences "
                "and name that with the option text."
            )
            raise InputError(msg)
    return tuple(numbers[_compared(sentence)] for sentence in sentences)


def _compared(sentence: str) -> str:
    return clean_sentence(sentence).casefold()
