"""Attention as loops over single numbers; imports nothing of attnlab."""

import math

import torch
from torch import Tensor


def masked_softmax_matrix(
    query: Tensor, key: Tensor, visible: Tensor, window: tuple[int, int], causal: bool
) -> Tensor:
    """Weights of a windowed softmax, `[batch, head, query, key]`, one entry at a time."""
    batch, heads, queries, dim = query.shape
    keys = key.shape[2]
    matrix = torch.zeros(batch, heads, queries, keys, dtype=query.dtype)
    for b in range(batch):
        for h in range(heads):
            for i in range(queries):
                exponentials = {}
                for j in range(keys):
                    inside = -window[0] <= j - i <= window[1] and not (causal and j > i)
                    if inside and bool(visible[b, j]):
                        score = sum(float(query[b, h, i, d] * key[b, h, j, d]) for d in range(dim))
                        exponentials[j] = math.exp(score / math.sqrt(dim))
                total = sum(exponentials.values())
                for j, exponential in exponentials.items():
                    matrix[b, h, i, j] = exponential / total
    return matrix
