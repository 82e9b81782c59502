"""FlexAttention: the window and columns of a pattern as a rule on positions, for a GPU.

The blocks of pairs that the rule leaves empty are skipped by the compiled kernel. On a CPU
FlexAttention has no backward pass and no float64; the chunked form is used there.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention

from attnlab.attention.mechanism import Context, visible_or_all
from attnlab.attention.union import Union

Rule = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


def window_and_columns(union: Union, key: Tensor, context: Context) -> Rule:
    """The rule `(batch, head, query, key) -> seen` that FlexAttention asks for; entries have none."""
    left, right = (side * union.dilation for side in union.window)
    visible = visible_or_all(key, context.visible)
    first = context.first_query
    is_column = _column_table(union, visible)

    def rule(batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        offset = key - query - first
        seen = (offset >= -left) & (offset <= right) & (offset % union.dilation == 0)
        if is_column is not None:
            seen = seen | is_column[batch, head % is_column.shape[1], key]
        if union.causal:
            seen = seen & (offset <= 0)
        return seen & visible[batch, key]

    return rule


def _column_table(union: Union, visible: Tensor) -> Tensor | None:
    if union.columns is None:
        return None
    places, keys = union.columns, visible.shape[-1]
    index = torch.where(places.usable, places.index, keys)
    table = visible.new_zeros(*index.shape[:-1], keys + 1)
    return table.scatter(-1, index, True)[..., :keys]


def attend_blocks(query: Tensor, key: Tensor, value: Tensor, rule: Rule) -> Tensor:
    """Mixed values over the pairs that `rule` allows, by the compiled kernel."""
    blocks: BlockMask = create_block_mask(
        rule,
        query.shape[0],
        query.shape[1],
        query.shape[2],
        key.shape[2],
        device=query.device.type,
        _compile=True,
    )
    out: Tensor = _compiled()(query, key, value, block_mask=blocks)
    return out


@lru_cache(maxsize=1)
def _compiled() -> Any:
    return torch.compile(flex_attention, dynamic=True)
