"""From subword tokens to words: which token belongs to which word, and attention between words.

Nothing here asks which tokenizer made the tokens: what counts is where each one stands in the text.
A tokenizer that does not say so (no offset mapping) has its tokens found again by their letters.

A *unit* is what can be told apart on both sides: usually one word. Two words that are written
without a space between them and share a token (`."` in byte-level BPE) are one unit, as the two
words of Italian "della" are. A token that reaches over a space makes the sentence unalignable.
"""

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, pairwise
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from attnlab.core import AttnlabError

START_MARKS = ("▁", "Ġ")
OTHER_MARKS = ("##", "@@", "</w>")


class UnalignedError(AttnlabError):
    """The tokens of a sentence cannot be matched with its words; the message says at which one."""


class Span(NamedTuple):
    """A stretch of text: characters `start` to `end`, the last one left out."""

    start: int
    end: int


@dataclass(frozen=True)
class Alignment:
    """Which unit each token and each word of one sentence belongs to.

    Attributes:
        unit_of_token: a number from 0 for every token, None for special tokens.
        unit_of_word: a number for every word; units are numbered in the order of the text.
    """

    unit_of_token: tuple[int | None, ...]
    unit_of_word: tuple[int, ...]

    @property
    def units(self) -> int:
        """Number of units."""
        return len(set(self.unit_of_word))


def align_offsets(
    text: str, words: Sequence[Span], tokens: Sequence[tuple[int, int]], special: Sequence[bool]
) -> Alignment:
    """Alignment of tokens whose positions in the text are known (`return_offsets_mapping`).

    A token that covers white space only (the lone word mark of SentencePiece) belongs to the word
    behind it; behind the last word it is treated as special.

    Args:
        text: what was tokenized.
        words: where each word stands in `text`, in order.
        tokens: where each token stands in `text`; ignored where `special`.
        special: True for tokens that the tokenizer added.

    Raises:
        UnalignedError: a token covers two words with a space between them, or lies outside all
            words, or a word has no token (for example because the sentence was cut off).

    >>> words = [Span(0, 2), Span(3, 6)]
    >>> align_offsets("my cat", words, [(0, 0), (0, 2), (2, 4), (4, 6)], [True, False, False, False])
    Alignment(unit_of_token=(None, 0, 1, 1), unit_of_word=(0, 1))
    """
    starts, ends = [word.start for word in words], [word.end for word in words]
    touched = [
        _NO_WORD if added else _words_touched(text, starts, ends, *token)
        for token, added in zip(tokens, special, strict=True)
    ]
    covered: set[int] = set()
    joined: set[int] = set()
    for group in touched:
        covered.update(group)
        joined.update(group[:-1])
    for number, word in enumerate(words):
        if number not in covered:
            msg = f"the word '{text[word.start : word.end]}' has no token"
            raise UnalignedError(msg)
    units = accumulate(int(number - 1 not in joined) for number in range(1, len(words)))
    unit_of_word = (0, *units) if words else ()
    units_of_tokens = (unit_of_word[group.start] if group else None for group in touched)
    return Alignment(tuple(units_of_tokens), unit_of_word)


_NO_WORD = range(0)


def _words_touched(
    text: str, starts: Sequence[int], ends: Sequence[int], start: int, end: int
) -> range:
    """The words, by where they start and end, that characters `start` to `end` belong to."""
    covered = text[start:end]
    bare = covered.strip()
    if not bare:
        behind = bisect_left(starts, start)
        return range(behind, behind + 1) if behind < len(starts) else _NO_WORD
    start += len(covered) - len(covered.lstrip())
    # Words are in order, so those that end behind the start and start before the end are beside each other.
    touched = range(bisect_right(ends, start), bisect_left(starts, start + len(bare)))
    if not touched:
        msg = f"the token '{covered}' belongs to no word"
        raise UnalignedError(msg)
    if any(ends[number] < starts[number + 1] for number in touched[:-1]):
        msg = f"the token '{covered}' reaches over the space between two words"
        raise UnalignedError(msg)
    return touched


