import math
from itertools import combinations, product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import corrected
from weight_matrices import weight_matrices

from attnlab.matrices.residual import fit_residual


def matrices(*shape: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    target, structure = torch.rand(2, *shape, generator=generator, dtype=torch.float64)
    return target, structure


@pytest.mark.parametrize("bound", [0.0, 0.1, 0.4, math.inf])
@pytest.mark.parametrize("nonzeros", [0, 1, 2, 5])
@pytest.mark.parametrize("sign", [1, -1])
def test_no_other_places_are_better(sign: int, nonzeros: int, bound: float) -> None:
    target, structure = matrices(3, 3)[::sign]
    R = target - structure
    entries = list(product(range(3), range(3)))
    best = {1: math.inf, 2: math.inf}
    for chosen in map(set, combinations(entries, nonzeros)):
        left = [max(abs(float(R[p])) - (bound if p in chosen else 0), 0.0) for p in entries]
        best[1] = min(best[1], sum(left))
        best[2] = min(best[2], sum(value**2 for value in left))
    E = fit_residual(target, structure, nonzeros=nonzeros, bound=bound)
    assert float((R - E).abs().sum()) == pytest.approx(best[1], abs=1e-12)
    assert float((R - E).square().sum()) == pytest.approx(best[2], abs=1e-12)
    assert int((E != 0).sum()) <= nonzeros


@given(
    both=weight_matrices(batch=(2,)),
    nonzeros=st.integers(0, 40),
    bound=st.sampled_from([0.0, 0.1, 0.25, math.inf]),
)
@settings(max_examples=60, deadline=None, derandomize=True)
def test_ties_zeros_and_empty_rows_are_corrected_as_well_as_any(
    both: torch.Tensor, nonzeros: int, bound: float
) -> None:
    target, structure = both
    E = fit_residual(target, structure, nonzeros=nonzeros, bound=bound)
    R = target - structure
    left = corrected.of_residual(R.flatten().tolist(), nonzeros, bound)
    assert float((R - E).abs().sum()) == pytest.approx(left, abs=1e-12)
    assert int((E != 0).sum()) <= nonzeros
    assert float(E.abs().max()) <= bound


def test_every_matrix_has_its_own_number_of_corrections() -> None:
    target, structure = matrices(2, 3, 5, 7)
    counts = torch.tensor([[0, 1, 2], [5, 35, 99]])
    E = fit_residual(target, structure, nonzeros=counts, bound=0.2)
    assert (E != 0).sum((-2, -1)).tolist() == [[0, 1, 2], [5, 35, 35]]
    alone = fit_residual(target[1, 0], structure[1, 0], nonzeros=5, bound=0.2)
    torch.testing.assert_close(E[1, 0], alone, rtol=0, atol=0)


def test_padding_takes_no_correction() -> None:
    target, structure = matrices(5, 7)
    target[3:] = math.nan
    E = fit_residual(target, structure, nonzeros=35, sizes=torch.tensor([3, 4]))
    torch.testing.assert_close(E[:3, :4], (target - structure)[:3, :4], rtol=0, atol=0)
    assert not bool(E[3:].any())
    assert not bool(E[:, 4:].any())
