"""Layers as they are observed, from drawn queries and keys."""

from dataclasses import replace

import torch

from attnlab.attention import Scoring
from attnlab.attention.registry import make
from attnlab.matrices.supports import offsets
from attnlab.reading.observing import Observed

# What models do to scores: windows alone, with a cap, and sinks.
RULED = {
    "windows": Scoring((offsets(11, 11).abs() <= 2)[None, None]),
    "windows and a cap": Scoring((offsets(11, 11).abs() <= 2)[None, None], softcap=1.5),
    "windows of each head": Scoring(
        torch.stack([offsets(11, 11).abs() <= reach for reach in (1, 3, 11)])[None]
    ),
    "faint sinks": Scoring(sinks=torch.tensor([-40.0, -8.0, -torch.inf])),
    "sinks": Scoring(sinks=torch.tensor([-1.0, 0.5, 3.0])),
    "all": Scoring((offsets(11, 11).abs() <= 2)[None, None], 1.5, torch.tensor([-1.0, 0.5, 3.0])),
}


def attended(site: str, seed: int = 4, rules: str | None = None) -> Observed:
    """Softmax of drawn scores, source sentences of 11 and 7 tokens, translations of 8 and 5.

    Args:
        site: encoder, decoder or cross.
        seed: of the scores.
        rules: one of `RULED`; None: scores are the products alone.
    """
    generator = torch.Generator().manual_seed(seed)
    lengths = {"encoder": (11, 7)}.get(site, (8, 5)), {"decoder": (8, 5)}.get(site, (11, 7))
    query, key, value = (
        2 * torch.randn(2, 3, max(n), 5, generator=generator, dtype=torch.float64)
        for n in (*lengths, lengths[1])
    )
    real, visible = (torch.arange(max(n)) < torch.tensor(n)[:, None] for n in lengths)
    full = make("full", causal=site == "decoder", cross=site == "cross")
    scoring = None if rules is None else RULED[rules]
    if scoring is not None and scoring.allowed is not None:
        cut = scoring.allowed[..., : query.shape[2], : key.shape[2]]
        scoring = replace(scoring, allowed=cut)
    weights = full.implied_matrix(query, key, visible, scoring=scoring) * real[:, None, :, None]
    ids = torch.randint(0, 6, visible.shape, generator=generator)
    return Observed(
        site, 0, query, key, value, visible, real, ids, weights, (0, 1), scoring=scoring
    )
