"""FlexAttention over the unions of all heads of a layer, by one mask of blocks with an axis of heads."""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, no_type_check

import torch
from jaxtyping import Int
from torch import Tensor
from torch.nn import functional as F
from torch.nn.attention import flex_attention as flex
from torch.nn.attention.flex_attention import BlockMask

from attnlab.attention.kernels.union import NOWHERE, HasUnion, Union, marked
from attnlab.attention.mechanism import Context
from attnlab.core import AttnlabError

# One for each pair of lengths, with and without gradients.
KERNELS = 1024
# Masks that are kept.
MASKS = 32
Rule = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
# Triton multiplies no smaller matrices.
KERNEL_DIM = 16
# Heads, and what says which keys they see.
Group = tuple[Sequence[int], HasUnion]
_MASKS: OrderedDict[Hashable, BlockMask] = OrderedDict()


def attend_blocks(
    groups: Sequence[Group],
    query: Tensor,
    key: Tensor,
    value: Tensor,
    context: Context,
    *,
    dropout: float = 0.0,
) -> Tensor:
    """Mixed values over the unions of the groups, which together name every query head once.

    There may be fewer heads of keys, each of which serves as many query heads as the others. On a GPU
    the kernel is compiled and skips the blocks of pairs that no union holds. On a CPU it would take most
    of a minute to compile for each pair of lengths, so torch's form that is not compiled scores all pairs.

    Raises:
        AttnlabError: there is dropout of weights, or gradients are wanted on a CPU.
    """
    if dropout:
        msg = "FlexAttention has no dropout of weights; set the attention dropout to 0."
        raise AttnlabError(msg)
    learning = torch.is_grad_enabled() and any(x.requires_grad for x in (query, key, value))
    if learning and not query.is_cuda:
        msg = "FlexAttention has no gradients on a CPU; use form='auto' there, or torch.no_grad()."
        raise AttnlabError(msg)
    blocks = _blocks(groups, query, key, context)
    grouped = query.shape[1] != key.shape[1]
    # torch would give up after 8 kernels, and score all pairs from then on.
    with torch._dynamo.config.patch(recompile_limit=KERNELS), _uncompiled(not query.is_cuda):  # noqa: SLF001 - no public way
        attend: Any = _compiled_on_wide if query.is_cuda else flex.flex_attention
        out: Tensor = attend(query, key, value, block_mask=blocks, enable_gqa=grouped)
    return out


@contextmanager
def _uncompiled(interpreted: bool) -> Iterator[None]:
    """Lets torch run what is not compiled without a compiler, as its warning says."""
    name = "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG"
    before = getattr(flex, name)
    setattr(flex, name, interpreted)
    try:
        yield
    finally:
        setattr(flex, name, before)


def _blocks(groups: Sequence[Group], query: Tensor, key: Tensor, context: Context) -> BlockMask:
    """The mask of a layer, kept where nothing but positions decides."""
    shape = (query.shape[2], key.shape[2])
    parts = [part for _, part in groups]
    free = context.visible is None and context.scoring is None
    free = free and not any(_looks_inside(part) for part in parts)
    address = (
        tuple((tuple(heads), _specified(part)) for heads, part in groups),
        (len(query), *shape, context.first_query, str(query.device)),
    )
    if free and address in _MASKS:
        return _MASKS[address]
    # What is kept for later calls may be first made in inference mode, and then needed in training.
    with torch.inference_mode(mode=False), torch.no_grad():
        rule, batch = rule_of(groups, query, key, context)
        # Not compiled it would hold every pair of every head.
        create: Any = flex.create_block_mask
        create = torch.compile(create) if query.is_cuda else create
        blocks: BlockMask = create(rule, batch, query.shape[1], *shape, device=query.device.type)
    if free:
        _MASKS[address] = blocks
        if len(_MASKS) > MASKS:
            _MASKS.popitem(last=False)
    return blocks


def _looks_inside(part: Any) -> bool:
    """Whether a mechanism chooses keys by token, or by what it has learned."""
    return bool(getattr(part, "uses_tokens", False) or getattr(part, "uses_offsets", False))


def _specified(part: Any) -> Hashable:
    return part.spec, part.causal, part.cross


