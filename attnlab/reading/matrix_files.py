"""Attention matrices from files: .npz, .npy and .safetensors; nothing is unpickled."""

import math
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from attnlab.core import (
    SITES,
    UNKNOWN_SITE,
    UNREADABLE_ARRAYS,
    InputError,
    ShortRepr,
    Site,
    check_memory,
    check_regular,
    layer_name,
    open_regular,
    opened_tensors,
    path_label,
    read_numpy,
)
from attnlab.matrices import check_weights, normalized_rows, rows_sum_to_one
from attnlab.reading.coverage import Consumer, Coverage
from attnlab.reading.keeping import KeptMatrices, Key, holds_kept_matrices, load_kept_matrices
from attnlab.reading.reading_notes import KeptInPart, RowsNotNormalized
from attnlab.reading.vocabulary import Axis
from attnlab.reading.weights import LayerWeights

# As it is read, in float64, and what checks and divided rows hold of it; measured.
BYTES_AN_ENTRY = 26
# What statistics, description lengths and fits of an analysis hold besides, for the matrices of a layer:
# with what is read a single matrix takes 161 bytes an entry, 48 of 512 tokens take 39; measured.
ANALYSIS_BYTES_AN_ENTRY = 150
# And the structured fits, which are of all matrices of an array at once.
FIT_BYTES_AN_ENTRY = 300
_HELD = "attention weights"
# Arrays that a message names.
_MOST_NAMED = 8
_Working: TypeAlias = Callable[[Sequence[int]], int]


def load_matrices(
    path: str | Path,
    *,
    array: str | None = None,
    working: _Working = lambda _: 0,
) -> Tensor:
    """The matrices of a file in float64, `[*batch query key]`.

    Args:
        path: of the file.
        array: which one to take from a file that holds several.
        working: the bytes that the work with an array of a shape will need beside it.

    Raises:
        InputError: the file is missing, of an unknown kind, beyond the free memory, damaged, pickled, holds
            several arrays and none was named, or its array is no batch of matrices.
    """
    path = Path(path)
    check_regular(path)
    if not path.is_file():
        msg = f"There is no file {path}; check the path."
        raise InputError(msg)
    readers = {".npy": _read_numpy, ".npz": _read_members, ".safetensors": _read_safetensors}
    if path.suffix not in readers:
        msg = f"{path} is none of the files that can be read: {', '.join(readers)}."
        raise InputError(msg)
    return _as_matrices(path, readers[path.suffix](path, array, working))


def load_arrays(path: str | Path, *, array: str | None = None) -> dict[str, Tensor]:
    """The matrices of a file by the name of their array; all arrays of a file of an analysis.

    A file from elsewhere gives one array, with an empty name.

    Raises:
        InputError: as `load_matrices`.
    """
    path = Path(path)
    if array is not None or not holds_kept_matrices(path):
        return {"": load_matrices(path, array=array, working=_fits)}
    found = load_kept_matrices(path).matrices
    return {
        f"{n}.{layer_name(site, layer)}": matrix.double()
        for (n, site, layer), matrix in found.items()
    }


def _fits(shape: Sequence[int]) -> int:
    return FIT_BYTES_AN_ENTRY * math.prod(shape)


def _read_numpy(path: Path, array: str | None, working: _Working) -> Tensor:
    _chosen(path, [""], array)
    with _refusing_damage(path):
        return _tensor(read_numpy(path, lambda: open_regular(path), _HELD, _needs(working)))


def _read_members(path: Path, array: str | None, working: _Working) -> Tensor:
    """One array of a zip file; of the others nothing but the names is read."""
    ending = ".npy"
    with _refusing_damage(path), open_regular(path) as opened, zipfile.ZipFile(opened) as archive:
        members = {name.removesuffix(ending): name for name in archive.namelist()}
        member = members[_chosen(path, list(members), array)]
        return _tensor(read_numpy(path, lambda: archive.open(member), _HELD, _needs(working)))


def _needs(working: _Working) -> _Working:
    return lambda shape: BYTES_AN_ENTRY * math.prod(shape) + working(shape)


