"""IBM model 1 and the HMM: against the sum over all ways, by EM's law, and with a planted dictionary."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import alignment as oracle

from attnlab.alignment import (
    align_both,
    count_links,
    fit_statistical_aligner,
    gold_links,
    scored,
    statistical_aligner,
    turned,
)
from attnlab.alignment.statistical_aligner import (
    _STEPS,
    NULL_SHARE,
    WIDEST_JUMP,
    StatisticalAligner,
)
from attnlab.core import InputError

SENTENCE = st.lists(st.sampled_from("abcd"), min_size=1, max_size=4).map(tuple)
PAIRS = st.lists(st.tuples(SENTENCE, SENTENCE), min_size=1, max_size=4)
# Long enough that jumps of more than the widest occur, and one word, which always jumps by one.
LONG = [(tuple("abcdefghij"), tuple("xyz")), (tuple("ba"), tuple("yx")), (tuple("c"), tuple("zx"))]


def check_equal_to_loops(pairs: list, ibm1: int, hmm: int) -> None:
    found = fit_statistical_aligner(pairs, ibm1=ibm1, hmm=hmm)
    translation, jumps, rates = oracle.fitted(
        pairs, ibm1=ibm1, hmm=hmm, null_share=NULL_SHARE, widest=WIDEST_JUMP, steps=_STEPS
    )
    assert found.log_likelihoods == pytest.approx(rates, rel=1e-9)
    own = dict(zip(found.keys.tolist(), found.translation.tolist(), strict=True))
    assert len(own) == sum(one is not None for one, _ in translation)
    for (one, word), expected in translation.items():
        number = found.targets[word]
        mine = (
            found.null[number]
            if one is None
            else own[found.sources[one] * len(found.targets) + number]
        )
        assert mine == pytest.approx(expected, rel=1e-7, abs=1e-12)
    if hmm:
        assert found.jumps.tolist() == pytest.approx(list(jumps.values()), rel=1e-7)


@given(PAIRS, st.integers(0, 2), st.integers(0, 2))
@settings(max_examples=40, deadline=None)
def test_equals_the_sum_over_all_ways(pairs: list, ibm1: int, hmm: int) -> None:
    check_equal_to_loops(pairs, ibm1, hmm)


def test_jumps_beyond_the_widest() -> None:
    check_equal_to_loops(LONG, 1, 3)


def test_in_parts_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = planted(60, seed=1)[0]
    whole = fit_statistical_aligner(pairs)
    monkeypatch.setattr(statistical_aligner, "_AT_ONCE", 50)
    parts = fit_statistical_aligner(pairs)
    np.testing.assert_allclose(whole.translation, parts.translation, rtol=1e-9)
    assert whole.align(pairs) == parts.align(pairs)


@given(PAIRS)
@settings(max_examples=40, deadline=None)
def test_the_likelihood_does_not_fall(pairs: list) -> None:
    found = fit_statistical_aligner(pairs, ibm1=6, hmm=6).log_likelihoods
    for part in (found[:6], found[6:]):
        for before, after in pairwise(part):
            assert after >= before - 1e-9 * abs(before)


@given(PAIRS)
@settings(max_examples=40, deadline=None)
def test_probabilities_sum_to_one(pairs: list) -> None:
    found = fit_statistical_aligner(pairs, ibm1=2, hmm=2)
    sums = np.bincount(found.keys // len(found.targets), found.translation)
    np.testing.assert_allclose(sums, 1)
    assert found.null.sum() == pytest.approx(1)


def planted(sentences: int, seed: int) -> tuple[list, list]:
    """Sentences of 40 words; the target in blocks of another order, every seventh word of no source word."""
    random = np.random.default_rng(seed)
    # A few words are frequent.
    chances = 1 / np.arange(1, 41)
    pairs, gold = [], []
    for _ in range(sentences):
        source = random.choice(
            40, size=random.integers(4, 14), p=chances / chances.sum(), replace=False
        )
        cut = random.integers(1, len(source))
        order = [*range(cut, len(source)), *range(cut)]
        target, links = [], []
        for position in order:
            if random.random() < 1 / 7:
                target.append("of")
            links.append((position, len(target)))
            target.append(f"t{source[position]}")
        pairs.append((tuple(f"s{one}" for one in source), tuple(target)))
        gold.append(gold_links(links))
    return pairs, gold


def test_a_planted_dictionary_is_found_again() -> None:
    pairs, gold = planted(600, seed=0)
    found = fit_statistical_aligner(pairs)
    for word, number in found.sources.items():
        own = found.keys // len(found.targets) == number
        best = found.keys[own][found.translation[own].argmax()] % len(found.targets)
        assert best == found.targets[f"t{word[1:]}"]
    assert list(found.targets)[found.null.argmax()] == "of"
    new, new_gold = planted(100, seed=9)
    for pairs_of, gold_of in ((pairs, gold), (new, new_gold)):
        assert scored(count_links(found.align(pairs_of), gold_of), "aer") < 0.02
    simple = fit_statistical_aligner(pairs, hmm=0)
    assert simple.jumps is None
    assert scored(count_links(simple.align(new), new_gold), "aer") < 0.05
    assert found.jumps.argmax() == WIDEST_JUMP + 1


def test_words_that_stand_twice_need_the_order() -> None:
    """The first `a` becomes the first `x`; only the HMM can tell."""
    pairs = [
        (("a", "b", "c", "a"), ("x", "y", "z", "x")),
        (("a", "b"), ("x", "y")),
        (("c", "a"), ("z", "x")),
        (("b", "c"), ("y", "z")),
    ] * 5
    right = frozenset((i, i) for i in range(4))
    assert fit_statistical_aligner(pairs).align(pairs[:1]) == [right]
    assert fit_statistical_aligner(pairs, hmm=0).align(pairs[:1]) != [right]


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_word_that_null_explains_has_no_link_whatever_its_number(number: int) -> None:
    words = ["x", "y"]
    words.insert(number, "of")
    chance = {"x": 0.5, "y": 0.499, "of": 0.001}
    found = StatisticalAligner(
        {"a": 0}, {word: index for index, word in enumerate(words)}, np.arange(3),
        np.array([chance[word] for word in words]), np.array([0.9 * (one == "of") for one in words]),
    )  # fmt: skip
    assert found.align([(("a",), ("of", "x", "y", "of"))]) == [frozenset({(0, 1), (0, 2)})]


def test_words_that_are_new_go_by_position() -> None:
    pairs, _ = planted(300, seed=2)
    found = fit_statistical_aligner(pairs)
    sentence = ("s1", "new", "s2", "s3"), ("t1", "nuovo", "t2", "t3")
    assert found.align([sentence]) == [frozenset((i, i) for i in range(4))]
    assert found.align([((), ()), (("s1",), ())]) == [frozenset(), frozenset()]


def test_two_directions() -> None:
    pairs, gold = planted(300, seed=3)
    forward = fit_statistical_aligner(pairs)
    backward = fit_statistical_aligner([(target, source) for source, target in pairs])
    both = align_both(forward, backward, pairs, "intersection")
    one = forward.align(pairs)
    other = backward.align([(target, source) for source, target in pairs])
    assert both == [a & turned(b) for a, b in zip(one, other, strict=True)]
    assert scored(count_links(both, gold), "precision") > 0.98


def test_progress_and_bad_input() -> None:
    told = []
    fit_statistical_aligner(LONG, ibm1=1, hmm=2, progress=lambda *one: told.append(one))
    assert told == [("IBM 1", 1, 1), ("HMM", 1, 2), ("HMM", 2, 2)]
    for pairs in ([], [*LONG, ((), ("x",))]):
        with pytest.raises(InputError, match="needs sentence pairs with words on both sides"):
            fit_statistical_aligner(pairs)
