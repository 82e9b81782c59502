"""The one table from a specification to the mechanism that carries it out."""

from collections.abc import Callable
from typing import Any

from attnlab.attention.mechanism import Mechanism
from attnlab.attention.mechanisms.band import BandAttention
from attnlab.attention.mechanisms.bigbird import BigBirdAttention
from attnlab.attention.mechanisms.fixed import FixedAttention
from attnlab.attention.mechanisms.full import FullAttention
from attnlab.attention.mechanisms.linear import LinearAttention
from attnlab.attention.mechanisms.linformer import LinformerAttention
from attnlab.attention.mechanisms.longformer import LongformerAttention
from attnlab.attention.mechanisms.scatterbrain import ScatterbrainAttention
from attnlab.attention.mechanisms.sigma import SigmaAttention
from attnlab.attention.mechanisms.topk import TopKAttention
from attnlab.attention.specification import (
    Band,
    BigBird,
    Fixed,
    Full,
    Linear,
    Linformer,
    Longformer,
    Scatterbrain,
    Sigma,
    Specification,
    TopK,
    parse,
)
from attnlab.attention.traits import Form, Place
from attnlab.errors import InputError

MECHANISMS: dict[type[Specification], type[Mechanism]] = {
    Full: FullAttention,
    Band: BandAttention,
    Longformer: LongformerAttention,
    BigBird: BigBirdAttention,
    Sigma: SigmaAttention,
    Linear: LinearAttention,
    Linformer: LinformerAttention,
    Scatterbrain: ScatterbrainAttention,
    Fixed: FixedAttention,
    TopK: TopKAttention,
}


def make(
    spec: str | Specification | Mechanism,
    *,
    causal: bool = False,
    cross: bool = False,
    dropout: float = 0.0,
    heads: int | None = None,
    vocabulary: int | None = None,
    form: Form = "auto",
) -> Mechanism:
    """The mechanism that `spec` names, ready to be called.

    Args:
        spec: text such as `"band(window=3)"`, a specification, or a mechanism, which is returned.
        causal: keep queries from the keys behind them.
        cross: queries and keys belong to different sentences.
        dropout: probability with which a weight is dropped in training mode.
        heads: how many heads it serves; needed by mechanisms that keep something for each.
        vocabulary: number of token ids; needed by sigma with columns by salience or frequency.
        form: how a softmax over some of the pairs is computed: `"auto"` takes the quicker way by
            length, `"dense"` scores every pair, `"fast"` does not, `"flex"` is FlexAttention on a
            GPU. The results are the same. Other mechanisms have one form, `"auto"`.

    Raises:
        InputError: `spec` cannot be read, or asks for what the mechanism cannot do.

    >>> make("band(window=(2, 1))", causal=True).causal
    True
    """
    if isinstance(spec, Mechanism):
        if causal and not spec.causal:
            msg = (
                f"The mechanism '{spec.name}' was made with causal=False and cannot stand where the "
                "future is hidden; make it with causal=True."
            )
            raise InputError(msg)
        return spec
    value = parse(spec) if isinstance(spec, str) else spec
    kind = MECHANISMS[type(value)]
    if form not in kind.forms:
        forms = ", ".join(f"'{one}'" for one in kind.forms)
        msg = f"The mechanism '{value.name}' has no form '{form}'; choose from: {forms}."
        raise InputError(msg)
    place = Place(causal, cross, dropout, heads, vocabulary, form)
    build: Callable[[Any, Place], Mechanism] = kind
    return build(value, place)
