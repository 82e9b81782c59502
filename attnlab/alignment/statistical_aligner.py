"""Word alignment from sentence pairs alone: models of both directions that learn to agree, by EM.

A target word t_j comes from the source word at a_j, or from none (null). With r_j the last position that is
not null, before the first word the start, and m source words::

    IBM 1   p(a_j = null) = q,  p(a_j = i) = (1 - q) / m
    HMM     p(a_j = null) = q,  p(a_j = i | r_{j-1}) = (1 - q) c(i - r_{j-1}) / sum over k of c(k - r_{j-1})

and t_j has the probability p(t_j | s_{a_j}). Jumps of `WIDEST_JUMP` and more share a weight c, in either
direction. A model of the other direction says where source words come from, b_i. Both count a pair of words
as often as they agree that it is linked::

    count(s_i, t_j) = p(a_j = i | s, t) p(b_i = j | s, t)

What is known of words of the same beginning, S and T, is the prior mean of p(t | s); f(t) is the share of t
among the words that begin so::

    p(t | s) ~ count(s, t) + BACK_OFF * count(S, T) / (sum over U of count(S, U)) * f(t)

Sources: Brown et al. 1993, The Mathematics of Statistical Machine Translation; Vogel, Ney and Tillmann 1996,
HMM-Based Word Alignment in Statistical Translation; null as in Och and Ney 2003, section 2.1; agreement:
Liang, Taskar and Klein 2006, Alignment by Agreement; the prior as in MacKay and Peto 1995, A Hierarchical
Dirichlet Language Model.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from jaxtyping import Float64, Int32, Int64

from attnlab.alignment.conventions import Symmetrization
from attnlab.alignment.link_formats import Words
from attnlab.alignment.links import Link, symmetrized, turned
from attnlab.core import InputError, Progress, ShortRepr

# Expected moves by the number of words, from the start and every position to every position.
_Moves: TypeAlias = dict[int, Float64[np.ndarray, "_ _"]]

WIDEST_JUMP = 7
# How many letters words of the same beginning share, and how many occurrences the prior weighs as.
BEGINNING, BACK_OFF = 4, 1.0
NULL_SHARE = 0.1
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
class Direction(ShortRepr):
    """What is learned of one direction, from the words of one side to those of the other.

    Attributes:
        translation: p(word | word of the other side) of the aligner's pairs of words; behind them `UNSEEN`,
            for all others.
        null: p(word | no word) of every word; behind them `UNSEEN`, for words that are new.
        jumps: weights of jumps from -WIDEST_JUMP to WIDEST_JUMP; None for IBM model 1.
    """

    translation: Float64[np.ndarray, " pair_or_none"]
    null: Float64[np.ndarray, " word_or_none"]
    jumps: Float64[np.ndarray, " jump"] | None = None


@dataclass(frozen=True, repr=False)
class StatisticalAligner(ShortRepr):
    """Fitted models of both directions: which word of one side each word of the other comes from.

    Attributes:
        sources: number of every source word.
        targets: number of every target word.
        keys: source number * target words + target number of the pairs of words that stood in one sentence
            pair, in order.
        forward: where target words come from.
        backward: where source words come from.
    """

    sources: Mapping[str, int]
    targets: Mapping[str, int]
    keys: Int64[np.ndarray, " pair"]
    forward: Direction
    backward: Direction

    @property
    def exchanged(self) -> "StatisticalAligner":
        """The same for pairs whose sides are exchanged."""
        source, target = np.divmod(self.keys, len(self.targets))
        keys = target * len(self.sources) + source
        order = np.argsort(keys)

        def sorted_as_keys(direction: Direction) -> Direction:
            return replace(direction, translation=direction.translation[[*order, -1]])

        return StatisticalAligner(
            self.targets,
            self.sources,
            keys[order],
            sorted_as_keys(self.backward),
            sorted_as_keys(self.forward),
        )

    def align(
        self,
        pairs: Sequence[tuple[Words, Words]],
        how: Symmetrization | None = "grow-diag-final-and",
    ) -> list[frozenset[Link]]:
        """Links from each word to the one of the highest posterior, if null has no higher one.

        Words that were not in the training pairs are linked by their position alone.

        Args:
            pairs: words of source and target.
            how: links of both directions are made one, see `symmetrized`; None: those of target words alone.
        """
        links: list[frozenset[Link]] = [frozenset()] * len(pairs)
        for group in _groups(pairs, self.sources, self.targets, nonempty=False):
            forward, backward = _posteriors(self, group, self._cells(group))
            sides = zip(group.numbers, _best(forward), _best(backward), strict=True)
            for number, by_target, by_source in sides:
                links[number] = (
                    by_target if how is None else symmetrized(by_target, turned(by_source), how)
                )
        return links

    def _cells(self, group: "_Group") -> "_Cells":
        keys = group.keys(len(self.targets))
        places = _places(self.keys, keys).clip(max=len(self.keys) - 1)
        trained = (self.keys[places] == keys) & (group.sources >= 0)[:, None]
        trained &= (group.targets >= 0)[:, :, None]
        return np.where(trained, places, np.int32(-1))


def fit_statistical_aligner(
    pairs: Sequence[tuple[Words, Words]],
    *,
    ibm1: int = 5,
    hmm: int = 5,
    progress: Progress | None = None,
) -> StatisticalAligner:
    """The models after so many iterations of EM, first of IBM model 1, then of the HMM.

    As counts are products of two posteriors, no likelihood is bound to rise. The weights of jumps, whose best
    values have no closed form, are moved by the steps of Hunter 2004 (MM algorithms for generalized
    Bradley-Terry models).

    Args:
        pairs: words of source and target; sentences that are to be aligned may be among them.
        ibm1: iterations of IBM model 1.
        hmm: iterations of the HMM; 0 leaves model 1.
        progress: called with ("IBM 1" or "HMM", iterations done, iterations).

    Raises:
        InputError: there are no pairs, or a sentence has no words.

    Cost: 95,000 sentence pairs with 38 million pairs of words take two minutes on one core, and 1.5 GB.
    """
    if not pairs or not all(source and target for source, target in pairs):
        msg = "A statistical aligner needs sentence pairs with words on both sides."
        raise InputError(msg)
    sources, targets = ({word: n for n, word in enumerate(_types(pairs, side))} for side in (0, 1))
    groups = list(_groups(pairs, sources, targets))
    keys, cells = _indexed(groups, len(targets))
    back_offs = _back_offs(keys, groups, sources, targets)
    forward, backward = (
        Direction(np.full(len(keys) + 1, 1 / len(words)), np.full(len(words) + 1, 1 / len(words)))
        for words in (targets, sources)
    )
    model = StatisticalAligner(sources, targets, keys, forward, backward)
    for name, iterations in (("IBM 1", ibm1), ("HMM", hmm)):
        if name == "HMM" and iterations:
            jumps = np.ones(2 * WIDEST_JUMP + 1)
            forward, backward = (
                replace(direction, jumps=jumps) for direction in (model.forward, model.backward)
            )
            model = replace(model, forward=forward, backward=backward)
        for done in range(iterations):
            model = _improved(model, groups, cells, back_offs)
            if progress is not None:
                progress(name, done + 1, iterations)
    return model


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
    nonempty: bool = True,
) -> Iterator[_Group]:
    """All pairs, by lengths, so that nothing is padded; at most `_AT_ONCE` pairs of words at once."""
    by_lengths: dict[tuple[int, int], list[int]] = {}
    for number, (source, target) in enumerate(pairs):
        if nonempty or (source and target):
            by_lengths.setdefault((len(source), len(target)), []).append(number)
    for (left, right), numbers in sorted(by_lengths.items()):
        size = max(1, _AT_ONCE // (left * right))
        for start in range(0, len(numbers), size):
            part = tuple(numbers[start : start + size])
            rows = (
                np.array([[ids.get(word, -1) for word in pairs[index][side]] for index in part])
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
    return keys, [_places(keys, group.keys(targets)) for group in groups]


def _places(
    keys: Int64[np.ndarray, " pair"], cells: Int64[np.ndarray, "sentence target source"]
) -> _Cells:
    """Where cells stand among the keys; looking them up in order is many times faster."""
    ordered, inverse = np.unique(cells, return_inverse=True)
    return np.searchsorted(keys, ordered).astype(np.int32)[inverse].reshape(cells.shape)


def _improved(
    model: StatisticalAligner,
    groups: Sequence[_Group],
    cells: Sequence[_Cells],
    back_offs: tuple["_BackOff", "_BackOff"],
) -> StatisticalAligner:
    """The model after one iteration of EM."""
    counts = np.zeros(len(model.keys))
    nulls = np.zeros(len(model.targets)), np.zeros(len(model.sources))
    moves: tuple[_Moves, _Moves] = {}, {}
    for group, places in zip(groups, cells, strict=True):
        of_targets, of_sources = _posteriors(model, group, places, moves)
        agreed = of_targets.words * of_sources.words.swapaxes(1, 2)
        np.add.at(counts, places.ravel(), agreed.ravel())
        np.add.at(nulls[0], group.targets.ravel(), of_targets.null.ravel())
        np.add.at(nulls[1], group.sources.ravel(), of_sources.null.ravel())
    forward, backward = (
        _maximized(*direction, counts)
        for direction in zip((model.forward, model.backward), back_offs, nulls, moves, strict=True)
    )
    return replace(model, forward=forward, backward=backward)


@dataclass(frozen=True)
class _BackOff:
    """The prior of translations of one direction, from words of the same beginnings.

    Attributes:
        given: number of the word that each pair is conditioned on.
        beginnings: number of each pair's pair of beginnings.
        beginning: number of the beginning that each of these is conditioned on.
        share: occurrences of each pair's other word / those of words that begin as it does.
    """

    given: Int64[np.ndarray, " pair"]
    beginnings: Int64[np.ndarray, " pair"]
    beginning: Int64[np.ndarray, " beginnings"]
    share: Float64[np.ndarray, " pair"]

    def translation(self, counts: Float64[np.ndarray, " pair"]) -> Float64[np.ndarray, " pair"]:
        """p(other word | given word) of each pair."""
        alike = np.bincount(self.beginnings, counts)
        prior = (alike / _sums(alike, self.beginning))[self.beginnings] * self.share
        smoothed = counts + BACK_OFF * prior
        return smoothed / _sums(smoothed, self.given)


def _sums(
    counts: Float64[np.ndarray, " pair"], given: Int64[np.ndarray, " pair"]
) -> Float64[np.ndarray, " pair"]:
    """The counts of all pairs that are conditioned on the same, for each pair."""
    return np.maximum(np.bincount(given, counts), _TINY)[given]


def _back_offs(
    keys: Int64[np.ndarray, " pair"],
    groups: Sequence[_Group],
    sources: Mapping[str, int],
    targets: Mapping[str, int],
) -> tuple[_BackOff, _BackOff]:
    """The priors of both directions."""
    source, target = np.divmod(keys, len(targets))
    of_source, source_share = _beginnings(sources, [group.sources for group in groups])
    of_target, target_share = _beginnings(targets, [group.targets for group in groups])
    both, beginnings = np.unique(
        of_source[source] * len(targets) + of_target[target], return_inverse=True
    )
    source_beginning, target_beginning = np.divmod(both, len(targets))
    return (
        _BackOff(source, beginnings, source_beginning, target_share[target]),
        _BackOff(target, beginnings, target_beginning, source_share[source]),
    )


def _beginnings(
    words: Mapping[str, int], sentences: Sequence[Int64[np.ndarray, "_ _"]]
) -> tuple[Int64[np.ndarray, " word"], Float64[np.ndarray, " word"]]:
    """The number of each word's beginning, and its share of the words that begin so."""
    ids: dict[str, int] = {}
    numbers = np.array([ids.setdefault(word[:BEGINNING].lower(), len(ids)) for word in words])
    counts = sum(np.bincount(part.ravel(), minlength=len(words)) for part in sentences)
    return numbers, counts / np.bincount(numbers, counts)[numbers]


