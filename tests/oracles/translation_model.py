"""The translation model as plainly as its mathematics: one function per equation; imports nothing of attnlab.

Everything here takes one sentence and no padding: a matrix has one row per token. Weights are read from
a model by the names of its `state_dict()`; `part` goes down one level of these names. Nothing here is
fast. It is there to be read beside the equations, and the tests hold the model to it::

    weights = model.state_dict()
    memory = reference.encoder(source_ids, weights, model.config)
    scores = reference.logits(target_ids, memory, weights, model.config)
"""

import math
from collections.abc import Mapping
from typing import Protocol

import torch
from jaxtyping import Float, Int
from torch import Tensor

Weights = Mapping[str, Tensor]


class Config(Protocol):
    """What the equations need of a model's configuration."""

    dim: int
    heads: int
    norm: str
    encoder_layers: int
    decoder_layers: int


def part(weights: Weights, name: str) -> dict[str, Tensor]:
    """The weights whose names begin with `name` and a dot, without both."""
    start = f"{name}."
    return {key[len(start) :]: one for key, one in weights.items() if key.startswith(start)}


def affine(X: Float[Tensor, "token inner"], weights: Weights) -> Float[Tensor, "token outer"]:
    """X W + b, with W as torch stores it: one row per output."""
    return X @ weights["weight"].T + weights["bias"]


def softmax(S: Float[Tensor, "query key"]) -> Float[Tensor, "query key"]:
    """exp(s_ij) / sum_k exp(s_ik)."""
    exponentials = torch.exp(S - S.max(dim=1, keepdim=True).values)
    return exponentials / exponentials.sum(dim=1, keepdim=True)


def causal_mask(like: Float[Tensor, "query key"]) -> Float[Tensor, "query key"]:
    """M of masked attention: 0 where the key is no later than the query, else -infinity."""
    return torch.full_like(like, -math.inf).triu(diagonal=1)


def relative_bias(b: Float[Tensor, " offset"], tokens: int) -> Float[Tensor, "token token"]:
    """B_ij = b[j - i], with b[-n] to b[n] in a row; beyond n it is b[-n] or b[n]."""
    n = len(b) // 2
    rows = range(tokens)
    return torch.stack([torch.stack([b[min(max(j - i, -n), n) + n] for j in rows]) for i in rows])


def attention_weights(
    Q: Float[Tensor, "query dim"],
    K: Float[Tensor, "key dim"],
    *,
    causal: bool = False,
    B: Float[Tensor, "query key"] | float = 0.0,
) -> Float[Tensor, "query key"]:
    """H = softmax(Q K^T / sqrt(d) + B + M), with M = 0 unless `causal`.

    Source: thesis eq. (12); Vaswani et al. 2017, eq. 1.
    """
    S = Q @ K.T / math.sqrt(Q.shape[1]) + B
    return softmax(S + causal_mask(S) if causal else S)


def head(
    X: Float[Tensor, "query dim"],
    Y: Float[Tensor, "key dim"],
    weights: Weights,
    number: int,
    heads: int,
    *,
    causal: bool = False,
) -> tuple[Float[Tensor, "query head_dim"], Float[Tensor, "query key"]]:
    """H V and H of one head: Q = X W_Q, K = Y W_K, V = Y W_V, each cut to the columns of the head."""
    size = X.shape[1] // heads
    columns = slice(number * size, (number + 1) * size)
    Q = affine(X, part(weights, "query"))[:, columns]
    K = affine(Y, part(weights, "key"))[:, columns]
    V = affine(Y, part(weights, "value"))[:, columns]
    b = weights.get("relative_attention_bias.by_offset")
    B = 0.0 if b is None else relative_bias(b[number], len(X))
    H = attention_weights(Q, K, causal=causal, B=B)
    return H @ V, H


def multi_head(
    X: Float[Tensor, "query dim"],
    Y: Float[Tensor, "key dim"],
    weights: Weights,
    heads: int,
    *,
    causal: bool = False,
) -> Float[Tensor, "query dim"]:
    """[head_1 ... head_h] W_O + b_O."""
    mixed = [head(X, Y, weights, number, heads, causal=causal)[0] for number in range(heads)]
    return affine(torch.cat(mixed, dim=1), part(weights, "output"))


def layer_norm(X: Float[Tensor, "token dim"], weights: Weights) -> Float[Tensor, "token dim"]:
    """(x - mean) / sqrt(variance + 1e-5) * g + b, with mean and variance over the entries of a token."""
    centred = X - X.mean(dim=1, keepdim=True)
    variance = (centred**2).mean(dim=1, keepdim=True)
    return centred / torch.sqrt(variance + 1e-5) * weights["weight"] + weights["bias"]


