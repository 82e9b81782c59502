"""Attention matrices from files: .npz, .npy and .safetensors; nothing is unpickled."""

import math
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from jaxtyping import Float, Shaped
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
    declared_array,
    layer_name,
    open_regular,
    opened_tensors,
    path_label,
    read_numpy,
)
from attnlab.matrices import check_weights, normalized_rows, rows_sum_to_one
from attnlab.reading.coverage import Consumer, Coverage
from attnlab.reading.keeping import KeptMatrices, Key, holds_kept_matrices, load_kept_matrices
from attnlab.reading.matrix_axes import AXES, AxesTaken, axes_of, check_axes, layers_among
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
# Bytes that work with an array of a shape needs beside it; and whether the array is that of one layer.
_Working: TypeAlias = Callable[[Sequence[int], bool], int]


def load_matrices(
    path: str | Path,
    *,
    array: str | None = None,
    working: _Working = lambda *_: 0,
) -> Tensor:
    """The matrices of a file in float64, `[*batch query key]`, those of arrays of layers stacked.

    Args:
        path: of the file.
        array: which one to take from a file that holds several.
        working: the bytes that the work with an array of a shape will need beside it.

    Raises:
        InputError: the file is missing, of an unknown kind, beyond the free memory, damaged, pickled, holds
            several arrays that are no layers and none was named, or its array is no batch of matrices.
    """
    return _stacked(Path(path), _load(Path(path), array, working))


def _load(path: Path, array: str | None, working: _Working) -> dict[str, Tensor]:
    """One array of a file by its name, or all of its layers, see `layers_among`."""
    check_regular(path)
    if not path.is_file():
        msg = f"There is no file {path}; check the path."
        raise InputError(msg)
    readers = {".npy": _read_numpy, ".npz": _read_members, ".safetensors": _read_safetensors}
    if path.suffix not in readers:
        msg = f"{path} is none of the files that can be read: {', '.join(readers)}."
        raise InputError(msg)
    arrays = readers[path.suffix](path, array, working)
    return {name: _checked_matrices(path, values) for name, values in arrays.items()}


def _stacked(path: Path, arrays: dict[str, Tensor]) -> Tensor:
    """The only array, or those of layers along a first axis.

    Raises:
        InputError: a layer has another shape than the first.
    """
    first, *others = arrays.items()
    for name, values in others:
        if values.shape != first[1].shape:
            msg = (
                f"{path}: the layers {first[0]} and {name} have the shapes {tuple(first[1].shape)} and "
                f"{tuple(values.shape)}; name one of them (option array)."
            )
            raise InputError(msg)
    return torch.stack([*arrays.values()]) if others else first[1]


def load_arrays(
    path: str | Path, *, array: str | None = None, axes: Sequence[str] | None = None
) -> tuple[dict[str, Tensor], AxesTaken | None, dict[str, dict[str, Any]]]:
    """The matrices of a file by the name of their array, `[*batch query key]`, and what axes were taken for.

    A file of an analysis gives all its arrays, which say themselves what they are; another one that of each
    layer, or one array, with an empty name. Last comes what is known of each array: `sentence`, `site` and
    `layer`, as far as the file says them.

    Raises:
        InputError: as `load_matrices` and `axes_of`.
    """
    path = Path(path)
    if array is not None or not holds_kept_matrices(path):
        arrays = _load(path, array, _fits)
        layered = layers_among([*arrays]) is not None
        taken = _axes_taken(path, arrays, axes, layered=layered)
        arranged = {name: _arranged(values, taken.axes) for name, values in arrays.items()}
        if not layered:
            return {"": next(iter(arranged.values()))}, taken, {}
        layers = layers_among([*arrays]) or {}
        return arranged, taken, {name: {"layer": layer} for name, layer in layers.items()}
    _check_no_axes(path, axes)
    kept = load_kept_matrices(path).matrices
    names = {at: f"{at[0]}.{layer_name(*at[1:])}" for at in kept}
    return (
        {names[at]: matrix.double() for at, matrix in kept.items()},
        None,
        {
            name: dict(zip(("sentence", "site", "layer"), at, strict=True))
            for at, name in names.items()
        },
    )


