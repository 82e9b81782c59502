"""Vectors by word: nearest neighbours and a map of their first two principal components."""

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from jaxtyping import Float, Int
from safetensors import SafetensorError
from torch import Tensor
from torch.nn import functional as F

from attnlab.core import (
    InputError,
    ShortRepr,
    check_installed,
    check_regular,
    fitting,
    opened_tensors,
    parse_json,
    read_text,
    reason,
    write_tensors,
    write_text,
)
from attnlab.models.embedding_settings import SkipGramSettings

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

        Without it, a piece that begins words goes before one of the same letters inside of words.

        Raises:
            InputError: the vocabulary does not hold it.
        """
        forms = (*(f"{mark}{word}" for mark in WORD_MARKS), word)
        row = next((self.positions[form] for form in forms if form in self.positions), None)
        if row is None:
            near = get_close_matches(word, self.words, n=3)
            hint = f"; near it are {', '.join(near)}" if near else ""
            msg = f"The word {word!r} is not among the {len(self.words):,} words of the vocabulary{hint}."
            raise InputError(msg)
        return row

    def without(self, words: Sequence[str]) -> "Embeddings":
        """The embeddings of all other words."""
        left_out = set(words)
        rows = [row for row, word in enumerate(self.words) if word not in left_out]
        return Embeddings(tuple(self.words[row] for row in rows), self.vectors[rows])


def nearest(embeddings: Embeddings, words: Sequence[str], count: int = 10) -> pd.DataFrame:
    """The `count` words with the largest cosine to each of `words`, one row per neighbour, each word once.

    Columns: word, rank (from 1), neighbour, cosine.

    Raises:
        InputError: a word is not in the vocabulary, or `count` is below 1.
    """
    if count < 1:
        msg = f"The number of neighbours must be at least 1, not {count}."
        raise InputError(msg)
    rows = [embeddings.find(word) for word in dict.fromkeys(words)]
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


TENSORS, TEXT = "embeddings.safetensors", "embeddings.txt"
_FIRST_LINE = re.compile(r"\s*([0-9]{1,12})\s+([1-9][0-9]{0,6})\s*")
SUFFIXES = (".safetensors", ".txt", ".vec")
_MOST_DIMENSIONS = 1_000_000


def write_embeddings(folder: str | Path, embeddings: Embeddings) -> None:
    """Writes `embeddings.txt` (word2vec) and `embeddings.safetensors`, each atomically.

    Raises:
        AttnlabError: the disk is full or the folder cannot be written.
    """
    folder = Path(folder)
    lines = [f"{len(embeddings.words)} {embeddings.dim}"]
    lines += [
        " ".join([word, *(f"{number:.7g}" for number in vector)])
        for word, vector in zip(embeddings.words, embeddings.vectors.tolist(), strict=True)
    ]
    write_text(folder / TEXT, "\n".join(lines) + "\n")
    words = json.dumps(embeddings.words, ensure_ascii=False)
    write_tensors(folder / TENSORS, {"vectors": embeddings.vectors}, {"words": words})


def holds_embeddings(path: str | Path) -> bool:
    """Whether `path` is a file that can hold embeddings, or a folder that `attnlab embed` wrote."""
    path = Path(path)
    return (path.is_file() and path.suffix in SUFFIXES) or (path / TENSORS).is_file()


def load_embeddings(path: str | Path) -> Embeddings:
    """The embeddings in a file, or in a folder that `attnlab embed` wrote.

    Raises:
        InputError: there is no such file, or it holds something else.
    """
    path = Path(path)
    if path.is_dir():
        path /= TENSORS
    check_regular(path)
    if not path.is_file():
        msg = f"There is no file of embeddings {path}; make one with: attnlab embed FOLDER"
        raise InputError(msg)
    if path.suffix == ".safetensors":
        return _read_tensor_file(path)
    return _read_word2vec(path)


def _read_tensor_file(path: Path) -> Embeddings:
    try:
        # A vector of 16 bits is looked for in 64.
        with opened_tensors(path, copies=5) as file:
            text = (file.metadata() or {}).get("words", "null")
            words = fitting(tuple[str, ...], parse_json(text))
            shape, kind = (vectors := file.get_slice("vectors")).get_shape(), vectors.get_dtype()
            if len(shape) != 2 or shape[1] > _MOST_DIMENSIONS or "F" not in kind:
                msg = (
                    f"its vectors are {kind} of shape {tuple(shape)}, not a matrix of such numbers"
                )
                raise InputError(msg)
            return Embeddings(words, file.get_tensor("vectors").float())
    except (SafetensorError, InputError, OSError) as error:
        msg = f"{path} holds no embeddings of attnlab ({reason(error)}); make them with: attnlab embed"
        raise InputError(msg) from error


def _read_word2vec(path: Path) -> Embeddings:
    """Word2vec text: a line with the number of words and their dimension, then a line per word."""
    lines = read_text(path).rstrip("\n").split("\n")
    first = _FIRST_LINE.fullmatch(lines[0])
    if first is None:
        msg = (
            f"{path} is no word2vec text: its first line must hold the number of words and their "
            f"dimension, not {lines[0][:40]!r}."
        )
        raise InputError(msg)
    count, dim = map(int, first.groups())
    if len(lines) - 1 != count:
        msg = f"{path} says that it holds {count} words and has {len(lines) - 1}; restore it."
        raise InputError(msg)
    words, vectors = [], []
    for number, line in enumerate(lines[1:], start=2):
        word, *numbers = line.rstrip(" ").rsplit(" ", dim)
        vector = [_number(text) for text in numbers]
        if len(vector) != dim or not all(map(math.isfinite, vector)):
            msg = f"Line {number} of {path} is no word with {dim} numbers; restore the file."
            raise InputError(msg)
        words.append(word)
        vectors.append(vector)
    return Embeddings(tuple(words), torch.tensor(vectors).reshape(count, dim))


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


_TRAINING = "Training vectors"


def train_skip_gram(
    sentences: Iterable[Sequence[str]],
    settings: SkipGramSettings | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> Embeddings:
    """Skip-gram or CBOW vectors with negative sampling of every type, the most frequent first.

    Every token of the window is predicted, or predicts, equally often. One thread, so that a seed gives
    the same vectors. Source: Mikolov et al. 2013; gensim's Word2Vec.

    Args:
        sentences: read once for the types and once in each epoch; what can be read once only is kept
            as a list.
        settings: size, window and training of the vectors.
        progress: called with (what is being done, epochs done, epochs in all).

    Raises:
        InputError: gensim is not installed, or no sentence has two tokens.
    """
    check_installed("gensim")
    from gensim.models import Word2Vec
    from gensim.models.callbacks import CallbackAny2Vec

    class EpochProgress(CallbackAny2Vec):
        """Tells how many epochs are done."""

        def __init__(self, tell: Callable[[str, int, int], None], epochs: int) -> None:
            self.tell, self.epochs, self.done = tell, epochs, 0
            tell(_TRAINING, 0, epochs)

        def on_epoch_end(self, _: Any) -> None:
            self.done += 1
            self.tell(_TRAINING, self.done, self.epochs)

    chosen = settings or SkipGramSettings()
    if isinstance(sentences, Iterator):
        sentences = list(sentences)
    if all(len(text) < 2 for text in sentences):
        msg = "Word vectors need sentences of at least two tokens; give a larger corpus."
        raise InputError(msg)
    model = Word2Vec(
        sentences,
        sg=int(chosen.architecture == "skip-gram"),
        hs=0,
        negative=chosen.negatives,
        vector_size=chosen.dim,
        window=chosen.window,
        shrink_windows=False,
        epochs=chosen.epochs,
        alpha=chosen.learning_rate,
        sample=chosen.subsample,
        seed=chosen.seed,
        min_count=1,
        workers=1,
        callbacks=[EpochProgress(progress, chosen.epochs)] if progress else [],
    )
    return Embeddings(tuple(model.wv.index_to_key), torch.tensor(model.wv.vectors))


@dataclass(frozen=True)
class SkipGramGradient:
    """Gradient of `skip_gram_loss` by the vectors of words and by those of their contexts."""

    words: Float[Tensor, "type dim"]
    contexts: Float[Tensor, "type dim"]


def context_counts(
    tokens: Int[Tensor, " position"], types: int, window: int
) -> Float[Tensor, "type type"]:
    """How often each type (column) stands within `window` tokens of each type (row).

    Positions outside the text do not count. Cost: O(position * window).
    """
    counts = torch.zeros(types, types, dtype=torch.float64, device=tokens.device)
    for offset in range(1, min(window, len(tokens) - 1) + 1):
        pair = (tokens[:-offset], tokens[offset:])
        increment = torch.ones(len(tokens) - offset, dtype=counts.dtype, device=counts.device)
        counts.index_put_(pair, increment, accumulate=True)
        counts.index_put_(pair[::-1], increment, accumulate=True)
    return counts


def skip_gram_loss(
    words: Float[Tensor, "type dim"],
    contexts: Float[Tensor, "type dim"],
    tokens: Int[Tensor, " position"],
    window: int,
) -> Float[Tensor, ""]:
    """Mean over positions t of -sum_j log p(i_{t+j} | i_t), j from -window to window without 0.

    ::

        p(q | p) = exp(w_p . c_q) / sum_r exp(w_p . c_r)

    The sum over the vocabulary is written out, which negative sampling avoids. Source: Mikolov et
    al. 2013, eq. 1 and 2; math.md section 8.
    """
    counts = context_counts(tokens, len(words), window).to(words)
    return -(counts * (words @ contexts.T).log_softmax(1)).sum() / len(tokens)


def cbow_loss(
    words: Float[Tensor, "type dim"],
    contexts: Float[Tensor, "type dim"],
    tokens: Int[Tensor, " position"],
    window: int,
) -> Float[Tensor, ""]:
    """Mean over positions t of -log p(i_t | i_{t-window}, ..., i_{t+window}), without i_t itself.

    ::

        p(q | context) = exp(m . c_q) / sum_r exp(m . c_r),    m the mean of w_p over the context

    Skip-gram predicts the other way round, see `skip_gram_loss`. Source: Mikolov et al. 2013,
    arXiv 1301.3781, section 3.1.
    """
    vectors = words[tokens]
    total, number = torch.zeros_like(vectors), vectors.new_zeros(len(tokens), 1)
    for offset in range(1, min(window, len(tokens) - 1) + 1):
        for centres, neighbours in (
            (slice(offset, None), slice(-offset)),
            (slice(-offset), slice(offset, None)),
        ):
            total[centres] += vectors[neighbours]
            number[centres] += 1
    return F.cross_entropy(total / number.clamp(min=1) @ contexts.T, tokens)


def skip_gram_gradient(
    words: Float[Tensor, "type dim"],
    contexts: Float[Tensor, "type dim"],
    tokens: Int[Tensor, " position"],
    window: int,
) -> SkipGramGradient:
    """The gradient of `skip_gram_loss` in closed form.

    With n_pq the number of times that q stands in the window of p, and n_p = sum_q n_pq::

        dL/dw_p = 1/T sum_q (n_p p(q | p) - n_pq) c_q
        dL/dc_q = 1/T sum_p (n_p p(q | p) - n_pq) w_p

    n_pq is the sum over positions of delta(p, i_t) delta(q, i_{t+j}): both terms of the first line have
    the factor delta(p, i_t). Where words and contexts share one table, the gradient is the sum of both.
    """
    counts = context_counts(tokens, len(words), window).to(words)
    expected = counts.sum(1, keepdim=True) * (words @ contexts.T).softmax(1)
    surplus = (expected - counts) / len(tokens)
    return SkipGramGradient(surplus @ contexts, surplus.T @ words)
