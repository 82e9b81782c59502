"""Jensen-Shannon distance of heads: against scipy, within one model and between two."""

import numpy as np
import pytest
import torch
from scipy.spatial.distance import jensenshannon

from attnlab.matrices import js_distances, js_divergences


def stochastic(heads: int, seed: int) -> torch.Tensor:
    made = torch.Generator().manual_seed(seed)
    rows = torch.rand(heads, 5, 7, generator=made, dtype=torch.float64) - 0.3
    return rows.clamp(min=0) / rows.clamp(min=0).sum(-1, keepdim=True)


def by_scipy(first: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    return torch.tensor([
        [np.sqrt(np.mean(jensenshannon(rows, others, base=2, axis=-1) ** 2)) for others in other]
        for rows in first
    ])  # fmt: skip


def test_distances_are_those_of_scipy() -> None:
    first, other = stochastic(2, seed=1), stochastic(3, seed=2)
    found = js_distances(js_divergences(first, other), 5)
    torch.testing.assert_close(found, by_scipy(first, other))
    single = js_distances(js_divergences(first.float(), other.float()), 5)
    torch.testing.assert_close(single, found, rtol=0, atol=2e-3)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_widened(dtype: torch.dtype) -> None:
    # Shares that both precisions hold exactly.
    first = torch.tensor([[[1, 0, 63], [16, 32, 16]], [[21, 20, 23], [60, 3, 1]]]).double() / 64
    other = first.flip(-1)
    found = js_distances(js_divergences(first.to(dtype), other.to(dtype)), 2)
    torch.testing.assert_close(found, by_scipy(first, other), rtol=0, atol=1e-5)


def test_pairs_of_one_model_are_those_with_itself() -> None:
    rows = stochastic(4, seed=3)
    within, between = js_divergences(rows), js_divergences(rows, rows.clone())
    torch.testing.assert_close(within, between)
    assert within.diagonal().tolist() == between.diagonal().tolist() == [0, 0, 0, 0]


def test_no_heads_have_no_distances() -> None:
    assert js_divergences(torch.zeros(0, 5, 7)).shape == (0, 0)
    assert js_divergences(stochastic(2, seed=1), torch.zeros(0, 5, 7).double()).shape == (2, 0)


def test_heads_without_a_key_in_common_are_at_one() -> None:
    apart = torch.eye(2, dtype=torch.float64)[:, None]
    torch.testing.assert_close(js_distances(js_divergences(apart), 1), 1 - apart[:, 0])
