"""Matrices as attention leaves them and as it does not: the strategy that all tests of fits share."""

import numpy as np
import torch
from hypothesis import strategies as st

KINDS = ("softmax", "ties", "zero", "one_hot", "dropped", "scaled_up")


def _row(kind: str, keys: int, rng: np.random.Generator) -> np.ndarray:
    row = np.exp(2 * rng.standard_normal(keys))
    row /= row.sum()
    if kind == "zero":
        return np.zeros(keys)
    if kind == "one_hot":
        return np.eye(keys)[rng.integers(keys)]
    if kind == "ties":
        return rng.integers(0, 3, keys) / 4
    if kind == "dropped":  # as attention dropout leaves it: below 1, with exact zeros
        return row * (rng.random(keys) > 0.4)
    return row * 1.6 if kind == "scaled_up" else row


def attention(*shape: int, seed: int = 0) -> torch.Tensor:
    """Rows of a softmax, float64."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64).mul(2).softmax(-1)


def matrix(queries: int, keys: int, seed: int, kinds: tuple[str, ...] = KINDS) -> torch.Tensor:
    """One float64 matrix, every row of a kind drawn from `kinds`."""
    rng = np.random.default_rng(seed)
    rows = [_row(kinds[rng.integers(len(kinds))], keys, rng) for _ in range(queries)]
    return torch.from_numpy(np.stack(rows))


@st.composite
def weight_matrices(
    draw: st.DrawFn,
    *,
    batch: tuple[int, ...] = (),
    largest: int = 6,
    kinds: tuple[str, ...] = KINDS,
) -> torch.Tensor:
    """`[*batch query key]` with ties, zero rows, one-hot rows, and rows below and above 1."""
    queries, keys = draw(st.integers(1, largest)), draw(st.integers(1, largest))
    seed = draw(st.integers(0, 10**6))
    every = [matrix(queries, keys, seed + i, kinds) for i in range(int(np.prod(batch)))]
    return torch.stack(every).reshape(*batch, queries, keys)
