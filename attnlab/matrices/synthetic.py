"""Attention matrices of known structure with noise, to see whether a method finds what was planted."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from attnlab.core import InputError
from attnlab.matrices.batched import without_padding
from attnlab.matrices.families import CODED
from attnlab.matrices.random_search import block_starts
from attnlab.matrices.supports import band_support, block_columns, offsets


def draw_corpus(
    family: str,
    lengths: Int[Tensor, "sentence"],
    *,
    noise: float,
    window: int,
    num_pos: int,
    generator: torch.Generator,
) -> Float[Tensor, "sentence n n"]:
    """Matrices of one head of the family, one for each sentence, whose rows sum to 1.

    ::

        row i = (1 - noise) * structure_i + noise * r_i,   r_i uniform on the simplex

    What is fixed for a head (offset, sides of the band, rows of a block and their number, position of
    the column) is drawn once; the blocks of `rare_columns` move from sentence to sentence. The weights
    on a band, on a column with a band and of `diffuse` rows are uniform on the simplex. Blocks have at
    least 3 rows: two rows that differ from the identity are fewer bits than their position. Padding is 0.

    Raises:
        InputError: unknown family, or a sentence too short for the blocks.
    """
    if family not in CODED:
        msg = f"There is no family '{family}'; choose from: {', '.join(CODED)}."
        raise InputError(msg)
    n = int(lengths.max())
    weights = _simplex(len(lengths), n, generator)
    if family == "band":
        structure = weights * _band(n, window, generator)
    elif family == "diffuse":
        structure = weights
    elif family == "column_band":
        structure = weights * _column_and_band(lengths, window, generator)
    else:
        column = _columns(family, lengths, window, num_pos, generator)
        structure = (column[..., None] == torch.arange(n)).to(weights.dtype)
    sizes = lengths[:, None].expand(-1, 2)
    structure = _normalised(without_padding(structure, sizes))
    background = _normalised(without_padding(_simplex(len(lengths), n, generator), sizes))
    return _normalised((1 - noise) * structure + noise * background)


def _columns(
    family: str, lengths: Tensor, window: int, num_pos: int, generator: torch.Generator
) -> Tensor:
    """The key that each row attends, `[sentence, query]`; outside the sentence where there is none."""
    row = torch.arange(int(lengths.max())).expand(len(lengths), -1)
    if family == "diagonal":
        return row + _integer(-window, window, generator)
    if family == "column":
        return _position(lengths, generator)[:, None].expand_as(row)
    height, blocks = _integer(3, max(window, 3), generator), _integer(1, num_pos, generator)
    starts = torch.stack(
        [block_starts(1, int(length), height, blocks, generator)[0] for length in lengths]
    )
    anchor = starts + torch.randint(height, starts.shape, generator=generator)
    return block_columns(starts, torch.full_like(starts, height), anchor, row.shape[-1])


def _band(n: int, window: int, generator: torch.Generator) -> Tensor:
    left, right = 0, 0
    while left + right == 0:  # the identity is a diagonal
        left, right = _integer(0, window, generator), _integer(0, window, generator)
    return band_support(n, n, (left, right))


def _column_and_band(
    lengths: Tensor, window: int, generator: torch.Generator
) -> Bool[Tensor, "sentence n n"]:
    """A fixed key for all rows, and as often a single offset as a band around the diagonal."""
    n = int(lengths.max())
    if _integer(0, 1, generator):
        near = offsets(n, n) == _integer(-window, window, generator)
    else:
        near = _band(n, window, generator)
    return near | (torch.arange(n) == _position(lengths, generator)[:, None, None])


def _position(lengths: Tensor, generator: torch.Generator) -> Int[Tensor, "sentence"]:
    """One of the first or last two keys of each sentence, the same one in all."""
    position = _integer(-2, 1, generator)
    return lengths * (position < 0) + position


def _integer(lowest: int, highest: int, generator: torch.Generator) -> int:
    return int(torch.randint(lowest, highest + 1, (), generator=generator))


def _simplex(sentences: int, n: int, generator: torch.Generator) -> Tensor:
    # Exponential weights, normalised, are uniform on the simplex.
    uniform = torch.rand(sentences, n, n, generator=generator, dtype=torch.float64)
    return -(1 - uniform).log()


def _normalised(matrices: Tensor) -> Tensor:
    total = matrices.sum(-1, keepdim=True)
    return torch.where(total > 0, matrices / total, matrices)