def _maximized(
    direction: Direction,
    back_off: _BackOff,
    null: Float64[np.ndarray, " word"],
    moves: _Moves,
    counts: Float64[np.ndarray, " pair"],
) -> Direction:
    """The direction after one iteration.

    Args:
        direction: before.
        back_off: what translations are smoothed with.
        null: expected number of occurrences of each word that come from none.
        moves: expected moves.
        counts: how often each pair of words is linked in both directions.
    """
    return Direction(
        np.append(np.maximum(back_off.translation(counts), UNSEEN), UNSEEN),
        np.append(np.maximum(null / max(null.sum(), _TINY), UNSEEN), UNSEEN),
        None if direction.jumps is None else _new_jumps(direction.jumps, moves),
    )


@dataclass(frozen=True)
class _Posterior:
    """Where each word of one side, here the target, comes from, given all words of the pair.

    Attributes:
        words: probability of every source word.
        null: probability of none.
    """

    words: Float64[np.ndarray, "sentence target source"]
    null: Float64[np.ndarray, "sentence target"]


def _posteriors(
    model: StatisticalAligner,
    group: _Group,
    cells: _Cells,
    moves: tuple[_Moves | None, _Moves | None] = (None, None),
) -> tuple[_Posterior, _Posterior]:
    """Where target words come from, and where source words do."""
    return (
        _posterior(model.forward, cells, group.targets, moves[0]),
        _posterior(model.backward, cells.swapaxes(1, 2), group.sources, moves[1]),
    )


