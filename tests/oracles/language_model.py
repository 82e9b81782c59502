"""A next-token language model written from its definition, in float64; imports nothing of attnlab.

One token after the other, one head after the other, from a dictionary of weights.
"""

import math

import torch
from torch import Tensor

Weights = dict[str, Tensor]


def logits_and_matrices(
    weights: Weights, ids: list[int], *, layers: int, heads: int, scaled: bool
) -> tuple[Tensor, Tensor]:
    """Scores `[token, type]`, and attention `[layer, head, query, key]`, of one text without padding."""
    embedding = weights["decoder.embedding.tokens.weight"]
    dim = embedding.shape[1]
    tokens = [embedding[one] * math.sqrt(dim) + _position(t, dim) for t, one in enumerate(ids)]
    matrices = torch.zeros(layers, heads, len(ids), len(ids), dtype=torch.float64)
    for layer in range(layers):
        path = f"decoder.layers.{layer}."
        mixed = []
        for t in range(len(ids)):
            parts = []
            for head in range(heads):
                size = dim // heads
                own = slice(head * size, (head + 1) * size)
                query = _linear(weights, f"{path}attention.query", tokens[t])[own]
                scores = []
                for s in range(t + 1):
                    key = _linear(weights, f"{path}attention.key", tokens[s])[own]
                    score = float(query @ key)
                    scores.append(score / math.sqrt(size) if scaled else score)
                powers = [math.exp(score) for score in scores]
                value = torch.zeros(size, dtype=torch.float64)
                for s, power in enumerate(powers):
                    matrices[layer, head, t, s] = power / math.fsum(powers)
                    own_value = _linear(weights, f"{path}attention.value", tokens[s])[own]
                    value += matrices[layer, head, t, s] * own_value
                parts.append(value)
            mixed.append(_linear(weights, f"{path}attention.output", torch.cat(parts)))
        tokens = [
            _norm(weights, f"{path}after_attention.norm", one + more)
            for one, more in zip(tokens, mixed, strict=True)
        ]
        for t, one in enumerate(tokens):
            inner = _linear(weights, f"{path}feed_forward.inner", one).clamp(min=0)
            change = _linear(weights, f"{path}feed_forward.outer", inner)
            tokens[t] = _norm(weights, f"{path}after_feed_forward.norm", one + change)
    return torch.stack([torch.stack([row @ one for row in embedding]) for one in tokens]), matrices


def next_token_losses(logits: Tensor, ids: list[int]) -> list[float]:
    """-log p of each token but the first, given those before it."""
    found = []
    for t in range(1, len(ids)):
        row = logits[t - 1].tolist()
        found.append(math.log(math.fsum(math.exp(one) for one in row)) - row[ids[t]])
    return found


def _position(t: int, dim: int) -> Tensor:
    numbers = []
    for i in range(dim):
        angle = t / 10000 ** ((i - i % 2) / dim)
        numbers.append(math.cos(angle) if i % 2 else math.sin(angle))
    return torch.tensor(numbers, dtype=torch.float64)


def _linear(weights: Weights, name: str, vector: Tensor) -> Tensor:
    return weights[f"{name}.weight"] @ vector + weights[f"{name}.bias"]


def _norm(weights: Weights, name: str, vector: Tensor) -> Tensor:
    centred = vector - vector.mean()
    spread = torch.sqrt((centred**2).mean() + 1e-5)
    return centred / spread * weights[f"{name}.weight"] + weights[f"{name}.bias"]
