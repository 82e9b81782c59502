"""Attention over a window, columns and entries that never scores the other pairs.

Queries are cut into chunks; each chunk meets the stretch of keys that its window covers, as one
small matrix product. Columns are met by all rows at once, entries row by row, and one softmax runs
over all three. Where gradients are wanted plain products are quicker than
`scaled_dot_product_attention` on the same stretches; where none are, it is the other way round.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional as F

from attnlab.attention.mechanism import Context, visible_or_all
from attnlab.attention.mechanisms.softmax import softmax_over
from attnlab.matrices.supports import offsets

KEYS_AT_ONCE = 64
# No key is there.
NOWHERE = -1


@dataclass(frozen=True)
class Indices:
    """Positions of keys, and which of them count.

    `index` and `usable` are `[batch, head, slot]` when shared by all rows (columns), and
    `[batch, head, query, slot]` when each row has its own (entries).
    """

    index: Tensor
    usable: Tensor

    def marks(self) -> Tensor:
        """The positions, `NOWHERE` in the stead of those that do not count."""
        return self.index.masked_fill(~self.usable, NOWHERE)

    def at_rows(self, rows: slice) -> "Indices":
        """The indices of some queries, where each query has its own."""
        return Indices(self.index[:, :, rows], self.usable[:, :, rows])


def best(
    priority: Float[Tensor, "*rows key"], eligible: Bool[Tensor, "*rows key"], count: int
) -> tuple[Int[Tensor, "*rows slot"], Bool[Tensor, "*rows slot"]]:
    """Positions of the `count` highest priorities among those `eligible`, and which exist.

    Of equal priorities the earlier position wins.

    >>> best(torch.tensor([1.0, 3.0, 3.0]), torch.tensor([True, True, True]), 2)[0].tolist()
    [1, 2]
    """
    ranked = priority.masked_fill(~eligible, -torch.inf).sort(dim=-1, descending=True, stable=True)
    index = ranked.indices[..., :count]
    return index, eligible.gather(-1, index)


def running_best(
    priority: Float[Tensor, "batch head key"],
    eligible: Bool[Tensor, "batch key"],
    count: int,
    rows: range,
) -> Indices:
    """The `count` highest priorities among the eligible keys 0..i for each row i.

    What row i gets does not depend on keys behind it, so the choice is causal and cached decoding
    repeats it. Cost: O(key * (KEYS_AT_ONCE + count)); the best of all earlier chunks are carried along.
    """
    keys = priority.shape[-1]
    chunks = -(-keys // KEYS_AT_ONCE)
    filling = chunks * KEYS_AT_ONCE - keys
    eligible = eligible[:, None].expand(priority.shape)
    values = torch.nn.functional.pad(
        priority.masked_fill(~eligible, -torch.inf), (0, filling), value=-torch.inf
    )
    values = values.unflatten(-1, (chunks, KEYS_AT_ONCE))
    positions = torch.arange(chunks * KEYS_AT_ONCE, device=priority.device).view(
        chunks, KEYS_AT_ONCE
    )
    carried, carried_at = _best_before(values, positions, count)
    nearest = torch.arange(rows.start, rows.stop, device=priority.device).clamp(max=keys - 1)
    chunk, row = nearest // KEYS_AT_ONCE, nearest % KEYS_AT_ONCE
    near = values[:, :, chunk].masked_fill(
        torch.arange(KEYS_AT_ONCE, device=priority.device) > row[:, None], -torch.inf
    )
    near_at = positions[chunk].expand(near.shape)
    candidates = torch.cat([carried[:, :, chunk], near], -1)
    indices = torch.cat([carried_at[:, :, chunk], near_at], -1)
    ranked = candidates.sort(dim=-1, descending=True, stable=True)
    index = indices.gather(-1, ranked.indices[..., :count]).clamp(max=keys - 1)
    return Indices(index, ranked.values[..., :count] > -torch.inf)


def _best_before(values: Tensor, positions: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The best of all chunks before each one, `[batch, head, chunk, count]`, and where they stand."""
    batch, heads, chunks, _ = values.shape
    top = values.new_full((batch, heads, count), -torch.inf)
    top_at = torch.zeros(batch, heads, count, dtype=torch.long, device=values.device)
    tops, tops_at = [], []
    for chunk in range(chunks):
        tops.append(top)
        tops_at.append(top_at)
        candidates = torch.cat([top, values[:, :, chunk]], -1)
        indices = torch.cat([top_at, positions[chunk].expand(values[:, :, chunk].shape)], -1)
        ranked = candidates.sort(dim=-1, descending=True, stable=True)
        top = ranked.values[..., :count]
        top_at = indices.gather(-1, ranked.indices[..., :count])
    return torch.stack(tops, 2), torch.stack(tops_at, 2)


