"""The one table of mechanisms, by name; what a text or a specification names is made here."""

import dataclasses
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from attnlab.attention.mechanism import Cost, Form, Mechanism, Setup, Traits
from attnlab.attention.mechanisms.band import BandAttention
from attnlab.attention.mechanisms.bigbird import BigBirdAttention
from attnlab.attention.mechanisms.fixed import FixedAttention
from attnlab.attention.mechanisms.full import FullAttention
from attnlab.attention.mechanisms.gaussian import GaussianAttention
from attnlab.attention.mechanisms.graph import GraphAttention
from attnlab.attention.mechanisms.keys import KeysAttention
from attnlab.attention.mechanisms.linear import LinearAttention
from attnlab.attention.mechanisms.linformer import LinformerAttention
from attnlab.attention.mechanisms.longformer import LongformerAttention
from attnlab.attention.mechanisms.none import NoAttention
from attnlab.attention.mechanisms.scatterbrain import ScatterbrainAttention
from attnlab.attention.mechanisms.sigma import SigmaAttention
from attnlab.attention.mechanisms.sigma_static import SigmaStaticAttention
from attnlab.attention.mechanisms.static import StaticAttention
from attnlab.attention.mechanisms.synthesizer import SynthesizerAttention
from attnlab.attention.mechanisms.topk import TopKAttention
from attnlab.attention.specification import Specification, name_and_options, specified
from attnlab.core import InputError, briefly, nearest_in_words, spelled_alike, with_plugins

# As mechanisms are called, or called elsewhere.
_NAME = re.compile(r"[\w-]+", re.ASCII)

MECHANISMS: dict[str, type[Mechanism]] = {
    kind.name: kind
    for kind in (
        FullAttention,
        BandAttention,
        LongformerAttention,
        BigBirdAttention,
        SigmaAttention,
        LinearAttention,
        LinformerAttention,
        ScatterbrainAttention,
        FixedAttention,
        TopKAttention,
        KeysAttention,
        GraphAttention,
        StaticAttention,
        GaussianAttention,
        SynthesizerAttention,
        SigmaStaticAttention,
        NoAttention,
    )
}


@cache
def mechanisms() -> Mapping[str, type[Mechanism]]:
    """All mechanisms that can be written as text, by name: attnlab's own, then those of plugins.

    Another distribution registers a subclass of `Mechanism` with a `specification` as an entry point
    of the group `attnlab.mechanisms`.

    Raises:
        InputError: what is registered is no such class, or has the name of another mechanism.
    """
    return with_plugins(
        "attnlab.mechanisms",
        MECHANISMS,
        "a subclass of attnlab.attention.Mechanism with a specification",
        _is_mechanism,
        lambda kind: kind.name,
    )


def _is_mechanism(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, Mechanism) and bool(kind.specification)


def parse(text: str) -> Specification:
    """The specification that `text` writes down; hyphens, underscores and capitals of its name do not count.

    Raises:
        InputError: unknown mechanism, unknown or missing option, or a value out of range.

    >>> parse("band(window=3)")
    Band(window=3)
    >>> str(parse("top-k(k=3)"))
    'topk(k=3)'
    >>> str(parse("band(window=(3, 0))"))
    'band(window=(3, 0))'
    >>> str(parse("fixed(pattern=next)"))
    "fixed(pattern='next')"
    """
    # What is no name of Python, such as top-k, could not be read with what stands behind it.
    before = text.partition("(")[0].strip()
    if _NAME.fullmatch(before):
        text = text.replace(before, _specification_of(before).name, 1)
    name, options = name_and_options(text)
    return specified(_specification_of(name), options)


def _specification_of(name: str) -> type[Specification]:
    kinds = mechanisms()
    spelled = spelled_alike(name, kinds)
    kind = None if spelled is None else kinds[spelled]
    if kind is None or kind.specification is None:
        near = nearest_in_words(name, kinds)
        msg = f"There is no mechanism {briefly(name)}{near}; choose from: {', '.join(kinds)}."
        raise InputError(msg)
    return kind.specification


