"""Two directions made one, against the scan of the whole matrix, and by its laws."""

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles.alignment import grown

from attnlab.alignment import Symmetrization, symmetrized

SIZE = 7
# One link a word, as aligners of one direction find them, and any links.
BY_SOURCE = st.dictionaries(st.integers(0, SIZE), st.integers(0, SIZE)).map(
    lambda links: frozenset(links.items())
)
BY_TARGET = st.dictionaries(st.integers(0, SIZE), st.integers(0, SIZE)).map(
    lambda links: frozenset((source, target) for target, source in links.items())
)
ANY = st.frozensets(st.tuples(st.integers(0, SIZE), st.integers(0, SIZE)), max_size=20)
GROWING = get_args(Symmetrization)[2:]


@pytest.mark.parametrize("how", GROWING)
@given(forward=BY_TARGET | ANY, backward=BY_SOURCE | ANY)
def test_growing_equals_the_scan(how: str, forward: frozenset, backward: frozenset) -> None:
    assert symmetrized(forward, backward, how) == grown(forward, backward, diagonal_final=how)


@given(forward=ANY, backward=ANY)
def test_between_intersection_and_union(forward: frozenset, backward: frozenset) -> None:
    made = {how: symmetrized(forward, backward, how) for how in get_args(Symmetrization)}
    assert made["intersection"] == forward & backward
    assert made["union"] == forward | backward
    for how in GROWING:
        assert made["intersection"] <= made[how] <= made["union"]
    assert made["grow-diag"] <= made["grow-diag-final-and"]
    assert made["grow-diag"] <= made["grow-diag-final"]
    covered = [{link[side] for link in made["grow-diag-final"]} for side in (0, 1)]
    every = [{link[side] for link in made["union"]} for side in (0, 1)]
    # What is left out has both words linked.
    for source, target in made["union"] - made["grow-diag-final"]:
        assert source in covered[0]
        assert target in covered[1]
    assert covered == every


@given(links=ANY)
def test_two_directions_that_agree(links: frozenset) -> None:
    for how in get_args(Symmetrization):
        assert symmetrized(links, links, how) == links


def test_by_hand() -> None:
    # Source word 1 is linked in both directions; (2, 2) is next to it, (5, 4) is next to nothing, and so is
    # (1, 5), of which one word is linked.
    forward, backward = {(1, 1), (2, 2), (1, 5)}, {(1, 1), (5, 4)}
    assert symmetrized(forward, backward, "grow-diag") == {(1, 1), (2, 2)}
    assert symmetrized(forward, backward, "grow-diag-final-and") == {(1, 1), (2, 2), (5, 4)}
    assert symmetrized(forward, backward, "grow-diag-final") == forward | backward
