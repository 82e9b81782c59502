"""Sums of products of exponentials that neither vanish nor overflow: each block at its own scale."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F


@dataclass(frozen=True)
class ScaledSums:
    """Rows `sums * exp(level)`, `[..., query, value]` and `[..., query, 1]`; no keys have level -inf."""

    sums: Tensor
    level: Tensor

    def in_rows(self, before: int, after: int) -> "ScaledSums":
        """With so many rows without keys added (or, below 0, rows taken away) at both ends."""
        pad = (0, 0, before, after)
        return ScaledSums(F.pad(self.sums, pad), F.pad(self.level, pad, value=-torch.inf))


def together(parts: list[ScaledSums]) -> ScaledSums:
    """The sum of all parts, at the highest of their levels."""
    level = torch.stack([part.level for part in parts]).amax(0)
    sums = [part.sums * (part.level - _finite(level)).exp() for part in parts]
    return ScaledSums(torch.stack(sums).sum(0), level)


def over_all(query: Tensor, key: Tensor, value: Tensor) -> ScaledSums:
    """Sum over keys j and features m of exp(query_im + key_jm) value_j.

    Every feature is scaled by its largest key and every row by its largest term, so that one term of
    each row is 1. Keys that do not count have exponents of -inf.
    """
    height = key.detach().amax(-2, keepdim=True)
    query = query + height
    level = query.detach().amax(-1, keepdim=True)
    phi_key = (key - _finite(height)).exp()
    return ScaledSums((query - _finite(level)).exp() @ (phi_key.mT @ value), level)


def over_earlier(query: Tensor, key: Tensor, value: Tensor, last: int) -> ScaledSums:
    """`over_all` for keys up to `last` behind the row: row i has keys 0..i + last.

    Rows and keys are halved again and again: the later half of the rows sees the earlier half of
    the keys whole, at a scale that no later key has a say in.
    Cost: O(tokens * log(tokens) * features * dim).
    """
    rows, keys = query.shape[-2], key.shape[-2]
    cut, front = min(max(-last, 0), rows), max(last, 0)
    length = max(keys, front + rows - cut, 1)
    size = 1 << (length - 1).bit_length()
    query = F.pad(query[..., cut:, :], (0, 0, front, size - front - rows + cut))
    key = F.pad(key, (0, 0, 0, size - keys), value=-torch.inf)
    value = F.pad(value, (0, 0, 0, size - keys))
    return _over_triangle(query, key, value).in_rows(cut - front, front + rows - cut - size)


def over_later(query: Tensor, key: Tensor, value: Tensor, first: int) -> ScaledSums:
    """`over_all` for keys from `first` behind the row on: row i has keys i + first and later."""
    last = key.shape[-2] - query.shape[-2] - first
    turned = over_earlier(query.flip(-2), key.flip(-2), value.flip(-2), last)
    return ScaledSums(turned.sums.flip(-2), turned.level.flip(-2))


def _over_triangle(query: Tensor, key: Tensor, value: Tensor) -> ScaledSums:
    """Keys 0..i for row i of a power of two."""
    own = query + key
    level = own.detach().amax(-1, keepdim=True)
    weight = (own - _finite(level)).exp().sum(-1, keepdim=True)
    total, half = ScaledSums(weight * value, level), 1
    while half < query.shape[-2]:
        rows, keys, values = (x.unflatten(-2, (-1, 2, half)) for x in (query, key, value))
        later = over_all(rows[..., 1, :, :], keys[..., 0, :, :], values[..., 0, :, :])
        later = later.in_rows(half, 0)
        part = ScaledSums(later.sums.flatten(-3, -2), later.level.flatten(-3, -2))
        total, half = together([total, part]), 2 * half
    return total


def _finite(level: Tensor) -> Tensor:
    return level.masked_fill(level == -torch.inf, 0.0)