def make(
    spec: str | Specification | Mechanism,
    *,
    causal: bool = False,
    cross: bool = False,
    dropout: float = 0.0,
    heads: int | None = None,
    vocabulary: int | None = None,
    form: Form = "auto",
    **settings: Any,
) -> Mechanism:
    """The mechanism that `spec` names, ready to be called.

    Args:
        spec: text such as `"band(window=3)"`, a specification, or a mechanism, which is returned; it
            must have been made with the same `causal` and `cross`.
        causal: keep queries from the keys behind them.
        cross: queries and keys belong to different sentences.
        dropout: probability with which a weight is dropped in training mode.
        heads: how many heads it serves; needed by mechanisms that keep something for each.
        vocabulary: number of token ids; needed by sigma with columns by salience or frequency.
        form: how a softmax over some of the pairs is computed: `"auto"` takes the quicker way by
            length, `"dense"` scores every pair, `"fast"` does not, `"flex"` is FlexAttention, which
            is for a GPU: on a CPU it has no gradients and saves nothing. The results are the same. Other
            mechanisms have one form, `"auto"`.
        settings: none; those of a mechanism stand in its text.

    Raises:
        InputError: `spec` cannot be read, asks for what the mechanism cannot do, or is a mechanism
            that was made for another site.
        TypeError: an argument of another name.

    >>> make("band(window=(2, 1))", causal=True).causal
    True
    """
    for name in settings:
        msg = f"make() has no argument {name!r}; settings stand in the text, as in make('band(window=3)')."
        raise TypeError(msg)
    if isinstance(spec, Mechanism):
        _check_made_for(spec, causal=causal, cross=cross)
        return spec
    value = parse(spec) if isinstance(spec, str) else spec
    kind = mechanisms()[value.name]
    if form not in kind.forms:
        forms = ", ".join(f"'{form_name}'" for form_name in kind.forms)
        msg = f"The mechanism '{value.name}' has no form '{form}'; choose from: {forms}."
        raise InputError(msg)
    setup = Setup(causal, cross, dropout, heads, vocabulary, form)
    build: Callable[[Any, Setup], Mechanism] = kind
    return build(value, setup)


def _check_made_for(mechanism: Mechanism, *, causal: bool, cross: bool) -> None:
    """Refuses a mechanism that was made for another site: its windows and padding are counted otherwise.

    Raises:
        InputError: it, or the mechanism of one of its heads, was made with another `causal` or `cross`.
    """
    for part in mechanism.modules():
        if isinstance(part, Mechanism) and (part.causal, part.cross) != (causal, cross):
            msg = (
                f"The mechanism '{part.name}' was made with causal={part.causal} and cross={part.cross}; "
                f"make it with causal={causal} and cross={cross} for this site, or give its specification."
            )
            raise InputError(msg)


@dataclass(frozen=True)
class Entry:
    """One mechanism, described.

    Attributes:
        name: its name.
        options: options with their defaults, as they are written.
        choices: the values of options that take one of a few words.
        summary: what it does, in one line.
        traits: what it can do.
        source: where it comes from.
    """

    name: str
    options: str
    choices: Mapping[str, tuple[str, ...]]
    summary: str
    traits: Traits
    source: str


def catalogue() -> list[Entry]:
    """Every mechanism that can be written as text, those of plugins last.

    >>> [entry.name for entry in catalogue()][:2]
    ['full', 'band']
    """
    return [
        Entry(
            name=kind.name,
            options=_options(kind.specification),
            choices=kind.specification.choices,
            summary=(kind.specification.__doc__ or "").partition("\n")[0],
            traits=kind.traits,
            source=kind.source,
        )
        for kind in mechanisms().values()
        if kind.specification is not None
    ]


def cost_of(text: str, tokens: int, head_dim: int) -> Cost:
    """Work of one head of the mechanism that `text` names, on a sentence of `tokens`.

    Raises:
        InputError: `text` names no mechanism.

    >>> cost_of("band(window=3)", 100, 64).multiply_adds
    89600
    """
    # Tables by head and token do not change the work: any number of them will do.
    return make(text, heads=1, vocabulary=1).cost(tokens, tokens, head_dim)


def _options(kind: type[Specification]) -> str:
    words = [
        field.name if field.default is dataclasses.MISSING else f"{field.name}={field.default!r}"
        for field in dataclasses.fields(kind)
    ]
    return ", ".join(words)
