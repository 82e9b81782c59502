"""Made-up queries, keys and values of sentences of unequal length."""

import torch
from torch import Tensor


def ragged(
    tokens: int, keys: int | None = None, seed: int = 0, heads: int = 2
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Queries, keys, values and which keys are real: one whole sentence, a shorter and an empty one."""
    generator = torch.Generator().manual_seed(seed)
    keys = keys or tokens
    query = torch.randn(3, heads, tokens, 5, generator=generator, dtype=torch.float64)
    key = torch.randn(3, heads, keys, 5, generator=generator, dtype=torch.float64)
    value = torch.randn(3, heads, keys, 3, generator=generator, dtype=torch.float64)
    lengths = torch.tensor([keys, (keys + 1) // 2, 0])
    return query, key, value, torch.arange(keys) < lengths[:, None]


def drawn_ids(keys: int, vocabulary: int, seed: int = 0) -> Tensor:
    """Ids of the keys of three sentences."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(vocabulary, (3, keys), generator=generator)


def padded_on(side: str, tokens: int) -> Tensor:
    """Which tokens are real in a whole sentence, a shorter one and an empty one, `[3, token]`."""
    visible = torch.arange(tokens) < torch.tensor([tokens, (tokens + 1) // 2, 0])[:, None]
    return visible if side == "right" else visible.flip(-1)


def filled(tokens: Tensor, visible: Tensor, content: Tensor) -> Tensor:
    """`[batch, head, token, dim]` with `content`, one number or one a token, in all padding."""
    return torch.where(visible[:, None, :, None], tokens, content.to(tokens.dtype))
