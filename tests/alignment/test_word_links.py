"""Weights between words and links from them, against loops over pieces."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from oracles.alignment import largest_links
from oracles.alignment import word_weights as weights_by_loops

from attnlab.alignment import (
    Pieces,
    WordWeights,
    count_linked,
    count_links,
    gold_grid,
    gold_links,
    linked,
    links_in,
    word_weights,
)

HEADS = 3


@st.composite
def pieces(draw: st.DrawFn) -> tuple[tuple[int | None, ...], int]:
    """Words in order with pieces, some without one, special tokens between them."""
    count = draw(st.integers(1, 5))
    words: list[int | None] = [None] * draw(st.integers(0, 2))
    for word in range(count):
        words += [word] * draw(st.integers(0, 3))
        words += [None] * draw(st.integers(0, 1))
    return (*words, None), count


def random_weights(*shape: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.rand(*shape, generator=generator, dtype=torch.float64)


@given(
    st.lists(st.tuples(pieces(), pieces()), min_size=1, max_size=3),
    st.sampled_from(["output", "input"]),
    st.sampled_from(["mean", "first"]),
)
def test_equals_loops(sides: list, row: str, from_word: str) -> None:
    sides = [(Pieces(*one), Pieces(*other)) for one, other in sides]
    targets, sources = [one for one, _ in sides], [one for _, one in sides]
    rows = max(len(one.words) for one in targets)
    columns = max(len(one.words) for one in sources)
    weights = random_weights(len(sides), HEADS, rows, columns)
    found = word_weights(weights, targets, sources, row=row, from_word=from_word)
    grids = {rule: linked(found, rule) for rule in ("target", "source", "intersection", "union")}
    for index, (target, source) in enumerate(sides):
        rows_there = {word for p, word in enumerate(target.words) if word is not None}
        assert found.targets[index].nonzero().flatten().tolist() == sorted(rows_there)
        columns_there = {word for word in source.words if word is not None}
        assert found.sources[index].nonzero().flatten().tolist() == sorted(columns_there)
        for head in range(HEADS):
            expected = weights_by_loops(
                weights[index, head].tolist(),
                target.words,
                source.words,
                (target.count, source.count),
                shift=int(row == "input"),
                first=from_word == "first",
            )
            own = found.weights[index, head]
            torch.testing.assert_close(
                own[: target.count, : source.count],
                torch.tensor(expected, dtype=torch.float64),
            )
            assert not own[target.count :].any()
            assert not own[:, source.count :].any()
            one, other = largest_links(own.tolist(), rows_there, columns_there)
            expected_links = {
                "target": one, "source": other, "intersection": one & other, "union": one | other,
            }  # fmt: skip
            for rule, links in expected_links.items():
                assert links_in(grids[rule][index, head]) == links


def test_without_an_end_token_the_last_piece_is_read_by_no_row() -> None:
    weights = random_weights(2, 1, 4, 2)
    sides = [Pieces((0, 1), 2), Pieces((0, 1, 2, None), 3)], [Pieces((0, 1), 2)] * 2
    found = word_weights(weights, *sides, row="input")
    # Row 2 of the first sentence is padding.
    assert found.targets.tolist() == [[True, False, False], [True, True, True]]
    assert found.weights[0, 0, 0].tolist() == weights[0, 0, 1].tolist()


def test_ties_go_to_the_lowest_index() -> None:
    even = WordWeights(
        torch.full((1, 1, 3, 4), 0.25),
        torch.tensor([[True, True, False]]),
        torch.tensor([[False, True, True, True]]),
    )
    assert links_in(linked(even)[0, 0]) == {(1, 0), (1, 1)}
    assert links_in(linked(even, "source")[0, 0]) == {(1, 0), (2, 0), (3, 0)}
    # So do words all of whose weight lies on special tokens, but to words that have a piece.
    none = WordWeights(torch.zeros(1, 1, 3, 4), even.targets, even.sources)
    assert links_in(linked(none)[0, 0]) == {(1, 0), (1, 1)}


def test_half_precision_is_summed_in_float32() -> None:
    many = Pieces((0,) * 600 + (None,), 1)
    weights = torch.full((1, 1, 2, 601), 1 / 600, dtype=torch.bfloat16)
    found = word_weights(weights, [Pieces((0, None), 1)], [many])
    assert found.weights.dtype == torch.float32
    assert found.weights.item() == pytest.approx(1, rel=0.01)


def test_mean_of_heads() -> None:
    weights = random_weights(2, 3, 4, 5)
    words = WordWeights(weights, torch.ones(2, 4).bool(), torch.ones(2, 5).bool())
    torch.testing.assert_close(words.of_heads([0, 2]).weights[:, 0], weights[:, [0, 2]].mean(1))


def test_more_pieces_than_rows() -> None:
    with pytest.raises(ValueError, match="has 3 pieces, and there are 2"):
        word_weights(torch.ones(1, 1, 2, 2), [Pieces((0, 1, 2), 3)], [Pieces((0,), 1)])


def test_counts_equal_those_of_sets() -> None:
    gold = [gold_links([(0, 0), (2, 1)], [(1, 1)]), gold_links([(3, 2)])]
    words = WordWeights(
        random_weights(2, 3, 3, 4), torch.ones(2, 3).bool(), torch.ones(2, 4).bool()
    )
    grid = linked(words, "union")
    counts = count_linked(grid, gold_grid(gold, 3, 4))
    for head in range(3):
        found = [links_in(grid[index, head]) for index in range(2)]
        assert counts[head].tolist() == count_links(found, gold).tolist()
