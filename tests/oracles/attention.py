"""Attention as loops over single numbers; imports nothing of attnlab."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

Allowed = Callable[[int, int, int, int, int], bool]


def masked_softmax_matrix(query: Tensor, key: Tensor, visible: Tensor, allowed: Allowed) -> Tensor:
    """Weights of a softmax over `allowed(batch, head, query, key, length)`, one entry at a time."""
    batch, heads, queries, dim = query.shape
    keys = key.shape[2]
    matrix = torch.zeros(batch, heads, queries, keys, dtype=query.dtype)
    scores = (torch.einsum("bhqd,bhkd->bhqk", query, key) / math.sqrt(dim)).tolist()
    for b in range(batch):
        length = int(visible[b].sum())
        for h in range(heads):
            for i in range(queries):
                exponentials = {
                    j: math.exp(scores[b][h][i][j])
                    for j in range(keys)
                    if bool(visible[b, j]) and allowed(b, h, i, j, length)
                }
                total = math.fsum(exponentials.values())
                for j, exponential in exponentials.items():
                    matrix[b, h, i, j] = exponential / total
    return matrix


def kernel_matrix(
    query: Tensor,
    key: Tensor,
    visible: Tensor,
    kernel: Callable[[Tensor, Tensor], float],
    causal: bool,
) -> Tensor:
    """kernel(q_i, k_j) over its sum over real keys, one pair at a time."""
    batch, heads, queries, _ = query.shape
    matrix = torch.zeros(batch, heads, queries, key.shape[2], dtype=query.dtype)
    for b in range(batch):
        for h in range(heads):
            for i in range(queries):
                row = {
                    j: kernel(query[b, h, i], key[b, h, j])
                    for j in range(key.shape[2])
                    if bool(visible[b, j]) and not (causal and j > i)
                }
                total = math.fsum(row.values())
                for j, number in row.items():
                    matrix[b, h, i, j] = number / total
    return matrix


def log_kernel_matrix(
    query: Tensor,
    key: Tensor,
    visible: Tensor,
    terms: Callable[[Tensor, Tensor, int], list[float]],
    causal: bool,
) -> Tensor:
    """Sums of exp(`terms(q_i, k_j, j - i)`) over their sum over real keys, one row at a time."""
    batch, heads, queries, _ = query.shape
    matrix = torch.zeros(batch, heads, queries, key.shape[2], dtype=query.dtype)
    for b in range(batch):
        for h in range(heads):
            for i in range(queries):
                row = {
                    j: terms(query[b, h, i], key[b, h, j], j - i)
                    for j in range(key.shape[2])
                    if bool(visible[b, j]) and not (causal and j > i)
                }
                top = max((max(logs) for logs in row.values()), default=0.0)
                sums = {j: math.fsum(math.exp(x - top) for x in row[j]) for j in row}
                for j, number in sums.items():
                    matrix[b, h, i, j] = number / math.fsum(sums.values())
    return matrix


def window(left: int, right: int, causal: bool = False, dilation: int = 1) -> Allowed:
    """Offsets that are multiples of the dilation, up to `left` and `right` of them."""

    def allowed(b: int, h: int, i: int, j: int, length: int) -> bool:
        steps = [step * dilation for step in range(-left, right + 1)]
        return j - i in steps and not (causal and j > i)

    return allowed


def longformer(
    left: int, right: int, dilation: int, global_tokens: list[int], causal: bool
) -> Allowed:
    """A window, and tokens that see all and are seen by all."""
    near = window(left, right, causal, dilation)

    def allowed(b: int, h: int, i: int, j: int, length: int) -> bool:
        positions = [at if at >= 0 else length + at for at in global_tokens]
        positions = [at for at in positions if 0 <= at < length]
        if causal and j > i:
            return False
        return near(b, h, i, j, length) or i in positions or j in positions

    return allowed


def bigbird(block: int, first: int, last: int) -> Allowed:
    """Neighbouring blocks, and blocks at both ends that see all and are seen by all."""

    def allowed(b: int, h: int, i: int, j: int, length: int) -> bool:
        blocks = math.ceil(length / block)
        ends = [*range(first), *range(blocks - last, blocks)]
        if i // block >= blocks:
            return False
        return abs(i // block - j // block) <= 1 or i // block in ends or j // block in ends

    return allowed


def fixed_row(pattern: str, i: int, length: int) -> list[float]:
    """Weights of one row of a fixed pattern over a sentence of `length` keys."""
    row = [0.0] * length
    for j in range(length):
        if pattern in ("left", "end") and (pattern == "end" or j <= i - 2):
            row[j] = (j + 1) ** 3
        if pattern in ("right", "start") and (pattern == "start" or j >= i + 2):
            row[j] = (length - j) ** 3
    if sum(row) == 0:
        target = i + {"previous": -1, "next": 1}.get(pattern, 0)
        row[min(max(target, 0), length - 1)] = 1.0
    return [weight / sum(row) for weight in row]
