import pytest
import torch

from attnlab.core.errors import InputError
from attnlab.models.layers import (
    LearnedPositions,
    SinusoidalPositions,
    sinusoidal_positions,
)


@pytest.mark.parametrize("shift", [0, 1, 5, 17])
def test_a_shift_is_a_block_rotation(shift: int) -> None:
    """p(t + s) = p(t) T(s) with 2x2 rotations by s / base^(2i/d) (math.md section 8)."""
    dim = 6
    table = sinusoidal_positions(40, dim, dtype=torch.float64)
    turn = torch.zeros(dim, dim, dtype=torch.float64)
    for i in range(dim // 2):
        angle = torch.tensor(shift / 10000 ** (2 * i / dim), dtype=torch.float64)
        turn[2 * i, 2 * i] = turn[2 * i + 1, 2 * i + 1] = angle.cos()
        turn[2 * i, 2 * i + 1], turn[2 * i + 1, 2 * i] = -angle.sin(), angle.sin()
    torch.testing.assert_close(table[: 40 - shift] @ turn, table[shift:], rtol=0, atol=1e-12)


def test_later_positions_continue_earlier_ones() -> None:
    whole = sinusoidal_positions(9, 7)
    torch.testing.assert_close(sinusoidal_positions(4, 7, first=5), whole[5:], rtol=0, atol=0)


def test_learned_positions_refuse_a_longer_text() -> None:
    positions = LearnedPositions(6, 5)
    tokens = torch.zeros(1, 4, 6)
    torch.testing.assert_close(positions(tokens, 1)[0], positions.table.weight[1:5])
    with pytest.raises(InputError, match="6 tokens is longer than the 5 learned positions"):
        positions(tokens, 2)


def test_sinusoidal_positions_are_added() -> None:
    tokens = torch.ones(2, 3, 4)
    expected = 1 + sinusoidal_positions(3, 4, first=2)
    torch.testing.assert_close(SinusoidalPositions(4)(tokens, 2)[1], expected)
