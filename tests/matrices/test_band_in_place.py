import pytest
import torch

from attnlab.matrices import bands as band_module
from attnlab.matrices.bands import fit_band, project_band
from attnlab.matrices.distances import measure
from attnlab.matrices.supports import band_support

WINDOWS = [(0, 0), (3, 3), (5, 0), (0, 4), (2, 7), (11, 12), (23, 0), (1, 22)]


def attention(*shape: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(*shape, generator=generator, dtype=torch.float64).softmax(-1)


@pytest.mark.parametrize("batch", [(), (2,), (2, 3)])
@pytest.mark.parametrize("window", WINDOWS)
def test_equals_the_plain_form(window: tuple[int, int], batch: tuple[int, ...]) -> None:
    H = attention(*batch, 97, 97)
    assert band_module.can_be_read_in_place(H, window)
    P = H * band_support(97, 97, window)
    torch.testing.assert_close(band_module.copy_band(H, window), P, rtol=0, atol=0)
    torch.testing.assert_close(project_band(H, window), P, rtol=0, atol=0)
    plain, fit = measure(H, P), fit_band(H, window=window)
    for name in ("l1", "mean_error", "relative", "frobenius"):
        torch.testing.assert_close(getattr(fit, name), getattr(plain, name), rtol=1e-12, atol=1e-12)


def test_a_part_of_a_larger_tensor_is_read_at_its_place() -> None:
    H = attention(3, 97, 97)
    assert band_module.can_be_read_in_place(H[1], (3, 2))
    torch.testing.assert_close(
        fit_band(H[1], window=(3, 2)).l1, fit_band(H, window=(3, 2)).l1[1], rtol=0, atol=1e-12
    )


@pytest.mark.parametrize("H", [attention(97, 97).mT, attention(97, 96), attention(27, 27)])
def test_other_matrices_go_the_plain_way(H: torch.Tensor) -> None:
    assert not band_module.can_be_read_in_place(H, (3, 3))
    P = H * band_support(*H.shape, (3, 3))
    torch.testing.assert_close(fit_band(H, window=3).l1, measure(H, P).l1, rtol=0, atol=1e-12)


def test_a_band_has_no_residual_at_all() -> None:
    H = project_band(attention(97, 97).float(), 3)
    assert float(fit_band(H, window=3).l1) == 0