def _check_no_axes(path: Path, axes: Sequence[str] | None) -> None:
    """Raises InputError where axes are named for a file of an analysis."""
    if axes is not None:
        msg = f"{path} is of an analysis and says itself what its matrices are; leave axes out."
        raise InputError(msg)


def _axes_taken(
    path: Path, arrays: Mapping[str, Tensor], axes: Sequence[str] | None, *, layered: bool
) -> AxesTaken:
    first = next(iter(arrays.values()))
    other = next((name for name, values in arrays.items() if values.ndim != first.ndim), None)
    if other is not None:
        msg = (
            f"{path}: the layers {next(iter(arrays))} and {other} have {first.ndim} and {arrays[other].ndim} "
            "dimensions; name one of them (option array)."
        )
        raise InputError(msg)
    taken = axes_of(first.ndim, axes, of_layer=layered, array=f"The array in {path}")
    return AxesTaken(taken, tuple(first.shape), tuple(arrays) if layered else ())


def _arranged(values: Tensor, axes: Sequence[str]) -> Tensor:
    """The axes in the order in which they are kept."""
    return values.permute([axes.index(name) for name in AXES if name in axes])


def _fits(shape: Sequence[int], _: bool = False) -> int:
    return FIT_BYTES_AN_ENTRY * math.prod(shape)


def _read_numpy(path: Path, array: str | None, working: _Working) -> dict[str, Tensor]:
    _chosen(path, [""], array)
    with _refusing_damage(path):
        shape, _ = declared_array(path, lambda: open_regular(path), _HELD)
        _check_sizes(path, {"": shape}, working)
        return {"": _tensor(read_numpy(path, lambda: open_regular(path), _HELD))}


def _read_members(path: Path, array: str | None, working: _Working) -> dict[str, Tensor]:
    """Arrays of a zip file; of the others nothing but the names is read."""
    ending = ".npy"
    with _refusing_damage(path), open_regular(path) as opened, zipfile.ZipFile(opened) as archive:
        members = {name.removesuffix(ending): name for name in archive.namelist()}
        chosen = _chosen(path, list(members), array)
        opened_as = {name: partial(archive.open, members[name]) for name in chosen}
        shapes = {name: declared_array(path, file, _HELD)[0] for name, file in opened_as.items()}
        _check_sizes(path, shapes, working)
        return {name: _tensor(read_numpy(path, file, _HELD)) for name, file in opened_as.items()}


def _check_sizes(path: Path, shapes: Mapping[str, Sequence[int]], working: _Working) -> None:
    """Raises InputError where arrays of these shapes, by name, need more memory than is free."""
    of_layer = layers_among([*shapes]) is not None
    needed = sum(BYTES_AN_ENTRY * math.prod(shape) for shape in shapes.values())
    needed += max(working(shape, of_layer) for shape in shapes.values())
    several = f"The {len(shapes)} arrays, the first" if len(shapes) > 1 else "The array"
    what = f"{several} of shape {tuple(next(iter(shapes.values())))} in {path}"
    check_memory(needed, what, "save fewer matrices in a file")


@contextmanager
def _refusing_damage(path: Path) -> Iterator[None]:
    """Turns what reading a file of numpy raises into an InputError."""
    try:
        yield
    except UNREADABLE_ARRAYS as error:
        msg = f"{path} cannot be read: it is damaged or no {path.suffix} file."
        raise InputError(msg) from error


def _tensor(values: Shaped[np.ndarray, "..."]) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(values, dtype=np.float64))


def _read_safetensors(path: Path, array: str | None, working: _Working) -> dict[str, Tensor]:
    from safetensors import SafetensorError

    try:
        with opened_tensors(path, copies=0) as file:
            chosen = _chosen(path, list(file.keys()), array)
            shapes = {name: file.get_slice(name).get_shape() for name in chosen}
            _check_sizes(path, shapes, working)
            return {name: file.get_tensor(name) for name in chosen}
    except (SafetensorError, OSError) as error:
        msg = f"{path} cannot be read: it is damaged or no .safetensors file."
        raise InputError(msg) from error


