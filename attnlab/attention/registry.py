"""The one table from a specification to the mechanism that carries it out."""

from attnlab.attention.band import BandAttention
from attnlab.attention.full import FullAttention
from attnlab.attention.mechanism import Mechanism
from attnlab.attention.specification import Band, Full, Specification, parse

MECHANISMS = {Full: FullAttention, Band: BandAttention}


def make(
    spec: str | Specification | Mechanism, *, causal: bool = False, dropout: float = 0.0
) -> Mechanism:
    """The mechanism that `spec` names, ready to be called.

    Args:
        spec: text such as `"band(window=3)"`, a specification, or a mechanism, which is returned.
        causal: keep queries from the keys behind them.
        dropout: probability with which a weight is dropped in training mode.

    Raises:
        InputError: `spec` cannot be read, or asks for what the mechanism cannot do.

    >>> make("band(window=(2, 1))", causal=True).causal
    True
    """
    if isinstance(spec, Mechanism):
        return spec
    value = parse(spec) if isinstance(spec, str) else spec
    return MECHANISMS[type(value)](value, causal=causal, dropout=dropout)
