"""Whether a change is more than chance: a paired jackknife against loops, textbook and sacrebleu."""

import math

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.intervals import careful_interval, careful_p_value, jackknife_values
from sacrebleu.metrics import BLEU
from scipy.stats import spearmanr
from statsmodels.stats.multitest import multipletests

from attnlab.ablation.significance import (
    FEWEST_HEADS,
    SIGNIFICANCE_LEVEL,
    bleu_difference,
    bleu_differences,
    holm_adjusted,
    holm_significant,
    loss_difference,
    loss_differences,
    paired_differences,
    rank_agreement,
    ratio,
)
from attnlab.core import FEWEST_FOR_INTERVAL, mean_interval, mean_p_value, skewness_of


@pytest.mark.parametrize("share", [0.0, 0.3])
def test_loss_difference(share: float, untouched_randomness) -> None:
    generator = torch.Generator().manual_seed(2)
    tokens = torch.randint(3, 20, (501,), generator=generator).double()
    before = tokens * (2 + torch.randn(501, generator=generator))
    after = before + tokens * (share + 0.3 * torch.randn(501, generator=generator))
    found = loss_difference(before, after, tokens)
    assert found.before == pytest.approx((before.sum() / tokens.sum()).item())
    assert found.change == pytest.approx(((after - before).sum() / tokens.sum()).item())
    assert found.low < found.change < found.high
    assert (found.low <= 0 <= found.high) is (share == 0)
    assert (found.p_value < 0.05) is (share > 0)


def test_interval_misses_no_change_five_times_in_a_hundred() -> None:
    misses = 0
    for seed in range(200):
        generator = torch.Generator().manual_seed(seed)
        tokens = torch.randint(3, 20, (101,), generator=generator).double()
        before = tokens * (2 + torch.randn(101, generator=generator))
        after = before + tokens * 0.3 * torch.randn(101, generator=generator)
        found = loss_difference(before, after, tokens)
        misses += not found.low <= 0 <= found.high
    assert 4 <= misses <= 20


def test_interval_of_a_mean_is_the_textbook_one() -> None:
    generator = torch.Generator().manual_seed(1)
    once = torch.ones(400, dtype=torch.float64)
    change = torch.randn(400, generator=generator, dtype=torch.float64)
    found = loss_difference(0 * once, change, once)
    half_width = 1.96 * change.std().item() / 20
    assert found.low == pytest.approx(found.change - half_width, abs=0.1 * half_width)
    assert found.high == pytest.approx(found.change + half_width, abs=0.1 * half_width)


@pytest.mark.parametrize("kind", ["loss", "figure", "BLEU"])
def test_differences_are_those_of_loops_that_leave_each_sentence_out(kind: str) -> None:
    generator = torch.Generator().manual_seed(4)
    tokens = torch.randint(3, 20, (23,), generator=generator).double()
    before, *afters = tokens * torch.rand(4, 23, generator=generator, dtype=torch.float64) ** 3
    systems = [WORSE[:23], [" ".join(one.split()[: 5 + n % 4]) for n, one in enumerate(WORSE[:23])]]

    def change(kept: list[int]) -> list[float]:
        if kind == "BLEU":
            gold = [REFERENCES[n] for n in kept]
            scores = [BLEU().corpus_score([one[n] for n in kept], [gold]).score for one in systems]
            return [score - BLEU().corpus_score(gold, [gold]).score for score in scores]
        less = before[kept].sum() if kind == "loss" else 0
        return [float((after[kept].sum() - less) / tokens[kept].sum()) for after in afters]

    found = {
        "loss": lambda: loss_differences(before, afters, tokens),
        "figure": lambda: paired_differences(
            None, [torch.stack([after, tokens], -1) for after in afters], ratio
        ),
        "BLEU": lambda: bleu_differences(REFERENCES[:23], systems, REFERENCES[:23]),
    }[kind]()
    for number, one in enumerate(found):
        values = jackknife_values(lambda kept, number=number: change(kept)[number], 23)
        assert one.change == pytest.approx(change(list(range(23)))[number])
        assert (one.low, one.high) == pytest.approx(careful_interval(one.change, values))
        assert one.p_value == pytest.approx(careful_p_value(one.change, values))


