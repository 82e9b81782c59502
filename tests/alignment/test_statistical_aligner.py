"""IBM model 1 and the HMM of both directions: against the sum over all ways, with a planted dictionary."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import alignment as oracle

from attnlab.alignment import (
    count_links,
    fit_statistical_aligner,
    gold_links,
    scored,
    statistical_aligner,
    symmetrized,
    turned,
)
from attnlab.alignment.statistical_aligner import (
    _STEPS,
    BACK_OFF,
    BEGINNING,
    NULL_SHARE,
    UNSEEN,
    WIDEST_JUMP,
    Direction,
    StatisticalAligner,
)
from attnlab.core import InputError

SENTENCE = st.lists(st.sampled_from(["a", "b", "walks", "Walked"]), min_size=1, max_size=4).map(
    tuple
)
PAIRS = st.lists(st.tuples(SENTENCE, SENTENCE), min_size=1, max_size=4)
# Long enough that jumps of more than two occur, and one word, which always jumps by one.
LONG = [(tuple("abcd"), tuple("xyzv")), (tuple("ba"), tuple("yx")), (tuple("c"), tuple("zx"))]


def check_equal_to_loops(pairs: list, ibm1: int, hmm: int) -> None:
    found = fit_statistical_aligner(pairs, ibm1=ibm1, hmm=hmm)
    both = oracle.fitted(
        pairs, ibm1=ibm1, hmm=hmm, null_share=NULL_SHARE, widest=statistical_aligner.WIDEST_JUMP,
        steps=_STEPS, beginning=BEGINNING, back_off=BACK_OFF, unseen=UNSEEN,
    )  # fmt: skip
    for aligner, direction, (translation, jumps) in (
        (found, found.forward, both[0]),
        (found.exchanged, found.exchanged.forward, both[1]),
    ):
        keys = aligner.keys.tolist()
        own = dict(zip(keys, direction.translation[:-1].tolist(), strict=True))
        assert len(own) == sum(one is not None for one, _ in translation)
        for (one, word), expected in translation.items():
            number = aligner.targets[word]
            mine = (
                direction.null[number]
                if one is None
                else own[aligner.sources[one] * len(aligner.targets) + number]
            )
            assert mine == pytest.approx(expected, rel=1e-7, abs=1e-12)
        if hmm:
            assert direction.jumps.tolist() == pytest.approx(list(jumps.values()), rel=1e-7)


@given(PAIRS, st.integers(0, 2), st.integers(0, 2))
@settings(max_examples=40, deadline=None)
def test_equals_the_sum_over_all_ways(pairs: list, ibm1: int, hmm: int) -> None:
    check_equal_to_loops(pairs, ibm1, hmm)


def test_jumps_beyond_the_widest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistical_aligner, "WIDEST_JUMP", 2)
    check_equal_to_loops(LONG, 1, 3)


def test_in_parts_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = planted(60, seed=1)[0]
    whole = fit_statistical_aligner(pairs)
    monkeypatch.setattr(statistical_aligner, "_AT_ONCE", 50)
    parts = fit_statistical_aligner(pairs)
    np.testing.assert_allclose(whole.forward.translation, parts.forward.translation, rtol=1e-9)
    assert whole.align(pairs) == parts.align(pairs)


@given(PAIRS)
@settings(max_examples=40, deadline=None)
def test_probabilities_sum_to_one(pairs: list) -> None:
    found = fit_statistical_aligner(pairs, ibm1=2, hmm=2)
    for one in (found, found.exchanged):
        sums = np.bincount(one.keys // len(one.targets), one.forward.translation[:-1])
        np.testing.assert_allclose(sums, 1, atol=1e-6)
        assert one.forward.null[:-1].sum() == pytest.approx(1, abs=1e-6)


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
        best = found.keys[own][found.forward.translation[:-1][own].argmax()] % len(found.targets)
        assert best == found.targets[f"t{word[1:]}"]
    assert list(found.targets)[found.forward.null.argmax()] == "of"
    new, new_gold = planted(100, seed=9)
    for pairs_of, gold_of in ((pairs, gold), (new, new_gold)):
        assert scored(count_links(found.align(pairs_of), gold_of), "aer") < 0.02
    simple = fit_statistical_aligner(pairs, hmm=0)
    assert simple.forward.jumps is None
    assert scored(count_links(simple.align(new), new_gold), "aer") < 0.05
    assert found.forward.jumps.argmax() == found.backward.jumps.argmax() == WIDEST_JUMP + 1


def test_words_that_stand_twice_need_the_order() -> None:
    """The first `a` becomes the first `x`; only the HMM can tell."""
    pairs = [
        (("a", "b", "c", "a"), ("x", "y", "z", "x")),
        (("a", "b"), ("x", "y")),
        (("c", "a"), ("z", "x")),
        (("b", "c"), ("y", "z")),
        (("a", "b", "c", "d"), ("x", "y", "z", "v")),
    ] * 5
    right = frozenset((i, i) for i in range(4))
    assert fit_statistical_aligner(pairs).align(pairs[:1]) == [right]
    assert fit_statistical_aligner(pairs, hmm=0).align(pairs[:1]) != [right]


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_word_that_null_explains_has_no_link_whatever_its_number(number: int) -> None:
    words = ["x", "y"]
    words.insert(number, "of")
    chance = {"x": 0.5, "y": 0.499, "of": 0.001}
    forward = Direction(
        np.array([*(chance[word] for word in words), UNSEEN]),
        np.array([*(0.9 * (one == "of") for one in words), UNSEEN]),
    )
    backward = Direction(np.array([1.0, 1, 1, UNSEEN]), np.full(2, UNSEEN))
    targets = {word: index for index, word in enumerate(words)}
    found = StatisticalAligner({"a": 0}, targets, np.arange(3), forward, backward)
    pair = ("a",), ("of", "x", "y", "of")
    assert found.align([pair], None) == [frozenset({(0, 1), (0, 2)})]


def test_words_that_are_new_go_by_position() -> None:
    pairs, _ = planted(300, seed=2)
    found = fit_statistical_aligner(pairs)
    sentence = ("s1", "new", "s2", "s3"), ("t1", "nuovo", "t2", "t3")
    assert found.align([sentence]) == [frozenset((i, i) for i in range(4))]
    assert found.align([((), ()), (("s1",), ())]) == [frozenset(), frozenset()]


def test_two_directions() -> None:
    pairs, gold = planted(300, seed=3)
    found = fit_statistical_aligner(pairs)
    exchanged = [(target, source) for source, target in pairs]
    by_target = found.align(pairs, None)
    by_source = [turned(links) for links in found.exchanged.align(exchanged, None)]
    both = found.align(pairs, "intersection")
    assert both == [a & b for a, b in zip(by_target, by_source, strict=True)]
    assert scored(count_links(both, gold), "precision") > 0.98
    how = "grow-diag-final-and"
    joined = [symmetrized(a, b, how) for a, b in zip(by_target, by_source, strict=True)]
    assert found.align(pairs) == joined


def test_exchanged_pairs_give_exchanged_models() -> None:
    pairs, _ = planted(60, seed=4)
    one = fit_statistical_aligner(pairs).exchanged
    other = fit_statistical_aligner([(target, source) for source, target in pairs])
    assert (one.sources, one.targets) == (other.sources, other.targets)
    assert one.keys.tolist() == other.keys.tolist()
    for direction in ("forward", "backward"):
        mine, theirs = getattr(one, direction), getattr(other, direction)
        for name in ("translation", "null", "jumps"):
            np.testing.assert_allclose(getattr(mine, name), getattr(theirs, name), rtol=1e-9)


def test_progress_and_bad_input() -> None:
    told = []
    fit_statistical_aligner(LONG, ibm1=1, hmm=2, progress=lambda *one: told.append(one))
    assert told == [("IBM 1", 1, 1), ("HMM", 1, 2), ("HMM", 2, 2)]
    for pairs in ([], [*LONG, ((), ("x",))]):
        with pytest.raises(InputError, match="needs sentence pairs with words on both sides"):
            fit_statistical_aligner(pairs)