def feed_forward(X: Float[Tensor, "token dim"], weights: Weights) -> Float[Tensor, "token dim"]:
    """max(0, X W_1 + b_1) W_2 + b_2."""
    return affine(affine(X, part(weights, "inner")).clamp(min=0), part(weights, "outer"))


def encoder_layer(
    X: Float[Tensor, "token dim"], weights: Weights, config: Config
) -> Float[Tensor, "token dim"]:
    """The block of the thesis's equation (3), LN a LayerNorm of its own at each sub-layer.

    ::

        post: Z = LN(X + MultiHead(X, X)),            LN(Z + FeedForward(Z))
        pre:  Z = X + MultiHead(LN(X), LN(X)),        Z + FeedForward(LN(Z))
    """
    attention, inner = part(weights, "attention"), part(weights, "feed_forward")
    first = part(weights, "after_attention.norm")
    second = part(weights, "after_feed_forward.norm")
    if config.norm == "pre":
        U = layer_norm(X, first)
        Z = X + multi_head(U, U, attention, config.heads)
        return Z + feed_forward(layer_norm(Z, second), inner)
    Z = layer_norm(X + multi_head(X, X, attention, config.heads), first)
    return layer_norm(Z + feed_forward(Z, inner), second)


def decoder_layer(
    X: Float[Tensor, "query dim"],
    memory: Float[Tensor, "source dim"],
    weights: Weights,
    config: Config,
) -> Float[Tensor, "query dim"]:
    """Masked attention among target tokens, attention to the source, feed-forward part.

    ::

        post: Z = LN(X + Masked(X, X)),       C = LN(Z + MultiHead(Z, memory)),      LN(C + FeedForward(C))
        pre:  Z = X + Masked(LN(X), LN(X)),   C = Z + MultiHead(LN(Z), memory),      C + FeedForward(LN(C))
    """
    own, cross = part(weights, "attention"), part(weights, "cross")
    inner, heads = part(weights, "feed_forward"), config.heads
    first = part(weights, "after_attention.norm")
    second = part(weights, "after_cross.norm")
    third = part(weights, "after_feed_forward.norm")
    if config.norm == "pre":
        U = layer_norm(X, first)
        Z = X + multi_head(U, U, own, heads, causal=True)
        C = Z + multi_head(layer_norm(Z, second), memory, cross, heads)
        return C + feed_forward(layer_norm(C, third), inner)
    Z = layer_norm(X + multi_head(X, X, own, heads, causal=True), first)
    C = layer_norm(Z + multi_head(Z, memory, cross, heads), second)
    return layer_norm(C + feed_forward(C, inner), third)


def positions(count: int, dim: int) -> Float[Tensor, "count dim"]:
    """PE(pos, 2i) = sin(pos / 10000^(2i/dim)), PE(pos, 2i+1) = cos(the same), in float64."""
    rows = [
        [
            (math.cos if column % 2 else math.sin)(pos / 10000 ** ((column - column % 2) / dim))
            for column in range(dim)
        ]
        for pos in range(count)
    ]
    return torch.tensor(rows, dtype=torch.float64)


def embedded(
    ids: Int[Tensor, " token"], weights: Weights, config: Config
) -> Float[Tensor, "token dim"]:
    """sqrt(dim) times the vectors of the tokens, plus those of their positions."""
    table = weights["tokens.weight"]
    learned = weights.get("positions.table.weight")
    shift = positions(len(ids), config.dim) if learned is None else learned[: len(ids)]
    return math.sqrt(config.dim) * table[ids] + shift.to(table)


def encoder(
    ids: Int[Tensor, " token"], weights: Weights, config: Config
) -> Float[Tensor, "token dim"]:
    """Source tokens in context: embedding, all encoder layers, and a last LayerNorm in pre-norm."""
    own = part(weights, "encoder")
    X = embedded(ids, part(own, "embedding"), config)
    for number in range(config.encoder_layers):
        X = encoder_layer(X, part(own, f"layers.{number}"), config)
    return layer_norm(X, part(own, "norm")) if config.norm == "pre" else X


def decoder(
    ids: Int[Tensor, " query"],
    memory: Float[Tensor, "source dim"],
    weights: Weights,
    config: Config,
) -> Float[Tensor, "query dim"]:
    """Target tokens in context, each reading those up to itself and the whole source."""
    own = part(weights, "decoder")
    X = embedded(ids, part(own, "embedding"), config)
    for number in range(config.decoder_layers):
        X = decoder_layer(X, memory, part(own, f"layers.{number}"), config)
    return layer_norm(X, part(own, "norm")) if config.norm == "pre" else X


def logits(
    ids: Int[Tensor, " query"],
    memory: Float[Tensor, "source dim"],
    weights: Weights,
    config: Config,
) -> Float[Tensor, "query type"]:
    """Score of every type as the token behind each target token: X W^T, W the target embedding when tied."""
    return decoder(ids, memory, weights, config) @ weights["output.weight"].T