def _chosen(path: Path, names: list[str], name: str | None) -> list[str]:
    """The array that is wanted, the only one, or those of layers in the order of their numbers."""
    if name is not None and name not in names:
        msg = f"{path} has no array '{name}'; it has: {_some(names)}."
        raise InputError(msg)
    if name is not None:
        return [name]
    layers = layers_among(names)
    if layers is None and len(names) != 1:
        msg = (
            f"{path} holds {len(names)} arrays ({_some(names)}), which are not named as the layers of one "
            "site (layer0, layer1; decoder.0, decoder.1); name one of them (option array)."
            if names
            else f"{path} holds no array."
        )
        raise InputError(msg)
    return [*layers] if layers is not None else names


def _some(names: list[str]) -> str:
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return (", ".join(names[:_MOST_NAMED]) or "none") + more


def _checked_matrices(path: Path, values: Tensor) -> Tensor:
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
        depths = {site: len(numbers) for site, numbers in layers.items()}
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
        """Facts about the file in words, by heading."""
        sites = {site: {key[2] for key in self.kept.matrices if key[1] == site} for site in SITES}
        sentences = len({key[0] for key in self.kept.matrices})
        return {
            "Source": path_label(self.path),
            "Layers": ", ".join(
                f"{site}: {len(layers)}" for site, layers in sites.items() if layers
            ),
            "Sentences": f"{sentences} whose matrices an analysis kept",
        }


def load_kept_source(
    path: str | Path,
    *,
    normalize: str = "none",
    sites: Sequence[str] | None = None,
    axes: Sequence[str] | None = None,
) -> KeptSource | None:
    """The matrices of a file that `attnlab analyze` wrote; None for a file from elsewhere.

    Args:
        path: `matrices.safetensors` of an analysis.
        normalize: `rows` divides each row by its sum, `none` does not.
        sites: which of them to take; None for all.
        axes: none, since the file says what they are.

    Raises:
        InputError: the file is damaged, or holds nothing of these sites; axes are given.
    """
    path = Path(path)
    if not holds_kept_matrices(path):
        return None
    _check_no_axes(path, axes)
    loaded = load_kept_matrices(path)
    if loaded.rows or loaded.heads is not None:
        msg = (
            f"{path} holds selected rows or heads alone, which cannot be analyzed as whole matrices; "
            "read it with load_kept_matrices, or capture all of them."
        )
        raise InputError(msg)
    checked = {
        key: prepared(matrix.double(), normalize)
        for key, matrix in loaded.matrices.items()
        if sites is None or key[1] in sites
    }
    if not checked:
        sites_in_file = sorted({key[1] for key in loaded.matrices})
        choices = f"; its sites are: {', '.join(sites_in_file)}" if sites_in_file else ""
        msg = f"{path} holds no matrices that were asked for{choices}."
        raise InputError(msg)
    matrices = {key: matrix for key, (matrix, _) in checked.items()}
    kept = KeptMatrices(matrices, loaded.tokens, frozenset(), loaded.kinds)
    cut = tuple(
        KeptInPart(*at, len(loaded.tokens[at][0]), count)
        for at, count in loaded.all_queries.items()
        if at in {key[:2] for key in checked}
    )
    notes = [note for _, note in checked.values() if note is not None]
    if not notes:
        return KeptSource(path, kept, cut)
    lowest, highest = min(note.lowest for note in notes), max(note.highest for note in notes)
    return KeptSource(path, kept, (*cut, RowsNotNormalized(lowest, highest, kept=True)))


def axis_of(kinds: str, sentences: int = 1) -> Axis:
    """Tokens by the letters of `attnlab.reading.keeping.LETTERS`, the same in all sentences."""

    def of(letters: str) -> Tensor:
        return torch.tensor([kind in letters for kind in kinds], dtype=torch.bool).expand(shape)

    shape = (sentences, len(kinds))
    every = torch.ones(shape, dtype=torch.bool)
    positions = torch.arange(len(kinds)).expand(shape)
    return Axis(positions, every, of("wp"), of("soc"), of("o"), of("c"), of("p"))


