"""Whether a change is more than chance: paired bootstrap against textbook and sacrebleu."""

import math

import numpy as np
import pandas as pd
import pytest
import torch
from sacrebleu.metrics import BLEU
from scipy.stats import spearmanr
from statsmodels.stats.multitest import multipletests

from attnlab.ablation import significance
from attnlab.ablation.significance import (
    FEWEST_HEADS,
    MOST_DRAWS,
    SIGNIFICANCE_LEVEL,
    bleu_difference,
    bleu_differences,
    draws_for,
    for_few,
    holm_adjusted,
    holm_significant,
    loss_difference,
    loss_differences,
    rank_agreement,
    widening,
)
from attnlab.core import FEWEST_FOR_INTERVAL


@pytest.mark.parametrize("share", [0.0, 0.3])
def test_loss_difference(share: float, untouched_randomness) -> None:
    generator = torch.Generator().manual_seed(2)
    tokens = torch.randint(3, 20, (501,), generator=generator).double()
    before = tokens * (2 + torch.randn(501, generator=generator))
    after = before + tokens * (share + 0.3 * torch.randn(501, generator=generator))
    found = loss_difference(before, after, tokens, seed=5)
    assert found.before == pytest.approx((before.sum() / tokens.sum()).item())
    assert found.change == pytest.approx(((after - before).sum() / tokens.sum()).item())
    assert found.low < found.change < found.high
    assert (found.low <= 0 <= found.high) is (share == 0)
    assert (found.p_value < 0.05) is (share > 0)
    assert loss_difference(before, after, tokens, seed=5) == found
    assert loss_difference(before, after, tokens, seed=6) != found


def test_interval_misses_no_change_five_times_in_a_hundred() -> None:
    misses = 0
    for seed in range(200):
        generator = torch.Generator().manual_seed(seed)
        tokens = torch.randint(3, 20, (101,), generator=generator).double()
        before = tokens * (2 + torch.randn(101, generator=generator))
        after = before + tokens * 0.3 * torch.randn(101, generator=generator)
        found = loss_difference(before, after, tokens, seed=5, draws=300)
        misses += not found.low <= 0 <= found.high
    assert 4 <= misses <= 20


def test_interval_of_a_mean_is_the_textbook_one() -> None:
    generator = torch.Generator().manual_seed(1)
    once = torch.ones(400, dtype=torch.float64)
    change = torch.randn(400, generator=generator, dtype=torch.float64)
    found = loss_difference(0 * once, change, once, seed=0, draws=4000)
    half_width = 1.96 * change.std().item() / 20
    assert found.low == pytest.approx(found.change - half_width, abs=0.1 * half_width)
    assert found.high == pytest.approx(found.change + half_width, abs=0.1 * half_width)


