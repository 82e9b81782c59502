"""The mechanisms there are, as a table: options, abilities, sources, and what one costs."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

from attnlab.attention.registry import make, mechanisms
from attnlab.attention.specification import Specification
from attnlab.attention.traits import Cost, Traits


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
