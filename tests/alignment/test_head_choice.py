"""Heads that are chosen: against loops, planted heads, laws of the properties, engines' sets."""

from dataclasses import astuple
from fractions import Fraction
from itertools import product

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from oracles import alignment as oracle

from attnlab.alignment import (
    GreedyPath,
    WordWeights,
    count_heads,
    count_set,
    diagonal_links,
    engine_sets,
    gold_grid,
    gold_links,
    greedy_path,
    head_choice,
    head_properties,
    published_sets,
    scored,
)

SIZES = [(5, 4), (3, 6), (7, 7)]
HEADS = 5


def padded(matrices: list[torch.Tensor], extra: int = 0) -> WordWeights:
    """Weights `[head, target, source]` of sentences as one batch."""
    targets = max(one.shape[1] for one in matrices) + extra
    sources = max(one.shape[2] for one in matrices) + extra
    weights = torch.zeros(len(matrices), matrices[0].shape[0], targets, sources).double()
    there = torch.zeros(len(matrices), targets).bool(), torch.zeros(len(matrices), sources).bool()
    for index, one in enumerate(matrices):
        weights[index, :, : one.shape[1], : one.shape[2]] = one
        there[0][index, : one.shape[1]] = True
        there[1][index, : one.shape[2]] = True
    return WordWeights(weights, *there)


