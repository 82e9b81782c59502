"""Which layers, heads and rows of a model's attention are read."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import torch
from jaxtyping import Int
from torch import Tensor

from attnlab.core import InputError, Side, Site, sides_of
from attnlab.reading.hooks import AttentionSites
from attnlab.reading.sentences import Sentence, Sentences


@dataclass(frozen=True)
class Selection:
    """What is read of every text; None stands for all.

    Attributes:
        layers: numbers of layers, the same at all sites that have them.
        heads: numbers of heads, the same in all layers.
        rows: positions of queries, the same in all texts; or how many are drawn of each text.
        seed: of the draws.
    """

    layers: tuple[int, ...] | None = None
    heads: tuple[int, ...] | None = None
    rows: tuple[int, ...] | int | None = None
    seed: int = 0

    @property
    def is_all(self) -> bool:
        """Whether nothing is left out."""
        return self.layers is None and self.heads is None and self.rows is None

    @property
    def draws(self) -> bool:
        """Whether each text has rows of its own."""
        return isinstance(self.rows, int)

    def has_layer(self, layer: int) -> bool:
        """Whether the layer of this number is read."""
        return self.layers is None or layer in self.layers

    def rows_of(self, sentence: Sentence, queries: int) -> Int[Tensor, " row"] | None:
        """Positions of the wanted rows of a text, in ascending order; None where they are all wanted.

        The same rows are drawn of a text whatever else is read, and in all layers.

        Args:
            sentence: the text.
            queries: how many it has.
        """
        if self.rows is None:
            return None
        if isinstance(self.rows, tuple):
            return torch.tensor(self.rows)
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + sentence.number)
        return torch.randperm(queries, generator=generator)[: self.rows].sort().values

    def check(self, sites: AttentionSites, wanted: Sequence[Site], sentences: Sentences) -> None:
        """Raises InputError where a layer, a head or a row does not exist."""
        self._check_layers(sites, wanted)
        self._check_heads(sites, wanted)
        if not isinstance(self.rows, tuple) or not self.rows:
            return
        for sentence in sentences.usable:
            sides: dict[Side, int] = {"source": len(sentence.source)}
            if sentence.target is not None:
                sides["target"] = len(sentence.target)
            queries = min(sides_of(site, sides)[0] for site in wanted)
            if self.rows[-1] >= queries:
                msg = (
                    f"Row {self.rows[-1]} does not exist in text {sentence.number + 1}, which has "
                    f"{queries} rows (0 to {queries - 1}); choose others, or a number of rows to draw."
                )
                raise InputError(msg)

    def _check_layers(self, sites: AttentionSites, wanted: Sequence[Site]) -> None:
        most = max(sites.layers[site] for site in wanted)
        if self.layers and self.layers[-1] >= most:
            there = ", ".join(f"{site}: 0 to {sites.layers[site] - 1}" for site in wanted)
            msg = f"Layer {self.layers[-1]} does not exist; choose from: {there}."
            raise InputError(msg)

    def _check_heads(self, sites: AttentionSites, wanted: Sequence[Site]) -> None:
        for (site, layer), count in sites.heads_of.items():
            read = site in wanted and self.has_layer(layer)
            if read and self.heads and self.heads[-1] >= count:
                msg = (
                    f"Head {self.heads[-1]} does not exist in {site} layer {layer}, which has {count} "
                    f"heads (0 to {count - 1}); choose others, or other layers or sites."
                )
                raise InputError(msg)


EVERYTHING = Selection()


def selection_of(
    layers: Sequence[int] | None,
    heads: Sequence[int] | None,
    rows: Sequence[int] | int | None,
    seed: int,
) -> Selection:
    """What is wanted, in ascending order and each once.

    Raises:
        InputError: something else than numbers from 0, or none of them.
    """
    if isinstance(rows, int) and not isinstance(rows, bool) and rows < 1:
        msg = f"At least 1 row is drawn of each text, not {rows}; give another number (rows)."
        raise InputError(msg)
    drawn = isinstance(rows, int) and not isinstance(rows, bool)
    return Selection(
        _numbers(layers, "layers"),
        _numbers(heads, "heads"),
        cast("int", rows) if drawn else _numbers(rows, "rows"),
        seed,
    )


def _numbers(given: object, name: str) -> tuple[int, ...] | None:
    if given is None:
        return None
    numbers = list(given) if isinstance(given, Sequence | range) else []
    if not numbers or any(
        not isinstance(one, int) or isinstance(one, bool) or one < 0 for one in numbers
    ):
        msg = f"{name} must be numbers from 0, such as [0, 3], not {given!r}."
        raise InputError(msg)
    return tuple(sorted(set(numbers)))
