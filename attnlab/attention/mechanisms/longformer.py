"""Longformer (Beltagy et al. 2020, arXiv 2004.05150, section 3): a dilated window and global tokens."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from jaxtyping import Bool
from torch import Tensor

from attnlab.attention.kernels.union import Indices, Union, marked, replaced, taken
from attnlab.attention.mechanism import Context, Setup, Traits, ordinals, visible_or_all
from attnlab.attention.mechanisms.softmax import scaled_scores, softmax_over
from attnlab.attention.mechanisms.sparse import UnionSoftmax
from attnlab.attention.specification import Specification, sides
from attnlab.core import LONGEST_TEXT, InputError


@dataclass(frozen=True)
class Longformer(Specification):
    """A dilated window, and global tokens that attend to all and are attended to by all.

    `global_tokens` are positions in the sentence, negative ones counted from its end.
    """

    name: ClassVar[str] = "longformer"
    window: Any
    dilation: Any = 1
    global_tokens: Any = (0,)

    def __post_init__(self) -> None:
        self.shorten_window()
        self.check_integer("dilation", 1)
        self.check_at_most(LONGEST_TEXT, "dilation")
        positions = self.global_tokens
        if not isinstance(positions, list | tuple) or any(type(at) is not int for at in positions):
            msg = (
                f"The option 'global_tokens' of '{self.name}' is a list of positions such as "
                f"[0, -1], not {positions!r}."
            )
            raise InputError(msg)
        object.__setattr__(self, "global_tokens", tuple(dict.fromkeys(positions)))


class LongformerAttention(UnionSoftmax):
    """Softmax over the window and the global tokens; the rows of global tokens run over all keys.

    ::

        row i sees j  iff  j - i in {-left d, ..., right d} a multiple of d,  or j global,  or i global

    The paper gives global rows projections of their own: `MultiHeadAttention(global_projections=True)`,
    `attnlab train --global-projections`.
    When causal, everything behind the query is cut, so global tokens have to be counted from the start.
    """

    specification: ClassVar[type[Specification] | None] = Longformer
    source: ClassVar[str] = "Beltagy et al. 2020, arXiv 2004.05150"
    traits: ClassVar[Traits] = Traits(subquadratic=True, cross=False)
    refusals: ClassVar[Mapping[str, str]] = {
        "cross": "its global tokens are queries and keys at once, which belong to one sentence"
    }

    def __init__(self, spec: Longformer, setup: Setup) -> None:
        if setup.causal and any(position < 0 for position in spec.global_tokens):
            msg = (
                "A causal 'longformer' cannot count global tokens from the end of the sentence, "
                f"which is not known yet; use positions from 0 up, not {list(spec.global_tokens)}."
            )
            raise InputError(msg)
        left, right = sides(self.name, spec.window)
        self.window = (left, 0 if setup.causal else right)
        super().__init__(spec, setup)

    def global_tokens(self, visible: Bool[Tensor, "batch key"]) -> Indices:
        """Positions of the global tokens of each sentence, `[batch, 1, global]`."""
        positions = torch.tensor(self.spec.global_tokens, dtype=torch.long, device=visible.device)
        lengths = visible.sum(-1, keepdim=True)
        absolute = torch.where(positions < 0, positions + lengths, positions)
        ordinal = torch.where(visible, ordinals(visible), -1)
        hits = ordinal[:, None, :] == absolute[:, :, None]
        index, usable = hits.long().argmax(-1), hits.any(-1) & (absolute >= 0)
        # Two ways of writing one position, 0 and -1 in a sentence of one word, count once.
        same = (absolute[:, :, None] == absolute[:, None, :]) & usable[:, None, :]
        usable = usable & ~same.tril(-1).any(-1)
        return Indices(index[:, None], usable[:, None])

    def union(self, query: Tensor, key: Tensor, context: Context) -> Union:
        """Window, columns of the global tokens and their rows."""
        if not self.spec.global_tokens:
            return Union(self.window, self.spec.dilation, causal=self.causal)
        tokens = self.global_tokens(visible_or_all(key, context.visible))
        wide = marked(
            Indices(*self._rows(tokens, query.shape[-2], context.first_query)), query.shape[-2]
        )
        return Union(self.window, self.spec.dilation, tokens, wide=wide, causal=self.causal)

    def first_and_recent(self) -> tuple[int, int]:
        """All up to the last global token, and the window."""
        left = self.window[0] * self.spec.dilation
        return max(self.spec.global_tokens, default=-1) + 1, left + 1

    def slots(self) -> int:
        """The window, and one key for each global token."""
        return sum(self.window) + 1 + len(self.spec.global_tokens)

    def global_rows(self) -> int:
        """One for each global token."""
        return len(self.spec.global_tokens)

    def fast(self, query: Tensor, key: Tensor, value: Tensor, context: Context) -> Tensor:
        """Window and columns in chunks; the few global rows over all keys."""
        out = super().fast(query, key, value, context)
        return self.with_global_rows(out, query, key, value, context)

    def with_global_rows(
        self, out: Tensor, query: Tensor, key: Tensor, value: Tensor, context: Context
    ) -> Tensor:
        """`out` with the rows of global tokens replaced by full attention of `query` over `key`."""
        if not self.spec.global_tokens:
            return out
        visible = visible_or_all(key, context.visible)
        index, usable = self._rows(
            self.global_tokens(visible), query.shape[-2], context.first_query
        )
        seen = visible[:, None, None, :] & usable.unsqueeze(-1)
        if self.causal:
            positions = torch.arange(key.shape[-2], device=key.device)
            seen = seen & (positions <= (index + context.first_query).unsqueeze(-1))
        weights = softmax_over(scaled_scores(taken(query, index), key), seen)
        mixed = torch.nn.functional.dropout(weights, self.active_dropout()) @ value
        return replaced(out, index, usable, mixed)

    def _rows(self, tokens: Indices, queries: int, first_query: int) -> tuple[Tensor, Tensor]:
        """Indices of the global queries among those at hand."""
        index = tokens.index - first_query
        usable = tokens.usable & (index >= 0) & (index < queries)
        return index.clamp(0, queries - 1), usable
