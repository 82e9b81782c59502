import pytest
import torch
from oracles.attention import masked_softmax_matrix

from attnlab.attention.registry import make

SPECS = {"full": (99, 99), "band(window=2)": (2, 2), "band(window=(3, 1))": (3, 1)}
TOKENS = [1, 2, 7]


def ragged(tokens: int, seed: int = 0) -> tuple[torch.Tensor, ...]:
    """Queries, keys, values and which keys are real: 3 sentences, one of them shorter, one empty."""
    generator = torch.Generator().manual_seed(seed)
    query, key, value = (
        torch.randn(3, 2, tokens, 5, generator=generator, dtype=torch.float64) for _ in range(3)
    )
    lengths = torch.tensor([tokens, (tokens + 1) // 2, 0])
    return query, key, value, torch.arange(tokens) < lengths[:, None]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("tokens", TOKENS)
@pytest.mark.parametrize("spec", SPECS)
def test_equals_the_loop(spec: str, tokens: int, causal: bool) -> None:
    query, key, value, visible = ragged(tokens)
    mechanism = make(spec, causal=causal)
    expected = masked_softmax_matrix(query, key, visible, SPECS[spec], causal)
    matrix = mechanism.implied_matrix(query, key, visible)
    torch.testing.assert_close(matrix, expected, rtol=0, atol=1e-12)
    out = mechanism(query, key, value, visible)
    torch.testing.assert_close(out, expected @ value, rtol=0, atol=1e-12)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("spec", SPECS)
def test_padding_is_not_seen(spec: str, causal: bool) -> None:
    query, key, value, visible = ragged(7)
    changed_key = torch.where(visible[:, None, :, None], key, 100.0)
    changed_value = torch.where(visible[:, None, :, None], value, -100.0)
    mechanism = make(spec, causal=causal)
    torch.testing.assert_close(
        mechanism(query, key, value, visible),
        mechanism(query, changed_key, changed_value, visible),
        rtol=0,
        atol=0,
    )


@pytest.mark.parametrize("spec", SPECS)
def test_the_future_is_not_seen(spec: str) -> None:
    query, key, value, _ = ragged(7)
    mechanism = make(spec, causal=True)
    before = mechanism(query, key, value)[:, :, :4]
    key[:, :, 4:] += 1.0
    value[:, :, 4:] -= 1.0
    torch.testing.assert_close(mechanism(query, key, value)[:, :, :4], before, rtol=0, atol=0)


@pytest.mark.parametrize("spec", SPECS)
def test_one_query_at_a_time_equals_all_at_once(spec: str) -> None:
    query, key, value, _ = ragged(7)
    mechanism = make(spec, causal=True)
    whole = mechanism(query, key, value)
    for i in range(7):
        step = mechanism(
            query[:, :, i : i + 1], key[:, :, : i + 1], value[:, :, : i + 1], first_query=i
        )
        torch.testing.assert_close(step, whole[:, :, i : i + 1], rtol=0, atol=1e-12)


@pytest.mark.parametrize("spec", SPECS)
def test_row_without_keys_gives_zero_and_finite_gradients(spec: str) -> None:
    query, key, value, visible = ragged(4)
    leaves = [tensor.requires_grad_() for tensor in (query, key, value)]
    mechanism = make(spec)
    out = mechanism(*leaves, visible)
    assert torch.equal(out[2], torch.zeros_like(out[2]))
    for through in (out, mechanism.implied_matrix(query, key, visible)):
        for gradient in torch.autograd.grad(
            through.square().sum(), leaves, allow_unused=True, retain_graph=True
        ):
            assert gradient is None or bool(gradient.isfinite().all())


@pytest.mark.parametrize("spec", SPECS)
def test_global_random_state_stays(spec: str, untouched_randomness: None) -> None:
    query, key, value, visible = ragged(7)
    assert make(spec)(query, key, value, visible).shape == value.shape


def test_dropout_only_in_training() -> None:
    query, key, value, _ = ragged(7)
    mechanism = make("full", dropout=0.5)
    with torch.random.fork_rng():
        torch.manual_seed(1)
        assert not torch.equal(mechanism(query, key, value), mechanism.eval()(query, key, value))
