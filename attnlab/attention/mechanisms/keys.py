"""Attention to keys that are listed one by one: offsets, ends of the sentence, types of token."""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from attnlab.attention.kernels.union import NO_WINDOW, Indices, Near, Union, at
from attnlab.attention.mechanism import (
    Context,
    Positions,
    Setup,
    Traits,
    nearest_real,
    visible_or_all,
)
from attnlab.attention.mechanisms.sparse import UnionSoftmax
from attnlab.attention.mechanisms.static import check_not_ahead, nearest_offset
from attnlab.attention.padding import real_first
from attnlab.attention.specification import Specification
from attnlab.core import LONGEST_TEXT, AttnlabError, InputError


@dataclass(frozen=True)
class Keys(Specification):
    """A query sees the keys at some offsets, the first and last few, and those of some token ids.

    Tokens with a `reach` are seen by the queries at most so far away: each is a block of Sigma3.
    """

    name: ClassVar[str] = "keys"
    offsets: Any = ()
    first: Any = 0
    last: Any = 0
    tokens: Any = ()
    reach: Any = None

    def __post_init__(self) -> None:
        for option in ("offsets", "tokens"):
            self.check_distinct(option)
        for option in ("first", "last"):
            self.check_integer(option, 0)
        if self.reach is not None:
            self.check_integer("reach", 0)
        self.check_at_most(LONGEST_TEXT, "first", "last", "reach")
        if any(token < 0 for token in self.tokens):
            msg = (
                f"The option 'tokens' of '{self.name}' is a list of token ids from 0 up, "
                f"not {self.tokens!r}."
            )
            raise InputError(msg)
        if not (self.offsets or self.first or self.last or self.tokens):
            msg = (
                f"'{self.name}' lists no key; give offsets, first, last or tokens, or write 'none'."
            )
            raise InputError(msg)


class KeysAttention(UnionSoftmax):
    """Softmax over the listed keys.

    ::

        row i sees j  iff  j - i in offsets,  or j among the first or last keys of the sentence,
                           or token(j) in tokens and |j - i| <= reach

    A row that sees none of them in its sentence sees the key nearest to its smallest offset.
    When causal, keys behind the query are cut, and `last` is refused: the end is not known yet.
    Source: thesis sections 3.1 and 3.1.2, whose columns and blocks become lists.
    """

    specification: ClassVar[type[Specification] | None] = Keys
    source: ClassVar[str] = "this project; thesis, section 3.1"
    traits: ClassVar[Traits] = Traits(subquadratic=True)
    positions: ClassVar[Positions] = "offsets"

    def __init__(self, spec: Keys, setup: Setup) -> None:
        check_not_ahead(spec, max(spec.offsets, default=0), setup)
        if setup.causal and spec.last:
            msg = f"'{spec}' looks at the end of the sentence and cannot be causal; use last=0."
            raise InputError(msg)
        self.uses_tokens = bool(spec.tokens)
        super().__init__(spec, setup)

    def first_and_recent(self) -> tuple[int, int] | None:
        """The first keys, and those up to the farthest offset; None with tokens."""
        spec = self.spec
        return None if spec.tokens else (spec.first, 1 - min(spec.offsets, default=0))

    def slots(self) -> int | None:
        """One for each offset and end; None with tokens, of which a sentence may hold any number."""
        spec = self.spec
        return None if spec.tokens else max(1, len(spec.offsets)) + spec.first + spec.last

    def fetched(self) -> int:
        """The offsets."""
        return len(self.spec.offsets)

    def union(self, query: Tensor, key: Tensor, context: Context) -> Union:
        """Ends for all rows at once, offsets row by row, tokens near a row."""
        visible = visible_or_all(key, context.visible)
        near = self._near(visible, context) if self.uses_tokens else None
        columns = self._ends(visible) if self.spec.first or self.spec.last else None
        entries = None
        if self.spec.offsets or columns is None:
            entries = self._offsets(query, visible, context, near, fill=columns is None)
        return Union(NO_WINDOW, 1, columns, entries, near, causal=self.causal)

    def _ends(self, visible: Tensor) -> Indices:
        """The first and the last real keys of each sentence, `[batch, 1, slot]`."""
        spec, count = self.spec, visible.sum(-1, keepdim=True)
        slot = torch.arange(spec.first + spec.last, device=visible.device)
        ordinal = torch.where(slot < spec.first, slot, count - 1 - (slot - spec.first))
        # Both ends of a short sentence may meet.
        usable = (
            (ordinal >= 0) & (ordinal < count) & ((slot < spec.first) | (ordinal >= spec.first))
        )
        index = real_first(visible).gather(1, ordinal.clamp(0, visible.shape[-1] - 1))
        return Indices(index[:, None], usable[:, None])

    def _offsets(
        self, query: Tensor, visible: Tensor, context: Context, near: Near | None, *, fill: bool
    ) -> Indices:
        """The key at each offset of each row, `[batch, 1, query, offset]`; one where there is none."""
        rows = self._rows(query, context)
        offset = torch.tensor(self.spec.offsets or (0,), device=query.device)
        target = (rows[:, None] + offset)[None, None].expand(len(visible), -1, -1, -1)
        index = target.clamp(0, visible.shape[-1] - 1)
        usable = (target == index) & bool(self.spec.offsets)
        if fill:
            empty = ~(usable & at(visible, index)).any(-1, keepdim=True)
            if near is not None:
                empty = empty & ~self._some(near, visible, rows)[:, None, :, None]
            alone = self._alone(query, visible, context)[:, None, :, None]
            index = torch.where(empty, alone, index)
            usable = usable | empty
        return Indices(index, usable)

    def _alone(self, query: Tensor, visible: Tensor, context: Context) -> Tensor:
        """The key of a row that sees no other, `[batch, query]`."""
        target = self._rows(query, context) + nearest_offset(self.spec.offsets)
        return nearest_real(target, visible)

    def _near(self, visible: Tensor, context: Context) -> Near:
        """The keys whose token is listed, for the rows within reach."""
        if context.token_ids is None:
            msg = f"'{self.spec}' chooses keys by token: hand over the token ids of the keys (token_ids=)."
            raise AttnlabError(msg)
        token_types = torch.tensor(self.spec.tokens, device=visible.device)
        listed = torch.isin(context.token_ids, token_types)[:, None]
        return Near(listed, LONGEST_TEXT if self.spec.reach is None else self.spec.reach)

    def _some(self, near: Near, visible: Tensor, rows: Tensor) -> Tensor:
        """True at the rows that see a key whose token is listed, `[batch, query]`."""
        before = F.pad((near.listed[:, 0] & visible).cumsum(-1), (1, 0))
        first = (rows - near.reach).clamp(0, visible.shape[-1])
        last = rows if self.causal else rows + near.reach
        return before[:, (last + 1).clamp(0, visible.shape[-1])] > before[:, first]

    @staticmethod
    def _rows(query: Tensor, context: Context) -> Tensor:
        return torch.arange(query.shape[-2], device=query.device) + context.first_query
