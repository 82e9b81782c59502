"""Which tokens of a kept sentence make a word, by the marks of the tokenizer."""

from collections.abc import Sequence
from dataclasses import dataclass

from attnlab.labels.words import OTHER_MARKS, START_MARKS

_CONTINUED, _CONTINUES, _ENDS = OTHER_MARKS


@dataclass(frozen=True)
class Words:
    """Words of a sentence in order, those of one token among them.

    Attributes:
        starts: index of the first token of each.
        names: as they are written, without marks.
    """

    starts: tuple[int, ...]
    names: tuple[str, ...]


def words_of(tokens: Sequence[str], kinds: str) -> Words:
    """The words of a sentence; special tokens and punctuation stand alone.

    Args:
        tokens: as the tokenizer writes them.
        kinds: a letter of `attnlab.reading.keeping.LETTERS` per token.

    >>> words_of(["▁the", "▁cat", "s", ".", "</s>"], "wwwpc")
    Words(starts=(0, 1, 3, 4), names=('the', 'cats', '.', '</s>'))
    >>> words_of(["the", "cat", "##s"], "www").names, words_of(["ca@@", "ts", "sit"], "www").names
    (('the', 'cats'), ('cats', 'sit'))
    """
    marked = any(token.startswith(START_MARKS) for token in tokens)
    ended = any(token.endswith(_ENDS) for token in tokens)
    starts = [
        index
        for index, (token, kind) in enumerate(zip(tokens, kinds, strict=True))
        if index == 0
        or kind != "w"
        or kinds[index - 1] != "w"
        or not _continues(tokens[index - 1], token, marked=marked, ended=ended)
    ]
    ends = [*starts[1:], len(tokens)]
    names = (
        tokens[start] if kinds[start] in "ocs" else "".join(map(_plain, tokens[start:end]))
        for start, end in zip(starts, ends, strict=True)
    )
    return Words(tuple(starts), tuple(names))


def _continues(before: str, token: str, *, marked: bool, ended: bool) -> bool:
    """Whether a token goes on with the word of the one before it."""
    if marked:
        return not token.startswith(START_MARKS)
    if ended:
        return not before.endswith(_ENDS)
    return token.startswith(_CONTINUED) or before.endswith(_CONTINUES)


def _plain(token: str) -> str:
    for mark in START_MARKS:
        token = token.removeprefix(mark)
    return token.removeprefix(_CONTINUED).removesuffix(_CONTINUES).removesuffix(_ENDS)
