"""Mechanisms that never see what stands in padding: it is put aside once, before any of them computes."""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Unpack

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional as F

from attnlab.attention.mechanism import CallContext, Context, Mechanism, Scoring, Setup
from attnlab.core import AttnlabError


@dataclass(frozen=True)
class Arrangement:
    """An order of the keys of each sentence, and whether its queries are the same tokens.

    Attributes:
        keys: where each key of the new order stood.
        rows: whether queries are moved along with their keys.
    """

    keys: Int[Tensor, "batch key"]
    rows: bool

    def of_keys(
        self, tokens: Float[Tensor, "batch head key dim"]
    ) -> Float[Tensor, "batch head key dim"]:
        """Keys or values in the new order."""
        return rows_in_order(tokens, self.keys)

    def of_queries(
        self, tokens: Float[Tensor, "batch head query dim"]
    ) -> Float[Tensor, "batch head query dim"]:
        """Queries in the new order."""
        return rows_in_order(tokens, self.keys) if self.rows else tokens

    def of_context(self, context: Context) -> Context:
        """The context of the mechanism, for keys in the new order."""
        ids, scoring = context.token_ids, context.scoring
        return replace(
            context,
            visible=None if context.visible is None else context.visible.gather(1, self.keys),
            token_ids=None if ids is None else ids.gather(1, self.keys),
            bias=self._reordered_pairs(context.bias),
            scoring=scoring and self._reordered_scoring(scoring),
        )

    def output_back(
        self, mixed: Float[Tensor, "batch head query dim"]
    ) -> Float[Tensor, "batch head query dim"]:
        """An output with its rows where they stood before."""
        return rows_in_order(mixed, self.keys.argsort(-1)) if self.rows else mixed

    def matrix_back(
        self, matrix: Float[Tensor, "batch head query key"] | Bool[Tensor, "batch head query key"]
    ) -> Float[Tensor, "batch head query key"] | Bool[Tensor, "batch head query key"]:
        """A matrix with its rows and columns where they stood before."""
        back = self.keys.argsort(-1)
        matrix = rows_in_order(matrix, back) if self.rows else matrix
        return columns_in_order(matrix, back)

    def _reordered_scoring(self, scoring: Scoring) -> Scoring:
        return replace(scoring, allowed=self._reordered_pairs(scoring.allowed))

    def _reordered_pairs(self, pairs: Tensor | None) -> Tensor | None:
        if pairs is None:
            return None
        pairs = pairs.expand(len(self.keys), -1, -1, -1)
        pairs = rows_in_order(pairs, self.keys) if self.rows else pairs
        return columns_in_order(pairs, self.keys)


def padding_behind(visible: Bool[Tensor, "batch key"] | None, *, rows: bool) -> Arrangement | None:
    """The order that has the real tokens of each sentence in front; None where they stand there.

    >>> import torch
    >>> padding_behind(torch.tensor([[False, True, True]]), rows=False).keys.tolist()
    [[1, 2, 0]]
    """
    if visible is None or not bool((visible[:, 1:] & ~visible[:, :-1]).any()):
        return None
    return Arrangement(real_first(visible), rows)


def real_first(visible: Bool[Tensor, "batch key"]) -> Int[Tensor, "batch key"]:
    """Positions of the real tokens of each sentence in their order, then those of its padding.

    >>> import torch
    >>> real_first(torch.tensor([[False, True, False, True]])).tolist()
    [[1, 3, 0, 2]]
    """
    return visible.byte().argsort(dim=-1, descending=True, stable=True)


def rows_in_order(tokens: Tensor, order: Tensor) -> Tensor:
    """Rows of queries or keys of each sentence, `[batch, head, row, x]`, in the order `[batch, row]`."""
    return tokens.gather(2, order[:, None, :, None].expand_as(tokens))


def columns_in_order(pairs: Tensor, order: Tensor) -> Tensor:
    """Columns of a matrix of each sentence, `[batch, head, query, key]`, in the order `[batch, key]`."""
    return pairs.gather(3, order[:, None, None, :].expand_as(pairs))


