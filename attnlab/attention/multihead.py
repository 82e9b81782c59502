"""Attention of attnlab's own models: projections around a mechanism, with the weights on request."""

import copy
from collections.abc import Sequence
from typing import ClassVar, Unpack

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from attnlab.attention.kernels.block_masks import attend_blocks
from attnlab.attention.kernels.union import HasUnion
from attnlab.attention.mechanism import (
    CallContext,
    Context,
    Cost,
    KeySums,
    Mechanism,
    part_of_heads,
)
from attnlab.attention.mechanisms.longformer import LongformerAttention
from attnlab.attention.padding import padding_behind, without_padding
from attnlab.core import InputError
from attnlab.matrices.supports import offsets


class GlobalRows(nn.Module):
    """Projections for the rows of global tokens, which start as copies of the first ones.

    Windows, dilations and global tokens may differ from head to head.

    Raises:
        InputError: some head has no global tokens.
    """

    def __init__(
        self, mechanism: Mechanism, query: nn.Linear, key: nn.Linear, value: nn.Linear
    ) -> None:
        super().__init__()
        if not _has_global_tokens(mechanism):
            msg = (
                "Only a 'longformer' with global_tokens has rows to project apart, in each head, and "
                f"not this '{mechanism.name}'."
            )
            raise InputError(msg)
        self.query, self.key, self.value = (copy.deepcopy(layer) for layer in (query, key, value))

    @staticmethod
    def check_globals(mechanism: Mechanism, address: str) -> None:
        """Raises when a mechanism that is to stand at `address` has no global tokens.

        Raises:
            InputError: see above.
        """
        if not _has_global_tokens(mechanism):
            msg = (
                f"{address} projects the rows of global tokens apart, and this '{mechanism.name}' has "
                "none; put a longformer with global_tokens there, or take a model without "
                "global_projections."
            )
            raise InputError(msg)

    def replaced(
        self,
        mechanism: Mechanism,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        context: Context,
        *,
        mixed: Tensor,
        matrix: Tensor | None,
    ) -> tuple[Tensor, Tensor | None]:
        """Mixed values and weights with the rows of global tokens taken from these projections."""
        mixed = _with_global_rows(mechanism, mixed, (query, key, value), context)
        if matrix is not None:
            identity = torch.eye(key.shape[-2], dtype=value.dtype, device=value.device)
            every = identity.expand(*key.shape[:2], -1, -1)
            matrix = _with_global_rows(mechanism, matrix, (query, key, every), context)
        return mixed, matrix


def _with_global_rows(
    mechanism: Mechanism, out: Tensor, sides: tuple[Tensor, Tensor, Tensor], context: Context
) -> Tensor:
    """`out` with the rows of global tokens replaced by full attention of their query, key, value."""
    out = out.clone()
    for heads, part in _parts_of(mechanism, out.shape[1]):
        if not isinstance(part, LongformerAttention):
            msg = "The mechanism was replaced by one without global tokens; build the module anew."
            raise InputError(msg)
        query, key, value = (side[:, heads] for side in sides)
        query, key = part.real_tokens(query, key, context.visible, context.first_query)
        value = without_padding(value, context.visible)
        out[:, heads] = part.with_global_rows(out[:, heads], query, key, value, context)
    return out


def _has_global_tokens(mechanism: Mechanism) -> bool:
    return all(
        isinstance(part, LongformerAttention) and part.global_rows() > 0
        for _, part in _parts_of(mechanism, 1)
    )


def _parts_of(mechanism: Mechanism, heads: int) -> list[tuple[list[int], Mechanism]]:
    """The heads of each mechanism of a layer of so many heads."""
    return mechanism.parts() if isinstance(mechanism, PerHead) else [([*range(heads)], mechanism)]


# Longer than any text that the models of this package are trained on.
FARTHEST_OFFSET = 128
NO_SCORES = "it weighs keys by their products with queries, and the scores here are not these alone"


