"""The pattern of a mechanism, whatever the model: which keys a query sees, and how far layers of it reach."""

from collections.abc import Sequence
from numbers import Integral
from typing import Any

import torch
from jaxtyping import Bool, Float
from matplotlib.figure import Figure
from torch import Tensor

from attnlab.attention import Mechanism, SigmaAttention, load_frequencies, make
from attnlab.core import InputError, briefly
from attnlab.figures.canvas import blank, panel, style
from attnlab.figures.drawing import COLUMN
from attnlab.figures.heatmaps import COLOURS, draw_heads

# Dimensions of the queries and keys that are drawn, and number of token ids.
_DIM, _TYPES = 16, 50
_MOST_TOKENS, _MOST_LAYERS = 128, 32


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
    _draw_frequencies(mechanism, generator)
    seen: Any = getattr(mechanism, "support", mechanism.implied_matrix)
    with torch.no_grad():
        shown: Tensor = seen(query, key, None, token_ids=ids)
    return shown[0, 0].float()


def _draw_frequencies(mechanism: Mechanism, generator: torch.Generator) -> None:
    """Gives a mechanism that looks at frequencies or saliences of token ids some."""
    counts = torch.randperm(_TYPES, generator=generator)
    load_frequencies(mechanism, counts)
    if isinstance(mechanism, SigmaAttention):
        mechanism.load_tables(-counts.float().expand(1, -1))


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
    names = _checked(specification, tokens)
    patterns = [pattern(name, tokens, causal=causal, seed=seed) for name in names]
    return draw_heads(
        torch.stack(patterns),
        names=names,
        legend="1: scored; of mechanisms without single scores, the weight; rows: queries, columns: keys",
    )


def _checked(specification: Any, tokens: Any) -> list[str]:
    """The mechanisms that are named, for a text of so many tokens.

    Raises:
        InputError: none is, or there are too many tokens.
    """
    if not isinstance(tokens, Integral) or not 1 <= int(tokens) <= _MOST_TOKENS:
        msg = f"A pattern is drawn of 1 to {_MOST_TOKENS} tokens, not {tokens}."
        raise InputError(msg)
    names = [specification] if isinstance(specification, str) else specification
    texts = isinstance(names, list | tuple) and all(isinstance(name, str) for name in names)
    if not texts or not names:
        msg = f"{briefly(specification)} names no mechanism; give one, such as band(window=2), or a list."
        raise InputError(msg)
    return list(names)


def receptive_field(
    heads: Sequence[str], *, layers: int, tokens: int, seed: int = 0
) -> Bool[Tensor, "layer token"]:
    """True at the tokens of a text whose change reaches the middle token, by number of layers.

    Probed by the gradient of random states with residual connections. Of a window w to each side, a dilation
    d and L layers it is within L d w tokens (Beltagy et al. 2020, section 3.1), where no head is global.

    Args:
        heads: the mechanisms of the heads of each layer.
        layers: how many layers.
        tokens: number of tokens.
        seed: of the states, and of what mechanisms draw.

    Raises:
        InputError: there is no such mechanism.
    """
    generator = torch.Generator().manual_seed(seed)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        mechanisms = [make(head, heads=1, vocabulary=_TYPES).eval().double() for head in heads]
    states = torch.randn(1, 1, tokens, _DIM, generator=generator, dtype=torch.float64)
    direction = torch.randn(_DIM, generator=generator, dtype=torch.float64)
    ids = torch.randint(_TYPES, (1, tokens), generator=generator)
    for mechanism in mechanisms:
        _draw_frequencies(mechanism, generator)
    mixed, reached = states.requires_grad_(), []
    for _ in range(layers):
        parts = [mechanism(mixed, mixed, mixed, None, token_ids=ids) for mechanism in mechanisms]
        mixed = torch.nn.functional.layer_norm(mixed + torch.stack(parts).sum(0), (_DIM,))
        middle = mixed[0, 0, tokens // 2] @ direction
        (gradient,) = torch.autograd.grad(middle, states, retain_graph=True)
        reached.append((gradient[0, 0] != 0).any(-1))
    return torch.stack(reached)


def draw_receptive_field(
    specification: str | Sequence[str],
    *,
    layers: int = 4,
    tokens: int = 33,
    seed: int = 0,
    width: float = COLUMN,
) -> Figure:
    """The tokens that reach the middle one of a text, by number of layers, see `receptive_field`.

    Args:
        specification: the mechanism of every head, such as `band(window=2)`, or of each head of a layer.
        layers: the most layers.
        tokens: number of tokens of the text.
        seed: of what is drawn.
        width: of the figure in inches.

    Raises:
        InputError: there is no such mechanism, or there are too many tokens or layers.
    """
    heads = _checked(specification, tokens)
    given: Any = layers
    if not isinstance(given, Integral) or not 1 <= layers <= _MOST_LAYERS:
        msg = f"A receptive field is drawn of 1 to {_MOST_LAYERS} layers, not {layers}."
        raise InputError(msg)
    field = receptive_field(heads, layers=layers, tokens=tokens, seed=seed)
    middle = tokens // 2
    edges = (-middle - 0.5, tokens - middle - 0.5, 0.5, layers + 0.5)
    with style():
        above, size = 0.12 + 0.14 * len(heads), 0.16 * layers
        figure = blank(width, above + size + 0.45)
        axes = panel(figure, 0.45, above, width - 0.55, size)
        axes.imshow(
            field.float().numpy(), cmap=COLOURS, vmin=0, vmax=1, extent=edges, origin="lower",
            aspect="auto", interpolation="none",
        )  # fmt: skip
        axes.set_title("\n".join(heads), loc="left", fontsize=7.5)
        axes.set_yticks(range(1, layers + 1))
        axes.set_xlabel("offset of the token that is reached")
        axes.set_ylabel("layers")
    return figure