def draws(seed: int, rows: int, columns: int) -> Float[Tensor, "rows columns"]:
    """Uniform numbers in [0, 1) from a generator of their own; more rows leave the first ones as they are.

    >>> torch.equal(draws(0, 70, 2)[:3], draws(0, 3, 2))
    True
    """
    pieces = []
    for start in range(0, max(rows, 1), KEYS_AT_ONCE):
        generator = torch.Generator().manual_seed(seed * 1_000_003 + start)
        pieces.append(torch.rand(KEYS_AT_ONCE, columns, generator=generator, dtype=torch.float64))
    return torch.cat(pieces)[:rows]


QUERIES_AT_ONCE = 64
# So many queries at a time where no gradients are wanted: nothing is kept then, and what is not kept
# stays in the processor's cache.
PIECE = 1024
# No offset lies in it.
NO_WINDOW = (0, -1)
# So many blocks beside a chunk's own are put together one by one.
FEW_BLOCKS = 4


class Near(NamedTuple):
    """Keys that only the rows within `reach` see: True in `listed`, `[#batch, #head, key]`."""

    listed: Tensor
    reach: int


@dataclass(frozen=True)
class Union:
    """The keys that a row sees: multiples of `dilation` in the window, columns, entries, near ones.

    `NO_WINDOW` holds no key. A key that is reached in two ways counts once. `causal` cuts all behind
    the row; a causal window has no right side. `wide` is True at rows that see every key, `[#batch,
    #head, query]`. `attend` leaves near keys and wide rows to its caller.
    """

    window: tuple[int, int]
    dilation: int = 1
    columns: Indices | None = None
    entries: Indices | None = None
    near: Near | None = None
    wide: Tensor | None = None
    causal: bool = False

    def in_window(self, offset: Tensor) -> Tensor:
        """True at the offsets that the window holds."""
        left, right = self.window
        inside = (offset >= -left * self.dilation) & (offset <= right * self.dilation)
        return inside if self.dilation == 1 else inside & (offset % self.dilation == 0)

    def pairs(self, queries: int, keys: int, first_query: int, device: torch.device) -> Tensor:
        """True where a row sees a key, `[#batch, #head, query, key]`."""
        offset = offsets(queries, keys, first_query=first_query, device=device)
        seen = self.in_window(offset)[None, None]
        if self.columns is not None:
            seen = seen | marked(self.columns, keys)[:, :, None]
        if self.entries is not None:
            seen = seen | marked(self.entries, keys)
        if self.near is not None:
            seen = seen | (self.near.listed[:, :, None] & (offset.abs() <= self.near.reach))
        if self.wide is not None:
            seen = seen | self.wide[..., None]
        return seen & (offset <= 0) if self.causal else seen


@runtime_checkable
class HasUnion(Protocol):
    """A mechanism whose rows see a union of keys."""

    def union(self, query: Tensor, key: Tensor, context: Context) -> Union:
        """The keys that the rows at hand see; of `key` only the shape is read."""


def marked(indices: Indices, keys: int) -> Tensor:
    """True at the positions that count, `[batch, head, ..., key]`."""
    # What does not count is marked in one column too many, which is cut off.
    index = torch.where(indices.usable, indices.index, keys)
    marked = torch.zeros(*index.shape[:-1], keys + 1, dtype=torch.bool, device=index.device)
    return marked.scatter(-1, index, True)[..., :keys]


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    union: Union,
    context: Context,
    *,
    dropout: float = 0.0,
) -> Tensor:
    """Mixed values over the pairs of `union`, in time and memory linear in the tokens."""
    queries = query.shape[-2]
    if queries <= PIECE or torch.is_grad_enabled():
        return _attend_at_once(query, key, value, union, context, dropout=dropout)
    pieces = []
    for start in range(0, queries, PIECE):
        rows = slice(start, start + PIECE)
        here = replace(context, first_query=context.first_query + start)
        part = replace(union, entries=union.entries and union.entries.at_rows(rows))
        pieces.append(_attend_at_once(query[:, :, rows], key, value, part, here, dropout=dropout))
    return torch.cat(pieces, 2)


