"""What heads do among content tokens, one row at a time; imports nothing of attnlab.

A sentence is (matrix, counted rows, special keys, punctuation keys, ranks of keys, causal). Matrices
hold real tokens only.
"""

import math


def rows_of(sentence):
    """(query, keys it may look at among content, its weights on them, their sum), counted rows only."""
    matrix, counted, special, _, _, causal = sentence
    for i, row in enumerate(matrix):
        if not counted[i]:
            continue
        keys = [j for j in range(len(row)) if not special[j] and (not causal or j <= i)]
        if len(keys) >= 2:
            yield i, keys, row, sum(row[j] for j in keys)


def positional(sentences, offset):
    """Hits and rows at an offset; a row without weight on content hits nothing."""
    hits = rows = 0
    for sentence in sentences:
        for i, keys, row, total in rows_of(sentence):
            if i + offset in keys:
                rows += 1
                hits += total > 0 and _best(row, keys) == i + offset
    return hits, rows


def rare(sentences, frequent):
    """Rows, and those whose largest weight is on one of the two rarest types."""
    rows = hits = 0
    for sentence in sentences:
        _, _, special, _, ranks, _ = sentence
        ordinary = [j for j in range(len(ranks)) if not special[j]]
        types = sorted({ranks[j] for j in ordinary}, reverse=True)
        if not types or types[0] < frequent:
            continue
        two = [j for j in ordinary if ranks[j] in types[:2]]
        for _, keys, row, total in rows_of(sentence):
            if all(j in keys for j in two):
                rows += 1
                hits += total > 0 and _best(row, keys) in two
    return rows, hits


def punctuation(sentences):
    """Mean share of the weight on content that is on punctuation, and of how many rows."""
    return _mean_share(sentences, lambda sentence: sentence[3])


def first_position(sentences):
    """The same on the first key, which is no content where it is special."""
    return _mean_share(sentences, lambda sentence: [j == 0 for j in range(len(sentence[3]))])


def _mean_share(sentences, marks_of):
    shares = []
    for sentence in sentences:
        marks = marks_of(sentence)
        for _, keys, row, total in rows_of(sentence):
            if total > 0:
                shares.append(sum(row[j] for j in keys if marks[j]) / total)
    return sum(shares) / len(shares), len(shares)


def broad(sentences):
    """Entropy of what is looked at among content, over the largest there could be."""
    entropy = largest = 0.0
    for sentence in sentences:
        for _, keys, row, total in rows_of(sentence):
            if total > 0:
                parts = [row[j] / total for j in keys]
                entropy -= sum(p * math.log(p) for p in parts if p > 0)
                largest += math.log(len(keys))
    return entropy / largest


def content_matrix(matrix, counted, special):
    """Counted rows and content keys alone, rows divided by their sums; and how many rows are empty."""
    keys = [j for j in range(len(special)) if not special[j]]
    rows, empty = [], 0
    for i, row in enumerate(matrix):
        if counted[i]:
            total = sum(row[j] for j in keys)
            empty += total == 0
            rows.append([row[j] / total if total else 0.0 for j in keys])
    return rows, empty


def _best(row, keys):
    return max(keys, key=lambda j: (row[j], -j))
