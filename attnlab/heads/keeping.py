"""Whole matrices of a few sentences, within a limit of bytes, and their file."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from jaxtyping import Float
from safetensors import safe_open
from torch import Tensor

from attnlab.errors import InputError
from attnlab.files import write_tensors
from attnlab.heads.parcels import Plain
from attnlab.heads.taps import Site, place_of
from attnlab.heads.weights import LayerWeights

Key = tuple[int, Site, int]


@dataclass(frozen=True)
class KeptMatrices:
    """Matrices `[head, query, key]` by (sentence, site, layer), with the tokens of both sides.

    Attributes:
        matrices: padding cut off.
        tokens: (query tokens, key tokens) by (sentence, site).
        left_out: sentences that were wanted but would have gone over the limit of bytes.
    """

    matrices: Mapping[Key, Float[Tensor, "head query key"]] = field(default_factory=dict)
    tokens: Mapping[tuple[int, Site], tuple[list[str], list[str]]] = field(default_factory=dict)
    left_out: frozenset[int] = frozenset()

    def merge(self, other: "KeptMatrices") -> "KeptMatrices":
        """The matrices of both, in order of sentence."""
        return KeptMatrices(
            _ordered({**self.matrices, **other.matrices}),
            {**self.tokens, **other.tokens},
            self.left_out | other.left_out,
        )

    def write(self, path: Path) -> None:
        """Writes tensors named `sentence.site.layer`, tokens as JSON in the file's metadata."""
        tokens = {f"{number}.{site}": sides for (number, site), sides in self.tokens.items()}
        write_tensors(
            path,
            {f"{n}.{site}.{layer}": matrix for (n, site, layer), matrix in self.matrices.items()},
            {"tokens": json.dumps(tokens, ensure_ascii=False), "format": "attnlab matrices 1"},
        )


def _ordered(matrices: Mapping[Key, Tensor]) -> dict[Key, Tensor]:
    """By sentence, site and layer, sites in the order that data flows."""
    return dict(sorted(matrices.items(), key=lambda m: (m[0][0], place_of(m[0][1]), m[0][2])))


def load_matrices(path: Path) -> KeptMatrices:
    """What `KeptMatrices.write` wrote.

    Raises:
        InputError: the file is not one of attnlab's.
    """
    matrices: dict[Key, Tensor] = {}
    tokens: dict[tuple[int, Site], tuple[list[str], list[str]]] = {}
    with safe_open(str(path), "pt") as file:
        metadata = file.metadata() or {}
        if metadata.get("format") != "attnlab matrices 1":
            msg = f"{path} holds no matrices written by attnlab."
            raise InputError(msg)
        for name in file.keys():  # noqa: SIM118 - a safetensors handle is no dictionary
            number, site, layer = name.split(".")
            matrices[int(number), site, int(layer)] = file.get_tensor(name)
    for name, (queries, keys) in json.loads(metadata["tokens"]).items():
        number, site = name.split(".")
        tokens[int(number), site] = (queries, keys)
    return KeptMatrices(_ordered(matrices), tokens)


class MatrixKeeper:
    """Keeps the matrices of the first sentences; those that would go over the limit are dropped whole."""

    def __init__(self, sentences: int, most_bytes: int, dtype: torch.dtype = torch.float32) -> None:
        if dtype not in {torch.float16, torch.float32}:
            msg = f"Matrices are kept as float32 or float16, not {dtype}."
            raise InputError(msg)
        self.sentences = sentences
        self.most_bytes = most_bytes
        self.dtype = dtype
        self._matrices: dict[Key, Tensor] = {}
        self._tokens: dict[tuple[int, Site], tuple[list[str], list[str]]] = {}

    def update(self, layer: LayerWeights) -> None:
        """Cuts the wanted sentences out of the batch."""
        for row, number in enumerate(layer.sentences):
            if number >= self.sentences:
                continue
            queries = layer.queries.ids[row][layer.queries.real[row]].tolist()
            keys = layer.keys.ids[row][layer.keys.real[row]].tolist()
            matrix = layer.weights[row, :, : len(queries), : len(keys)]
            # A clone, because a slice would hold the batch in memory.
            self._matrices[number, layer.site, layer.layer] = matrix.to("cpu", self.dtype).clone()
            self._tokens[number, layer.site] = (
                layer.vocabularies[0].tokens(queries),
                layer.vocabularies[1].tokens(keys),
            )

    def state(self) -> Plain:
        """What other processes need to know of this one."""
        return self._matrices, self._tokens

    def absorb(self, states: Sequence[Plain]) -> None:
        """Holds what all processes have kept, this one's own `state` among them."""
        self._matrices, self._tokens = {}, {}
        for matrices, tokens in states:
            self._matrices |= matrices
            self._tokens |= tokens

    def kept(self) -> KeptMatrices:
        """The first sentences in order, as many as fit the limit."""
        used, left_out = 0, set()
        for number in sorted({key[0] for key in self._matrices}):
            size = sum(m.nbytes for key, m in self._matrices.items() if key[0] == number)
            if used + size > self.most_bytes:
                left_out.add(number)
            else:
                used += size
        return KeptMatrices(
            _ordered({k: m for k, m in self._matrices.items() if k[0] not in left_out}),
            {k: v for k, v in self._tokens.items() if k[0] not in left_out},
            frozenset(left_out),
        )
