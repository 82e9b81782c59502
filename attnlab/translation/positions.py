"""Position encodings: sines and cosines computed for any length, or a learned table."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attnlab.errors import InputError


def sinusoidal_positions(
    count: int,
    dim: int,
    *,
    first: int = 0,
    base: float = 10000.0,
    dtype: torch.dtype = torch.float32,
    device: torch.device | None = None,
) -> Float[Tensor, "count dim"]:
    """Position vectors of the positions `first` to `first + count - 1`.

    ::

        PE(pos, 2i) = sin(pos / base^(2i/dim)),   PE(pos, 2i+1) = cos(pos / base^(2i/dim))

    Source: Vaswani et al. 2017, section 3.5; math.md section 8.

    >>> [round(float(number), 4) for number in sinusoidal_positions(2, 6)[1]]
    [0.8415, 0.5403, 0.0464, 0.9989, 0.0022, 1.0]
    """
    position = torch.arange(first, first + count, dtype=torch.float64, device=device)
    even = torch.arange(0, dim, 2, dtype=torch.float64, device=device)
    angle = position[:, None] / base ** (even / dim)
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)[:, :dim].to(dtype)


class SinusoidalPositions(nn.Module):
    """Adds sines and cosines to token vectors; nothing is learned and any length works."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim

    def forward(
        self, tokens: Float[Tensor, "batch token dim"], first: int = 0
    ) -> Float[Tensor, "batch token dim"]:
        """`tokens` plus the vectors of positions `first` and on."""
        table = sinusoidal_positions(
            tokens.shape[1], self.dim, first=first, dtype=tokens.dtype, device=tokens.device
        )
        return tokens + table


class LearnedPositions(nn.Module):
    """Adds a learned vector for each of `max_positions` positions."""

    def __init__(self, dim: int, max_positions: int) -> None:
        super().__init__()
        self.table = nn.Embedding(max_positions, dim)

    def forward(
        self, tokens: Float[Tensor, "batch token dim"], first: int = 0
    ) -> Float[Tensor, "batch token dim"]:
        """`tokens` plus the learned vectors of positions `first` and on.

        Raises:
            InputError: the text is longer than the table.
        """
        end, size = first + tokens.shape[1], self.table.num_embeddings
        if end > size:
            msg = (
                f"A text of {end} tokens is longer than the {size} learned positions of this model; "
                "shorten it or train with larger max_positions or sinusoidal positions."
            )
            raise InputError(msg)
        return tokens + self.table.weight[first:end]
