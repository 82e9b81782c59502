"""Attention on a graph is the softmax over the neighbours that were given."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from attnlab.attention import make
from attnlab.attention.mechanisms.graph import Graph
from attnlab.attention.registry import parse
from attnlab.core.errors import InputError

EDGES = ((0, 1), (0, 3), (2, 0), (2, 2), (3, 1), (9, 9))


def inputs(tokens: int = 5) -> torch.Tensor:
    made = torch.Generator().manual_seed(0)
    return torch.randn(3, 2, 2, tokens, 4, generator=made, dtype=torch.float64)


def test_rows_are_the_softmax_over_neighbours_written_as_loops() -> None:
    query, key, value = inputs()
    found = make(f"graph(edges={EDGES})")(query, key, value)
    expected = torch.zeros_like(found)
    for batch in range(2):
        for head in range(2):
            for row in range(5):
                near = [j for i, j in EDGES if i == row and j < 5] or [row]
                q = query[batch, head, row]
                weights = [math.exp(float(q @ key[batch, head, j]) / 2) for j in near]
                for weight, j in zip(weights, near, strict=True):
                    expected[batch, head, row] += weight / sum(weights) * value[batch, head, j]
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(found[:, :, [1, 4]], value[:, :, [1, 4]])


def test_the_graph_of_a_band_is_the_band() -> None:
    query, key, value = inputs(7)
    edges = [(i, j) for i in range(7) for j in range(7) if abs(i - j) <= 2]
    found = make(f"graph(edges={edges})")(query, key, value)
    torch.testing.assert_close(found, make("band(window=2)")(query, key, value))


def test_files_hold_edges_or_a_matrix_and_are_not_needed_afterwards(tmp_path: Path) -> None:
    lines, matrix = tmp_path / "edges.txt", tmp_path / "edges.npy"
    lines.write_text("0 1\n\n2, 0\n2 2\n", encoding="utf-8")
    np.save(matrix, np.array([[0, 1, 0], [0, 0, 0], [1, 0, 1]], dtype=bool))
    expected = parse("graph(edges=((0, 1), (2, 0), (2, 2)))")
    for file in (lines, matrix):
        assert parse(f"graph(file={str(file)!r})") == expected
        assert str(parse(f"graph(file={str(file)!r})")) == str(expected)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("graph", "list of pairs of positions"),
        ("graph(edges=[(0, -1)])", "list of pairs of positions"),
        ("graph(edges=[(0, True)])", "list of pairs of positions"),
        ("graph(edges=[0, 1])", "list of pairs of positions"),
        ("graph(edges=[(0, 1)], file='FILE.txt')", "not from both"),
        ("graph(file='FILE.txt')", "line 2: an edge is two positions"),
        ("graph(file='FILE.npy')", "cannot be read"),
        ("graph(file='absent.txt')", r"absent\.txt"),
        ("graph(file='ZERO.npy')", "holds no edge"),
    ],
)
def test_what_is_no_graph_is_refused(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "FILE.txt").write_text("0 1\n1 b\n", encoding="utf-8")
    (tmp_path / "FILE.npy").write_bytes(b"no array")
    np.save(tmp_path / "ZERO.npy", np.zeros((2, 2)))
    with pytest.raises(InputError, match=said):
        parse(text.replace("FILE", str(tmp_path / "FILE")).replace("ZERO", str(tmp_path / "ZERO")))


def test_edges_may_be_an_array() -> None:
    edges = np.argwhere(np.eye(3, dtype=bool))
    assert (
        Graph(edges=edges) == Graph(edges=torch.tensor(edges)) == Graph(edges=[*map(tuple, edges)])
    )