class OwnAttention(nn.Module):
    """Attention of one of attnlab's own models, whose mechanism can be exchanged.

    Attributes:
        heads: number of heads.
        mechanism: how values are mixed.
        additive: whether scores are not products of queries and keys alone; a mechanism is told the
            rest as its `bias`.
    """

    def __init__(self, heads: int, mechanism: Mechanism, *, additive: bool = False) -> None:
        super().__init__()
        self.heads = heads
        self.mechanism = mechanism
        self.additive = additive

    def check_fits(self, mechanism: Mechanism, address: str) -> None:
        """Refuses a mechanism that cannot stand in this module, at `address`.

        Raises:
            InputError: scores are additive, and the mechanism computes its own.
        """
        if self.additive:
            check_has_scores(mechanism, address)


def check_has_scores(mechanism: Mechanism, address: str) -> None:
    """Refuses a mechanism that computes its weights from products alone, where scores have another part.

    Raises:
        InputError: see above.
    """
    for part in mechanism.modules():
        if isinstance(part, Mechanism) and not part.traits.takes_scores:
            msg = (
                f"The mechanism '{part.name}' cannot stand in {address}: {NO_SCORES}; choose a mechanism "
                "with a support, such as band or topk, or train with score dot (a recurrent model) or "
                "without relative positions."
            )
            raise InputError(msg)


class RelativeBias(nn.Module):
    """Learned number per head and offset, added to the scores of self-attention; 0 at the start.

    ::

        s_ij = q_i . k_j / sqrt(dim) + b[head, clip(j - i, -farthest, farthest)]

    Source: Raffel et al. 2020, arXiv 1910.10683, section 2.1, whose offsets share numbers from 8 on; here
    those beyond the farthest do.
    """

    def __init__(self, heads: int, *, farthest: int = FARTHEST_OFFSET) -> None:
        super().__init__()
        self.farthest = farthest
        self.by_offset = nn.Parameter(torch.zeros(heads, 2 * farthest + 1))

    def forward(self, tokens: int) -> Float[Tensor, "1 head token token"]:
        """The numbers of every pair of a text of so many tokens."""
        clipped = offsets(tokens, tokens, device=self.by_offset.device).clamp(
            -self.farthest, self.farthest
        )
        return self.by_offset[:, clipped + self.farthest][None]


