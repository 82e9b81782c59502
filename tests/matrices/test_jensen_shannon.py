"""Jensen-Shannon distance of heads: against scipy, within one model and between two."""

import numpy as np
import torch
from scipy.spatial.distance import jensenshannon

from attnlab.matrices import js_distances, js_divergences


def stochastic(heads: int, seed: int) -> torch.Tensor:
    made = torch.Generator().manual_seed(seed)
    rows = torch.rand(heads, 5, 7, generator=made, dtype=torch.float64) - 0.3
    return rows.clamp(min=0) / rows.clamp(min=0).sum(-1, keepdim=True)


def test_distances_are_those_of_scipy() -> None:
    first, other = stochastic(2, seed=1), stochastic(3, seed=2)
    expected = [
        [np.sqrt(np.mean(jensenshannon(rows, others, base=2, axis=-1) ** 2)) for others in other]
        for rows in first
    ]
    found = js_distances(js_divergences(first, other), 5)
    torch.testing.assert_close(found, torch.tensor(expected))
    single = js_distances(js_divergences(first.float(), other.float()), 5)
    torch.testing.assert_close(single, found, rtol=0, atol=2e-3)


def test_pairs_of_one_model_are_those_with_itself() -> None:
    rows = stochastic(4, seed=3)
    within, between = js_divergences(rows), js_divergences(rows, rows.clone())
    torch.testing.assert_close(within, between)
    assert within.diagonal().tolist() == between.diagonal().tolist() == [0, 0, 0, 0]


def test_heads_without_a_key_in_common_are_at_one() -> None:
    apart = torch.eye(2, dtype=torch.float64)[:, None]
    torch.testing.assert_close(js_distances(js_divergences(apart), 1), 1 - apart[:, 0])
