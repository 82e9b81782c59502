import math

import pytest
import torch

from attnlab.core.errors import InputError
from attnlab.matrices.random_search import (
    block_starts,
    draw_band,
    draw_diagonal,
    draw_rare_columns,
    random_search,
    sparse_noise,
)
from attnlab.matrices.references import zero_matrix
from attnlab.matrices.sigma_sets import fit_sigma


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_a_seed_gives_the_same_search() -> None:
    H = torch.rand(2, 7, 7, generator=generator()).softmax(-1)
    options = {"window": 2, "num_pos": 1, "attempts": 2, "coefficients": (0.2, 1.0)}
    first = random_search(H, generator=generator(1), **options)
    again = random_search(H, generator=generator(1), **options)
    torch.testing.assert_close(first.l1, again.l1, rtol=0, atol=0)
    assert first.draws == 3 * 2 * 8
    distance = (H - first.approximation).abs().sum((-2, -1))
    torch.testing.assert_close(distance, first.l1)
    torch.testing.assert_close(first.approximation.sum(-1), torch.ones(2, 7))


def test_no_draw_is_nearer_than_the_optimum() -> None:
    H = torch.rand(3, 7, 7, generator=generator()).softmax(-1)
    search = random_search(H, window=2, num_pos=1, attempts=3, generator=generator(1))
    # E takes what noise and rows could give: as many entries as the noise has, of any size.
    exact = fit_sigma(H, window=2, num_pos=1, error_nnz=7)
    assert bool((exact.l1 <= search.l1).all())


def test_published_counts() -> None:
    H = torch.rand(4, 4, generator=generator()).softmax(-1)
    assert random_search(H, window=1, num_pos=1, generator=generator()).draws == 119_790


def test_draws_have_the_published_supports() -> None:
    diagonal = draw_diagonal(200, 7, 0.0, generator())
    torch.testing.assert_close(diagonal, torch.eye(7).expand(200, 7, 7))
    band = draw_band(200, 7, 2, 0.0, generator())
    kept = band.nan_to_num() > 0
    assert not bool(kept.triu(3).any())
    assert not bool(kept.tril(-3).any())
    inside = torch.ones(7, 7).tril(2).triu(-2).bool()
    assert float(kept[:, inside].float().mean()) == pytest.approx(0.6, abs=0.03)
    # Entries uniform in [0.7, 1] differ by no more, however a row is divided by its sum.
    smallest = band.masked_fill(~kept, torch.inf).amin(-1)
    spread = (band.amax(-1) / smallest)[kept.any(-1)]
    assert bool((spread <= 1 / 0.7 + 1e-5).all())
    assert float(spread.max()) > 1.4
    noise = sparse_noise(500, 7, generator())
    # 7 of 49 entries, of which the diagonal's are taken out again.
    assert float((noise > 0).float().sum((-2, -1)).mean()) == pytest.approx(6, abs=0.2)
    assert not bool(noise.diagonal(dim1=-2, dim2=-1).any())


def test_rare_columns_draw_disjoint_blocks_that_attend_their_first_row() -> None:
    starts = block_starts(500, 11, 3, 2, generator()).sort(-1).values
    assert bool((starts[:, 1] - starts[:, 0] >= 3).all())
    assert int(starts.min()) == 0
    assert int(starts.max()) == 8
    drawn = draw_rare_columns(1000, 11, window=3, num_pos=1, scale=1.0, generator=generator())
    attended = drawn.argmax(-1)
    moved = (attended != torch.arange(11)).sum(-1)
    assert int(moved.median()) == 2
    # Beside an entry u of the diagonal, uniform in [0.7, 1], noise x / 2 has the share x / 2u.
    own = drawn.diagonal(dim1=-2, dim2=-1)
    noise = ((1 - own) / own)[((drawn > 0).sum(-1) == 2) & (own > 0)]
    assert 0.5 / 0.8 < float(noise.max()) < 0.5 / 0.7 + 1e-5
    assert float(noise.mean()) == pytest.approx(0.25 * math.log(1 / 0.7) / 0.3, abs=0.02)
    scaled = draw_rare_columns(100, 11, window=3, num_pos=1, scale=0.0, generator=generator())
    assert bool(scaled.isnan().flatten(1).any(-1).all())


def test_blocks_that_do_not_fit_are_refused() -> None:
    with pytest.raises(InputError, match="3 disjoint blocks of 5 rows do not fit into 11 rows"):
        block_starts(50, 11, 5, 3, generator())


@pytest.mark.slow
def test_published_tables_are_what_the_method_gives(shared_data) -> None:
    import pandas as pd

    from attnlab.reading.matrix_files import load_matrices

    H = load_matrices(shared_data / "thesis" / "heads.npz").float()
    table = pd.read_csv(shared_data / "thesis" / "thesis_tables.csv")
    rows = table[(table["w"] == 3) & (table["num_pos"] == 2)]
    path_label = torch.tensor(rows["min_distance"].to_numpy()).float()
    found = random_search(H[:4], window=3, num_pos=2, generator=generator()).l1
    assert float((found - path_label[:4]).abs().max()) < 2
    zero = (H - zero_matrix(H)).sum((-2, -1))
    assert int((path_label >= zero).sum()) == 7
