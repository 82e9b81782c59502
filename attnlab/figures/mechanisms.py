"""The pattern of a mechanism: which keys a query sees, or with which weights, whatever the model."""

from collections.abc import Sequence
from numbers import Integral
from typing import Any

import torch
from jaxtyping import Float
from matplotlib.figure import Figure
from torch import Tensor

from attnlab.attention import SigmaAttention, load_frequencies, make
from attnlab.core import InputError, briefly
from attnlab.figures.heatmaps import draw_heads

# Dimensions of the queries and keys that are drawn, and number of token ids.
_DIM, _TYPES = 16, 50
_MOST_TOKENS = 128


def pattern(
    specification: str, tokens: int, *, causal: bool = False, seed: int = 0
) -> Float[Tensor, "query key"]:
    """1 at the pairs that a mechanism scores; the weights of one that scores no single pairs.

    Queries, keys, token ids and their frequencies are drawn, for mechanisms that look at them.

    Args:
        specification: such as `longformer(window=2)`.
        tokens: number of tokens.
        causal: its form in a decoder.
        seed: of what is drawn.

    Raises:
        InputError: there is no such mechanism, or it has no such form.
    """
    generator = torch.Generator().manual_seed(seed)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        mechanism = make(specification, causal=causal, heads=1, vocabulary=_TYPES).eval()
    query, key = torch.randn(2, 1, 1, tokens, _DIM, generator=generator)
    ids = torch.randint(_TYPES, (1, tokens), generator=generator)
    counts = torch.randperm(_TYPES, generator=generator)
    load_frequencies(mechanism, counts)
    if isinstance(mechanism, SigmaAttention):
        mechanism.load_tables(-counts.float().expand(1, -1))
    seen: Any = getattr(mechanism, "support", mechanism.implied_matrix)
    with torch.no_grad():
        shown: Tensor = seen(query, key, None, token_ids=ids)
    return shown[0, 0].float()


def draw_mechanism(
    specification: str | Sequence[str], *, tokens: int = 16, causal: bool = False, seed: int = 0
) -> Figure:
    """The patterns of mechanisms side by side: the keys that each query of a text sees.

    Args:
        specification: one, such as `longformer(window=2)`, or several.
        tokens: number of tokens of the text.
        causal: their forms in a decoder.
        seed: of what is drawn: random blocks, and queries and keys where the pattern follows them.

    Raises:
        InputError: there is no such mechanism, it has no such form, or there are too many tokens.
    """
    given: Any = tokens
    if not isinstance(given, Integral) or not 1 <= tokens <= _MOST_TOKENS:
        msg = f"A pattern is drawn of 1 to {_MOST_TOKENS} tokens, not {tokens}."
        raise InputError(msg)
    names: Any = [specification] if isinstance(specification, str) else specification
    texts = isinstance(names, list | tuple) and all(isinstance(name, str) for name in names)
    if not texts or not names:
        msg = f"{briefly(specification)} names no mechanism; give one, such as band(window=2), or a list."
        raise InputError(msg)
    patterns = [pattern(name, tokens, causal=causal, seed=seed) for name in names]
    return draw_heads(
        torch.stack(patterns),
        names=list(names),
        legend="1: scored; of mechanisms without single scores, the weight; rows: queries, columns: keys",
    )
