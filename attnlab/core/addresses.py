"""Addresses of attention heads: site, layer and index, from 0."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Literal, NamedTuple, TypeVar

from attnlab.core.errors import InputError

Site = Literal["encoder", "decoder", "cross", "unknown"]
Side = Literal["source", "target"]
SITES: tuple[Site, ...] = ("encoder", "decoder", "cross")
# For matrices of a file, which does not say where they come from.
UNKNOWN_SITE: Site = "unknown"
# The columns that identify a head in every table.
HEAD_COLUMNS = ["site", "layer", "head"]
SIDES: tuple[Side, Side] = ("source", "target")
# The side of a sentence pair that queries come from, and the one that keys come from.
_SIDES_OF: Mapping[str, tuple[Side, Side]] = {
    "encoder": ("source", "source"),
    "decoder": ("target", "target"),
    "cross": ("target", "source"),
}
Value = TypeVar("Value")


class Head(NamedTuple):
    """One head by site, layer and index, the last two from 0.

    >>> print(Head("encoder", 0, 3))
    encoder.0.3
    """

    site: str
    layer: int
    head: int

    def __str__(self) -> str:
        return f"{layer_name(self.site, self.layer)}.{self.head}"


def address_of(name: object, known: Iterable[str]) -> str:
    """The known address that a name with or without its site means; else the name as it is written.

    >>> address_of("1.2", ["encoder.1.2"]), address_of((1, 2), ["decoder.1.2"]), address_of("1.2", [])
    ('encoder.1.2', 'decoder.1.2', '1.2')

    Raises:
        InputError: several sites have it, or it is a number, which is the same for 3.1 and 3.10.
    """
    if isinstance(name, float):
        msg = f"Write the head as a text, '{name}', since the numbers 3.1 and 3.10 are the same."
        raise InputError(msg)
    address = ".".join(map(str, name)) if isinstance(name, tuple) else str(name)
    meant = [one for one in dict.fromkeys(known) if one.partition(".")[2] == address]
    if len(meant) > 1:
        msg = f"{address} is at several sites; write one of: {', '.join(meant)}."
        raise InputError(msg)
    return meant[0] if meant else address


def no_such_head(head: object, there: Iterable[object]) -> InputError:
    """The error for a head that is not among those that exist.

    Args:
        head: what was asked for.
        there: the heads, those of a site one after another.

    >>> str(no_such_head("encoder.3.0", [Head("encoder", 0, number) for number in range(3)]))
    'There is no head encoder.3.0; choose from encoder.0.0 to encoder.0.2.'
    """
    return InputError(f"There is no head {head}; choose from {heads_listed(there)}.")


def heads_listed(heads: Iterable[object]) -> str:
    """The first and the last head of each site, those of a site one after another.

    >>> heads_listed(["encoder.0.0", "encoder.0.1", "cross.1.2"])
    'encoder.0.0 to encoder.0.1, cross.1.2'
    """
    sites = groupby(map(str, heads), lambda name: name.partition(".")[0])
    ends = (list(of_site) for _, of_site in sites)
    return ", ".join(" to ".join(dict.fromkeys((group[0], group[-1]))) for group in ends)


def layer_name(site: str, layer: int) -> str:
    """The address of a layer, such as `encoder.0`."""
    return f"{site}.{layer}"


def layers_in_words(layers: Sequence[int]) -> str:
    """Numbers of layers in ascending order, as a text.

    >>> layers_in_words([0, 1, 2]), layers_in_words([3, 7]), layers_in_words([3])
    ('layers 0 to 2', 'layers 3, 7', 'layer 3')
    """
    first, last = layers[0], layers[-1]
    if len(layers) > 2 and last - first == len(layers) - 1:
        return f"layers {first} to {last}"
    return f"layer{'s' if len(layers) > 1 else ''} {', '.join(map(str, layers))}"


def site_order(site: Site) -> int:
    """The position of a site in tables: in the order that data flows."""
    return (*SITES, UNKNOWN_SITE).index(site)


def sides_of(site: str, pair: Mapping[Side, Value]) -> tuple[Value, Value]:
    """The values that belong to the queries and to the keys of a site, of values by side.

    Without a target, as in a model of one stack, the source is both.

    >>> sides_of("cross", {"source": "en", "target": "it"})
    ('it', 'en')
    """
    query, key = (side if side in pair else "source" for side in _SIDES_OF[site])
    return pair[query], pair[key]


def sites_named(text: str | None) -> tuple[Site, ...] | None:
    """Sites from a list with commas; None, for all, when there is no list.

    Raises:
        InputError: a name that is no site.
    """
    if text is None:
        return None
    names = [name.strip() for name in text.split(",")]
    check_site_names(names)
    return tuple(site for site in SITES if site in names)


def check_site_names(names: Iterable[str]) -> None:
    """Raises when a name is none of encoder, decoder and cross.

    Raises:
        InputError: see above.
    """
    unknown = [name for name in names if name not in SITES]
    if unknown:
        msg = f"There is no site '{unknown[0]}'; choose from: {', '.join(SITES)}."
        raise InputError(msg)