@dataclass(frozen=True)
class Group:
    """Sentences of a batch whose queries have equally much padding in front, which is left out.

    Attributes:
        sentences: their positions in the batch.
        padding: how many of the queries at hand are padding in front of them.
        context: what is told of them; queries are counted from their first real one.
    """

    sentences: Int[Tensor, " sentence"]
    padding: int
    context: Context


def groups_by_start(context: Context, queries: int) -> list[Group]:
    """The sentences of a batch by where their queries begin; none where all begin at once in front."""
    real = context.real_queries
    if real is None or not bool((~real[:, :1] & real.any(-1, keepdim=True)).any()):
        return []
    starts = real.byte().argmax(-1)
    return [
        _group((starts == start).nonzero().flatten(), start, context, queries)
        for start in starts.unique().tolist()
    ]


def _group(sentences: Tensor, start: int, context: Context, queries: int) -> Group:
    padding = min(max(start - context.first_query, 0), queries)
    ids, visible, scoring = context.token_ids, context.visible, context.scoring

    def pairs(whole: Tensor | None) -> Tensor | None:
        if whole is None:
            return None
        return (whole if whole.shape[0] == 1 else whole[sentences])[:, :, padding:]

    return Group(
        sentences,
        padding,
        Context(
            None if visible is None else visible[sentences],
            max(context.first_query - start, 0),
            None if ids is None else ids[sentences],
            pairs(context.bias),
            scoring and replace(scoring, allowed=pairs(scoring.allowed)),
            None if context.real_queries is None else context.real_queries[sentences][:, start:],
        ),
    )


# A weight of 0 makes numbers up to this size vanish, forward and backward, in 16 bits too.
HARMLESS = 100.0


