"""Scores of links against their definitions, and their intervals."""

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from oracles.alignment import error_rate

from attnlab.alignment import (
    ESTIMATES,
    METRICS,
    count_links,
    gold_links,
    score_differences,
    score_intervals,
    scored,
    turned,
)
from attnlab.alignment.links import GoldLinks

LINKS = st.frozensets(st.tuples(st.integers(0, 4), st.integers(0, 4)))


@given(st.lists(st.tuples(LINKS, LINKS, LINKS), min_size=1, max_size=5))
def test_scores_are_their_definitions(sentences: list) -> None:
    found = [a for a, _, _ in sentences]
    gold = [gold_links(s, p) for _, s, p in sentences]
    assume(any(found))
    assume(any(one.sure for one in gold))
    counts = count_links(found, gold)
    expected = error_rate(found, [one.sure for one in gold], [one.possible for one in gold])
    names = ("precision", "recall", "aer")
    assert [scored(counts, name).item() for name in names] == pytest.approx(expected)
    precision, recall, _ = expected
    both = 2 * precision * recall / (precision + recall) if precision + recall else 0
    assert scored(counts, "f1").item() == pytest.approx(both)


@given(LINKS, LINKS)
def test_aer_of_sure_links_alone_is_one_less_f1(found: frozenset, sure: frozenset) -> None:
    assume(found)
    assume(sure)
    counts = count_links([found], [gold_links(sure)])
    assert scored(counts, "aer").item() == pytest.approx(1 - scored(counts, "f1").item())


def test_nothing_found_and_nothing_to_find() -> None:
    counts = count_links([[], [(0, 0)], []], [gold_links([(0, 0)]), gold_links(()), gold_links(())])
    assert counts.tolist() == [[0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0]]
    by_sentence = counts[:, None]
    assert scored(by_sentence, "aer").tolist() == [1, 1, 0]
    for name in ("precision", "recall", "f1"):
        assert scored(by_sentence, name).tolist() == [0, 0, 0]


def test_a_sure_link_is_possible() -> None:
    with pytest.raises(ValueError, match=r"\[\(1, 2\)\] are not among"):
        GoldLinks(frozenset([(1, 2)]), frozenset())
    links = gold_links([(1, 2)], [(3, 0)])
    assert links.turned() == gold_links([(2, 1)], [(0, 3)])
    assert turned([(1, 2)]) == {(2, 1)}


def test_as_many_found_as_gold() -> None:
    with pytest.raises(ValueError, match="longer"):
        count_links([[]], [gold_links(()), gold_links(())])


def systems(sentences: int) -> torch.Tensor:
    """Counts of one system and of the same with a tenth of its links lost, and of it again."""
    generator = torch.Generator().manual_seed(3)
    sure = torch.randint(5, 15, (sentences,), generator=generator)
    right = sure - torch.randint(1, 4, (sentences,), generator=generator)
    worse = right - torch.randint(0, 3, (sentences,), generator=generator)
    rows = [torch.stack([sure, sure, hits, hits], -1) for hits in (right, worse, right)]
    return torch.stack(rows)


@pytest.mark.parametrize("metric", METRICS)
def test_intervals_hold_the_figure_and_narrow_with_sentences(metric: str) -> None:
    few, many = systems(30), systems(480)
    widths = []
    for counts in (few, many):
        for one, figure in zip(
            score_intervals(counts, metric), scored(counts, metric), strict=True
        ):
            assert one.change == pytest.approx(figure.item())
            assert one.low < one.change < one.high
            widths.append(one.high - one.low)
    assert 2.5 < widths[0] / widths[3] < 6.5
    cells = score_intervals(few, metric)[0].cells(ESTIMATES[metric])
    assert list(cells) == [metric, f"{metric}_low", f"{metric}_high"]


def test_differences_are_paired() -> None:
    counts = systems(200)
    worse, same = score_differences(counts[0], counts[1:], "aer")
    assert worse.low > 0
    assert worse.p_value < 0.05
    assert (same.change, same.low, same.high) == (0, 0, 0)
    apart = [one.high - one.low for one in score_intervals(counts, "aer")]
    assert worse.high - worse.low < apart[0] + apart[1]