def test_a_figure_lies_within_those_of_single_sentences() -> None:
    hits, rows = torch.full((12,), 7.0), torch.full((12,), 7.0)
    hits[3] = 1
    (share,) = paired_differences(None, [torch.stack([hits, rows], -1)], ratio)
    assert 1 / 7 < share.low < share.change < share.high == 1
    rows[4] = hits[4] = 0
    (share,) = paired_differences(None, [torch.stack([hits, rows], -1)], ratio)
    assert 1 / 7 < share.low < share.change < share.high == 1


@settings(deadline=None, max_examples=200)
@given(
    mean=st.floats(-5, 5), skewness=st.floats(-1, 1), number=st.integers(10, 200),
    level=st.floats(0.5, 0.999),
)  # fmt: skip
def test_an_interval_leaves_out_0_where_the_p_value_is_below_the_level(
    mean: float, skewness: float, number: int, level: float
) -> None:
    """The skewness of n values is at most (n - 2) / sqrt(n - 1)."""
    skewness *= (number - 2) / math.sqrt(number - 1)
    of_mean = [np.array([value]) for value in (mean, 1.0, skewness, number)]
    (low,), (high,) = mean_interval(*of_mean, level)
    (p_value,) = mean_p_value(*of_mean)
    assert low <= mean <= high
    assert (low > 0 or high < 0) == (p_value < 1 - level) or abs(p_value - 1 + level) < 1e-6


@pytest.mark.parametrize("sentences", [20, 50])
@pytest.mark.parametrize("kind", ["standard_normal", "standard_t", "exponential"])
def test_of_skewed_and_of_heavy_tailed_values_at_most_7_of_100_are_significant_by_chance(
    sentences: int, kind: str
) -> None:
    random, shape = np.random.default_rng(sentences), (20_000, sentences)
    draw = getattr(random, kind)
    values = draw(3, shape) if kind == "standard_t" else draw(size=shape)
    values -= kind == "exponential"
    mean, second, third = (
        values.mean(-1),
        *(((values - values.mean(-1, keepdims=True)) ** power).mean(-1) for power in (2, 3)),
    )
    error = np.sqrt(second / (sentences - 1))
    p_values = mean_p_value(mean, error, skewness_of(second, third), np.array(sentences))
    assert 0.03 < (p_values < SIGNIFICANCE_LEVEL).mean() < 0.05


REFERENCES = [f"the old cat sees {n} red birds in the small garden ." for n in range(40)]
WORSE = [
    text.replace("small garden", "garden small") if n % 3 else text
    for n, text in enumerate(REFERENCES)
]


def test_bleu_difference_is_that_of_sacrebleu() -> None:
    found = bleu_difference(REFERENCES, WORSE, REFERENCES)
    assert found.before == pytest.approx(100)
    assert found.after == pytest.approx(BLEU().corpus_score(WORSE, [REFERENCES]).score)
    assert found.change < found.high < 0
    assert found.p_value < 0.05
    same = bleu_difference(WORSE, WORSE, REFERENCES)
    assert (same.change, same.low, same.high, same.p_value) == (0, 0, 0, 1)


@pytest.mark.parametrize("kept", [0, 1, 2, 3, 5, 12])
def test_bleu_of_draws_is_that_of_sacrebleu_where_orders_have_no_match(kept: int) -> None:
    """Smoothing of the orders without a match, short translations, and no match at all."""
    systems = [" ".join(["x" * (n % 3 + 1), *text.split()[:kept]]) for n, text in enumerate(WORSE)]
    found = bleu_difference(REFERENCES, systems, REFERENCES)
    assert found.after == pytest.approx(BLEU().corpus_score(systems, [REFERENCES]).score, abs=1e-9)
    halves = [f"{text.split()[0]} y {text.split()[-1]}" for text in WORSE]
    again = bleu_difference(REFERENCES, halves, REFERENCES)
    assert again.after == pytest.approx(BLEU().corpus_score(halves, [REFERENCES]).score, abs=1e-9)


