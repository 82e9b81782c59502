"""The thesis's random search, as published: the number to beat (thesis section 4; math.md section 1).

For each of 11 x 11 x 11 coefficients it draws 30 members of each family, all rows normalised to sum 1,
and keeps the nearest: 119,790 matrices a head. One of the three coefficients enters no matrix, so that
each family sees 11 different ones. The thesis keeps no seed; here a generator is given.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from attnlab.core import InputError
from attnlab.matrices.batched import checked_weights
from attnlab.matrices.supports import band_support

COEFFICIENTS = tuple(step / 10 for step in range(11))
ATTEMPTS = 30
BAND_DROPOUT = 0.4
# The share of noise in Sigma3, which the thesis does not vary.
RARE_NOISE = 0.5


@dataclass(frozen=True)
class RandomSearch:
    """The nearest of all matrices drawn for each H.

    Attributes:
        l1: its distance; inf if every draw had a row without entries, which the thesis drops too.
        approximation: the matrix itself.
        draws: how many matrices were drawn for each H.
    """

    l1: Float[Tensor, "*batch"]
    approximation: Float[Tensor, "*batch n n"]
    draws: int


def random_search(
    H: Float[Tensor, "*batch n n"],
    *,
    window: int,
    num_pos: int,
    generator: torch.Generator,
    attempts: int = ATTEMPTS,
    coefficients: tuple[float, ...] = COEFFICIENTS,
) -> RandomSearch:
    """The nearest of `3 * attempts * len(coefficients)^3` random members of the families.

    Every H gets its own draws. A matrix with a row of zeros cannot be normalised and never wins, as in
    the thesis. Cost: some hundred thousand draws a matrix, where the exact fit needs none.

    Raises:
        InputError: no square attention weights, or the blocks of Sigma3 do not fit, which keeps the
            thesis's code searching for ever.
    """
    checked_weights(H)
    if H.shape[-2] != H.shape[-1]:
        msg = f"The random search draws square matrices, not {H.shape[-2]} x {H.shape[-1]}."
        raise InputError(msg)
    repeats = attempts * len(coefficients) ** 2
    n = H.shape[-1]
    families: tuple[Callable[[float], Tensor], ...] = (
        lambda noise: draw_diagonal(repeats, n, noise, generator),
        lambda noise: draw_band(repeats, n, window, noise, generator),
        lambda scale: draw_rare_columns(
            repeats, n, window=window, num_pos=num_pos, scale=scale, generator=generator
        ),
    )
    flat = H.reshape(-1, n, n)
    best = torch.full_like(flat[:, 0, 0], torch.inf)
    nearest = torch.zeros_like(flat)
    for index, target in enumerate(flat):
        for coefficient in coefficients:
            for draw in families:
                drawn = draw(coefficient).to(H)
                if drawn.dtype == torch.float64:  # draws are in single precision
                    drawn = _normalised(drawn)
                distance = (drawn - target).abs().sum((-2, -1)).nan_to_num(nan=torch.inf)
                closest = distance.argmin()
                if distance[closest] < best[index]:
                    best[index], nearest[index] = distance[closest], drawn[closest]
    draws = 3 * repeats * len(coefficients)
    return RandomSearch(best.reshape(H.shape[:-2]), nearest.reshape(H.shape), draws)


def draw_diagonal(
    count: int, n: int, noise: float, generator: torch.Generator
) -> Float[Tensor, "count n n"]:
    """Members of Sigma1 with noise: diagonal uniform in [0.9, 1], rows normalised."""
    diagonal = 1 - 0.1 * torch.rand(count, n, generator=generator)
    return _normalised(diagonal.diag_embed() + noise * sparse_noise(count, n, generator))


def draw_band(
    count: int, n: int, window: int, noise: float, generator: torch.Generator
) -> Float[Tensor, "count n n"]:
    """Members of Sigma2 with noise: band entries uniform in [0.7, 1], dropped with probability 0.4."""
    kept = torch.rand(count, n, n, generator=generator) > BAND_DROPOUT
    weights = 0.7 + 0.3 * torch.rand(count, n, n, generator=generator)
    band = weights * (kept & band_support(n, n, window))
    return _normalised(band + noise * sparse_noise(count, n, generator))


def draw_rare_columns(
    count: int, n: int, *, window: int, num_pos: int, scale: float, generator: torch.Generator
) -> Float[Tensor, "count n n"]:
    """Members of Sigma3 with noise: one entry a row, `scale` times uniform in [0.7, 1].

    All rows of a block attend its first column. Blocks have exactly `window` rows.

    Raises:
        InputError: a draw of the first blocks left no room for the next.
    """
    weights = scale * (0.7 + 0.3 * torch.rand(count, n, generator=generator))
    row = torch.arange(n)
    column = row.repeat(count, 1)
    for start in block_starts(count, n, window, num_pos, generator).unbind(-1):
        inside = (row >= start[:, None]) & (row < start[:, None] + window)
        column = torch.where(inside, start[:, None], column)
    matrix = torch.zeros(count, n, n).scatter_(-1, column[..., None], weights[..., None])
    return _normalised(matrix + RARE_NOISE * sparse_noise(count, n, generator))


def block_starts(
    count: int, n: int, window: int, num_pos: int, generator: torch.Generator
) -> Int[Tensor, "count block"]:
    """First rows of disjoint blocks, one after the other uniform over the rows still free.

    Raises:
        InputError: a draw of the first blocks left no room for the next.
    """
    rows = torch.arange(n)
    free = (rows + window <= n).expand(count, n)
    starts = torch.zeros(count, num_pos, dtype=torch.long)
    for block in range(num_pos):
        if not bool(free.any(-1).all()):
            msg = f"{num_pos} disjoint blocks of {window} rows do not fit into {n} rows at random."
            raise InputError(msg)
        starts[:, block] = torch.multinomial(free.float(), 1, generator=generator)[:, 0]
        free = free & ((rows - starts[:, block, None]).abs() >= window)
    return starts


def sparse_noise(count: int, n: int, generator: torch.Generator) -> Float[Tensor, "count n n"]:
    """Matrices with n entries uniform in [0, 1] at random positions, those on the diagonal removed."""
    positions = torch.rand(count, n * n, generator=generator).topk(n, dim=-1).indices
    weights = torch.rand(count, n, generator=generator)
    noise = torch.zeros(count, n * n).scatter_(-1, positions, weights).unflatten(-1, (n, n))
    return noise * (1 - torch.eye(n))


def _normalised(matrices: Tensor) -> Tensor:
    return matrices / matrices.sum(-1, keepdim=True)
