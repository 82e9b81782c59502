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


Translation = dict[tuple[str | None, str], float]


def translation_paths(
    pair: tuple[Sequence[str], Sequence[str]],
    translation: Translation,
    jumps: dict[int, float] | None,
    constants: dict[str, float],
) -> list[tuple[tuple[int | None, ...], float]]:
    """Every way in which the target words can come from source words or none, with its probability.

    `jumps` are weights by jump; None: every source word is as likely.
    """
    source, target = pair

    def ways(j: int, last: int) -> list[tuple[tuple[int | None, ...], float]]:
        if j == len(target):
            return [((), 1.0)]
        made = []
        for position in (None, *range(len(source))):
            if position is None:
                chance, word, next_last = constants["null_share"], None, last
            else:
                word, next_last = source[position], position
                weights = [
                    1.0 if jumps is None else jumps[clipped(i - last, constants["widest"])]
                    for i in range(len(source))
                ]
                chance = (1 - constants["null_share"]) * weights[position] / sum(weights)
            chance *= translation[word, target[j]]
            made += [((position, *rest), chance * p) for rest, p in ways(j + 1, next_last)]
        return made

    return ways(0, -1)


def clipped(jump: int, widest: float) -> int:
    return int(max(-widest, min(widest, jump)))


def posteriors(
    pair: tuple[Sequence[str], Sequence[str]],
    translation: Translation,
    jumps: dict[int, float] | None,
    constants: dict[str, float],
    moves: dict[tuple[int, int, int], float],
) -> dict[tuple[int | None, int], float]:
    """By source position, or None, and target position; expected moves (source words, from, to) are added."""
    found: dict[tuple[int | None, int], float] = {}
    ways = translation_paths(pair, translation, jumps, constants)
    total = sum(chance for _, chance in ways)
    for positions, chance in ways:
        last = -1
        for j, position in enumerate(positions):
            found[position, j] = found.get((position, j), 0) + chance / total
            if position is not None:
                move = len(pair[0]), last, position
                moves[move] = moves.get(move, 0) + chance / total
                last = position
    return found


def new_jumps(
    jumps: dict[int, float], moves: dict[tuple[int, int, int], float], constants: dict[str, float]
) -> dict[int, float]:
    """Weights of jumps after the steps of Hunter 2004."""
    for _ in range(int(constants["steps"])):
        taken, offered = dict.fromkeys(jumps, 0.0), dict.fromkeys(jumps, 0.0)
        for (size, last, position), count in moves.items():
            taken[clipped(position - last, constants["widest"])] += count
            every = [clipped(i - last, constants["widest"]) for i in range(size)]
            for jump in every:
                offered[jump] += count / sum(jumps[one] for one in every)
        jumps = {
            jump: max(taken[jump] / offered[jump], 1e-9) if offered[jump] else weight
            for jump, weight in jumps.items()
        }
        mean = sum(jumps.values()) / len(jumps)
        jumps = {jump: weight / mean for jump, weight in jumps.items()}
    return jumps


def smoothed(
    counts: dict[tuple[str, str], float], targets: Sequence[str], constants: dict[str, float]
) -> Translation:
    """p(target word | source word) with the prior of words that begin alike, `targets` all that occur."""

    def begin(word: str) -> str:
        return word[: int(constants["beginning"])].lower()

    weights = {}
    for (s, t), own in counts.items():
        alike = total = 0.0
        for (one, other), count in counts.items():
            if begin(one) == begin(s):
                total += count
                alike += count * (begin(other) == begin(t))
        share = targets.count(t) / sum(begin(word) == begin(t) for word in targets)
        weights[s, t] = own + constants["back_off"] * alike / total * share
    sums: dict[str, float] = {}
    for (s, _), weight in weights.items():
        sums[s] = sums.get(s, 0) + weight
    return {(s, t): weight / sums[s] for (s, t), weight in weights.items()}


def fitted(
    pairs: Sequence[tuple[Sequence[str], Sequence[str]]],
    *,
    ibm1: int,
    hmm: int,
    **constants: float,
) -> list[tuple[Translation, dict[int, float] | None]]:
    """EM over all ways: translations and weights of jumps of both directions."""
    sides = [pairs, [(target, source) for source, target in pairs]]
    words = [[word for _, target in side for word in target] for side in sides]
    translations: list[Translation] = [
        {
            (one, word): 1 / len(set(words[n]))
            for source, target in side
            for one in (None, *source)
            for word in target
        }
        for n, side in enumerate(sides)
    ]
    jumps: list[dict[int, float] | None] = [None, None]
    for iteration in range(ibm1 + hmm):
        if iteration == ibm1:
            widest = int(constants["widest"])
            jumps = [dict.fromkeys(range(-widest, widest + 1), 1.0) for _ in range(2)]
        counts: dict[tuple[str, str], float] = {}
        moves: list[dict[tuple[int, int, int], float]] = [{}, {}]
        nulls: list[dict[str, float]] = [{}, {}]
        for number in range(len(pairs)):
            found = [
                posteriors(sides[n][number], translations[n], jumps[n], constants, moves[n])
                for n in range(2)
            ]
            source, target = pairs[number]
            for i, s in enumerate(source):
                nulls[1][s] = nulls[1].get(s, 0) + found[1][None, i]
                for j, t in enumerate(target):
                    counts[s, t] = counts.get((s, t), 0) + found[0][i, j] * found[1][j, i]
            for j, t in enumerate(target):
                nulls[0][t] = nulls[0].get(t, 0) + found[0][None, j]
        for n, own in enumerate((counts, {(t, s): count for (s, t), count in counts.items()})):
            total = sum(nulls[n].values())
            new = smoothed(own, words[n], constants) | {
                (None, word): count / total for word, count in nulls[n].items()
            }
            translations[n] = {key: max(chance, constants["unseen"]) for key, chance in new.items()}
            if jumps[n] is not None:
                jumps[n] = new_jumps(jumps[n], moves[n], constants)
    return list(zip(translations, jumps, strict=True))
