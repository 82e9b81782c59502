"""Layers as they are observed, from drawn queries and keys."""

import torch

from attnlab.attention.registry import make
from attnlab.reading.observing import Observed


def attended(site: str, seed: int = 4) -> Observed:
    """Softmax of drawn scores, source sentences of 11 and 7 tokens, translations of 8 and 5."""
    generator = torch.Generator().manual_seed(seed)
    lengths = {"encoder": (11, 7)}.get(site, (8, 5)), {"decoder": (8, 5)}.get(site, (11, 7))
    query, key, value = (
        2 * torch.randn(2, 3, max(n), 5, generator=generator, dtype=torch.float64)
        for n in (*lengths, lengths[1])
    )
    real, visible = (torch.arange(max(n)) < torch.tensor(n)[:, None] for n in lengths)
    full = make("full", causal=site == "decoder", cross=site == "cross")
    weights = full.implied_matrix(query, key, visible) * real[:, None, :, None]
    ids = torch.randint(0, 6, visible.shape, generator=generator)
    return Observed(site, 0, query, key, value, visible, real, ids, weights, (0, 1))