def _attend_at_once(
    query: Tensor, key: Tensor, value: Tensor, union: Union, context: Context, *, dropout: float
) -> Tensor:
    visible = visible_or_all(key, context.visible)
    parts: list[_Part] = []
    if union.window != NO_WINDOW:
        strip = Strip(union, query.shape[-2], context.first_query)
        alone = union.columns is None and union.entries is None
        if alone and not dropout and not torch.is_grad_enabled():
            return strip.fused(query, key, value, visible)
        parts.append(strip)
    parts += [_Columns(union, union.columns)] if union.columns is not None else []
    parts += [_Entries(union, union.entries)] if union.entries is not None else []
    rows = torch.arange(query.shape[-2], device=query.device) + context.first_query
    query = query * query.shape[-1] ** -0.5
    scores = [part.scores(query, key) for part in parts]
    seen = _side_by_side([part.seen(rows, visible) for part in parts])
    weights = softmax_over(torch.cat(scores, -1) if len(parts) > 1 else scores[0], seen)
    if dropout:
        weights = F.dropout(weights, dropout)
    widths = [score.shape[-1] for score in scores]
    pieces = weights.split(widths, -1) if len(parts) > 1 else [weights]
    mixed = [part.mix(piece, value) for part, piece in zip(parts, pieces, strict=True)]
    return torch.stack(mixed).sum(0) if len(mixed) > 1 else mixed[0]


def _side_by_side(seen: list[Tensor]) -> Tensor:
    """Masks of the parts in one row, repeated over sentences and heads only where they differ."""
    if len(seen) == 1:
        return seen[0]
    leading = torch.broadcast_shapes(*(part.shape[:-1] for part in seen))
    return torch.cat([part.expand(*leading, part.shape[-1]) for part in seen], -1)


class _Part(Protocol):
    """One way in which rows reach keys; what it returns is `[batch, head, query, slot]`."""

    def scores(self, query: Tensor, key: Tensor) -> Tensor: ...

    def seen(self, rows: Tensor, visible: Tensor) -> Tensor: ...

    def mix(self, weights: Tensor, value: Tensor) -> Tensor: ...