def test_bleu_of_different_sentences_is_refused() -> None:
    with pytest.raises(ValueError, match="not on 1, 1 and 2"):
        bleu_difference(["a"], ["a"], ["a", "b"])


def test_holm_equals_statsmodels() -> None:
    random = np.random.default_rng(3)
    for count, power in ((1, 3), (7, 1), (40, 8), (99, 3)):
        p_values = random.uniform(size=count).round(2) ** power
        expected, adjusted, *_ = multipletests(p_values, 0.05, "holm")
        assert (holm_significant(p_values, 0.05) == expected).all()
        assert holm_adjusted(p_values) == pytest.approx(adjusted)
    assert holm_significant(np.array([0.025, 0.05]), 0.05).tolist() == [True, True]
    assert not holm_significant(np.array([0.026, 0.001, 0.04]), 0.05)[[0, 2]].any()


@pytest.mark.parametrize("sentences", [10, 12, 20, 40])
def test_of_few_sentences_no_more_is_significant_by_chance_than_of_many(sentences: int) -> None:
    """Heads that do nothing: single tests at 5 %, intervals that miss 0, and any of 24 after Holm."""
    generator = torch.Generator().manual_seed(sentences)
    runs, heads = 60, 24
    single = misses = families = 0
    for _ in range(runs):
        tokens = torch.randint(4, 15, (sentences,), generator=generator).double()
        noise = torch.randn(heads, sentences, generator=generator, dtype=torch.float64)
        afters = list(noise * tokens.sqrt())
        found = loss_differences(torch.zeros_like(tokens), afters, tokens)
        p_values = np.array([one.p_value for one in found])
        single += int((p_values < 0.05).sum())
        misses += sum(not one.low <= 0 <= one.high for one in found)
        families += bool(holm_significant(p_values, 0.05).any())
    # Three standard errors above 5 %.
    assert single <= runs * heads * (0.05 + 3 * (0.05 * 0.95 / (runs * heads)) ** 0.5)
    assert misses <= runs * heads * (0.05 + 3 * (0.05 * 0.95 / (runs * heads)) ** 0.5)
    assert single >= runs * heads * 0.03, "nor is nothing ever significant"
    assert families <= runs * 0.05 + 3 * (runs * 0.05 * 0.95) ** 0.5


def test_values_that_are_alike_prove_no_more_than_their_signs() -> None:
    for sentences in (FEWEST_FOR_INTERVAL, 40):
        before = torch.full((sentences,), 4.0)
        found = loss_difference(before, before - 1, torch.ones(sentences))
        assert (found.low, found.high) == pytest.approx((-1, -1))
        assert found.p_value == 2.0 ** (1 - sentences)


def test_few_sentences_have_neither_interval_nor_p_value() -> None:
    generator = torch.Generator().manual_seed(3)
    for sentences in (1, 2, FEWEST_FOR_INTERVAL - 1, FEWEST_FOR_INTERVAL):
        before, after = torch.rand(2, sentences, generator=generator, dtype=torch.float64)
        tokens = torch.ones(sentences, dtype=torch.float64)
        found = loss_difference(before, after, tokens)
        assert found.change == pytest.approx(float((after - before).mean()))
        few = sentences < FEWEST_FOR_INTERVAL
        assert [math.isnan(one) for one in (found.low, found.high, found.p_value)] == [few] * 3
        assert found.interval == (None if few else (found.low, found.high))
    assert not holm_significant(np.array([math.nan, math.nan]), 0.05).any()


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
        assert few["head_count"] == heads
        assert few["spearman"] == pytest.approx(spearmanr(measures[:heads]).statistic)
        assert np.isnan(few["spearman_low"]) == (heads < FEWEST_HEADS)
        assert np.isnan(few["spearman_high"]) == (heads < FEWEST_HEADS)
