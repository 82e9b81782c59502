"""Batches of attention weights made by hand, with and without padding."""

import torch
from random_models import tokenizer

from attnlab.heads.batches import Axis, Vocabulary
from attnlab.heads.weights import LayerWeights

VOCABULARY = Vocabulary(tokenizer())
KINDS = {
    "word": set(),
    "point": {"punctuation"},
    "start": {"special", "opening"},
    "end": {"special", "closing"},
}


def axis(rows):
    """Tokens of each sentence, named as in KINDS."""
    length = max(map(len, rows))

    def flag(name):
        out = torch.zeros(len(rows), length, dtype=torch.bool)
        for b, row in enumerate(rows):
            for i, kind in enumerate(row):
                out[b, i] = name in KINDS[kind]
        return out

    real = torch.zeros(len(rows), length, dtype=torch.bool)
    for b, row in enumerate(rows):
        real[b, : len(row)] = True
    special = flag("special")
    ids = torch.full((len(rows), length), 4)
    return Axis(
        ids, real, real & ~special, special, flag("opening"), flag("closing"), flag("punctuation")
    )


def layer(matrices, queries, keys=None, *, site="encoder", number=0, first=0):
    """Matrices [head, query, key] of several sentences, padded to one tensor."""
    keys = queries if keys is None else keys
    heads = matrices[0].shape[0]
    weights = matrices[0].new_zeros(
        len(matrices), heads, max(map(len, queries)), max(map(len, keys))
    )
    for b, matrix in enumerate(matrices):
        weights[b, :, : matrix.shape[1], : matrix.shape[2]] = matrix
    return LayerWeights(
        site=site,
        layer=number,
        weights=weights,
        queries=axis(queries),
        keys=axis(keys),
        causal=site == "decoder",
        sentences=tuple(range(first, first + len(matrices))),
        vocabularies=(VOCABULARY, VOCABULARY),
    )


def stochastic(heads, queries, keys, *, causal=False, seed=0):
    """Random rows that sum to 1, in float64."""
    generator = torch.Generator().manual_seed(seed)
    scores = 3 * torch.randn(heads, queries, keys, generator=generator, dtype=torch.float64)
    if causal:
        ahead = torch.ones(queries, keys, dtype=torch.bool).triu(1)
        scores = scores.masked_fill(ahead, -torch.inf)
    return scores.softmax(-1)