class MultiHeadAttention(OwnAttention):
    """Splits queries, keys and values into heads, lets a mechanism mix them, and projects back.

    ::

        MultiHead(X, Y) = [head_1 ... head_h] W_O,   head_i = mechanism(X W_Q_i, Y W_K_i, Y W_V_i)

    Splitting one projection by columns equals separate projections a head (math.md section 8).
    Source: Vaswani et al. 2017, section 3.2.2; thesis section 2.1.

    Args:
        dim: size of the token vectors.
        heads: number of heads; must divide `dim`.
        mechanism: how values are mixed.
        scaled: whether scores are divided by sqrt(head_dim); without, queries are multiplied by it, so
            that a mechanism's own division leaves the plain products.
        init: `"default"` (Xavier) or `"identity"` for W_Q, W_K and W_V, which the thesis also tries.
        global_projections: separate W_Q, W_K and W_V for the rows of Longformer's global tokens;
            `keys_and_values` then returns twice as many heads, the second half for those rows.
        relative: whether scores of self-attention have a learned part by offset, see `RelativeBias`.
    """

    def __init__(
        self,
        dim: int,
        heads: int,
        mechanism: Mechanism,
        *,
        scaled: bool = True,
        init: str = "default",
        global_projections: bool = False,
        relative: bool = False,
    ) -> None:
        super().__init__(heads, mechanism, additive=relative)
        self.query_scale = 1.0 if scaled else (dim // heads) ** 0.5
        self.query = nn.Linear(dim, dim)
        self.key = nn.Linear(dim, dim)
        self.value = nn.Linear(dim, dim)
        self.output = nn.Linear(dim, dim)
        for layer in (self.query, self.key, self.value, self.output):
            if init == "identity" and layer is not self.output:
                nn.init.eye_(layer.weight)
            else:
                nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)
        self.global_rows = (
            GlobalRows(mechanism, self.query, self.key, self.value) if global_projections else None
        )
        self.relative_attention_bias = RelativeBias(heads) if relative else None

    def check_fits(self, mechanism: Mechanism, address: str) -> None:
        """Refuses a mechanism that has no scores or no global tokens where the layer needs them.

        Raises:
            InputError: see above.
        """
        super().check_fits(mechanism, address)
        if self.global_rows is not None:
            self.global_rows.check_globals(mechanism, address)

    def split(
        self, tokens: Float[Tensor, "batch token dim"]
    ) -> Float[Tensor, "batch head token _"]:
        """The numbers with one block of columns per head."""
        return tokens.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def queries(
        self, tokens: Float[Tensor, "batch query dim"], projection: nn.Linear
    ) -> Float[Tensor, "batch head query _"]:
        """Queries of every head, such that a mechanism's scores are those of the layer."""
        projected = self.split(projection(tokens))
        return projected if self.query_scale == 1.0 else projected * self.query_scale

    def keys_and_values(
        self, memory: Float[Tensor, "batch key dim"]
    ) -> tuple[Float[Tensor, "batch head key _"], Float[Tensor, "batch head key _"]]:
        """Keys and values of every head, which cached decoding keeps."""
        keys, values = self.split(self.key(memory)), self.split(self.value(memory))
        if self.global_rows is None:
            return keys, values
        more_keys = self.split(self.global_rows.key(memory))
        more_values = self.split(self.global_rows.value(memory))
        return torch.cat([keys, more_keys], 1), torch.cat([values, more_values], 1)

    def forward(
        self,
        tokens: Float[Tensor, "batch query dim"],
        keys: Float[Tensor, "batch key_head key head_dim"],
        values: Float[Tensor, "batch key_head key head_dim"],
        visible: Bool[Tensor, "batch key"] | None = None,
        *,
        first_query: int = 0,
        token_ids: Int[Tensor, "batch key"] | None = None,
        key_sums: KeySums | None = None,
        weights: bool = False,
    ) -> tuple[Float[Tensor, "batch query dim"], Float[Tensor, "batch head query key"] | None]:
        """Mixed tokens and, when `weights`, the matrix each head applied (before dropout)."""
        queries = self.queries(tokens, self.query)
        usual = slice(0, self.heads)
        context: CallContext = {"first_query": first_query, "token_ids": token_ids}
        if key_sums is not None:
            context["key_sums"] = key_sums
        if self.relative_attention_bias is not None:
            context["bias"] = self.relative_attention_bias(keys.shape[-2])
        mixed = self.mechanism(queries, keys[:, usual], values[:, usual], visible, **context)
        matrix = None
        if weights:
            with torch.autocast(tokens.device.type, enabled=False):
                matrix = self.mechanism.implied_matrix(queries, keys[:, usual], visible, **context)
        if self.global_rows is not None:
            mixed, matrix = self.global_rows.replaced(
                self.mechanism,
                self.queries(tokens, self.global_rows.query),
                keys[:, self.heads :],
                values[:, self.heads :],
                Context(visible, first_query),
                mixed=mixed,
                matrix=matrix,
            )
        return self.output(mixed.transpose(1, 2).flatten(2)), matrix