@dataclass(frozen=True)
class _Tables:
    """The unions of all heads side by side.

    Attributes:
        unions: with the heads of each.
        heads: how many there are.
        device: of the tensors.
    """

    unions: list[tuple[list[int], Union]]
    heads: int
    device: torch.device

    def numbers(self, of: Callable[[Union], int]) -> Int[Tensor, " head"]:
        """A number of each head's union."""
        # As FlexAttention counts positions.
        table = torch.zeros(self.heads, dtype=torch.int32, device=self.device)
        for members, union in self.unions:
            table[members] = of(union)
        return table

    def tensors(self, of: Callable[[Union], Tensor | None]) -> Tensor | None:
        """A tensor of each head's union, `[#batch, head, ...]`, with nothing where it has none."""
        pairs = [(members, x) for members, union in self.unions if (x := of(union)) is not None]
        if not pairs:
            return None
        batch, last = (max(x.shape[axis] for _, x in pairs) for axis in (0, -1))
        like = pairs[0][1]
        fill = NOWHERE if like.dtype == torch.long else 0
        table = like.new_full((batch, self.heads, *like.shape[2:-1], last), fill)
        for members, x in pairs:
            table[:, members, ..., : x.shape[-1]] = x
        return table


def rule_of(
    groups: Sequence[Group], query: Tensor, key: Tensor, context: Context
) -> tuple[Rule, int | None]:
    """The rule `(batch, head, query, key) -> seen` that FlexAttention asks for, and its batch.

    The batch is None where all sentences have the same. What the rule looks up grows with the tokens of
    a head, not with pairs, unless the model itself hides some.
    """
    heads, keys, first = query.shape[1], key.shape[2], context.first_query
    members = [(list(some), part) for some, part in groups]
    unions = [(some, part.union(query[:, some], key, context)) for some, part in members]
    of = _Tables(unions, heads, query.device)
    left = of.numbers(lambda union: union.window[0] * union.dilation)
    right = of.numbers(lambda union: union.window[1] * union.dilation)
    # None where no head leaves keys out between: the kernel would divide for each pair of a block.
    dilated = any(union.dilation > 1 for _, union in unions)
    dilation = of.numbers(lambda union: union.dilation) if dilated else None
    behind = of.numbers(lambda union: 0 if union.causal else keys)
    reach = of.numbers(lambda union: union.near.reach if union.near else -1)
    near = of.tensors(lambda union: union.near.listed if union.near else None)
    columns = of.tensors(lambda union: marked(union.columns, keys) if union.columns else None)
    entries = of.tensors(lambda union: union.entries.marks() if union.entries else None)
    wide = of.tensors(lambda union: union.wide)
    visible = None if context.visible is None else context.visible[:, None]
    allowed = None if context.scoring is None else context.scoring.allowed
    tables = (near, columns, entries, wide, visible, allowed)
    batch = max((len(x) for x in tables if x is not None), default=1)
    near, columns, entries, wide, visible, allowed = (
        None if x is None else x.expand(batch, heads, *x.shape[2:]) for x in tables
    )

    # Checks of types, as tests make them, cannot be compiled.
    @no_type_check
    def rule(batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        offset = key - query - first
        seen = (offset >= -left[head]) & (offset <= right[head])
        if dilation is not None:
            seen = seen & (offset % dilation[head] == 0)
        if near is not None:
            seen = seen | (near[batch, head, key] & (offset.abs() <= reach[head]))
        if columns is not None:
            seen = seen | columns[batch, head, key]
        for slot in range(0 if entries is None else entries.shape[-1]):
            seen = seen | (entries[batch, head, query, slot] == key)
        if wide is not None:
            seen = seen | wide[batch, head, query]
        seen = seen & (offset <= behind[head])
        if visible is not None:
            seen = seen & visible[batch, head, key]
        return seen if allowed is None else seen & allowed[batch, head, query, key]

    # FlexAttention counts positional parameters, which decorated functions do not show.
    return lambda batch, head, query, key: rule(batch, head, query, key), (  # noqa: PLW0108
        batch if batch > 1 else None
    )


def _compiled_on_wide(query: Tensor, key: Tensor, value: Tensor, **named: Any) -> Tensor:
    """The compiled kernel; zeros are appended to vectors that are too short for it.

    They change no product of queries and keys, and are cut off the mixed values.
    """
    scale = query.shape[-1] ** -0.5
    wide = (
        x if (lacks := KERNEL_DIM - x.shape[-1]) <= 0 else F.pad(x, (0, lacks))
        for x in (query, key, value)
    )
    out: Tensor = _compiled()(*wide, scale=scale, **named)
    return out[..., : value.shape[-1]]


@lru_cache(maxsize=1)
def _compiled() -> Any:
    # One kernel for each pair of lengths: torch 2.13 cannot lower rules with symbolic sizes.
    # Whole or not at all: a kernel that cannot be made is an error, not a slow answer.
    return torch.compile(flex.flex_attention, dynamic=False, fullgraph=True)