class Strip:
    """Chunks of queries on stretches of keys; with dilation, one such band for each residue."""

    def __init__(self, union: Union, queries: int, first_query: int) -> None:
        self.union, self.queries = union, queries
        left, right = union.window
        strand = -(-queries // union.dilation)
        self.size = min(QUERIES_AT_ONCE, strand)
        self.chunks = -(-strand // self.size)
        self.span = left + self.size + right
        self.start = first_query - left * union.dilation

    def scores(self, query: Tensor, key: Tensor) -> Tensor:
        """Products of each query with the keys of its chunk's stretch."""
        return self._join_chunks(self._split_chunks(query) @ self._stretches(key))

    def mix(self, weights: Tensor, value: Tensor) -> Tensor:
        """Values of the stretches mixed by the weights of their slots."""
        return self._join_chunks(self._split_chunks(weights) @ self._stretches(value).mT)

    def seen(self, rows: Tensor, visible: Tensor) -> Tensor:  # noqa: ARG002 - all parts are asked alike
        """True for the slots of a stretch that the row's own window holds and that are real."""
        return self._join_chunks(self._inside(visible))

    def fused(self, query: Tensor, key: Tensor, value: Tensor, visible: Tensor) -> Tensor:
        """Mixed values by torch's fused attention on each chunk: quicker, but only forward."""

        def as_batch(x: Tensor) -> Tensor:  # residues and chunks become sentences of their own
            return x.permute(0, 2, 3, 1, 4, 5).flatten(0, 2)

        out = F.scaled_dot_product_attention(
            as_batch(self._split_chunks(query)),
            as_batch(self._stretches(key).mT),
            as_batch(self._stretches(value).mT),
            attn_mask=as_batch(self._inside(visible)),
        )
        shape = (query.shape[0], self.union.dilation, self.chunks)
        return self._join_chunks(out.unflatten(0, shape).permute(0, 3, 1, 2, 4, 5))

    def _inside(self, visible: Tensor) -> Tensor:
        left, right = self.union.window
        slot = torch.arange(self.span, device=visible.device) - left
        offset = slot - torch.arange(self.size, device=visible.device)[:, None]
        inside = (offset >= -left) & (offset <= right)
        return inside & self._stretches(visible[:, None, :, None])  # batch 1 residue chunk row slot

    def _split_chunks(self, tokens: Tensor) -> Tensor:
        """`[batch, head, token, x]` as `[batch, head, residue, chunk, row, x]`."""
        dilation = self.union.dilation
        filling = dilation * self.chunks * self.size - self.queries
        # Padding by nothing would still copy.
        whole = F.pad(tokens, (0, 0, 0, filling)) if filling else tokens
        folded = whole.unflatten(2, (-1, dilation))
        return folded.transpose(2, 3).unflatten(3, (self.chunks, self.size))

    def _join_chunks(self, chunks: Tensor) -> Tensor:
        rows = chunks.flatten(3, 4).transpose(2, 3).flatten(2, 3)
        # A slice of everything would still cost the backward pass a copy.
        return rows if rows.shape[2] == self.queries else rows[:, :, : self.queries]

    def _stretches(self, tokens: Tensor) -> Tensor:
        """The keys that each chunk's window covers, `[batch, head, residue, chunk, x, slot]`."""
        dilation, left_over = self.union.dilation, min(self.start, 0)
        tokens = tokens[:, :, max(self.start, 0) :]
        length = dilation * (self.span + (self.chunks - 1) * self.size)
        tokens = tokens[:, :, : length + left_over]
        filling = length + left_over - tokens.shape[2]
        padded = F.pad(tokens, (0, 0, -left_over, filling))
        strand = padded.unflatten(2, (-1, dilation)).transpose(2, 3)
        more = self.span - self.size
        blocks = -(-more // self.size)
        learning = torch.is_grad_enabled() and tokens.requires_grad
        if blocks > FEW_BLOCKS or not learning:
            return strand.unfold(3, self.span, self.size)
        # Blocks side by side: their backward pass is quicker than that of overlapping views.
        whole = F.pad(strand, (0, 0, 0, blocks * self.size - more))
        chunks = whole.unflatten(3, (-1, self.size))
        pieces = [
            chunks[:, :, :, step : step + self.chunks, : more - (step - 1) * self.size]
            for step in range(1, blocks + 1)
        ]
        return torch.cat([chunks[:, :, :, : self.chunks], *pieces], -2).mT


class _Columns:
    """The same few keys for all rows of a sentence and head, where the window does not reach them."""

    def __init__(self, union: Union, columns: Indices) -> None:
        self.union, self.columns = union, columns

    def scores(self, query: Tensor, key: Tensor) -> Tensor:
        return query @ taken(key, self.columns.index).mT

    def mix(self, weights: Tensor, value: Tensor) -> Tensor:
        return weights @ taken(value, self.columns.index)

    def seen(self, rows: Tensor, visible: Tensor) -> Tensor:
        index = self.columns.index[:, :, None]
        real = self.columns.usable[:, :, None] & at(visible, self.columns.index)[:, :, None]
        return real & _outside(self.union, index, rows)


class _Entries:
    """A few keys for each row, where neither window nor columns nor an earlier entry reach them."""

    def __init__(self, union: Union, entries: Indices) -> None:
        self.union, self.entries = union, entries

    def scores(self, query: Tensor, key: Tensor) -> Tensor:
        return (taken(key, self.entries.index) @ query.unsqueeze(-1)).squeeze(-1)

    def mix(self, weights: Tensor, value: Tensor) -> Tensor:
        return (weights.unsqueeze(-2) @ taken(value, self.entries.index)).squeeze(-2)

    def seen(self, rows: Tensor, visible: Tensor) -> Tensor:
        index, usable = self.entries.index, self.entries.usable
        real = usable & at(visible, index) & _outside(self.union, index, rows)
        twice = (index.unsqueeze(-1) == index.unsqueeze(-2)) & usable.unsqueeze(-2)
        real = real & ~twice.tril(-1).any(-1)
        if self.union.columns is None:
            return real
        columns = self.union.columns
        in_columns = index.unsqueeze(-1) == columns.index[:, :, None, None]
        return real & ~(in_columns & columns.usable[:, :, None, None]).any(-1)


def _outside(union: Union, index: Tensor, rows: Tensor) -> Tensor:
    offset = index - rows[:, None]
    outside = ~union.in_window(offset)
    return outside & (offset <= 0) if union.causal else outside


def taken(tokens: Tensor, index: Tensor) -> Tensor:
    """Vectors at the positions of `index`: `[batch, head, *slots, dim]`."""
    index = index.expand(*tokens.shape[:2], *index.shape[2:])
    flat = index.flatten(2).unsqueeze(-1).expand(-1, -1, -1, tokens.shape[-1])
    return tokens.gather(2, flat).unflatten(2, index.shape[2:])


def at(visible: Tensor, index: Tensor) -> Tensor:
    """`visible` at the positions of `index`, which is `[batch, head, *slots]`."""
    batch = visible.shape[0]
    index = index.expand(batch, *index.shape[1:])
    return visible.gather(1, index.reshape(batch, -1)).view(index.shape)


def replaced(out: Tensor, index: Tensor, usable: Tensor, rows: Tensor) -> Tensor:
    """`out` with its rows `index` (where `usable`) taken from `rows`, `[batch, head, slot, dim]`."""
    spare = out.shape[2]
    target = torch.where(usable, index, spare).expand(rows.shape[:3])
    extended = F.pad(out, (0, 0, 0, 1))
    return extended.scatter(2, target.unsqueeze(-1).expand_as(rows), rows)[:, :, :spare]
