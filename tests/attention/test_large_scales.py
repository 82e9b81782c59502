"""Kernels of exponentials at any size of queries and keys: no row vanishes, and loops agree."""

import math

import pytest
import torch
from oracles.attention import log_kernel_matrix
from oracles.ragged import padded_on, ragged
from torch import Tensor

from attnlab.attention.kernels.feature_products import orthogonal_directions
from attnlab.attention.registry import make

pytestmark = pytest.mark.grid

TOKENS, DIM = 66, 5
LINEAR = ["linear(feature='elu')", "linear(feature='favor', features=6)"]
SCATTERED = "scatterbrain(window=(2, 1), features=6)"


def log_elu(q: Tensor, k: Tensor) -> list[float]:
    logs = [[math.log1p(x) if x >= 0 else x for x in vector.tolist()] for vector in (q, k)]
    return [a + b for a, b in zip(*logs, strict=True)]


def log_favor(q: Tensor, k: Tensor) -> list[float]:
    q, k = q / DIM**0.25, k / DIM**0.25
    directions = orthogonal_directions(6, DIM, 0)
    return [float(w @ (q + k) - (q @ q + k @ k) / 2) - math.log(6) for w in directions]


def log_terms(spec: str, causal: bool):
    """Logarithms of the terms of a pair's weight, by the definition."""

    def terms(q: Tensor, k: Tensor, offset: int) -> list[float]:
        if "scatter" in spec and -2 <= offset <= (0 if causal else 1):
            return [float(q @ k) / DIM**0.5]
        return log_elu(q, k) if "elu" in spec else log_favor(q, k)

    return terms


def scaled(size: float, dtype: torch.dtype, tokens: int = TOKENS) -> list[Tensor]:
    """Queries and keys of very unequal length, values; some keys equal, one query of zeros."""
    query, key, value, _ = ragged(tokens)
    generator = torch.Generator().manual_seed(7)
    query, key = (
        x * size * torch.rand(*x.shape[:-1], 1, generator=generator).double() for x in (query, key)
    )
    key[:, :, 1::5] = key[:, :, :1]
    query[:, :, 3] = 0
    return [x.to(dtype) for x in (query, key, value)]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("size", [1.0, 30.0, 400.0])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("spec", [*LINEAR, SCATTERED])
def test_kernels_equal_their_loops_at_any_scale(
    spec: str, causal: bool, size: float, dtype: torch.dtype
) -> None:
    # More than the 64 below which pairs are formed, where the way differs: within range, and beyond it.
    long = "scatter" in spec and dtype == torch.float32 and size != 30.0
    tokens = TOKENS if long else 13
    query, key, value = scaled(size, dtype, tokens)
    visible = padded_on("left" if causal else "right", tokens)
    mechanism = make(spec, causal=causal)
    expected = log_kernel_matrix(
        query.double(), key.double(), visible, log_terms(spec, causal), causal
    )
    close = {torch.float64: 1e-10, torch.float32: 2e-3}.get(dtype, 2e-2)
    rows = visible[:, None, :, None]
    out = mechanism(query, key, value, visible)
    matrix = mechanism.implied_matrix(query, key, visible)
    assert out.dtype == matrix.dtype == dtype
    torch.testing.assert_close(matrix.double() * rows, expected * rows, rtol=0, atol=close)
    wanted = (expected @ value.double()) * rows
    torch.testing.assert_close(out.double() * rows, wanted, rtol=0, atol=4 * close)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    "spec",
    ["linear(feature='favor')", "linear(feature='elu')", "linear(feature='taylor')", SCATTERED],
)
def test_every_row_sums_to_one_at_any_scale(spec: str, causal: bool, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(0)
    for size in (4.0, 20.0, -200.0):
        query, key = (torch.randn(1, 2, 100, 64, generator=generator) for _ in range(2))
        # Far below 0 all features of elu + 1 vanish.
        query, key = (x.abs() * size if size < 0 else x * size for x in (query, key))
        leaves = [x.to(dtype).requires_grad_() for x in (query, key, torch.ones(1, 2, 100, 3))]
        out = make(spec, causal=causal)(*leaves)
        torch.testing.assert_close(out, torch.ones_like(out), rtol=0, atol=2e-2)
        matrix = make(spec, causal=causal).implied_matrix(*leaves[:2])
        sums = matrix.double().sum(-1)
        torch.testing.assert_close(sums, torch.ones_like(sums), rtol=0, atol=2e-2)
        found = torch.autograd.grad(out.float().square().sum(), leaves)
        assert all(bool(gradient.isfinite().all()) for gradient in found)


@pytest.mark.parametrize("size", [0.1, 1.0])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("spec", [*LINEAR, SCATTERED])
def test_both_ways_agree_in_values_and_gradients(
    spec: str, causal: bool, size: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    visible = padded_on("right", TOKENS)
    results = []
    for lost in (False, True):
        mechanism = make(spec, causal=causal)
        if lost:
            monkeypatch.setattr(type(mechanism), "_underflows", lambda *_: True)
        inputs = [x.requires_grad_() for x in scaled(size, torch.float64)]
        out = mechanism(*inputs, visible)
        results.append((out, *torch.autograd.grad((out * out.detach().cos()).sum(), inputs)))
    torch.testing.assert_close(results[1], results[0], rtol=0, atol=1e-10)


@pytest.mark.parametrize("size", [0.1, 1.0, 20.0, 400.0])
@pytest.mark.parametrize("spec", [*LINEAR, SCATTERED])
def test_values_do_not_decide_in_which_way_they_are_mixed(spec: str, size: float) -> None:
    query, key, value = scaled(size, torch.float32)
    value, mechanism = value.abs() * 1e7, make(spec)
    assert torch.equal(mechanism(query, key, -value), -mechanism(query, key, value))


@pytest.mark.parametrize("size", [1.0, 400.0])
@pytest.mark.parametrize("spec", [*LINEAR, SCATTERED])
def test_one_query_at_a_time_equals_all_at_once_at_any_scale(spec: str, size: float) -> None:
    query, key, value = scaled(size, torch.float32)
    mechanism = make(spec, causal=True)
    whole = mechanism(query, key, value)
    for first, last in ((0, 1), (5, 8), (64, 65), (TOKENS - 1, TOKENS)):
        step = mechanism(
            query[:, :, first:last], key[:, :, :last], value[:, :, :last], first_query=first
        )
        torch.testing.assert_close(step, whole[:, :, first:last], rtol=0, atol=1e-4)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("size", [1e-30, 1e30])
def test_taylor_depends_on_directions_alone(size: float, causal: bool) -> None:
    query, key, value = scaled(1.0, torch.float32)
    mechanism = make("linear(feature='taylor')", causal=causal)
    expected = mechanism(query, key, value)
    out = mechanism(query * size, key * size, value)
    torch.testing.assert_close(out, expected, rtol=0, atol=1e-5)
