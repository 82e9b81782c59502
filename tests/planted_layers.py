"""Batches of attention weights made by hand, with and without padding."""

import torch
from zoo.random_models import tokenizer

from attnlab.reading.vocabulary import Axis, Vocabulary
from attnlab.reading.weights import LayerWeights, checked

VOCABULARY = Vocabulary(tokenizer())
KINDS = {
    "word": set(),
    "point": {"punctuation"},
    "start": {"special", "opening"},
    "end": {"special", "closing"},
}


def axis(rows, *, left=False):
    """Tokens of each sentence, named as in KINDS; padding right of them, or left."""
    length = max(map(len, rows))
    first = [length - len(row) if left else 0 for row in rows]

    def flag(name):
        out = torch.zeros(len(rows), length, dtype=torch.bool)
        for b, row in enumerate(rows):
            for i, kind in enumerate(row):
                out[b, first[b] + i] = name in KINDS[kind]
        return out

    real = torch.zeros(len(rows), length, dtype=torch.bool)
    for b, row in enumerate(rows):
        real[b, first[b] : first[b] + len(row)] = True
    special = flag("special")
    ids = torch.full((len(rows), length), 4)
    return Axis(
        ids, real, real & ~special, special, flag("opening"), flag("closing"), flag("punctuation")
    )


def layer(
    matrices, queries, keys=None, *, site="encoder", number=0, first=0, left=False, padding=0.0
):
    """Matrices [head, query, key] of several sentences, padded to one tensor.

    `padding` is what the rows of padding queries hold; `checked` must see to it that it does not count.
    """
    keys = queries if keys is None else keys
    heads = matrices[0].shape[0]
    high, wide = max(map(len, queries)), max(map(len, keys))
    weights = matrices[0].new_full((len(matrices), heads, high, wide), padding)
    for b, matrix in enumerate(matrices):
        top, start = (high - len(queries[b]), wide - len(keys[b])) if left else (0, 0)
        rows = slice(top, top + matrix.shape[1])
        weights[b, :, rows] = 0.0
        weights[b, :, rows, start : start + matrix.shape[2]] = matrix
    planted = LayerWeights(
        site=site,
        layer=number,
        weights=weights,
        queries=axis(queries, left=left),
        keys=axis(keys, left=left),
        causal=site == "decoder",
        sentences=tuple(range(first, first + len(matrices))),
        vocabularies=(VOCABULARY, VOCABULARY),
    )
    return planted if padding == 0 else checked(planted)


def stochastic(heads, queries, keys, *, causal=False, seed=0):
    """Random rows that sum to 1, in float64."""
    generator = torch.Generator().manual_seed(seed)
    scores = 3 * torch.randn(heads, queries, keys, generator=generator, dtype=torch.float64)
    if causal:
        ahead = torch.ones(queries, keys, dtype=torch.bool).triu(1)
        scores = scores.masked_fill(ahead, -torch.inf)
    return scores.softmax(-1)