@contextmanager
def _refusing_damage(path: Path) -> Iterator[None]:
    """Turns what reading a file of numpy raises into an InputError."""
    try:
        yield
    except UNREADABLE_ARRAYS as error:
        msg = f"{path} cannot be read: it is damaged or no {path.suffix} file."
        raise InputError(msg) from error


def _tensor(values: "np.ndarray[Any, Any]") -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(values, dtype=np.float64))


def _read_safetensors(path: Path, array: str | None, working: _Working) -> Tensor:
    from safetensors import SafetensorError

    try:
        with opened_tensors(path, copies=0) as file:
            name = _chosen(path, list(file.keys()), array)
            shape = file.get_slice(name).get_shape()
            what = f"The array of shape {tuple(shape)} in {path}"
            check_memory(_needs(working)(shape), what, "save fewer matrices in a file")
            return file.get_tensor(name)
    except (SafetensorError, OSError) as error:
        msg = f"{path} cannot be read: it is damaged or no .safetensors file."
        raise InputError(msg) from error


def _chosen(path: Path, names: list[str], wanted: str | None) -> str:
    if wanted is not None and wanted not in names:
        msg = f"{path} has no array '{wanted}'; it has: {_some(names)}."
        raise InputError(msg)
    if wanted is not None:
        return wanted
    if len(names) != 1:
        msg = (
            f"{path} holds {len(names)} arrays ({_some(names)}); name one of them (option array)."
            if names
            else f"{path} holds no array."
        )
        raise InputError(msg)
    return names[0]


def _some(names: list[str]) -> str:
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return (", ".join(names[:_MOST_NAMED]) or "none") + more


def _as_matrices(path: Path, values: Tensor) -> Tensor:
    if values.ndim < 2:
        msg = f"{path} holds an array of {values.ndim} dimension(s); a matrix has two."
        raise InputError(msg)
    if values.numel() == 0:
        msg = f"{path} holds an empty array of shape {tuple(values.shape)}."
        raise InputError(msg)
    if values.is_complex():
        msg = f"{path} holds an array of {values.dtype}; attention weights are real numbers."
        raise InputError(msg)
    return values.double()


def prepared(matrices: Tensor, normalize: str) -> tuple[Tensor, RowsNotNormalized | None]:
    """The matrices, checked, with rows divided by their sums if `normalize` is `rows`.

    With them a note where rows do not sum to 1 and are left so.

    Raises:
        InputError: an unknown way to normalize, an entry that is NaN or negative, or a row of zeros that
            cannot be normalized.
    """
    if normalize not in {"rows", "none"}:
        msg = f"Rows cannot be normalized by '{normalize}'; choose from: rows, none."
        raise InputError(msg)
    check_weights(matrices)
    if normalize == "rows":
        return normalized_rows(matrices), None
    if rows_sum_to_one(matrices):
        return matrices, None
    sums = matrices.sum(-1)
    return matrices, RowsNotNormalized(float(sums.min()), float(sums.max()))


@dataclass(frozen=True)
class Names:
    """Tokens by their positions in one sentence."""

    names: Sequence[str]

    def tokens(self, ids: Sequence[int]) -> list[str]:
        """The tokens at these positions."""
        return [self.names[position] for position in ids]


@dataclass(frozen=True, repr=False)
class KeptSource(ShortRepr):
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
            "Source": path_label(self.path),
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
    if found.rows or found.heads is not None:
        msg = (
            f"{path} holds selected rows or heads alone, which cannot be analyzed as whole matrices; "
            "read it with load_kept_matrices, or capture all of them."
        )
        raise InputError(msg)
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
    """Tokens by the letters of `attnlab.reading.keeping.LETTERS`, the same in all sentences."""

    def of(letters: str) -> Tensor:
        return torch.tensor([kind in letters for kind in kinds], dtype=torch.bool).expand(shape)

    shape = (sentences, len(kinds))
    every = torch.ones(shape, dtype=torch.bool)
    positions = torch.arange(len(kinds)).expand(shape)
    return Axis(positions, every, of("wp"), of("soc"), of("o"), of("c"), of("p"))


AXES = ("layer", "sentence", "head", "query", "key")


@dataclass(frozen=True, repr=False)
class MatrixSource(ShortRepr):
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
            "Source": path_label(self.path),
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
