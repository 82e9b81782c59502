"""Vectors by word: nearest neighbours and a map of their first two principal components."""

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property

import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from attnlab.core.errors import InputError
from attnlab.core.representations import ShortRepr

# What vocabularies write before a token that begins a word: attnlab and SentencePiece, and GPT-2.
WORD_MARKS = ("\N{LOWER ONE EIGHTH BLOCK}", "\N{LATIN CAPITAL LETTER G WITH DOT ABOVE}")

# What a map shows of vectors, and of how many words at least.
COMPONENTS, FEWEST_WORDS = 2, 3


@dataclass(frozen=True, repr=False)
class Embeddings(ShortRepr):
    """A vector for each word of a vocabulary.

    Raises:
        InputError: words and vectors differ in number, a word stands twice, or a number is not finite.
    """

    words: tuple[str, ...]
    vectors: Float[Tensor, "word dim"]

    def __post_init__(self) -> None:
        if len(self.words) != len(self.vectors):
            msg = f"There are {len(self.words)} words and {len(self.vectors)} vectors; give one for each."
            raise InputError(msg)
        if len(self.positions) != len(self.words):
            twice = next(word for at, word in enumerate(self.words) if self.positions[word] != at)
            msg = f"The word {twice!r} has two vectors; leave one of them out."
            raise InputError(msg)
        if not bool(torch.isfinite(self.vectors).all()):
            msg = "Some vectors hold numbers that are not finite; train the embeddings again."
            raise InputError(msg)

    @property
    def dim(self) -> int:
        """Size of a vector."""
        return self.vectors.shape[1]

    @cached_property
    def positions(self) -> dict[str, int]:
        """Row of each word."""
        return {word: row for row, word in enumerate(self.words)}

    def find(self, word: str) -> int:
        """The row of a word, written as in the vocabulary or without the mark of its beginning.

        Raises:
            InputError: the vocabulary does not hold it.
        """
        forms = (word, *(f"{mark}{word}" for mark in WORD_MARKS))
        found = next((self.positions[form] for form in forms if form in self.positions), None)
        if found is None:
            near = get_close_matches(word, self.words, n=3)
            hint = f"; near it are {', '.join(near)}" if near else ""
            msg = f"The word {word!r} is not among the {len(self.words):,} words of the vocabulary{hint}."
            raise InputError(msg)
        return found

    def without(self, words: Sequence[str]) -> "Embeddings":
        """The embeddings of all other words."""
        left_out = set(words)
        rows = [row for row, word in enumerate(self.words) if word not in left_out]
        return Embeddings(tuple(self.words[row] for row in rows), self.vectors[rows])


def nearest(embeddings: Embeddings, words: Sequence[str], count: int = 10) -> pd.DataFrame:
    """The `count` words with the largest cosine to each of `words`, one row per neighbour.

    Columns: word, rank (from 1), neighbour, cosine.

    Raises:
        InputError: a word is not in the vocabulary, or `count` is below 1.
    """
    if count < 1:
        msg = f"The number of neighbours must be at least 1, not {count}."
        raise InputError(msg)
    rows = [embeddings.find(word) for word in words]
    unit = F.normalize(embeddings.vectors.double(), dim=1)
    cosines = unit[rows] @ unit.T
    cosines[range(len(rows)), rows] = -torch.inf
    best = cosines.topk(min(count, len(embeddings.words) - 1), dim=1)
    records = [
        (embeddings.words[row], rank, embeddings.words[int(at)], float(cosine))
        for row, indices, values in zip(rows, best.indices, best.values, strict=True)
        for rank, (at, cosine) in enumerate(zip(indices, values, strict=True), start=1)
    ]
    return pd.DataFrame(records, columns=["word", "rank", "neighbour", "cosine"])


def map_of(
    embeddings: Embeddings, words: Sequence[str], groups: Sequence[str] | None = None
) -> pd.DataFrame:
    """The first two principal components of the vectors of `words`, one row per word.

    With X the centred vectors and X = U S V^T, the coordinates are U S; the share of a component is its
    s^2 / sum(s^2). The largest weight of a component is positive, so that the map is never mirrored.
    Columns: word, group, first_component, second_component, first_share, second_share.

    Args:
        embeddings: the vectors.
        words: what is shown, each once.
        groups: one name per word, such as the word that it is a neighbour of.

    Raises:
        InputError: a word is not in the vocabulary, or there are fewer than 3 words.
    """
    rows = list(dict.fromkeys(embeddings.find(word) for word in words))
    if len(rows) < FEWEST_WORDS or embeddings.dim < COMPONENTS:
        msg = (
            f"A map needs at least {FEWEST_WORDS} words and {COMPONENTS} dimensions, not {len(rows)} and "
            f"{embeddings.dim}."
        )
        raise InputError(msg)
    X = embeddings.vectors[rows].double()
    U, S, Vh = torch.linalg.svd(X - X.mean(0), full_matrices=False)
    largest = Vh.gather(1, Vh.abs().argmax(1, keepdim=True))[:, 0]
    coordinates = U * S * largest.sign()
    shares = S.square() / S.square().sum().clamp(min=torch.finfo(S.dtype).tiny)
    first: dict[int, str] = {}
    for word, group in zip(words, groups or [""] * len(words), strict=True):
        first.setdefault(embeddings.find(word), group)
    return pd.DataFrame(
        {
            "word": [embeddings.words[row] for row in rows],
            "group": [first[row] for row in rows],
            "first_component": coordinates[:, 0].numpy(),
            "second_component": coordinates[:, 1].numpy(),
            "first_share": float(shares[0]),
            "second_share": float(shares[1]),
        }
    )