@pytest.mark.parametrize("most_counts", [1, 7 * 101, 2**22])
def test_draws_in_parts_and_for_several_changes_are_those_made_at_once(
    most_counts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(significance, "MOST_COUNTS", most_counts)
    generator = torch.Generator().manual_seed(4)
    tokens = torch.randint(3, 20, (101,), generator=generator).double()
    before, *afters = tokens * torch.rand(4, 101, generator=generator)
    picks = torch.randint(101, (53, 101), generator=torch.Generator().manual_seed(6))
    found = loss_differences(before, afters, tokens, seed=6, draws=53)
    for after, one in zip(afters, found, strict=True):
        changes = (after - before)[picks].sum(1) / tokens[picks].sum(1)
        ends = changes.quantile(torch.tensor([0.025, 0.975], dtype=torch.float64)).tolist()
        middle = float(changes.mean())
        wide = [middle + widening(101) * (end - middle) for end in ends]
        assert [one.low, one.high] == pytest.approx(wide, abs=1e-13)
        far = (changes - changes.mean()).abs() >= abs(one.change)
        assert one.p_value == for_few((int(far.sum()) + 1) / 54, 101)
    systems = [WORSE, REFERENCES]
    together = bleu_differences(REFERENCES, systems, REFERENCES, seed=2, draws=9)
    monkeypatch.setattr(significance, "MOST_COUNTS", 2**22)
    alone = [bleu_difference(REFERENCES, one, REFERENCES, seed=2, draws=9) for one in systems]
    assert together == alone


REFERENCES = [f"the old cat sees {n} red birds in the small garden ." for n in range(40)]
WORSE = [
    text.replace("small garden", "garden small") if n % 3 else text
    for n, text in enumerate(REFERENCES)
]


def test_bleu_difference_is_that_of_sacrebleu() -> None:
    found = bleu_difference(REFERENCES, WORSE, REFERENCES, seed=2, draws=200)
    assert found.before == pytest.approx(100)
    assert found.after == pytest.approx(BLEU().corpus_score(WORSE, [REFERENCES]).score)
    assert found.change < found.high < 0
    assert found.p_value < 0.05
    same = bleu_difference(WORSE, WORSE, REFERENCES, seed=2, draws=50)
    assert (same.change, same.low, same.high, same.p_value) == (0, 0, 0, 1)


@pytest.mark.parametrize("kept", [0, 1, 2, 3, 5, 12])
def test_bleu_of_draws_is_that_of_sacrebleu_where_orders_have_no_match(kept: int) -> None:
    """Smoothing of the orders without a match, short translations, and no match at all."""
    systems = [" ".join(["x" * (n % 3 + 1), *text.split()[:kept]]) for n, text in enumerate(WORSE)]
    found = bleu_difference(REFERENCES, systems, REFERENCES, seed=2, draws=3)
    assert found.after == pytest.approx(BLEU().corpus_score(systems, [REFERENCES]).score, abs=1e-9)
    halves = [f"{text.split()[0]} y {text.split()[-1]}" for text in WORSE]
    again = bleu_difference(REFERENCES, halves, REFERENCES, seed=2, draws=3)
    assert again.after == pytest.approx(BLEU().corpus_score(halves, [REFERENCES]).score, abs=1e-9)


def test_bleu_of_different_sentences_is_refused() -> None:
    with pytest.raises(ValueError, match="not on 1, 1 and 2"):
        bleu_difference(["a"], ["a"], ["a", "b"], seed=0)


def test_holm_equals_statsmodels() -> None:
    random = np.random.default_rng(3)
    for count, power in ((1, 3), (7, 1), (40, 8), (99, 3)):
        p_values = random.uniform(size=count).round(2) ** power
        expected, adjusted, *_ = multipletests(p_values, 0.05, "holm")
        assert (holm_significant(p_values, 0.05) == expected).all()
        assert holm_adjusted(p_values) == pytest.approx(adjusted)
    assert holm_significant(np.array([0.025, 0.05]), 0.05).tolist() == [True, True]
    assert not holm_significant(np.array([0.026, 0.001, 0.04]), 0.05)[[0, 2]].any()


@pytest.mark.parametrize(
    ("tests", "sentences"), [(1, 6), (24, 50), (144, 100), (500, 600), (1_000, 1_000)]
)
def test_draws_are_enough_for_every_one_of_many_tests_to_be_significant(
    tests: int, sentences: int
) -> None:
    """A change that no draw exceeds has a p-value of one over the draws and itself, corrected."""
    draws = draws_for(tests, sentences)
    least = np.full(tests, for_few(1 / (draws + 1), sentences))
    assert holm_significant(least, SIGNIFICANCE_LEVEL).all()


@pytest.mark.parametrize("sentences", range(1, 9))
def test_draws_of_few_sentences_and_many_tests_have_an_end(sentences: int) -> None:
    draws = [draws_for(tests, sentences) for tests in (1, 2, 24, 144, 1_024, 10_000)]
    assert draws == sorted(draws)
    assert draws[-1] == MOST_DRAWS


@pytest.mark.parametrize("sentences", [8, 12, 20, 40])
def test_of_few_sentences_no_more_is_significant_by_chance_than_of_many(sentences: int) -> None:
    """Heads that do nothing: single tests at 5 %, intervals that miss 0, and any of 24 after Holm."""
    generator = torch.Generator().manual_seed(sentences)
    runs, heads = 60, 24
    single = misses = families = 0
    for seed in range(runs):
        tokens = torch.randint(4, 15, (sentences,), generator=generator).double()
        noise = torch.randn(heads, sentences, generator=generator, dtype=torch.float64)
        afters = list(noise * tokens.sqrt())
        found = loss_differences(torch.zeros_like(tokens), afters, tokens, seed=seed, draws=1000)
        p_values = np.array([one.p_value for one in found])
        single += int((p_values < 0.05).sum())
        misses += sum(not one.low <= 0 <= one.high for one in found)
        families += bool(holm_significant(p_values, 0.05).any())
    # Three standard errors above 5 %.
    assert single <= runs * heads * (0.05 + 3 * (0.05 * 0.95 / (runs * heads)) ** 0.5)
    assert misses <= runs * heads * (0.05 + 3 * (0.05 * 0.95 / (runs * heads)) ** 0.5)
    assert single >= runs * heads * 0.03, "nor is nothing ever significant"
    assert families <= runs * 0.05 + 3 * (runs * 0.05 * 0.95) ** 0.5


def test_two_sentences_cannot_be_significant() -> None:
    before, tokens = torch.tensor([4.0, 4.0]), torch.ones(2)
    found = loss_difference(before, before - 1, tokens, seed=0, draws=1000)
    assert found.p_value == 0.5
    many = loss_difference(torch.full((40,), 4.0), torch.full((40,), 3.0), torch.ones(40), seed=0)
    assert many.p_value < 1e-3


def test_fewer_sentences_than_a_sign_test_needs_have_no_interval() -> None:
    """From the least to the largest of n values lies the median 1 - 2^(1 - n) of the times."""
    assert 2.0 ** (1 - FEWEST_FOR_INTERVAL) <= SIGNIFICANCE_LEVEL < 2.0 ** (2 - FEWEST_FOR_INTERVAL)
    generator = torch.Generator().manual_seed(3)
    for sentences in (1, 2, FEWEST_FOR_INTERVAL - 1, FEWEST_FOR_INTERVAL):
        before, after = torch.rand(2, sentences, generator=generator, dtype=torch.float64)
        tokens = torch.ones(sentences, dtype=torch.float64)
        found = loss_difference(before, after, tokens, seed=0)
        assert found.change == pytest.approx(float((after - before).mean()))
        if sentences < FEWEST_FOR_INTERVAL:
            assert found.interval is None
            assert math.isnan(found.low)
            assert math.isnan(found.high)
        else:
            assert found.interval == (found.low, found.high)
            assert found.low < found.change < found.high


@pytest.mark.parametrize("sign", [1, -1])
def test_agreement_of_ranks_is_that_of_scipy_with_the_textbook_interval(sign: int) -> None:
    """Fisher's transformation of a rank correlation spreads by about sqrt(1.06 / (heads - 3))."""
    one, noise = np.random.default_rng(4).normal(size=(2, 300))
    measures = pd.DataFrame({"one": one.round(2), "other": sign * one + noise})
    found = rank_agreement(measures, seed=3).iloc[0]
    assert found["spearman"] == pytest.approx(spearmanr(measures).statistic)
    middle, half_width = np.arctanh(found["spearman"]), 1.96 * math.sqrt(1.06 / 297)
    ends = np.arctanh([found["spearman_low"], found["spearman_high"]])
    assert ends == pytest.approx([middle - half_width, middle + half_width], abs=0.2 * half_width)
    for heads in (FEWEST_HEADS - 1, FEWEST_HEADS):
        few = rank_agreement(measures[:heads].reindex(measures.index), seed=3).iloc[0]
        assert few["heads"] == heads
        assert few["spearman"] == pytest.approx(spearmanr(measures[:heads]).statistic)
        assert np.isnan(few["spearman_low"]) == (heads < FEWEST_HEADS)
        assert np.isnan(few["spearman_high"]) == (heads < FEWEST_HEADS)