def _posterior(
    direction: Direction,
    cells: Int32[np.ndarray, "sentence target source"],
    targets: Int64[np.ndarray, "sentence target"],
    moves: _Moves | None,
) -> _Posterior:
    """The posterior of sentences of the same lengths.

    Args:
        direction: what is known of words and jumps.
        cells: which of the aligner's pairs of words each pair is.
        targets: numbers of the target words.
        moves: to which the expected moves are added.
    """
    translation, from_null = direction.translation[cells], NULL_SHARE * direction.null[targets]
    if direction.jumps is None:
        words = translation * ((1 - NULL_SHARE) / translation.shape[-1])
        total = words.sum(-1) + from_null
        return _Posterior(words / total[..., None], from_null / total)
    sentences, length, sources = translation.shape
    moving = (1 - NULL_SHARE) * _transitions(direction.jumps, sources)
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
    return _Posterior(words.transpose(1, 0, 2), nulls.T)


def _best(posterior: _Posterior) -> Iterator[frozenset[Link]]:
    """Yields each sentence's links from target words to their most likely source words, unless null is."""
    best = posterior.words.argmax(-1)
    linked = posterior.words.max(-1) > posterior.null
    for sources, is_linked in zip(best, linked, strict=True):
        yield frozenset((int(sources[target]), int(target)) for target in is_linked.nonzero()[0])


def _jump_numbers(sources: int) -> Int64[np.ndarray, "position source"]:
    """The index of the weight of each move, from the start, -1, and from every position."""
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
        np.bincount(numbers[sources].ravel(), expected.ravel(), len(jumps))
        for sources, expected in moves.items()
    )
    for _ in range(_STEPS):
        offered = np.zeros_like(jumps)
        for sources, expected in moves.items():
            weight = expected.sum(-1) / jumps[numbers[sources]].sum(-1)
            spread = np.broadcast_to(weight[:, None], expected.shape)
            offered += np.bincount(numbers[sources].ravel(), spread.ravel(), len(jumps))
        # A jump that no sentence is long enough for keeps its weight.
        jumps = np.where(offered > 0, np.maximum(taken / np.maximum(offered, _TINY), UNSEEN), jumps)
        jumps = jumps / jumps.mean()
    return jumps
