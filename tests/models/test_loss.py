import pytest
import torch
from torch.nn import functional as F

from attnlab.models import scoring as loss
from attnlab.models.scoring import chunked_cross_entropy


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loss, "CHUNK_LOGITS", 3 * 11)


def problem(tokens: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    hidden = torch.randn(tokens, 5, generator=generator, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(11, 5, generator=generator, dtype=torch.float64, requires_grad=True)
    return hidden, weight, torch.randint(11, (tokens,), generator=generator)


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.7])
@pytest.mark.parametrize("tokens", [1, 3, 7])
def test_chunked_equals_plain_in_value_and_gradient(tokens: int, smoothing: float) -> None:
    hidden, weight, target = problem(tokens)
    plain = F.cross_entropy(hidden @ weight.T, target, reduction="sum", label_smoothing=smoothing)
    chunked = chunked_cross_entropy(hidden, weight, target, smoothing=smoothing)
    torch.testing.assert_close(chunked, plain, rtol=0, atol=1e-12)
    expected = torch.autograd.grad(3 * plain, (hidden, weight))
    actual = torch.autograd.grad(3 * chunked, (hidden, weight))
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-12)


def test_smoothing_spreads_over_all_types() -> None:
    """Against the definition written out: eps / V on every type, the right one included."""
    hidden, weight, target = problem(2)
    expected = 0.0
    for state, right in zip(hidden.detach(), target, strict=True):
        scores = [float(state @ row) for row in weight.detach()]
        total = torch.tensor(scores, dtype=torch.float64).exp().sum().log()
        for number, score in enumerate(scores):
            share = 0.1 / 11 + (0.9 if number == int(right) else 0.0)
            expected -= share * (score - float(total))
    actual = chunked_cross_entropy(hidden, weight, target, smoothing=0.1)
    assert float(actual.detach()) == pytest.approx(expected, abs=1e-12)


def test_low_precision_products_stay_close() -> None:
    hidden, weight, target = (tensor.detach() for tensor in problem(7))
    hidden, weight = hidden.float().requires_grad_(), weight.float().requires_grad_()
    exact = F.cross_entropy(hidden @ weight.T, target, reduction="sum", label_smoothing=0.1)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        low = chunked_cross_entropy(hidden, weight, target, smoothing=0.1)
    torch.testing.assert_close(low, exact, rtol=2e-2, atol=0)
    for actual, expected in zip(
        torch.autograd.grad(low, (hidden, weight)),
        torch.autograd.grad(exact, (hidden, weight)),
        strict=True,
    ):
        assert actual.dtype == torch.float32
        assert float((actual - expected).detach().norm() / expected.norm()) < 0.02


def test_no_gradient_is_computed_where_none_is_needed() -> None:
    hidden, weight, target = (tensor.detach() for tensor in problem(7))
    assert not chunked_cross_entropy(hidden, weight, target).requires_grad
