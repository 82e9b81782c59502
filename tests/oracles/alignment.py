"""Word alignment as plain loops."""

import math
from collections.abc import Collection, Sequence
from itertools import pairwise

Link = tuple[int, int]


def error_rate(
    found: Sequence[Collection[Link]],
    sure: Sequence[Collection[Link]],
    possible: Sequence[Collection[Link]],
) -> tuple[float, float, float]:
    """Precision, recall and AER over all sentences, as their definitions."""
    everything = hits_sure = hits_possible = all_sure = 0
    for a, s, p in zip(found, sure, possible, strict=True):
        for link in a:
            everything += 1
            hits_sure += link in s
            hits_possible += link in p
        all_sure += len(s)
    return (
        hits_possible / everything,
        hits_sure / all_sure,
        1 - (hits_sure + hits_possible) / (everything + all_sure),
    )


def grown(
    forward: Collection[Link], backward: Collection[Link], *, diagonal_final: str
) -> set[Link]:
    """The pseudo-code of Koehn's textbook: the whole matrix is scanned until nothing is added.

    Links are (source, target); `forward` has one source word for each target word.
    """
    union = set(forward) | set(backward)
    taken = set(forward) & set(backward)
    sources = 1 + max((s for s, _ in union), default=0)
    targets = 1 + max((t for _, t in union), default=0)
    around = [(-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1)]

    def source_free(source: int) -> bool:
        return all(s != source for s, _ in taken)

    def target_free(target: int) -> bool:
        return all(t != target for _, t in taken)

    before = -1
    while before != len(taken):
        before = len(taken)
        for target in range(targets):
            for source in range(sources):
                if (source, target) not in taken:
                    continue
                for down, right in around:
                    t, s = target + down, source + right
                    if (s, t) in union and (source_free(s) or target_free(t)):
                        taken.add((s, t))
    if diagonal_final != "grow-diag":
        for one in (forward, backward):
            for target in range(targets):
                for source in range(sources):
                    if (source, target) not in one:
                        continue
                    free = (source_free(source), target_free(target))
                    if all(free) if diagonal_final == "grow-diag-final-and" else any(free):
                        taken.add((source, target))
    return taken


def word_weights(
    weights: Sequence[Sequence[float]],
    target_words: Sequence[int | None],
    source_words: Sequence[int | None],
    sizes: tuple[int, int],
    *,
    shift: int,
    first: bool,
) -> list[list[float]]:
    """Of one head: to a word the sum over its pieces, from a word the mean over its pieces or the first."""
    result = [[0.0] * sizes[1] for _ in range(sizes[0])]
    for target in range(sizes[0]):
        pieces = [p for p, word in enumerate(target_words) if word == target]
        rows = [p + shift for p in pieces if p + shift < len(target_words)]
        if first:
            rows = rows[:1]
        for source in range(sizes[1]):
            for row in rows:
                for column, word in enumerate(source_words):
                    if word == source:
                        result[target][source] += weights[row][column] / len(rows)
    return result


def largest_links(
    weights: Sequence[Sequence[float]], targets: Collection[int], sources: Collection[int]
) -> tuple[set[Link], set[Link]]:
    """Links from each target word to its largest weight, and from each source word; ties to the lowest."""
    by_target, by_source = set(), set()
    for target in targets:
        best = None
        for source in sorted(sources):
            if best is None or weights[target][source] > weights[target][best]:
                best = source
        if best is not None:
            by_target.add((best, target))
    for source in sources:
        best = None
        for target in sorted(targets):
            if best is None or weights[target][source] > weights[best][source]:
                best = target
        if best is not None:
            by_source.add((source, best))
    return by_target, by_source


def greedy(
    weights: Sequence[Sequence[Sequence[Sequence[float]]]],
    sure: Sequence[Collection[Link]],
    possible: Sequence[Collection[Link]],
    most: int,
) -> tuple[list[int], list[float]]:
    """Heads of `weights[sentence][head][target][source]` added one by one by AER of their sum."""
    heads: list[int] = []
    rates: list[float] = []
    for _ in range(most):
        best = None
        for head in range(len(weights[0])):
            if head in heads:
                continue
            found = []
            for sentence in weights:
                targets, sources = len(sentence[0]), len(sentence[0][0])
                total = [
                    [sum(sentence[one][t][s] for one in [*heads, head]) for s in range(sources)]
                    for t in range(targets)
                ]
                found.append(largest_links(total, range(targets), range(sources))[0])
            rate = error_rate(found, sure, possible)[2]
            if best is None or rate < best[0]:
                best = rate, head
        heads.append(best[1])
        rates.append(best[0])
    return heads, rates


def head_properties(
    weights: Sequence[Sequence[Sequence[Sequence[float]]]], head: int
) -> tuple[float, float, float, float]:
    """Confidence, coverage, monotonicity and agreement of one head, word by word."""
    confidence, coverage, monotone, agreed = [], [], [], []
    for sentence in weights:
        own = sentence[head]
        targets, sources = len(own), len(own[0])
        received = [0.0] * sources
        best = [[row.index(max(row)) for row in matrix] for matrix in sentence]
        for row in own:
            entropy = -sum(w / sum(row) * math.log(w / sum(row)) for w in row if w > 0)
            confidence.append(sum(row) * (1 - entropy / math.log(sources)))
            for source, weight in enumerate(row):
                received[source] += weight / sum(row)
        coverage += [min(1, one * sources / targets) for one in received]
        monotone += [after >= before for before, after in pairwise(best[head])]
        for other in range(len(sentence)):
            if other != head:
                agreed += [a == b for a, b in zip(best[head], best[other], strict=True)]
    return tuple(sum(one) / len(one) for one in (confidence, coverage, monotone, agreed))
