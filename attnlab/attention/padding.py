"""Mechanisms that never see what stands in padding: it is put aside once, before any of them computes."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Unpack

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional as F

from attnlab.attention.arranging import Arrangement, groups_by_start, padding_behind
from attnlab.attention.mechanism import Context, Mechanism, Told
from attnlab.attention.traits import Setup
from attnlab.errors import AttnlabError

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
        **told: Unpack[Told],
    ) -> Float[Tensor, "batch head query value_dim"]:
        """Mixed values, one row per query; a query that sees no key gets 0."""
        context = Context(visible, **told)
        query, key = self.real_tokens(query, key, visible, context.first_query)
        value = without_padding(value, visible)

        def mixed(query: Tensor, context: Context, some: Tensor | slice) -> Tensor:
            return self._mixed_in_order(query, key[some], value[some], context)

        return self._by_start(query, context, mixed)

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
        **told: Unpack[Told],
    ) -> Float[Tensor, "batch head query key"]:
        """The matrix that `forward` multiplies the values by, without dropout."""
        context = Context(visible, **told)
        query, key = self.real_tokens(query, key, visible, context.first_query)

        def weights(query: Tensor, context: Context, some: Tensor | slice) -> Tensor:
            return self._matrix_in_order(query, key[some], context)

        return self._by_start(query, context, weights)

    def _matrix_in_order(self, query: Tensor, key: Tensor, context: Context) -> Tensor:
        order = self.arrangement(query, key, context)
        if order is None:
            return self.matrix(query, key, context)
        moved = order.of_queries(query), order.of_keys(key)
        return order.matrix_back(self.matrix(*moved, order.of_context(context)))

    def _by_start(
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
