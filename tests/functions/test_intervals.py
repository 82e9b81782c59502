"""Intervals against statsmodels."""

import pytest
import torch
from statsmodels.stats.proportion import proportion_confint

from attnlab.functions.intervals import count_ratio, wilson_interval


@pytest.mark.parametrize("level", [0.9, 0.95])
def test_wilson_equals_statsmodels(level: float) -> None:
    hits, total = torch.tensor([0, 3, 50, 97, 97]), torch.tensor([7, 7, 101, 97, 1000])
    low, high = wilson_interval(hits, total, level)
    expected = proportion_confint(hits.numpy(), total.numpy(), alpha=1 - level, method="wilson")
    torch.testing.assert_close(low, torch.from_numpy(expected[0]))
    torch.testing.assert_close(high, torch.from_numpy(expected[1]))


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


def test_sentences_without_rows_are_no_observations() -> None:
    counts = count_ratio(
        torch.tensor([[1.0], [0.0]]), torch.tensor([2.0, 0.0]), torch.tensor([0, 0])
    ).by_half()
    assert counts.sentences.tolist() == [[1], [0]]
