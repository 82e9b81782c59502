"""What a transformers mask of pairs says: real keys, the position of the queries, what else is hidden."""

from dataclasses import dataclass

import torch
from torch import Tensor

from attnlab.errors import AttnlabError
from attnlab.matrices.supports import offsets

# Scores at most this far below the others are hidden ones; no relative position takes off so much.
HIDDEN = -1e8


@dataclass(frozen=True)
class Reading:
    """What a mask says.

    Attributes:
        visible: `[batch, key]`, True at real tokens; None when all are.
        first_query: position of the first query.
        allowed: `[batch, 1 or head, query, key]`, True at the pairs that the model lets through;
            None when padding and causality say the same.
        bias: finite numbers that the mask adds to scores; None when there are none.
    """

    visible: Tensor | None
    first_query: int
    allowed: Tensor | None = None
    bias: Tensor | None = None


def read_mask(
    mask: Tensor | None,
    queries: int,
    keys: int,
    *,
    causal: bool,
    past: int = 0,
    real: Tensor | None = None,
) -> Reading:
    """The mask of one call, told apart into padding, causality and the rest.

    Args:
        mask: True or 0 at pairs that count, `[batch, 1 or head, query, key]`; None hides nothing.
        queries: number of queries.
        keys: number of keys.
        causal: whether the mechanism hides the keys behind a query by itself.
        past: number of tokens before the first query, whose keys a cache holds.
        real: True at the keys that are known to be real tokens, `[batch, <= key]`; None reads them
            off the mask, where a cached query in a sliding window does not see all.

    Raises:
        AttnlabError: the mask shows a causal mechanism keys behind a query.
    """
    if mask is None:
        return Reading(None, keys - queries if causal else past)
    mask = mask[..., :keys]
    seen = mask if mask.dtype == torch.bool else mask > max(HIDDEN, torch.finfo(mask.dtype).min / 2)
    visible = seen.any(-2).any(1) if real is None else _as_long_as(keys, real)
    expected = visible[:, None, None, :].expand(-1, 1, queries, -1)
    rows = torch.ones_like(expected[..., :1])
    if causal:
        before = offsets(queries, keys, first_query=past, device=mask.device) <= 0
        expected = expected & before
        rows = visible[:, None, past : past + queries, None]
    shown = seen & rows
    if bool((shown & ~expected).any()):
        msg = (
            "This model's attention mask lets queries see tokens behind them, which attnlab's causal "
            "mechanisms never do; leave such a model its own attention."
        )
        raise AttnlabError(msg)
    same = torch.equal((expected & rows).expand_as(seen), shown)
    return Reading(visible, past, None if same else seen, _bias(mask, seen))


def _as_long_as(keys: int, real: Tensor) -> Tensor:
    return torch.nn.functional.pad(real[:, :keys], (0, max(keys - real.shape[1], 0)))


def _bias(mask: Tensor, seen: Tensor) -> Tensor | None:
    if mask.dtype == torch.bool:
        return None
    finite = mask.masked_fill(~seen, 0.0)
    return finite if bool(finite.any()) else None
