"""Attention matrices with a known answer, on ragged batches with [CLS], [SEP] and padding."""

from typing import NamedTuple

import torch
from planted_layers import VOCABULARY
from torch import Tensor

from attnlab.labels.counts import Scope, groups_of
from attnlab.labels.label import BatchFacts
from attnlab.reading.vocabulary import Axis
from attnlab.reading.weights import ALL, CONTENT, LayerWeights, View


class Batch(NamedTuple):
    """Sentences of 5 to `longest` tokens, the first and last of them special."""

    visible: Tensor
    special: Tensor
    numbers: Tensor
    scope: Scope

    @property
    def ordinary(self) -> Tensor:
        return self.visible & ~self.special


def scope_of(
    visible: Tensor,
    special: Tensor,
    numbers: Tensor,
    *,
    causal: bool = False,
) -> Scope:
    """The scope of self-attention.

    Args:
        visible: True for tokens, False for padding.
        special: True for BOS, EOS, [CLS], [SEP] and their like.
        numbers: each sentence's number in the corpus.
        causal: a query sees no key behind itself.
    """
    length = visible.shape[1]
    seen = visible[:, None, :] & visible[:, :, None]
    if causal:
        seen = seen & torch.ones(length, length, dtype=torch.bool, device=seen.device).tril()
    ordinary = visible & ~special
    return Scope(ordinary, ordinary, seen, groups_of(numbers))


def cross_scope_of(
    target: Tensor,
    visible: Tensor,
    special: Tensor,
    numbers: Tensor,
) -> Scope:
    """The scope of cross-attention.

    Args:
        target: True for the decoder's rows that count; row t predicts token t + 1.
        visible: True for tokens of the source, False for padding.
        special: True for special tokens of the source.
        numbers: each sentence's number in the corpus.
    """
    seen = target[:, :, None] & visible[:, None, :]
    return Scope(target, visible & ~special, seen, groups_of(numbers))


def make_batch(
    sentences: int = 401,
    *,
    longest: int = 13,
    seed: int = 0,
    left: bool = False,
    causal: bool = False,
) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(5, longest + 1, (sentences, 1), generator=generator)
    position = torch.arange(longest)
    visible = position < lengths
    special = (position == 0) | (position == lengths - 1)
    if left:
        visible, special = visible.flip(1), special.flip(1)
    numbers = torch.arange(sentences)
    return Batch(
        visible, special & visible, numbers, scope_of(visible, special, numbers, causal=causal)
    )


def attend(targets: Tensor, seen: Tensor, share: float = 0.6) -> Tensor:
    """One head `[batch, query, key]`: `share` at the target, the rest even over other seen keys.

    A row whose target is not seen (or is negative) is even over all seen keys but one.
    """
    keys = seen.shape[-1]
    aimed = torch.arange(keys) == targets[..., None]
    aimed = aimed & seen
    others = (seen & ~aimed).sum(-1, keepdim=True).clamp_min(1)
    weights = torch.where(aimed, share, (1 - share) / others.double()) * seen
    return weights / weights.sum(-1, keepdim=True).clamp_min(1e-9)


def random_attention(batch: Batch, heads: int = 3, seed: int = 0, scale: float = 2.0) -> Tensor:
    """Softmax of random scores over what each query may see."""
    generator = torch.Generator().manual_seed(seed)
    shape = (len(batch.visible), heads, *batch.scope.seen.shape[1:])
    scores = scale * torch.randn(shape, generator=generator, dtype=torch.float64)
    seen = batch.scope.seen[:, None]
    return scores.masked_fill(~seen, -1e9).softmax(-1) * seen


def at_offset(batch: Batch, offset: int) -> Tensor:
    """The key position at an offset, for every query."""
    length = batch.visible.shape[1]
    return (torch.arange(length) + offset).expand(len(batch.visible), length)


def axis_of(batch: Batch) -> Axis:
    """The tokens of a batch, none of them punctuation."""
    special = batch.special
    first = special & (special.cumsum(1) == 1)
    return Axis(
        torch.zeros_like(batch.visible, dtype=torch.long),
        batch.visible,
        batch.ordinary,
        special,
        first,
        special & ~first,
        torch.zeros_like(special),
    )


def layer_of(weights: Tensor, batch: Batch) -> LayerWeights:
    """A layer of self-attention of an encoder."""
    axis = axis_of(batch)
    numbers = tuple(batch.numbers.tolist())
    return LayerWeights("encoder", 0, weights, axis, axis, False, numbers, (VOCABULARY, VOCABULARY))


def facts_of(batch: Batch, ranks: Tensor) -> dict[View, BatchFacts]:
    """Without gold words."""
    return {
        ALL: BatchFacts(batch.scope, ranks),
        CONTENT: BatchFacts(batch.scope.of_content(), ranks),
    }
