"""Keys chosen by priority before any score is computed: per sentence, or per row when causal."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

KEYS_AT_ONCE = 64


@dataclass(frozen=True)
class Indices:
    """Positions of keys, and which of them count.

    `index` and `usable` are `[batch, head, slot]` when shared by all rows (columns), and
    `[batch, head, query, slot]` when each row has its own (entries).
    """

    index: Tensor
    usable: Tensor

    def at_rows(self, rows: slice) -> "Indices":
        """Those of some queries, where each query has its own."""
        return Indices(self.index[:, :, rows], self.usable[:, :, rows])


def best(
    priority: Float[Tensor, "*rows key"], eligible: Bool[Tensor, "*rows key"], count: int
) -> tuple[Int[Tensor, "*rows slot"], Bool[Tensor, "*rows slot"]]:
    """Positions of the `count` highest priorities among those `eligible`, and which exist.

    Of equal priorities the earlier position wins.

    >>> best(torch.tensor([1.0, 3.0, 3.0]), torch.tensor([True, True, True]), 2)[0].tolist()
    [1, 2]
    """
    ranked = priority.masked_fill(~eligible, -torch.inf).sort(dim=-1, descending=True, stable=True)
    index = ranked.indices[..., :count]
    return index, eligible.gather(-1, index)


def running_best(
    priority: Float[Tensor, "batch head key"],
    eligible: Bool[Tensor, "batch key"],
    count: int,
    rows: range,
) -> Indices:
    """For each row i the `count` highest priorities among the eligible keys 0..i.

    What row i gets does not depend on keys behind it, so the choice is causal and cached decoding
    repeats it. Cost: O(key * (KEYS_AT_ONCE + count)); the best of all earlier chunks are carried along.
    """
    keys = priority.shape[-1]
    chunks = -(-keys // KEYS_AT_ONCE)
    filling = chunks * KEYS_AT_ONCE - keys
    eligible = eligible[:, None].expand(priority.shape)
    values = torch.nn.functional.pad(
        priority.masked_fill(~eligible, -torch.inf), (0, filling), value=-torch.inf
    )
    values = values.unflatten(-1, (chunks, KEYS_AT_ONCE))
    positions = torch.arange(chunks * KEYS_AT_ONCE, device=priority.device).view(
        chunks, KEYS_AT_ONCE
    )
    carried, carried_at = _best_before(values, positions, count)
    wanted = torch.arange(rows.start, rows.stop, device=priority.device).clamp(max=keys - 1)
    chunk, row = wanted // KEYS_AT_ONCE, wanted % KEYS_AT_ONCE
    near = values[:, :, chunk].masked_fill(
        torch.arange(KEYS_AT_ONCE, device=priority.device) > row[:, None], -torch.inf
    )
    near_at = positions[chunk].expand(near.shape)
    candidates = torch.cat([carried[:, :, chunk], near], -1)
    indices = torch.cat([carried_at[:, :, chunk], near_at], -1)
    ranked = candidates.sort(dim=-1, descending=True, stable=True)
    index = indices.gather(-1, ranked.indices[..., :count]).clamp(max=keys - 1)
    return Indices(index, ranked.values[..., :count] > -torch.inf)


def _best_before(values: Tensor, positions: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The best of all chunks before each one, `[batch, head, chunk, count]`, and where they stand."""
    batch, heads, chunks, _ = values.shape
    top = values.new_full((batch, heads, count), -torch.inf)
    top_at = torch.zeros(batch, heads, count, dtype=torch.long, device=values.device)
    tops, tops_at = [], []
    for chunk in range(chunks):
        tops.append(top)
        tops_at.append(top_at)
        candidates = torch.cat([top, values[:, :, chunk]], -1)
        indices = torch.cat([top_at, positions[chunk].expand(values[:, :, chunk].shape)], -1)
        ranked = candidates.sort(dim=-1, descending=True, stable=True)
        top = ranked.values[..., :count]
        top_at = indices.gather(-1, ranked.indices[..., :count])
    return torch.stack(tops, 2), torch.stack(tops_at, 2)


def draws(seed: int, rows: int, columns: int) -> Float[Tensor, "rows columns"]:
    """Uniform numbers in [0, 1) from a generator of their own; more rows leave the first ones as they are.

    >>> torch.equal(draws(0, 70, 2)[:3], draws(0, 3, 2))
    True
    """
    pieces = []
    for start in range(0, max(rows, 1), KEYS_AT_ONCE):
        generator = torch.Generator().manual_seed(seed * 1_000_003 + start)
        pieces.append(torch.rand(KEYS_AT_ONCE, columns, generator=generator, dtype=torch.float64))
    return torch.cat(pieces)[:rows]
