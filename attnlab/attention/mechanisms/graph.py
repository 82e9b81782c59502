"""Attention on a graph that the user gives: a query sees its neighbours (thesis, equation 13)."""

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path
from typing import Any, ClassVar

import torch
from jaxtyping import Bool
from torch import Tensor

from attnlab.attention.mechanism import (
    Context,
    Positions,
    Setup,
    Traits,
    nearest_real,
    visible_or_all,
)
from attnlab.attention.mechanisms.softmax import MaskedSoftmax
from attnlab.attention.specification import Specification
from attnlab.core import (
    LONGEST_TEXT,
    UNREADABLE_ARRAYS,
    InputError,
    briefly,
    document_text,
    read_numpy,
    reason,
)


@dataclass(frozen=True)
class Graph(Specification):
    """Query i sees key j for each edge (i, j).

    A `file` is read at once: an edge a line, or a matrix of queries by keys (`.npy`), not 0 at edges.
    """

    name: ClassVar[str] = "graph"
    edges: Any = ()
    file: Any = None

    def __post_init__(self) -> None:
        if hasattr(self.edges, "tolist"):
            object.__setattr__(self, "edges", self.edges.tolist())
        if self.file is not None:
            if self.edges:
                msg = f"'{self.name}' takes its edges from a list or from a file, not from both."
                raise InputError(msg)
            object.__setattr__(self, "edges", _read_edges(Path(str(self.file))))
            if not self.edges:
                msg = (
                    f"{self.file} holds no edge; give a graph in which some query has a neighbour."
                )
                raise InputError(msg)
            object.__setattr__(self, "file", None)
        pairs = self.edges if isinstance(self.edges, list | tuple) else ()
        if not pairs or not all(map(_is_edge, pairs)):
            msg = (
                f"The option 'edges' of '{self.name}' is a list of pairs of positions from 0 up, such as "
                f"[(0, 0), (1, 0)], not {briefly(self.edges)}."
            )
            raise InputError(msg)
        object.__setattr__(
            self, "edges", tuple(sorted({(int(pair[0]), int(pair[1])) for pair in pairs}))
        )


def _is_edge(pair: Any) -> bool:
    return (
        isinstance(pair, list | tuple)
        and len(pair) == 2
        and all(isinstance(end, Integral) and not isinstance(end, bool) for end in pair)
        and all(0 <= end < LONGEST_TEXT for end in pair)
    )


def _read_edges(path: Path) -> list[tuple[int, int]]:
    """The edges of a file: two whole numbers a line, the query first, blanks or a comma between.

    Raises:
        InputError: it cannot be read, or holds something else.
    """
    if path.suffix == ".npy":
        return _edges_of_matrix(path)
    edges = []
    for number, line in enumerate(document_text(path).splitlines(), start=1):
        ends = line.replace(",", " ").split()
        if not ends:
            continue
        if len(ends) != 2 or not all(end.isdecimal() and end.isascii() for end in ends):
            msg = (
                f"{path}, line {number}: an edge is two positions from 0 up, the query and the key, such as "
                f"1 0, not {briefly(line)}."
            )
            raise InputError(msg)
        edges.append((int(ends[0]), int(ends[1])))
    return edges


def _edges_of_matrix(path: Path) -> list[tuple[int, int]]:
    try:
        matrix = read_numpy(path, lambda: path.open("rb"), "a matrix of queries by keys")
    except UNREADABLE_ARRAYS as error:
        msg = f"{path} cannot be read ({reason(error)}); write it with numpy.save."
        raise InputError(msg) from error
    if matrix.ndim != 2:
        msg = f"{path} holds an array of shape {matrix.shape}; give a matrix of queries by keys."
        raise InputError(msg)
    return [(int(query), int(key)) for query, key in zip(*matrix.nonzero(), strict=True)]


class GraphAttention(MaskedSoftmax):
    """Softmax over the neighbours of each query.

    ::

        out_i = sum over edges (i, j) of softmax_j(q_i . k_j / sqrt(dim)) v_j

    Positions are counted among real tokens from 0; edges beyond the end of a text fall away. A query without
    a neighbour in its text sees the key at its own position, or the last one.
    """

    specification: ClassVar[type[Specification] | None] = Graph
    source: ClassVar[str] = "thesis, equation 13; Zaheer et al. 2020, arXiv 2007.14062, section 2"
    traits: ClassVar[Traits] = Traits(causal=False, cached=False)
    positions: ClassVar[Positions] = "pairs"
    refusals: ClassVar[Mapping[str, str]] = {
        "causal": "its rows are counted from the start of a sentence, of which a cache holds keys alone"
    }
    spec: Graph

    def __init__(self, spec: Graph, setup: Setup) -> None:
        super().__init__(spec, setup)
        self.register_buffer("edges", torch.tensor(spec.edges), persistent=False)

    def pairs(
        self, query: Tensor, key: Tensor, context: Context
    ) -> Bool[Tensor, "batch 1 query key"]:
        """True at the edges, and at the nearest key of a query without one in its text."""
        rows, keys = query.shape[-2], key.shape[-2]
        first = torch.tensor([context.first_query, 0], device=key.device)
        edges = self.get_buffer("edges") - first
        inside = (edges >= 0).all(-1) & (edges[:, 0] < rows) & (edges[:, 1] < keys)
        seen = torch.zeros(rows, keys, dtype=torch.bool, device=key.device)
        seen[tuple(edges[inside].T)] = True
        visible = visible_or_all(key, context.visible)
        seen = seen & visible[:, None]
        index = torch.arange(rows, device=key.device) + context.first_query
        nearest = torch.zeros_like(seen).scatter(-1, nearest_real(index, visible)[..., None], True)
        return (seen | (nearest & ~seen.any(-1, keepdim=True)))[:, None]
