"""Softmax over a support whose other pairs are never scored."""

from abc import abstractmethod
from typing import Any, ClassVar

from jaxtyping import Bool
from torch import Tensor

from attnlab.attention.kernels.block_masks import attend_blocks
from attnlab.attention.kernels.union import Union, attend
from attnlab.attention.mechanism import Context, Cost, Form, Setup
from attnlab.attention.mechanisms.softmax import MaskedSoftmax
from attnlab.core import InputError

# Below this many queries torch's fused dense attention is quicker than any of the sparse forms
# (two cores, 8 heads of 64; experiments/scaling/run.py measures it).
FAST_FROM = 512
# The keys must be this many times those that a row scores before leaving the others out pays.
FAST_GAIN = 4
# A key that is fetched for one row alone costs about as much as so many that rows share.
FETCHED_COST = 30


class SparseSoftmax(MaskedSoftmax):
    """Softmax over a support of bounded rows, by the quicker of its dense and its fast form."""

    forms: ClassVar[tuple[Form, ...]] = ("auto", "dense", "fast")

    def __init__(self, spec: Any, setup: Setup) -> None:
        super().__init__(spec, setup)
        self.form = setup.form
        if setup.form == "fast" and self.slots() is None:
            msg = f"The mechanism '{spec}' has no fast form; use form='auto'."
            raise InputError(msg)

    @abstractmethod
    def slots(self) -> int | None:
        """Number of keys that a row of the fast form scores; None where these options have no such form."""

    def fetched(self) -> int:
        """Number of slots that the fast form fetches for each row alone, not for a stretch of rows."""
        return 0

    def global_rows(self) -> int:
        """Number of rows that attend to every key."""
        return 0

    @abstractmethod
    def fast(self, query: Tensor, key: Tensor, value: Tensor, context: Context) -> Tensor:
        """The same output as the dense form, without scoring all pairs."""

    def unbiased(self, query: Tensor, key: Tensor, value: Tensor, context: Context) -> Tensor:
        """Mixed values by the quicker of the dense and the fast form."""
        if self._fast_pays(query.shape[-2], key.shape[-2]):
            return self.fast(query, key, value, context)
        return self.dense(query, key, value, context)

    def _fast_pays(self, queries: int, keys: int) -> bool:
        slots = self.slots()
        if slots is None or self.form == "dense":
            return False
        work = slots + FETCHED_COST * self.fetched()
        return self.form == "fast" or (queries >= FAST_FROM and keys >= FAST_GAIN * work)

    def cost(self, queries: int, keys: int, dim: int) -> Cost:
        """Scores and mixing of the keys that a row scores; one weight kept per pair."""
        slots = self.slots()
        row = keys if slots is None else min(slots, keys)
        wide = min(self.global_rows(), queries)
        pairs = (queries - wide) * row + wide * keys
        return Cost(multiply_adds=2 * pairs * dim, bytes=4 * pairs)


class UnionSoftmax(SparseSoftmax):
    """Softmax over a window, columns and entries, which FlexAttention can skip to."""

    forms: ClassVar[tuple[Form, ...]] = ("auto", "dense", "fast", "flex")

    @abstractmethod
    def union(self, query: Tensor, key: Tensor, context: Context) -> Union:
        """The window, columns and entries of the rows at hand."""

    def pairs(
        self, query: Tensor, key: Tensor, context: Context
    ) -> Bool[Tensor, "#batch #head query key"]:
        """The union written out pair by pair."""
        union = self.union(query, key, context)
        return union.pairs(query.shape[-2], key.shape[-2], context.first_query, query.device)

    def unbiased(self, query: Tensor, key: Tensor, value: Tensor, context: Context) -> Tensor:
        """Mixed values by the form asked for, or the quicker of the dense and the fast one."""
        if self.form != "flex":
            return super().unbiased(query, key, value, context)
        heads = range(query.shape[1])
        return attend_blocks(
            [(heads, self)], query, key, value, context, dropout=self.active_dropout()
        )

    def fast(self, query: Tensor, key: Tensor, value: Tensor, context: Context) -> Tensor:
        """Window in chunks, columns at once, entries row by row, under one softmax."""
        union = self.union(query, key, context)
        return attend(query, key, value, union, context, dropout=self.active_dropout())