class PerHead(Mechanism):
    """Hands each group of heads to its mechanism and puts the results back in order.

    Args:
        groups: pairs of the heads of a group and their mechanism; together every head once.
    """

    name: ClassVar[str] = "perhead"
    # Each group is asked for itself.
    scored: ClassVar[bool] = True

    def __init__(self, groups: Sequence[tuple[Sequence[int], Mechanism]]) -> None:
        first = groups[0][1]
        super().__init__(causal=first.causal, cross=first.cross, dropout=first.dropout)
        order = [head for heads, _ in groups for head in heads]
        if sorted(order) != list(range(len(order))):
            msg = f"The groups of heads must name every head once, not {sorted(order)}."
            raise InputError(msg)
        self.groups = [tuple(heads) for heads, _ in groups]
        self.mechanisms = nn.ModuleList([mechanism for _, mechanism in groups])
        self.order = [order.index(head) for head in range(len(order))]

    def forward(
        self,
        query: Float[Tensor, "batch head query dim"],
        key: Float[Tensor, "batch head key dim"],
        value: Float[Tensor, "batch head key value_dim"],
        visible: Bool[Tensor, "batch key"] | None = None,
        **call_context: Unpack[CallContext],
    ) -> Float[Tensor, "batch head query value_dim"]:
        """Mixed values, each group by its own mechanism."""
        parts = [
            mechanism(
                query[:, heads],
                key[:, heads],
                value[:, heads],
                visible,
                **_context_of_heads(call_context, heads, mechanism),
            )
            for heads, mechanism in self.parts()
        ]
        return torch.cat(parts, 1)[:, self.order]

    def implied_matrix(
        self,
        query: Float[Tensor, "batch head query dim"],
        key: Float[Tensor, "batch head key dim"],
        visible: Bool[Tensor, "batch key"] | None = None,
        **call_context: Unpack[CallContext],
    ) -> Float[Tensor, "batch head query key"]:
        """The matrices of all heads, each from its own mechanism."""
        parts = [
            mechanism.implied_matrix(
                query[:, heads],
                key[:, heads],
                visible,
                **_context_of_heads(call_context, heads, mechanism),
            )
            for heads, mechanism in self.parts()
        ]
        return torch.cat(parts, 1)[:, self.order]

    def first_and_recent(self) -> tuple[int, int] | None:
        """The most of any head; None where one may attend to any key."""
        kept = [mechanism.first_and_recent() for _, mechanism in self.parts()]
        counts = [pair for pair in kept if pair is not None]
        if len(counts) < len(kept):
            return None
        return max(first for first, _ in counts), max(recent for _, recent in counts)

    def cost(self, queries: int, keys: int, dim: int) -> Cost:
        """The mean over heads."""
        costs = [
            mechanism.cost(queries, keys, dim) for heads, mechanism in self.parts() for _ in heads
        ]
        return Cost(
            multiply_adds=sum(cost.multiply_adds for cost in costs) // len(costs),
            bytes=sum(cost.bytes for cost in costs) // len(costs),
        )

    def parts(self) -> list[tuple[list[int], Mechanism]]:
        """The heads of each group, and its mechanism."""
        pairs = zip(self.groups, self.mechanisms, strict=True)
        return [(list(heads), part) for heads, part in pairs if isinstance(part, Mechanism)]


def attend_layer(
    mechanism: Mechanism,
    query: Float[Tensor, "batch head query dim"],
    key: Float[Tensor, "batch key_head key dim"],
    value: Float[Tensor, "batch key_head key value_dim"],
    visible: Bool[Tensor, "batch key"] | None = None,
    **call_context: Unpack[CallContext],
) -> Float[Tensor, "batch head query value_dim"] | None:
    """Mixed values of all heads of a layer by one call of FlexAttention, without copies of shared keys.

    None where the heads have another form, or what is told of scores or of padding has no such rule.
    """
    parts = _parts_of(mechanism, query.shape[1])
    groups = [(some, part) for some, part in parts if isinstance(part, HasUnion)]
    if len(groups) < len(parts) or all(getattr(part, "form", "") != "flex" for _, part in parts):
        return None
    if visible is not None and bool(visible.all()):
        visible = None
    context = Context(visible, **call_context)
    scoring = context.scoring
    scored = context.bias is not None or (
        scoring is not None and (scoring.softcap is not None or scoring.sinks is not None)
    )
    # Between two sentences positions are counted without padding.
    moved = mechanism.cross and (
        context.real_queries is not None or padding_behind(visible, rows=False) is not None
    )
    if scored or moved:
        return None
    key, value = (without_padding(x, visible) for x in (key, value))
    dropout = mechanism.dropout if mechanism.training else 0.0
    return attend_blocks(groups, query, key, value, context, dropout=dropout)


def _context_of_heads(call: CallContext, heads: list[int], mechanism: Mechanism) -> CallContext:
    """Arguments of a group: its heads' part of each, and none that its mechanism does not know."""
    part: CallContext = {**call}
    if (bias := call.get("bias")) is not None:
        part["bias"] = part_of_heads(bias, heads)
    scoring = part.pop("scoring", None)
    if scoring is not None:
        part["scoring"] = scoring.of_heads(heads)
    if mechanism.positions == "none":
        part.pop("real_queries", None)
    return part
