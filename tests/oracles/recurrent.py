"""A recurrent translation model with attention, in float64, step by step; imports nothing of attnlab."""

import math

import torch
from torch import Tensor

Weights = dict[str, Tensor]


def scores_and_weights(
    weights: Weights, source: list[int], target: list[int], *, cell: str, score: str
) -> tuple[Tensor, Tensor]:
    """Scores of the next token `[query, type]` and attention `[query, key]` of a pair, one layer each."""
    memory = encoded(weights, source, cell=cell)
    table = weights["decoder.embedding.tokens.weight"]
    dim = table.shape[1]
    hidden = torch.tanh(_linear(weights, "decoder.begin", memory[0]))
    inner = torch.zeros(dim, dtype=torch.float64)
    logits, rows = [], []
    for one in target:
        hidden, inner = step(
            weights, "decoder.cell", "l0", cell, table[one] * math.sqrt(dim), hidden, inner
        )
        energies = []
        for token in memory:
            query = weights["decoder.cross.query.weight"] @ hidden
            key = weights["decoder.cross.key.weight"] @ token
            if score == "additive":
                query = query + weights["decoder.cross.query.bias"]
                form = weights["decoder.cross.score.weight"][0]
                energies.append(float(form @ torch.tanh(query + key)))
            else:
                energies.append(float(query @ key) / math.sqrt(dim))
        powers = [math.exp(energy) for energy in energies]
        row = [power / math.fsum(powers) for power in powers]
        context = sum(a * token for a, token in zip(row, memory, strict=True))
        read = weights["decoder.cross.output.weight"] @ context
        out = torch.tanh(_linear(weights, "decoder.state", hidden) + read)
        logits.append(weights["output.weight"] @ out)
        rows.append(torch.tensor(row, dtype=torch.float64))
    return torch.stack(logits), torch.stack(rows)


def encoded(weights: Weights, source: list[int], *, cell: str) -> list[Tensor]:
    """Each source token: its state read from the left beside its state read from the right."""
    table = weights["encoder.embedding.tokens.weight"]
    dim = table.shape[1]
    tokens = [table[one] * math.sqrt(dim) for one in source]
    sides = []
    for name, order in (("l0", tokens), ("l0_reverse", tokens[::-1])):
        hidden = inner = torch.zeros(dim // 2, dtype=torch.float64)
        states = []
        for token in order:
            hidden, inner = step(weights, "encoder.cell", name, cell, token, hidden, inner)
            states.append(hidden)
        sides.append(states if name == "l0" else states[::-1])
    return [torch.cat(pair) for pair in zip(*sides, strict=True)]


def step(
    weights: Weights, path: str, name: str, cell: str, token: Tensor, hidden: Tensor, inner: Tensor
) -> tuple[Tensor, Tensor]:
    """One step of an LSTM (Hochreiter and Schmidhuber 1997), a GRU (Cho et al. 2014) or Elman 1990."""
    read = weights[f"{path}.weight_ih_{name}"] @ token + weights[f"{path}.bias_ih_{name}"]
    kept = weights[f"{path}.weight_hh_{name}"] @ hidden + weights[f"{path}.bias_hh_{name}"]
    if cell == "lstm":
        enter, forget, change, leave = (read + kept).chunk(4)
        inner = torch.sigmoid(forget) * inner + torch.sigmoid(enter) * torch.tanh(change)
        return torch.sigmoid(leave) * torch.tanh(inner), inner
    if cell == "elman":
        return torch.tanh(read + kept), inner
    (reset_in, update_in, new_in), (reset_h, update_h, new_h) = read.chunk(3), kept.chunk(3)
    reset, update = torch.sigmoid(reset_in + reset_h), torch.sigmoid(update_in + update_h)
    new = torch.tanh(new_in + reset * new_h)
    return (1 - update) * new + update * hidden, inner


def _linear(weights: Weights, name: str, vector: Tensor) -> Tensor:
    return weights[f"{name}.weight"] @ vector + weights[f"{name}.bias"]