@dataclass(frozen=True, repr=False)
class MatrixSource(ShortRepr):
    """Attention matrices of a file.

    Attributes:
        path: the file.
        matrices: in float64.
        layers: numbers of the layers.
        site: what they are, as far as it was said.
        causal: whether no row of any matrix looks ahead.
        notes: what their axes were taken for, and what is wrong with them.
    """

    path: Path
    matrices: Float[Tensor, "layer sentence head query key"]
    layers: tuple[int, ...]
    site: Site
    causal: bool
    notes: tuple[AxesTaken | RowsNotNormalized, ...]

    def send(self, consumers: Sequence[Consumer], first: int | None = None) -> Coverage:
        """Feeds every layer to `consumers`, with the first sentences only where `first` is given."""
        sentences, _, queries, keys = self.matrices[0, :first].shape
        # Every row and column is an ordinary token, known by its position.
        sides = [axis_of("w" * length, sentences) for length in (queries, keys)]
        names = [Names([str(position) for position in range(length)]) for length in (queries, keys)]
        for layer, weights in zip(self.layers, self.matrices, strict=True):
            seen = LayerWeights(
                site=self.site,
                layer=layer,
                weights=weights[:first],
                queries=sides[0],
                keys=sides[1],
                causal=self.causal,
                sentences=tuple(range(sentences)),
                vocabularies=(names[0], names[1]),
                has_tokens=False,
            )
            for consumer in consumers:
                consumer.update(seen)
        return Coverage(sentences, (), {self.site: len(self.layers)}, streamed=True)

    def about(self) -> dict[str, str]:
        """Facts about the file in words, by heading."""
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
    axes: Sequence[str] | None = None,
    normalize: str = "none",
    sites: Sequence[str] | None = None,
) -> MatrixSource:
    """The matrices of a file, ready to be analyzed.

    Args:
        path: `.npz`, `.npy` or `.safetensors`, of one array, or of one for each layer (`layer0` or
            `decoder.0`).
        array: which array of a file that holds several.
        axes: names of the axes of the array; None: see `axes_of`.
        normalize: `rows` divides each row by its sum, `none` does not.
        sites: what the matrices are: one site, or None where that is not known or arrays are named by it.

    Raises:
        InputError: the file, the number of dimensions, an entry or the sites cannot be used.
    """
    path = Path(path)
    if sites is not None and len(sites) != 1:
        msg = "The matrices of a file are of one site; name one, such as sites=['cross'], or none."
        raise InputError(msg)
    check_axes(axes)
    arrays = _load(path, array, partial(_analysis, path=path, axes=axes))
    numbers = layers_among([*arrays])
    taken = _axes_taken(path, arrays, axes, layered=numbers is not None)
    named = taken.axes if numbers is None or len(arrays) == 1 else ("layers", *taken.axes)
    matrices, note = prepared(_arranged(_stacked(path, arrays), named), normalize)
    sizes = dict(zip((name for name in AXES if name in named), matrices.shape, strict=True))
    matrices = matrices.reshape([sizes.get(name, 1) for name in AXES])
    layers = tuple(range(len(matrices))) if numbers is None else tuple(numbers.values())
    site = _site_of(path, next(iter(arrays)) if numbers else "", sites)
    causal = site != "cross" and _looks_back(matrices)
    notes = (taken,) if note is None else (taken, note)
    return MatrixSource(path, matrices, layers, site, causal, notes)


def _site_of(path: Path, name: str, sites: Sequence[str] | None) -> Site:
    """The site that was given, or that the name of an array of a layer says.

    Raises:
        InputError: the two differ.
    """
    named = name.split(".", maxsplit=1)[0]
    given = sites[0] if sites else named
    if named in SITES and given != named:
        msg = f"{path} holds layers of {named}, and not of {given}; leave sites out."
        raise InputError(msg)
    return next((site for site in SITES if site == given), UNKNOWN_SITE)


def _analysis(shape: Sequence[int], of_layer: bool, path: Path, axes: Sequence[str] | None) -> int:
    """Bytes that an analysis needs: for the matrices of one layer at a time."""
    taken = axes_of(len(shape), axes, of_layer=of_layer, array=f"The array in {path}")
    sizes = dict(zip(taken, shape, strict=True))
    return ANALYSIS_BYTES_AN_ENTRY * math.prod(shape) // max(sizes.get("layers", 1), 1)


def _looks_back(matrices: Float[Tensor, "layer sentence head query key"]) -> bool:
    queries, keys = matrices.shape[-2:]
    return queries == keys > 1 and not bool(matrices.triu(1).any())
