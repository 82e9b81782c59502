import math
from itertools import product

import pytest
import torch
from weight_matrices import attention

from attnlab.core.errors import InputError
from attnlab.matrices.batched import check_weights, normalized_rows
from attnlab.matrices.offsets import band_entries, mean_weight_by_offset
from attnlab.matrices.references import cumulative_spectrum, top_entries, truncated_svd


def test_top_entries_are_the_largest() -> None:
    H = attention(2, 5, 7)
    for nonzeros in (0, 1, 9, 99):
        expected = [sorted(h.flatten().tolist(), reverse=True)[:nonzeros] for h in H]
        kept = top_entries(H, nonzeros)
        assert kept.sum((-2, -1)).tolist() == pytest.approx([sum(e) for e in expected])
        assert bool(((kept == 0) | (kept == H)).all())


@pytest.mark.parametrize("rank", [0, 1, 3, 5])
def test_no_matrix_of_that_rank_is_nearer(rank: int) -> None:
    H = attention(5, 7)
    best = truncated_svd(H, rank)
    singular = torch.linalg.svdvals(H)
    assert float((H - best).norm()) == pytest.approx(float(singular[rank:].norm()), abs=1e-12)
    assert int(torch.linalg.matrix_rank(best)) == rank
    for seed in range(20):
        other = attention(5, max(rank, 1), seed=seed) @ attention(max(rank, 1), 7, seed=seed)
        assert float((H - other).norm()) >= float((H - best).norm()) or rank == 0


def test_bounds_do_not_see_the_padding() -> None:
    H = attention(5, 7)
    sizes = torch.tensor([3, 4])
    for bound in (
        lambda H, sizes=None: top_entries(H, 5, sizes),
        lambda H, sizes=None: truncated_svd(H, 2, sizes),
    ):
        inside = bound(H, sizes)
        torch.testing.assert_close(inside[:3, :4], bound(H[:3, :4]), rtol=0, atol=1e-12)
        assert float(inside.abs().sum()) == pytest.approx(float(inside[:3, :4].abs().sum()))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (math.nan, r"Matrix 1\.2 has an entry that is no finite number \(nan\) at row 3, column 4"),
        (math.inf, r"no finite number \(inf\)"),
        (-0.25, r"negative \(-0.25\) at row 3, column 4"),
    ],
)
def test_what_is_no_weight_is_named_with_its_place(value: float, message: str) -> None:
    H = attention(2, 3, 5, 7)
    check_weights(H)
    H[1, 2, 3, 4] = value
    with pytest.raises(InputError, match=message):
        check_weights(H)


def test_rows_without_mass_cannot_be_normalized() -> None:
    H = attention(2, 5, 7)
    torch.testing.assert_close(normalized_rows(3 * H), H)
    H[1, 2] = 0
    with pytest.raises(InputError, match="Row 2 of matrix 1 sums to 0"):
        normalized_rows(H)


def test_means_by_offset_are_over_the_entries_that_a_rectangle_has() -> None:
    H = torch.rand(3, 4, 6, dtype=torch.float64)
    found = mean_weight_by_offset(H)
    for index, offset in enumerate(range(-3, 6)):
        entries = [h[i, i + offset] for h in H for i in range(4) if 0 <= i + offset < 6]
        torch.testing.assert_close(found[index], torch.stack(entries).mean())


def test_rows_without_keys_have_entries_of_a_band_all_the_same() -> None:
    assert band_entries(torch.zeros(2, 3, 0), (1, 2)).tolist() == torch.zeros(2, 3, 4).tolist()


def test_a_spectrum_is_of_each_matrix_alone() -> None:
    H = torch.rand(2, 3, 4, 4, dtype=torch.float64)
    found = cumulative_spectrum(H)
    for i, j in product(range(2), range(3)):
        values = torch.linalg.svdvals(H[i, j]).tolist()
        expected = [sum(values[: rank + 1]) / sum(values) for rank in range(4)]
        assert found[i, j].tolist() == pytest.approx(expected)
        assert cumulative_spectrum(H[i, j]).tolist() == pytest.approx(expected)


def test_nothing_is_held_by_no_singular_value() -> None:
    assert cumulative_spectrum(torch.stack([torch.zeros(3, 3), torch.eye(3)])).tolist() == [
        [1.0, 1.0, 1.0],
        pytest.approx([1 / 3, 2 / 3, 1.0]),
    ]
