"""Counts behind the labels of heads, one row at a time; `rows` holds only real tokens."""


def best_of(row: list[float], candidates: list[int]) -> int:
    return max(candidates, key=lambda key: (row[key], -key))


def positional_by_loops(
    weights: list[list[float]], special: list[bool], offset: int, causal: bool
) -> tuple[int, int]:
    """Hits and rows at one offset."""
    hits, rows = 0, 0
    length = len(weights)
    for i in range(length):
        seen = list(range(i + 1 if causal else length))
        j = i + offset
        if special[i] or len(seen) < 2 or j not in seen or special[j]:
            continue
        rows += 1
        hits += best_of(weights[i], seen) == j
    return hits, rows


def rare_by_loops(
    weights: list[list[float]],
    special: list[bool],
    ranks: list[int],
    frequent: int,
    causal: bool,
) -> tuple[int, int, int, int, int, float]:
    """Rows, rarest, two rarest, contested rows, contested two rarest, expected."""
    ordinary = [i for i in range(len(ranks)) if not special[i]]
    types = sorted({ranks[i] for i in ordinary}, reverse=True)
    if not types or types[0] < frequent:
        return 0, 0, 0, 0, 0, 0.0
    rarest = [i for i in ordinary if ranks[i] == types[0]]
    two = [i for i in ordinary if ranks[i] in types[:2]]
    rows = one_hits = two_hits = contested = contested_hits = 0
    expected = 0.0
    for i in ordinary:
        seen = list(range(i + 1 if causal else len(ranks)))
        if len(seen) < 2 or any(j not in seen for j in two):
            continue
        best = best_of(weights[i], seen)
        rows += 1
        one_hits += best in rarest
        two_hits += best in two
        uncommon = [j for j in ordinary if j in seen and ranks[j] >= frequent]
        if len(uncommon) > len(two):
            contested += 1
            contested_hits += best in two
            expected += len(two) / len(uncommon)
    return rows, one_hits, two_hits, contested, contested_hits, expected


def links_by_loops(
    attention: list[list[float]],
    words: int,
    links: list[tuple[int, int]],
    self_attention: bool,
    causal: bool,
) -> tuple[int, int]:
    """Links that could be followed, and those that the arg-max follows."""
    possible = hits = 0
    for query, key in links:
        candidates = [
            j
            for j in range(words)
            if not (self_attention and j == query) and not (causal and j > query)
        ]
        if key in candidates and len(candidates) >= 2:
            possible += 1
            hits += best_of(attention[query], candidates) == key
    return possible, hits
