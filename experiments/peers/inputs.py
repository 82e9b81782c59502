"""Sizes of what is compared, and inputs that are drawn alike in every environment."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from experiments.peers.serving import Prepare, Work

SEED = 0
# Keys on each side of a query, and lengths of the band's inputs.
BAND = 64
LENGTHS = (1_024, 8_192)
HEADS, HEAD_DIM = 8, 64
# Tokens of the sentences that become a page.
PAGE_TOKENS = (23, 128)
# Of the translation model; the most tokens of a sentence, start and end counted; and its batches.
MOST_TOKENS, BATCH_TOKENS = 64, 2_048
# Steps that a training takes before its speed is measured.
WARM_UP = 3


def band_inputs(tokens: int) -> Any:
    """Queries, keys and values, each `[1, head, token, dim]`."""
    import numpy as np

    generator = np.random.default_rng(SEED)
    return generator.standard_normal((3, 1, HEADS, tokens, HEAD_DIM), dtype=np.float32)


def by_length(name: str, make: Callable[[int], Work]) -> dict[str, Prepare]:
    """A case of the band for each length."""

    def prepare(tokens: int) -> Prepare:
        return lambda _: make(tokens)

    return {f"{name}_{tokens}": prepare(tokens) for tokens in LENGTHS}


def page_text(folder: Path, tokens: int) -> str:
    """The sentence of so many tokens, its two special ones counted."""
    return (folder / f"page_{tokens}.txt").read_text(encoding="utf-8")
