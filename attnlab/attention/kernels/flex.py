"""FlexAttention: the window and columns of a pattern as a rule on positions, for a GPU.

The blocks of pairs that the rule leaves empty are skipped by the compiled kernel. On a CPU
FlexAttention has no backward pass and no float64; the chunked form is used there.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, no_type_check

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention

from attnlab.attention.kernels.union import Union, marked
from attnlab.attention.mechanism import Context

# One for each pair of lengths, with and without gradients.
KERNELS = 1024
Rule = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


def attend_blocks(
    query: Tensor, key: Tensor, value: Tensor, union: Union, context: Context
) -> Tensor:
    """Mixed values over the window and columns of `union`, by the compiled kernel."""
    shape, device = (query.shape[2], key.shape[2]), query.device
    if context.visible is None and union.columns is None:
        blocks = _window_blocks(union, shape, context.first_query, device.type)
    else:
        rule = rule_of(union, context, shape[1])
        blocks = create_block_mask(
            rule,
            query.shape[0],
            query.shape[1],
            shape[0],
            shape[1],
            device=device.type,
            _compile=device.type == "cuda",
        )
    # torch would give up after 8 kernels, and score all pairs from then on.
    with torch._dynamo.config.patch(recompile_limit=KERNELS):  # noqa: SLF001 - no public way
        out: Tensor = _compiled()(query, key, value, block_mask=blocks)
    return out


def rule_of(union: Union, context: Context, keys: int) -> Rule:
    """The rule `(batch, head, query, key) -> seen` that FlexAttention asks for; entries have none."""
    left, right = (side * union.dilation for side in union.window)
    visible, first = context.visible, context.first_query
    columns = None if union.columns is None else marked(union.columns, keys)

    # Checks of types, as tests make them, cannot be compiled.
    @no_type_check
    def rule(batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        offset = key - query - first
        seen = (offset >= -left) & (offset <= right) & (offset % union.dilation == 0)
        if columns is not None:
            seen = seen | columns[batch, head % columns.shape[1], key]
        if union.causal:
            seen = seen & (offset <= 0)
        return seen if visible is None else seen & visible[batch, key]

    # FlexAttention counts positional parameters, which decorated functions do not show.
    return lambda batch, head, query, key: rule(batch, head, query, key)  # noqa: PLW0108


@lru_cache(maxsize=32)
def _window_blocks(
    union: Union, shape: tuple[int, int], first_query: int, device: str
) -> BlockMask:
    """The blocks of a window without padding: the same for all sentences and heads, so kept."""
    rule = rule_of(union, Context(first_query=first_query), shape[1])
    return create_block_mask(
        rule, None, None, shape[0], shape[1], device=device, _compile=device == "cuda"
    )


@lru_cache(maxsize=1)
def _compiled() -> Any:
    # One kernel for each pair of lengths: torch 2.13 cannot lower rules with symbolic sizes.
    # Whole or not at all: a kernel that cannot be made is an error, not a slow answer.
    return torch.compile(flex_attention, dynamic=False, fullgraph=True)
