"""Matrices of a file as a source of an analysis: heads without a model, and without tokens."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from jaxtyping import Float
from torch import Tensor

from attnlab.addresses import SITES, UNKNOWN_SITE, Site
from attnlab.errors import InputError
from attnlab.extraction.kept_source import Names, axis_of
from attnlab.extraction.matrix_files import ANALYSIS_BYTES_AN_ENTRY, load_matrices, prepared
from attnlab.extraction.notes import RowsNotNormalized
from attnlab.extraction.reading import Consumer, Coverage
from attnlab.extraction.weights import LayerWeights
from attnlab.representations import OneLine
from attnlab.texts import published

AXES = ("layer", "sentence", "head", "query", "key")


@dataclass(frozen=True, repr=False)
class MatrixSource(OneLine):
    """Attention matrices of a file.

    Attributes:
        path: the file.
        matrices: in float64.
        site: what they are, as far as it was said.
        causal: whether no row of any matrix looks ahead.
        notes: what is wrong with them.
    """

    path: Path
    matrices: Float[Tensor, "layer sentence head query key"]
    site: Site
    causal: bool
    notes: tuple[RowsNotNormalized, ...]

    def send(self, consumers: Sequence[Consumer], first: int | None = None) -> Coverage:
        """Feeds every layer to `consumers`, with the first sentences only where `first` is given."""
        layers, sentences, _, queries, keys = self.matrices[:, :first].shape
        # Every row and column is an ordinary token, known by its position.
        sides = [axis_of("w" * length, sentences) for length in (queries, keys)]
        names = [Names([str(position) for position in range(length)]) for length in (queries, keys)]
        for layer in range(layers):
            seen = LayerWeights(
                site=self.site,
                layer=layer,
                weights=self.matrices[layer, :first],
                queries=sides[0],
                keys=sides[1],
                causal=self.causal,
                sentences=tuple(range(sentences)),
                vocabularies=(names[0], names[1]),
                has_tokens=False,
            )
            for consumer in consumers:
                consumer.update(seen)
        return Coverage(sentences, (), {self.site: layers}, streamed=True)

    def about(self) -> dict[str, str]:
        """What the file holds, in words, by heading."""
        axes = zip(self.matrices.shape, AXES, strict=True)
        return {
            "Source": published(self.path),
            "Matrices": " x ".join(f"{size} {axis}" for size, axis in axes),
            "Site": self.site,
            "Causal": "yes: no weight above the diagonal" if self.causal else "no",
            "Tokens": "not in the file; every row and column counts as an ordinary token",
        }


def load_matrix_source(
    path: str | Path,
    *,
    array: str | None = None,
    normalize: str = "none",
    sites: Sequence[str] | None = None,
) -> MatrixSource:
    """The matrices of a file, ready to be analyzed.

    Args:
        path: `.npz`, `.npy` or `.safetensors`; its array is `[query key]`, `[head query key]`,
            `[sentence head query key]` or `[layer sentence head query key]`.
        array: which array of a file that holds several.
        normalize: `rows` divides each row by its sum, `none` does not.
        sites: what the matrices are: one site, or None where that is not known.

    Raises:
        InputError: the file, the number of dimensions, an entry or the sites cannot be used.
    """
    path = Path(path)
    if sites is not None and len(sites) != 1:
        msg = "The matrices of a file are of one site; name one, such as sites=['cross'], or none."
        raise InputError(msg)
    found = load_matrices(path, array=array, working=_analysis)
    if found.ndim > len(AXES):
        msg = (
            f"{path} holds an array of {found.ndim} dimensions; "
            f"the most that can be read are {len(AXES)}: {', '.join(AXES)}."
        )
        raise InputError(msg)
    matrices, note = prepared(found, normalize)
    matrices = matrices[(None,) * (len(AXES) - found.ndim)]
    site: Site = next((site for site in SITES if site in (sites or ())), UNKNOWN_SITE)
    causal = site != "cross" and _looks_back(matrices)
    return MatrixSource(path, matrices, site, causal, () if note is None else (note,))


def _analysis(shape: Sequence[int]) -> int:
    """Bytes that an analysis needs: for the matrices of one layer at a time."""
    of_layer = shape[1:] if len(shape) == len(AXES) else shape
    return ANALYSIS_BYTES_AN_ENTRY * math.prod(of_layer)


def _looks_back(matrices: Float[Tensor, "layer sentence head query key"]) -> bool:
    queries, keys = matrices.shape[-2:]
    return queries == keys > 1 and not bool(matrices.triu(1).any())
