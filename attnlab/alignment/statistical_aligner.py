"""Word alignment from sentence pairs alone: IBM model 1, then a hidden Markov model, by EM.

A target word t_j comes from the source word at a_j, or from none (null). With r_j the last position that is
not null, before the first word the start, and m source words::

    IBM 1   p(a_j = null) = q,  p(a_j = i) = (1 - q) / m
    HMM     p(a_j = null) = q,  p(a_j = i | r_{j-1}) = (1 - q) c(i - r_{j-1}) / sum over k of c(k - r_{j-1})

and t_j has the probability p(t_j | s_{a_j}). Jumps of `WIDEST_JUMP` and more share a weight c, in either
direction.
Sources: Brown et al. 1993, The Mathematics of Statistical Machine Translation; Vogel, Ney and Tillmann 1996,
HMM-Based Word Alignment in Statistical Translation; null as in Och and Ney 2003, section 2.1.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from jaxtyping import Float64, Int32, Int64

from attnlab.alignment.conventions import Symmetrization
from attnlab.alignment.link_formats import Words
from attnlab.alignment.links import Link, symmetrized, turned
from attnlab.core import InputError, ShortRepr

# Expected moves by the number of source words, from the start and every position to every position.
_Moves: TypeAlias = dict[int, Float64[np.ndarray, "_ _"]]
Progress: TypeAlias = Callable[[str, int, int], None]

WIDEST_JUMP = 7
NULL_SHARE = 0.2
# The probability of a word from one that it never stood beside in training.
UNSEEN = 1e-9
# Pairs of words that are worked on at once.
_AT_ONCE = 2**19
# Steps towards new weights of jumps in an iteration; the first ones bring nearly all.
_STEPS = 5
_TINY = 1e-300
_WORD = re.compile(r"\w+'(?=\w)(?!(?:s|t|d|m|ll|re|ve)\b)|\w+(?:['-]\w+)*'?|[^\w\s]", re.IGNORECASE)


def words_of(text: str) -> Words:
    """The words of a text of a language with spaces, punctuation apart, as gold alignments have them.

    A hyphen stays within its word. An apostrophe ends a word, as in Italian and French, but for the English
    endings `'s`, `n't` and their like.

    >>> words_of("Dell'isola, isn't it?"), words_of("(the well-known state's)")
    (("Dell'", 'isola', ',', "isn't", 'it', '?'), ('(', 'the', 'well-known', "state's", ')'))
    """
    return tuple(_WORD.findall(text))


@dataclass(frozen=True, repr=False)
class StatisticalAligner(ShortRepr):
    """A fitted model of one direction: which source word each target word comes from.

    Attributes:
        sources: number of every source word.
        targets: number of every target word.
        keys: source number * target words + target number of the pairs of words that stood in one sentence
            pair, in order.
        translation: p(target word | source word) of these.
        null: p(target word | no source word).
        jumps: weights of jumps from -WIDEST_JUMP to WIDEST_JUMP; None for IBM model 1.
        log_likelihoods: of the training pairs before each iteration, in nats.
    """

    sources: Mapping[str, int]
    targets: Mapping[str, int]
    keys: Int64[np.ndarray, " pair"]
    translation: Float64[np.ndarray, " pair"]
    null: Float64[np.ndarray, " target"]
    jumps: Float64[np.ndarray, " jump"] | None = None
    log_likelihoods: tuple[float, ...] = ()

    def align(self, pairs: Sequence[tuple[Words, Words]]) -> list[frozenset[Link]]:
        """Links from each target word to the source word of the highest posterior, if null has no higher one.

        Words that were not in the training pairs are linked by their position alone.
        """
        found: list[frozenset[Link]] = [frozenset()] * len(pairs)
        for group in _groups(pairs, self.sources, self.targets, known=False):
            cells = self._probabilities(group)
            null = np.where(group.targets < 0, UNSEEN, self.null[group.targets])
            posterior = _posterior(cells, null, self.jumps)
            best = posterior.words.argmax(-1)
            linked = posterior.words.max(-1) > posterior.null
            for index, number in enumerate(group.numbers):
                found[number] = frozenset(
                    (int(best[index, target]), int(target)) for target in linked[index].nonzero()[0]
                )
        return found

    def _probabilities(self, group: "_Group") -> Float64[np.ndarray, "sentence target source"]:
        keys = group.keys(len(self.targets))
        places = np.searchsorted(self.keys, keys).clip(max=len(self.keys) - 1)
        known = (self.keys[places] == keys) & (group.sources >= 0)[:, None]
        known &= (group.targets >= 0)[:, :, None]
        return np.where(known, np.maximum(self.translation[places], UNSEEN), UNSEEN)


def fit_statistical_aligner(
    pairs: Sequence[tuple[Words, Words]],
    *,
    ibm1: int = 5,
    hmm: int = 5,
    progress: Progress | None = None,
) -> StatisticalAligner:
    """The model after so many iterations of EM, first of IBM model 1, then of the HMM.

    The likelihood does not fall from one iteration of a model to the next. The weights of jumps, whose best
    values have no closed form, are moved by the steps of Hunter 2004 (MM algorithms for generalized
    Bradley-Terry models).

    Args:
        pairs: words of source and target; sentences that are to be aligned may be among them.
        ibm1: iterations of IBM model 1.
        hmm: iterations of the HMM; 0 leaves model 1.
        progress: called with ("IBM 1" or "HMM", iterations done, iterations).

    Raises:
        InputError: there are no pairs, or a sentence has no words.

    Cost: 95,000 sentence pairs with 38 million pairs of words take two minutes on one core, and 1.3 GB.
    """
    if not pairs or not all(source and target for source, target in pairs):
        msg = "A statistical aligner needs sentence pairs with words on both sides."
        raise InputError(msg)
    sources, targets = ({word: n for n, word in enumerate(_types(pairs, side))} for side in (0, 1))
    groups = list(_groups(pairs, sources, targets))
    keys, cells = _indexed(groups, len(targets))
    model = StatisticalAligner(
        sources,
        targets,
        keys,
        np.full(len(keys), 1 / len(targets)),
        np.full(len(targets), 1 / len(targets)),
    )
    for name, iterations in (("IBM 1", ibm1), ("HMM", hmm)):
        if name == "HMM" and iterations:
            model = replace(model, jumps=np.ones(2 * WIDEST_JUMP + 1))
        for done in range(iterations):
            model = _improved(model, groups, cells)
            if progress is not None:
                progress(name, done + 1, iterations)
    return model


def align_both(
    forward: StatisticalAligner,
    backward: StatisticalAligner,
    pairs: Sequence[tuple[Words, Words]],
    how: Symmetrization,
) -> list[frozenset[Link]]:
    """The links of two directions made one.

    Args:
        forward: of source to target.
        backward: of target to source, fitted on pairs with the sides exchanged.
        pairs: words of source and target.
        how: see `symmetrized`.
    """
    exchanged = [(target, source) for source, target in pairs]
    return [
        symmetrized(one, turned(other), how)
        for one, other in zip(forward.align(pairs), backward.align(exchanged), strict=True)
    ]


def _types(pairs: Sequence[tuple[Words, Words]], side: int) -> Iterable[str]:
    return dict.fromkeys(word for pair in pairs for word in pair[side])


@dataclass(frozen=True)
class _Group:
    """Sentence pairs of the same two lengths.

    Attributes:
        numbers: which of all pairs these are.
        sources: numbers of their words; -1 for words without one.
        targets: the same.
    """

    numbers: tuple[int, ...]
    sources: Int64[np.ndarray, "sentence source"]
    targets: Int64[np.ndarray, "sentence target"]

    def keys(self, targets: int) -> Int64[np.ndarray, "sentence target source"]:
        """Number of each pair of words."""
        return self.sources[:, None] * targets + self.targets[:, :, None]


def _groups(
    pairs: Sequence[tuple[Words, Words]],
    sources: Mapping[str, int],
    targets: Mapping[str, int],
    *,
    known: bool = True,
) -> Iterator[_Group]:
    """All pairs, by lengths, so that nothing is padded; at most `_AT_ONCE` pairs of words at once."""
    by_lengths: dict[tuple[int, int], list[int]] = {}
    for number, (source, target) in enumerate(pairs):
        if known or (source and target):
            by_lengths.setdefault((len(source), len(target)), []).append(number)
    for (left, right), numbers in sorted(by_lengths.items()):
        size = max(1, _AT_ONCE // (left * right))
        for start in range(0, len(numbers), size):
            part = tuple(numbers[start : start + size])
            rows = (
                np.array([[ids.get(word, -1) for word in pairs[one][side]] for one in part])
                for side, ids in ((0, sources), (1, targets))
            )
            yield _Group(part, *rows)


_Cells: TypeAlias = Int32[np.ndarray, "sentence target source"]


def _indexed(
    groups: Sequence[_Group], targets: int
) -> tuple[Int64[np.ndarray, " pair"], list[_Cells]]:
    """The pairs of words that there are, in order, and which of them each cell is."""
    keys = np.empty(0, dtype=np.int64)
    waiting: list[Int64[np.ndarray, " pair"]] = []
    for group in groups:
        waiting.append(np.unique(group.keys(targets)))
        if sum(map(len, waiting)) > max(len(keys), _AT_ONCE):
            keys, waiting = np.unique(np.concatenate([keys, *waiting])), []
    keys = np.unique(np.concatenate([keys, *waiting]))
    return keys, [np.searchsorted(keys, one.keys(targets)).astype(np.int32) for one in groups]


def _improved(
    model: StatisticalAligner, groups: Sequence[_Group], cells: Sequence[_Cells]
) -> StatisticalAligner:
    """The model after one iteration of EM."""
    counts, null_counts = np.zeros_like(model.translation), np.zeros_like(model.null)
    moves: _Moves = {}
    log_likelihood = 0.0
    for group, own in zip(groups, cells, strict=True):
        found = _posterior(
            model.translation[own], model.null[group.targets], model.jumps, moves=moves
        )
        np.add.at(counts, own.ravel(), found.words.ravel())
        np.add.at(null_counts, group.targets.ravel(), found.null.ravel())
        log_likelihood += found.log_likelihood
    of_source = model.keys // len(model.targets)
    sums = np.bincount(of_source, counts, len(model.sources))
    return replace(
        model,
        translation=counts / np.maximum(sums, _TINY)[of_source],
        null=null_counts / max(null_counts.sum(), _TINY),
        jumps=None if model.jumps is None else _new_jumps(model.jumps, moves),
        log_likelihoods=(*model.log_likelihoods, log_likelihood),
    )


@dataclass(frozen=True)
class _Posterior:
    """Where each target word comes from, given all words of the pair.

    Attributes:
        words: probability of every source word.
        null: probability of none.
        log_likelihood: of the target sentences given the source sentences, in nats, summed.
    """

    words: Float64[np.ndarray, "sentence target source"]
    null: Float64[np.ndarray, "sentence target"]
    log_likelihood: float


def _posterior(
    translation: Float64[np.ndarray, "sentence target source"],
    null: Float64[np.ndarray, "sentence target"],
    jumps: Float64[np.ndarray, " jump"] | None,
    *,
    moves: _Moves | None = None,
) -> _Posterior:
    """Of sentences of the same lengths.

    Args:
        translation: p(target word | source word) of each pair of words.
        null: p(target word | no source word).
        jumps: None for IBM model 1.
        moves: to which the expected moves are added.
    """
    from_null = NULL_SHARE * null
    if jumps is None:
        words = translation * ((1 - NULL_SHARE) / translation.shape[-1])
        total = words.sum(-1) + from_null
        return _Posterior(words / total[..., None], from_null / total, float(np.log(total).sum()))
    sentences, length, sources = translation.shape
    moving = (1 - NULL_SHARE) * _transitions(jumps, sources)
    # The last position that is not null, the start first: before each word, after the last.
    places = np.zeros((length + 1, sentences, sources + 1))
    places[0, :, 0] = 1
    words = np.empty((length, sentences, sources))
    scale = np.empty((length, sentences, 1))
    for j in range(length):
        words[j] = (places[j] @ moving) * translation[:, j]
        stayed = places[j] * from_null[:, j, None]
        scale[j] = (words[j].sum(-1) + stayed.sum(-1))[:, None]
        words[j] /= scale[j]
        places[j + 1] = stayed / scale[j]
        places[j + 1, :, 1:] += words[j]
    nulls = np.empty((length, sentences))
    arriving = np.empty_like(words)
    after = np.ones((sentences, sources + 1))
    for j in reversed(range(length)):
        stayed = from_null[:, j, None] * after / scale[j]
        nulls[j] = (places[j] * stayed).sum(-1)
        words[j] *= after[:, 1:]
        arriving[j] = translation[:, j] * after[:, 1:] / scale[j]
        after = arriving[j] @ moving.T + stayed
    if moves is not None:
        flat = places[:-1].reshape(-1, sources + 1), arriving.reshape(-1, sources)
        moves[sources] = moves.get(sources, 0) + moving * (flat[0].T @ flat[1])
    return _Posterior(words.transpose(1, 0, 2), nulls.T, float(np.log(scale).sum()))


def _jump_numbers(sources: int) -> Int64[np.ndarray, "position source"]:
    """Which weight a move has, from the start, -1, and from every position."""
    jump = np.arange(sources)[None] - np.arange(-1, sources)[:, None]
    return jump.clip(-WIDEST_JUMP, WIDEST_JUMP) + WIDEST_JUMP


def _transitions(
    jumps: Float64[np.ndarray, " jump"], sources: int
) -> Float64[np.ndarray, "position source"]:
    weights = jumps[_jump_numbers(sources)]
    return weights / weights.sum(-1, keepdims=True)


def _new_jumps(
    jumps: Float64[np.ndarray, " jump"],
    moves: _Moves,
) -> Float64[np.ndarray, " jump"]:
    """Weights under which the moves are more likely than before, or as likely; their mean is 1.

    ::

        c_d = expected moves by d / sum over positions of (moves from there * positions at d / sum of c there)
    """
    numbers = {sources: _jump_numbers(sources) for sources in moves}
    taken = sum(
        np.bincount(numbers[sources].ravel(), own.ravel(), len(jumps))
        for sources, own in moves.items()
    )
    for _ in range(_STEPS):
        offered = np.zeros_like(jumps)
        for sources, own in moves.items():
            weight = own.sum(-1) / jumps[numbers[sources]].sum(-1)
            spread = np.broadcast_to(weight[:, None], own.shape)
            offered += np.bincount(numbers[sources].ravel(), spread.ravel(), len(jumps))
        # A jump that no sentence is long enough for keeps its weight.
        jumps = np.where(offered > 0, np.maximum(taken / np.maximum(offered, _TINY), UNSEEN), jumps)
        jumps = jumps / jumps.mean()
    return jumps
