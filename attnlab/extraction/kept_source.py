"""The matrices that an analysis kept, as a source of another: heads with their tokens, without a model."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from attnlab.addresses import SITES, Site
from attnlab.errors import InputError
from attnlab.extraction.batches import Axis
from attnlab.extraction.keeping import KeptMatrices, Key, holds_kept_matrices, load_kept_matrices
from attnlab.extraction.matrix_files import prepared
from attnlab.extraction.notes import KeptInPart, RowsNotNormalized
from attnlab.extraction.reading import Consumer, Coverage
from attnlab.extraction.weights import LayerWeights
from attnlab.representations import OneLine
from attnlab.texts import published


@dataclass(frozen=True)
class Names:
    """Tokens by their positions in one sentence."""

    names: Sequence[str]

    def tokens(self, ids: Sequence[int]) -> list[str]:
        """The tokens at these positions."""
        return [self.names[position] for position in ids]


@dataclass(frozen=True, repr=False)
class KeptSource(OneLine):
    """Attention matrices of whole sentences, of any site and layer.

    Attributes:
        path: the file.
        kept: what is in it, of the sites that were asked for.
        notes: what is wrong with them, or was left out when they were kept.
    """

    path: Path
    kept: KeptMatrices
    notes: tuple[RowsNotNormalized | KeptInPart, ...]

    def send(self, consumers: Sequence[Consumer], first: int | None = None) -> Coverage:
        """Feeds every matrix to `consumers`, of the first sentences only where `first` is given."""
        numbers = sorted({number for number, _, _ in self.kept.matrices})[:first]
        layers: dict[Site, set[int]] = {}
        for (number, site, layer), matrix in self.kept.matrices.items():
            if number not in numbers:
                continue
            layers.setdefault(site, set()).add(layer)
            seen = self._layer((number, site, layer), matrix)
            for consumer in consumers:
                consumer.update(seen)
        depths = {site: len(found) for site, found in layers.items()}
        return Coverage(len(numbers), (), depths, streamed=True)

    def _layer(self, key: Key, matrix: Tensor) -> LayerWeights:
        number, site, layer = key
        tokens = self.kept.tokens[number, site]
        kinds = self.kept.kinds.get((number, site)) or tuple("w" * len(side) for side in tokens)
        return LayerWeights(
            site=site,
            layer=layer,
            weights=matrix[None],
            queries=axis_of(kinds[0]),
            keys=axis_of(kinds[1]),
            causal=site == "decoder",
            sentences=(number,),
            vocabularies=(Names(tokens[0]), Names(tokens[1])),
        )

    def about(self) -> dict[str, str]:
        """What the file holds, in words, by heading."""
        sites = {site: {key[2] for key in self.kept.matrices if key[1] == site} for site in SITES}
        sentences = len({key[0] for key in self.kept.matrices})
        return {
            "Source": published(self.path),
            "Layers": ", ".join(f"{site}: {len(found)}" for site, found in sites.items() if found),
            "Sentences": f"{sentences} whose matrices an analysis kept",
        }


def load_kept_source(
    path: str | Path, *, normalize: str = "none", sites: Sequence[str] | None = None
) -> KeptSource | None:
    """The matrices of a file that `attnlab analyze` wrote; None for a file from elsewhere.

    Args:
        path: `matrices.safetensors` of an analysis.
        normalize: `rows` divides each row by its sum, `none` does not.
        sites: which of them to take; None for all.

    Raises:
        InputError: the file is damaged, or holds nothing of these sites.
    """
    path = Path(path)
    if not holds_kept_matrices(path):
        return None
    found = load_kept_matrices(path)
    checked = {
        key: prepared(matrix.double(), normalize)
        for key, matrix in found.matrices.items()
        if sites is None or key[1] in sites
    }
    if not checked:
        there = sorted({key[1] for key in found.matrices})
        wanted = f"; its sites are: {', '.join(there)}" if there else ""
        msg = f"{path} holds no matrices that were asked for{wanted}."
        raise InputError(msg)
    matrices = {key: matrix for key, (matrix, _) in checked.items()}
    kept = KeptMatrices(matrices, found.tokens, frozenset(), found.kinds)
    cut = tuple(
        KeptInPart(*at, len(found.tokens[at][0]), count)
        for at, count in found.all_queries.items()
        if at in {key[:2] for key in checked}
    )
    notes = [note for _, note in checked.values() if note is not None]
    if not notes:
        return KeptSource(path, kept, cut)
    lowest, highest = min(one.lowest for one in notes), max(one.highest for one in notes)
    return KeptSource(path, kept, (*cut, RowsNotNormalized(lowest, highest, kept=True)))


def axis_of(kinds: str, sentences: int = 1) -> Axis:
    """Tokens by the letters of `attnlab.extraction.keeping.LETTERS`, the same in all sentences."""

    def of(letters: str) -> Tensor:
        return torch.tensor([kind in letters for kind in kinds], dtype=torch.bool).expand(shape)

    shape = (sentences, len(kinds))
    every = torch.ones(shape, dtype=torch.bool)
    positions = torch.arange(len(kinds)).expand(shape)
    return Axis(positions, every, of("wp"), of("soc"), of("o"), of("c"), of("p"))