def align_separate(
    texts: Sequence[str],
    words: Sequence[Sequence[Span]],
    tokens: Sequence[Sequence[tuple[int, int]]],
    special: Sequence[Sequence[bool]],
) -> list[Alignment | None]:
    """Alignments of the sentences in which no token is of two words, as of `align_offsets`; else None.

    Arguments as there, one of each for every sentence. All sentences are gone through at once, as arrays.
    """
    beginnings = np.cumsum([0, *(len(text) + 1 for text in texts)])[:-1]
    of_word, first, last = _flattened(words, beginnings)
    of_token, start, stop = _flattened(tokens, beginnings)
    added = np.fromiter(chain.from_iterable(special), bool, len(start))
    letter = _next_letters(texts)[start]
    blank = letter >= stop
    # Words are in order: the first that a token touches is the first that ends behind its first letter.
    touched = np.where(blank, np.searchsorted(first, start), np.searchsorted(last, letter, "right"))
    count = np.where(blank, 1, np.searchsorted(first, stop) - touched)
    numbers = np.cumsum([0, *map(len, words)])
    outside = blank & (touched >= numbers[of_token + 1])
    belongs = ~added & ~outside
    covered = np.zeros(len(first), bool)
    covered[touched[belongs & (count == 1)]] = True
    wrong = {*of_token[belongs & (count != 1)].tolist(), *of_word[~covered].tolist()}
    units = (touched - numbers[of_token]).astype(object)
    units[~belongs] = None
    ends = np.cumsum([0, *map(len, tokens)]).tolist()
    return [
        None
        if index in wrong
        else Alignment(tuple(units[begin:end].tolist()), tuple(range(len(words[index]))))
        for index, (begin, end) in enumerate(pairwise(ends))
    ]


def _flattened(
    spans: Sequence[Sequence[tuple[int, int]]], beginnings: Int[np.ndarray, " sentence"]
) -> tuple[Int[np.ndarray, " span"], Int[np.ndarray, " span"], Int[np.ndarray, " span"]]:
    """The sentence of each span, and where it starts and ends in the texts put together."""
    lengths = list(map(len, spans))
    sentence = np.repeat(np.arange(len(spans)), lengths)
    ends = chain.from_iterable(chain.from_iterable(spans))
    places = np.fromiter(ends, np.int64, 2 * sum(lengths)).reshape(-1, 2)
    start, stop = (places + beginnings[sentence, None]).T
    return sentence, start, stop


def _next_letters(texts: Sequence[str]) -> Int[np.ndarray, " place"]:
    """The position of the next sign that is no white space, from each position in the texts put together."""
    codes = np.frombuffer("\n".join([*texts, ""]).encode("utf-32-le", "surrogatepass"), "<u4")
    spaces = [code for code in np.unique(codes).tolist() if chr(code).isspace()]
    places = np.where(np.isin(codes, spaces), len(codes), np.arange(len(codes)))
    return np.minimum.accumulate(places[::-1])[::-1]


def locate_tokens(
    text: str, tokens: Sequence[str], special: Sequence[bool], unknown: str | None
) -> list[Span]:
    """Where each token stands in `text`, found by its letters; special tokens get an empty span.

    Marks of word starts and of continuation are dropped, letters are compared in the Unicode form
    NFKC without case. Unknown tokens next to each other share the text between the known ones.

    Raises:
        UnalignedError: the tokens do not spell the text.

    >>> locate_tokens("Un gatto", ["▁un", "▁gat", "to", "</s>"], [False] * 3 + [True], "<unk>")
    [Span(start=0, end=2), Span(start=3, end=6), Span(start=6, end=8), Span(start=0, end=0)]
    """
    plain = [(letter, index) for index, sign in enumerate(text) for letter in _plain(sign)]
    positions = [number for number, added in enumerate(special) if not added]
    patterns: list[str] = []
    groups: dict[int, int] = {}
    previous: str | None = None
    for number in positions:
        if tokens[number] != unknown or previous != unknown:
            patterns.append(_pattern(tokens[number], unknown))
        groups[number] = len(patterns)
        previous = tokens[number]
    match = re.fullmatch(
        "".join(patterns) + r"\s*", "".join(letter for letter, _ in plain), re.DOTALL
    )
    if match is None:
        msg = f"the tokens do not spell '{text[:40]}'"
        raise UnalignedError(msg)
    source = [*(index for _, index in plain), len(text)]
    spans = [Span(0, 0)] * len(tokens)
    for number, group in groups.items():
        start, end = match.span(group)
        spans[number] = Span(source[start], source[end - 1] + 1 if end > start else source[start])
    return spans


