"""Queries and keys of transformers models, taken where their modules call the attention function."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import eager_mask, sdpa_mask

from attnlab.attention.bridge.sites import hidden_below
from attnlab.attention.mechanisms.softmax import softmax_over, softmax_with_sinks

# The names under which transformers knows attention that can be watched. The first gets the masks of fused
# attention, none where modules say that they are causal; those of NLLB-MoE say it not, and read the masks
# of eager attention elsewhere too.
WATCHED = ("attnlab_watched", "attnlab_watched_eager")
# Weights of all heads that are computed at once: 4 MB in float32.
BLOCK_WEIGHTS = 2**20


@dataclass(frozen=True)
class AttentionCall:
    """Arguments with which a module called its attention function.

    Attributes:
        query: of all query heads.
        key: of all key heads, each of which serves as many query heads as the others.
        value: of all key heads, whichever heads `query` is of.
        scaling: what products are multiplied by.
        causal: whether a query is kept from the keys behind it, where there is no mask.
        mask: True at visible pairs, or numbers that are added, which hide where they are very small;
            `[batch, 1 or head, 1 or query, key]`. None hides nothing.
        bias: added to the scores (relative positions of T5).
        softcap: what scores are squeezed below in size (Gemma 2); None for no bound.
        sinks: of each head, the score of a key without a value (gpt-oss).
        heads: which heads of `mask` and `bias` those of `query` are; None where they are the same.
    """

    query: Float[Tensor, "batch head query dim"]
    key: Float[Tensor, "batch key_head key dim"]
    value: Float[Tensor, "batch value_head key value_dim"]
    scaling: float
    causal: bool
    mask: Tensor | None = None
    bias: Float[Tensor, "#batch #call_head #query key"] | None = None
    softcap: float | None = None
    sinks: Float[Tensor, " head"] | None = None
    heads: Int[Tensor, " head"] | None = None

    def of_heads(self, heads: Sequence[int] | None = None) -> "AttentionCall":
        """The call of these query heads alone, None for all, each with its own copy of the keys it shares."""
        count = self.query.shape[1]
        groups = count // self.key.shape[1]
        if heads is None and groups == 1:
            return self
        chosen = torch.arange(count) if heads is None else torch.tensor(heads)
        chosen = chosen.to(self.query.device)
        return replace(
            self,
            query=self.query[:, chosen],
            key=self.key[:, chosen // groups],
            sinks=None if self.sinks is None else self.sinks[chosen],
            heads=chosen,
        )

    def weights(self, rows: Int[Tensor, " row"]) -> Float[Tensor, "batch head row key"]:
        """Attention weights of these queries, in ascending order; 0 in a row without keys.

        There must be a key head for each query head, see `of_heads`.

        ::

            s_ij = softcap * tanh(scaling * q_i . k_j / softcap) + bias_ij
            weight_ij = exp(s_ij) / (exp(sink) + sum over visible k of exp(s_ik))

        Cost: O(row * key * dim) a head.
        """
        # Behind the last of the rows no key is seen.
        count = self.key.shape[2]
        keys = min(int(rows[-1]) + 1, count) if self.causal else count
        scores = (self.query[:, :, rows] * self.scaling) @ self.key[:, :, :keys].mT
        if self.softcap is not None:
            scores = scores.div_(self.softcap).tanh_().mul_(self.softcap)
        if self.bias is not None:
            scores = scores + self._rows_of(self.bias[..., :keys], rows)
        seen, added = self._mask_of(rows, keys)
        if added is not None:
            scores = scores + added
        # As transformers' own: half precision would round every weight of a long row.
        scores = scores if scores.dtype == torch.float64 else scores.float()
        if self.sinks is not None:
            weights = softmax_with_sinks(scores, seen, self.sinks)
        else:
            weights = scores.softmax(-1) if seen is None else softmax_over(scores, seen)
        return F.pad(weights.to(self.query.dtype), (0, count - keys))

    def blocks(self, rows: Int[Tensor, " row"]) -> Iterator[Int[Tensor, " row"]]:
        """The rows, as many at once as have `BLOCK_WEIGHTS` weights in all heads, but at least one."""
        row = len(self.query) * self.query.shape[1] * self.key.shape[2]
        yield from rows.split(max(1, BLOCK_WEIGHTS // row))

    def mixed(self) -> Float[Tensor, "batch query head value_dim"]:
        """The values of all heads mixed by the weights, block by block."""
        single = self.of_heads()
        groups = single.query.shape[1] // self.value.shape[1]
        value = self.value.repeat_interleave(groups, 1) if groups > 1 else self.value
        rows = torch.arange(self.query.shape[2], device=self.query.device)
        parts = [single.weights(block) @ value for block in single.blocks(rows)]
        return torch.cat(parts, 2).transpose(1, 2).contiguous()

    def _mask_of(self, rows: Int[Tensor, " row"], keys: int) -> tuple[Tensor | None, Tensor | None]:
        """Which of the first keys the rows see, None for all; and what is added to their scores."""
        if self.mask is None:
            before = torch.arange(keys, device=rows.device) <= rows[:, None]
            return (before if self.causal else None), None
        mask = self._rows_of(self.mask[..., :keys], rows)
        if mask.dtype == torch.bool:
            return mask, None
        seen = mask > hidden_below(mask)
        return seen, mask.masked_fill(~seen, 0.0)

    def _rows_of(self, pairs: Tensor, rows: Int[Tensor, " row"]) -> Tensor:
        """These rows of what is known of pairs of tokens, for the heads of the queries."""
        pairs = pairs if pairs.shape[2] == 1 else pairs[:, :, rows]
        return pairs if self.heads is None or pairs.shape[1] == 1 else pairs[:, self.heads]


Watch = Callable[[nn.Module, AttentionCall], None]
_WATCH: ContextVar[Watch | None] = ContextVar("watch", default=None)


@contextmanager
def watching(watch: Watch) -> Iterator[None]:
    """While the block runs, `watch` is handed every call of attention of one of the names `WATCHED`."""
    for name, mask in zip(WATCHED, (sdpa_mask, eager_mask), strict=True):
        AttentionInterface.register(name, _watched_attention)
        AttentionMaskInterface.register(name, mask)
    before = _WATCH.set(watch)
    try:
        yield
    finally:
        _WATCH.reset(before)


def _watched_attention(  # noqa: PLR0917 - transformers' signature
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    position_bias: Tensor | None = None,
    **extra: Any,
) -> tuple[Tensor, Tensor | None]:
    """Torch's fused attention, or blocks of rows where it has no form that holds no whole matrix."""
    causal = bool(getattr(module, "is_causal", True) if is_causal is None else is_causal)
    call = AttentionCall(
        query,
        key,
        value,
        query.shape[-1] ** -0.5 if scaling is None else scaling,
        causal and attention_mask is None and query.shape[2] > 1,
        attention_mask,
        position_bias,
        extra.get("softcap"),
        extra.get("s_aux"),
    )
    watch = _WATCH.get()
    if watch is not None:
        watch(module, call)
    if call.softcap is not None or call.sinks is not None or query.shape[-1] != value.shape[-1]:
        return call.mixed(), None
    return sdpa_attention_forward(
        module, query, key, value, attention_mask,
        dropout=dropout, scaling=scaling, is_causal=is_causal, position_bias=position_bias, **extra,
    )  # fmt: skip