def random_matrices(seed: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [
        torch.rand(HEADS, *size, generator=generator, dtype=torch.float64).pow(4) for size in SIZES
    ]


def random_gold(seed: int) -> list:
    generator = torch.Generator().manual_seed(seed)
    gold = []
    for targets, sources in SIZES:
        links = torch.rand(2, targets, sources, generator=generator) < 0.2
        sure, possible = (
            [(source, target) for target, source in one.nonzero().tolist()] for one in links
        )
        gold.append(gold_links([(0, 0), *sure], possible))
    return gold


@given(st.integers(0, 10_000))
def test_greedy_equals_loops(seed: int) -> None:
    matrices, gold = random_matrices(seed), random_gold(seed)
    words = padded(matrices)
    grid = gold_grid(gold, *words.weights.shape[2:])
    path = greedy_path(words, grid, most=3)
    expected = oracle.greedy(
        [one.tolist() for one in matrices],
        [one.sure for one in gold],
        [one.possible for one in gold],
        3,
    )
    assert (list(path.heads), list(path.aers)) == expected
    alone = scored(count_heads(words, grid), "aer")
    assert path.single == int(alone.argmin())
    assert path.aers[0] == alone.min()
    for size in (1, 2, 3):
        assert scored(count_set(words, path.heads[:size], grid), "aer") == path.aers[size - 1]


def test_heads_in_several_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    words = padded(random_matrices(1))
    grid = gold_grid(random_gold(1), *words.weights.shape[2:])
    whole = greedy_path(words, grid), count_heads(words, grid)
    monkeypatch.setattr(head_choice, "_AT_ONCE", 1)
    parts = greedy_path(words, grid), count_heads(words, grid)
    assert whole[0] == parts[0]
    assert torch.equal(whole[1], parts[1])


def test_two_heads_that_know_a_half_each() -> None:
    """Each is right and sure in half of the words, and unsure in the others; a third is nearly right."""
    size = 8
    right = torch.eye(size).double()
    halves = []
    for half in (slice(0, size // 2), slice(size // 2, size)):
        head = torch.full((size, size), 1 / size).double()
        head[half] = right[half]
        # Where it does not know it is a little wrong.
        head += 0.01 * right.roll(1, 1)
        halves.append(head)
    nearly = right.clone()
    nearly[:3] = right.roll(1, 1)[:3]
    words = padded([torch.stack([halves[0], halves[1], nearly * 0.4])])
    grid = gold_grid([gold_links([(i, i) for i in range(size)])], size, size)
    path = greedy_path(words, grid)
    assert path.single == 2
    assert len(path.heads) == 3
    assert scored(count_set(words, [0, 1], grid), "aer") == 0
    assert path.aers[-1] == min(path.aers) == 0


def test_the_smaller_of_equal_sets() -> None:
    assert GreedyPath((4, 1, 0, 2), (0.5, 0.25, 0.25, 0.3)).chosen == (4, 1)
    assert GreedyPath((4, 1), (0.5, 0.5)).chosen == (4,)


@given(st.integers(0, 10_000), st.integers(0, 2))
def test_properties_equal_loops_at_any_padding(seed: int, extra: int) -> None:
    matrices = [one / one.sum(-1, keepdim=True) * 0.9 for one in random_matrices(seed)]
    found = torch.stack(astuple(head_properties(padded(matrices, extra))))
    for head in range(HEADS):
        expected = oracle.head_properties([one.tolist() for one in matrices], head)
        assert found[:, head].tolist() == pytest.approx(expected)


def test_properties_of_heads_that_are_known() -> None:
    size = 6
    heads = torch.stack(
        [
            torch.eye(size),
            torch.full((size, size), 1 / size),
            torch.eye(size)[:1].expand(size, size),
            torch.eye(size).flip(0),
            0.1 * torch.eye(size),
        ]
    ).double()
    found = head_properties(padded([heads, heads]))
    assert found.confidence.tolist() == pytest.approx([1, 0, 1, 1, 0.1])
    assert found.coverage.tolist() == pytest.approx([1, 1, 1 / size, 1, 1])
    assert found.monotonicity.tolist() == pytest.approx([1, 1, 1, 0, 1])
    # The first and the last agree everywhere; those that attend to the first word agree with each other,
    # and with all others in one word.
    pairs = {0: [1 / 6, 1 / 6, 0, 1], 3: [0, 1 / 6, 1 / 6, 0]}
    for head, shares in pairs.items():
        assert found.agreement[head].item() == pytest.approx(sum(shares) / 4, abs=1e-9)
    order = found.score.sort(descending=True).indices.tolist()
    assert (order[0], order[-1] in {1, 3}) == (0, True)


@pytest.mark.parametrize("shape", [(1, 4), (4, 1), (1, 1)])
def test_sentences_of_one_word_say_nothing(shape: tuple[int, int]) -> None:
    matrices = random_matrices(0)
    single = torch.rand(HEADS, *shape, dtype=torch.float64)
    found = [head_properties(padded(some)) for some in (matrices, [*matrices, single])]
    torch.testing.assert_close(found[0].score, found[1].score)


def test_sets_of_engines() -> None:
    sets = engine_sets(5, 2)
    assert sets["first head of the last layer"] == ((4, 0),)
    assert sets["mean of the last layer"] == ((4, 0), (4, 1))
    assert dict(published_sets(5, 2)) == {"mean of the penultimate layer": ((3, 0), (3, 1))}
    assert not published_sets(1, 2)
    # As `range(num_layers // 2, num_layers)` has it, the middle layer too.
    assert [layer for layer, head in sets["mean of the last half"] if head == 0] == [2, 3, 4]


@pytest.mark.parametrize(("layers", "heads"), product(range(1, 5), (1, 2)))
def test_no_set_of_engines_is_listed_twice(layers: int, heads: int) -> None:
    sets = engine_sets(layers, heads)
    assert len({*sets.values()}) == len(sets)
    # What is left out is there under another name.
    every = {((layers - 1, 0),)} | {
        tuple((layer, head) for layer in some for head in range(heads))
        for some in (
            range(layers - 1, layers),
            range(layers // 2, layers),
        )
    }
    assert {*sets.values()} == every
    assert not {*sets.values()} & {*published_sets(layers, heads).values()}
    assert next(iter(sets)) == "first head of the last layer"


@given(st.integers(1, 30), st.integers(1, 30))
def test_the_diagonal(sources: int, targets: int) -> None:
    links = diagonal_links(sources, targets)
    assert {target for _, target in links} == set(range(targets))
    assert len(links) == targets
    for source, target in links:
        away = [
            abs(Fraction(target + 1, targets) - Fraction(j + 1, sources)) for j in range(sources)
        ]
        assert source == away.index(min(away))