class PaddingSafeMechanism(Mechanism):
    """A mechanism whose output and gradients do not depend on the content of padding, NaN included.

    A subclass says how values are mixed and which matrix that is; it may multiply padding by 0. What
    it depends on besides real tokens is known from `positions`: where padding in front of them would
    shift these, it is moved behind them first, or left out.
    """

    def __init__(self, spec: Any, setup: Setup) -> None:
        super().__init__(causal=setup.causal, cross=setup.cross, dropout=setup.dropout)
        self.spec = spec

    @abstractmethod
    def mix(
        self,
        query: Float[Tensor, "batch head query dim"],
        key: Float[Tensor, "batch head key dim"],
        value: Float[Tensor, "batch head key value_dim"],
        context: Context,
    ) -> Float[Tensor, "batch head query value_dim"]:
        """Mixed values, one row per query; a query that sees no key gets 0."""

    @abstractmethod
    def matrix(
        self,
        query: Float[Tensor, "batch head query dim"],
        key: Float[Tensor, "batch head key dim"],
        context: Context,
    ) -> Float[Tensor, "batch head query key"]:
        """The matrix that `mix` multiplies the values by, without dropout."""

    def forward(
        self,
        query: Float[Tensor, "batch head query dim"],
        key: Float[Tensor, "batch head key dim"],
        value: Float[Tensor, "batch head key value_dim"],
        visible: Bool[Tensor, "batch key"] | None = None,
        **call_context: Unpack[CallContext],
    ) -> Float[Tensor, "batch head query value_dim"]:
        """Mixed values, one row per query; a query that sees no key gets 0."""
        context = Context(visible, **call_context)
        query, key = self.real_tokens(query, key, visible, context.first_query)
        value = without_padding(value, visible)

        def mixed(query: Tensor, context: Context, some: Tensor | slice) -> Tensor:
            return self._mixed_in_order(query, key[some], value[some], context)

        return self._rows_by_start(query, context, mixed)

    def _mixed_in_order(
        self, query: Tensor, key: Tensor, value: Tensor, context: Context
    ) -> Tensor:
        order = self.arrangement(query, key, context)
        if order is None:
            return self.mix(query, key, value, context)
        moved = order.of_queries(query), order.of_keys(key), order.of_keys(value)
        return order.output_back(self.mix(*moved, order.of_context(context)))

    def implied_matrix(
        self,
        query: Float[Tensor, "batch head query dim"],
        key: Float[Tensor, "batch head key dim"],
        visible: Bool[Tensor, "batch key"] | None = None,
        **call_context: Unpack[CallContext],
    ) -> Float[Tensor, "batch head query key"]:
        """The matrix that `forward` multiplies the values by, without dropout."""
        context = Context(visible, **call_context)
        query, key = self.real_tokens(query, key, visible, context.first_query)

        def weights(query: Tensor, context: Context, some: Tensor | slice) -> Tensor:
            return self._matrix_in_order(query, key[some], context)

        return self._rows_by_start(query, context, weights)

    def _matrix_in_order(self, query: Tensor, key: Tensor, context: Context) -> Tensor:
        order = self.arrangement(query, key, context)
        if order is None:
            return self.matrix(query, key, context)
        moved = order.of_queries(query), order.of_keys(key)
        return order.matrix_back(self.matrix(*moved, order.of_context(context)))

    def _rows_by_start(
        self,
        query: Tensor,
        context: Context,
        computed: Callable[[Tensor, Context, Tensor | slice], Tensor],
    ) -> Tensor:
        """Rows of the whole batch, or of one group of sentences after the other; 0 for padding in front.

        In cross-attention keys are counted among real tokens, so queries must be, too.
        """
        counted = self.cross and self.positions in {"offsets", "pairs"}
        groups = groups_by_start(context, query.shape[-2]) if counted else []
        if not groups:
            return computed(query, context, slice(None))
        parts = [
            F.pad(
                computed(
                    query[group.sentences, :, group.padding :], group.context, group.sentences
                ),
                (0, 0, group.padding, 0),
            )
            for group in groups
        ]
        return torch.cat(parts)[torch.cat([group.sentences for group in groups]).argsort()]

    def arrangement(self, query: Tensor, key: Tensor, context: Context) -> Arrangement | None:
        """The order in which positions count real tokens only; None where they do as it is.

        Offsets within one sentence are the same wherever it starts.

        Raises:
            AttnlabError: queries have to be moved too, and not all of them are there.
        """
        if self.positions == "none" or (self.positions == "offsets" and not self.cross):
            return None
        rows = self.positions == "pairs" and not self.cross
        order = padding_behind(context.visible, rows=rows)
        if order is not None and rows and query.shape[-2] != key.shape[-2]:
            msg = (
                f"'{self.name}' counts positions from the start of a sentence: with padding in front, "
                "hand over the queries of all its tokens at once."
            )
            raise AttnlabError(msg)
        return order

    def real_tokens(
        self, query: Tensor, key: Tensor, visible: Tensor | None, first_query: int
    ) -> tuple[Tensor, Tensor]:
        """Queries and keys without padding; queries of another sentence have no padding known here."""
        if visible is None:
            return query, key
        rows = visible[:, first_query : first_query + query.shape[-2]]
        if not self.cross and rows.shape[-1] == query.shape[-2]:
            # A row of padding has an output nobody reads, and a gradient of 0, which NaN would spoil.
            query = without_padding(query, rows)
        return query, without_padding(key, visible)


def without_padding(
    tokens: Float[Tensor, "batch head token dim"], visible: Bool[Tensor, "batch token"] | None
) -> Float[Tensor, "batch head token dim"]:
    """`tokens` with numbers of padding that are NaN, or larger than 100, replaced by 0.

    >>> import torch
    >>> tokens = torch.tensor([[[[1.0], [torch.nan]]]])
    >>> without_padding(tokens, torch.tensor([[True, False]])).flatten().tolist()
    [1.0, 0.0]
    """
    if visible is None:
        return tokens
    numbers = tokens.detach()
    if tokens.device.type == "cpu":
        # To look is several times as quick as a copy and its backward pass; a GPU would have to wait.
        padding = numbers.transpose(1, 2)[~visible]
        if bool((padding.abs() <= HARMLESS).all()):
            return tokens
    harmless = visible[:, None, :, None] | (numbers.abs() <= HARMLESS)
    return tokens.where(harmless, 0.0)