def _plain(piece: str) -> str:
    return unicodedata.normalize("NFKC", piece).casefold()


def _pattern(token: str, unknown: str | None) -> str:
    """What a token looks like in the text: one group, and before it what its mark asks for."""
    if token == unknown:
        return r"\s*(\S.*?)"
    before = r"(?:(?<!\S)|\s+)" if token.startswith(START_MARKS) else r"\s*"
    for mark in START_MARKS:
        token = token.replace(mark, "")
    if token not in OTHER_MARKS:
        token = token.removeprefix("##").removesuffix("@@").removesuffix("</w>")
    return f"{before}({re.escape(_plain(token))})"


@dataclass(frozen=True)
class BatchUnits:
    """Which unit every token of a batch belongs to.

    The first `words.shape[1]` units are those of the words, in the order of the text, so that
    differences of unit numbers are offsets in words. Behind them each special token is a unit of
    its own: no attention is lost.

    Attributes:
        membership: 1 where a token belongs to a unit, else 0; padding belongs nowhere.
        words: True where the sentence has that word unit.
    """

    membership: Float[Tensor, "batch token unit"]
    words: Bool[Tensor, "batch word"]

    @property
    def of_tokens(self) -> Bool[Tensor, "batch word"]:
        """True for words that have a token."""
        return self.words & self.membership[..., : self.words.shape[1]].any(1)


def gather_units(
    alignments: Sequence[Alignment | None], visible: Bool[Tensor, "batch token"]
) -> BatchUnits:
    """The units of a batch; a sentence whose alignment is None has no word units at all.

    Args:
        alignments: one for each sentence, over its tokens without padding.
        visible: True for tokens, False for padding, which may stand on either side.

    Raises:
        ValueError: a sentence has another number of tokens than its alignment.
    """
    words = max((alignment.units for alignment in alignments if alignment), default=0)
    entries: list[tuple[int, int, int]] = []
    is_word = torch.zeros(len(alignments), words, dtype=torch.bool)
    specials = 0
    for sentence, alignment in enumerate(alignments):
        positions = visible[sentence].nonzero().flatten().tolist()
        if alignment is None:
            continue
        if len(positions) != len(alignment.unit_of_token):
            msg = (
                f"Sentence {sentence} of the batch has {len(positions)} tokens, "
                f"its alignment {len(alignment.unit_of_token)}."
            )
            raise ValueError(msg)
        is_word[sentence, : alignment.units] = True
        seen = 0
        for position, unit in zip(positions, alignment.unit_of_token, strict=True):
            entries.append((sentence, position, words + seen if unit is None else unit))
            seen += unit is None
        specials = max(specials, seen)
    membership = torch.zeros(*visible.shape, words + specials)
    if entries:
        membership[tuple(torch.tensor(entries).T)] = 1.0
    return BatchUnits(membership.to(visible.device), is_word.to(visible.device))


def merge_tokens(
    weights: Float[Tensor, "batch head query key"],
    queries: BatchUnits,
    keys: BatchUnits,
    *,
    special: bool = False,
) -> Float[Tensor, "batch head query_unit key_unit"]:
    """Attention between words: summed over the tokens of the key, averaged over those of the query.

    ::

        A_uv = (1 / |u|) * sum over i in u, j in v of weights_ij

    With `special` the units of special tokens follow those of the words, and rows sum to the mean
    of their tokens' row sums; without, what lies on special tokens is missing. Rows of units that a
    sentence lacks are 0. Half precision is summed in float32. Cost: O(query * key * unit) a head.
    """
    wide = weights if weights.dtype in {torch.float32, torch.float64} else weights.float()
    units = [
        side.membership if special else side.membership[..., : side.words.shape[1]]
        for side in (queries, keys)
    ]
    from_queries, to_keys = (side.to(wide.dtype) for side in units)
    # All heads in one product: the same columns are summed in each.
    columns = (wide.flatten(1, 2) @ to_keys).unflatten(1, wide.shape[1:3])
    sizes = from_queries.sum(1).clamp_min(1)[:, None, :, None]
    return from_queries.mT[:, None] @ columns / sizes
