"""Intervals against statsmodels, and their coverage in simulations."""

import math

import pandas as pd
import pytest
import torch
from scipy.stats import norm
from scipy.stats import t as student
from statsmodels.stats.proportion import confint_proportions_2indep, proportion_confint

from attnlab.labels.counts import (
    REPORTED,
    RatioCounts,
    count_ratio,
    difference_interval,
    wilson_interval,
)
from attnlab.labels.label_columns import POSITIONAL
from attnlab.labels.verdict import ratio_condition


@pytest.mark.parametrize("level", [0.9, 0.95])
def test_wilson_equals_statsmodels(level: float) -> None:
    hits, total = torch.tensor([0, 3, 50, 97, 97]), torch.tensor([7, 7, 101, 97, 1000])
    low, high = wilson_interval(hits, total, level)
    expected = proportion_confint(hits.numpy(), total.numpy(), alpha=1 - level, method="wilson")
    torch.testing.assert_close(low, torch.from_numpy(expected[0]))
    torch.testing.assert_close(high, torch.from_numpy(expected[1]))


def test_the_interval_of_a_difference_equals_statsmodels() -> None:
    hits = torch.tensor([[3, 50, 90, 0, 7], [9, 20, 95, 4, 7]])
    total = torch.tensor([[10, 101, 97, 12, 7], [11, 60, 100, 12, 7]])
    both = [
        tuple(pd.Series(one.numpy()) for one in (part / of, *wilson_interval(part, of, 0.95)))
        for part, of in zip(hits, total, strict=True)
    ]
    low, high = difference_interval(*both)
    for index, cells in enumerate(torch.stack([hits, total]).permute(2, 1, 0).flatten(1).tolist()):
        expected = confint_proportions_2indep(*cells, method="newcomb", alpha=0.05)
        assert (low[index], high[index]) == pytest.approx(expected, rel=1e-6)


def test_nothing_counted_says_nothing() -> None:
    low, high = wilson_interval(torch.tensor([0]), torch.tensor([0]))
    assert (low.item(), high.item()) == (0, 1)


def test_ratio_of_sums_is_not_mean_of_ratios() -> None:
    counts = count_ratio(
        torch.tensor([1.0, 1.0, 9.0]), torch.tensor([1.0, 3.0, 9.0]), torch.tensor([0, 0, 1])
    ).by_half()
    assert counts.ratio.tolist() == [0.5, 1.0]
    assert counts.sentences.tolist() == [2, 1]
    low, high = counts.interval()
    assert low[0] < 0.5 < high[0]
    assert low[1].isnan()


@pytest.mark.parametrize(("least", "most"), [(-math.inf, math.inf), (0.0, 1.0), (-1.0, 1.0)])
def test_an_interval_of_few_sentences_ends_where_the_ratio_does(least: float, most: float) -> None:
    counts = count_ratio(
        torch.tensor([[0.2], [0.2], [0.9], [0.8]]), torch.ones(4), torch.tensor([0, 1, 2, 3])
    )
    found = ratio_condition("mean", counts, 0.5, seed=0, least=least, most=most)
    low, high = counts.by_half().interval()
    assert low[REPORTED] < -1
    assert high[REPORTED] > 1
    assert found.low == low[REPORTED].clamp_min(least)
    assert found.high == high[REPORTED].clamp_max(most)
    assert found.value == pytest.approx(0.5)


def test_sentences_without_rows_are_no_observations() -> None:
    counts = count_ratio(
        torch.tensor([[1.0], [0.0]]), torch.tensor([2.0, 0.0]), torch.tensor([0, 0])
    ).by_half()
    assert counts.sentences.tolist() == [[1], [0]]


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_shares_of_no_sentence_may_be_anything_and_of_one_are_not_known(share: float) -> None:
    counts = count_ratio(
        torch.tensor([[10 * share], [0.0]]), torch.tensor([10.0, 0.0]), torch.tensor([0, 0])
    ).by_half()
    low, high = (end[:, 0].tolist() for end in counts.share_interval())
    assert low == pytest.approx([math.nan, 0], nan_ok=True)
    assert high == pytest.approx([math.nan, 1], nan_ok=True)


def all_or_nothing(sentences: int, share: float, draws: int) -> RatioCounts:
    """Sentences of ten rows that are all hits or all misses, a draw per head."""
    generator = torch.Generator().manual_seed(0)
    hits = torch.rand(sentences, draws, generator=generator, dtype=torch.float64) < share
    rows = torch.full((sentences,), 10)
    return count_ratio(10.0 * hits, rows, torch.zeros_like(rows))


@pytest.mark.parametrize("share", [0.05, 0.1, 0.5, 0.9, 0.95, 0.97])
@pytest.mark.parametrize("sentences", [25, 60])
def test_shares_of_sentences_whose_rows_are_all_alike_are_covered(
    sentences: int, share: float
) -> None:
    low, high = all_or_nothing(sentences, share, 4000).by_half().share_interval()
    covered = ((low[0] <= share) & (share <= high[0])).double().mean().item()
    # Three standard errors of the simulation below 95 %.
    assert covered > 0.95 - 3 * math.sqrt(0.95 * 0.05 / 4000)


@pytest.mark.parametrize("rows", [1, 10, 1000])
@pytest.mark.parametrize("share", [0, 1])
def test_rows_of_a_sentence_add_nothing_to_shares_of_0_and_1(share: int, rows: int) -> None:
    sentences = 30
    counts = count_ratio(
        torch.full((sentences, 1), float(share * rows)),
        torch.full((sentences,), rows),
        torch.zeros(sentences, dtype=torch.long),
    ).by_half()
    low, high = (end[0].item() for end in counts.share_interval())
    # Wilson's interval of n at a share of 1 is n / (n + z^2) to 1.
    z, t = norm.ppf(0.975), student.ppf(0.975, sentences - 1)
    alike = sentences * (z / t) ** 2
    width = z**2 / (alike + z**2)
    assert (low, high) == pytest.approx((1 - width, 1) if share else (0, width))


def test_a_rate_of_1_confirms_the_published_threshold_from_38_sentences_on() -> None:
    lows = [all_or_nothing(number, 1.1, 1).by_half().share_interval()[0][0] for number in (37, 38)]
    assert [low.item() >= POSITIONAL.threshold for low in lows] == [False, True]
