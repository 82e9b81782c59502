"""Rare-token heads: two rarest tokens, sentences that qualify, and the frequency control."""

import math
from dataclasses import replace

import pytest
import torch
from labels.planting import Batch, attend, facts_of, layer_of, make_batch, random_attention
from oracles.functions import rare_by_loops
from torch import Tensor

from attnlab.labels.counts import REPORTED, largest
from attnlab.labels.label import LayerView
from attnlab.labels.label_tables import with_strength
from attnlab.labels.rare import (
    RARE_LABEL,
    count_rare,
    decide_rare,
    frequency_ranks,
    rare_tokens,
)
from attnlab.labels.verdict import (
    BORDERLINE,
    CONFIRMED,
    REJECTED,
    UNDECIDED,
    Verdict,
    verdict_table,
)
from attnlab.reading.weights import ALL


def draw_ranks(batch: Batch, low: int = 300, high: int = 2000, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(low, high, batch.visible.shape, generator=generator)


def nth_rarest(batch: Batch, ranks: Tensor, number: int) -> Tensor:
    order = ranks.masked_fill(~batch.ordinary, -1).argsort(1, descending=True)
    return order[:, number : number + 1].expand_as(ranks)


def uncommon_at_random(batch: Batch, ranks: Tensor, seed: int = 5) -> Tensor:
    """For every row some token outside the 500 most frequent types."""
    generator = torch.Generator().manual_seed(seed)
    uncommon = (batch.ordinary & (ranks >= 500)).double()
    rows = uncommon.masked_fill(uncommon.sum(1, keepdim=True) == 0, 1)
    return torch.multinomial(rows, ranks.shape[1], replacement=True, generator=generator)


@pytest.mark.parametrize(("number", "rarest_share"), [(0, 1.0), (1, 0.0)])
def test_head_on_the_rarest_or_second_rarest_token(number: int, rarest_share: float) -> None:
    batch = make_batch()
    ranks = draw_ranks(batch)
    weights = attend(nth_rarest(batch, ranks, number), batch.scope.seen)[:, None]
    counts = count_rare(largest(weights), rare_tokens(batch.scope, ranks))
    verdict = decide_rare(counts)[0]
    assert (verdict.status, verdict.value) == (CONFIRMED, 1.0)
    counts = counts.by_half()
    share = counts.rarest[REPORTED, 0] / counts.two_rarest.denominator[REPORTED, 0]
    assert share.item() == pytest.approx(rarest_share, abs=0.01)


def test_sentences_of_frequent_words_do_not_count() -> None:
    batch = make_batch()
    ranks = draw_ranks(batch)
    ranks[::4] = draw_ranks(batch, 0, 499)[::4]
    weights = attend(nth_rarest(batch, ranks, 0), batch.scope.seen)[:, None]
    counts = count_rare(largest(weights), rare_tokens(batch.scope, ranks)).by_half()
    rows = batch.ordinary.sum(1)
    qualifies = ranks.masked_fill(~batch.ordinary, 0).amax(1) >= 500
    assert counts.two_rarest.denominator.sum() == rows[qualifies].sum()
    assert not qualifies[::4].any()
    assert counts.two_rarest.denominator[0, 0] < counts.two_rarest.denominator[1, 0]


@pytest.mark.parametrize(("types", "applies"), [(500, False), (501, True), (None, True)])
def test_the_label_applies_where_the_vocabulary_can_hold_a_rare_token(
    types: int | None, applies: bool
) -> None:
    batch = make_batch(sentences=2)
    layer = layer_of(random_attention(batch, heads=1), batch)
    facts = replace(facts_of(batch, draw_ranks(batch))[ALL], types=types)
    counts = RARE_LABEL.count(LayerView(layer, ALL, facts))
    assert (counts is not None) == applies


def test_the_five_hundredth_type_is_frequent_and_the_next_is_not() -> None:
    batch = make_batch(sentences=10)
    best = largest(random_attention(batch))
    for rank, counts in ((499, False), (500, True)):
        tokens = rare_tokens(batch.scope, torch.full(batch.visible.shape, rank))
        assert bool(count_rare(best, tokens).two_rarest.denominator.sum() > 0) is counts


def test_head_on_any_uncommon_word_is_no_rare_token_head() -> None:
    # Half of the tokens are uncommon; in short sentences a random one is often among two.
    batch = make_batch(sentences=1201, longest=9)
    ranks = draw_ranks(batch)
    ranks = torch.where(draw_ranks(batch, 0, 100, seed=9) < 55, ranks % 500, ranks)
    weights = attend(uncommon_at_random(batch, ranks), batch.scope.seen)[:, None]
    verdict = decide_rare(count_rare(largest(weights), rare_tokens(batch.scope, ranks)))[0]
    assert verdict.value > 0.5
    assert verdict.value_low > verdict.threshold
    assert verdict.second_value_low < verdict.second_threshold < verdict.second_value_high
    assert verdict.status == BORDERLINE


def test_without_a_third_uncommon_token_there_is_no_label() -> None:
    batch = make_batch()
    ranks = torch.zeros_like(draw_ranks(batch))
    ranks[:, 1:3] = 900 + torch.arange(2)
    weights = attend(nth_rarest(batch, ranks, 0), batch.scope.seen)[:, None]
    verdict = decide_rare(count_rare(largest(weights), rare_tokens(batch.scope, ranks)))[0]
    assert (verdict.status, verdict.value) == (UNDECIDED, 1.0)
    assert (verdict.counted, verdict.needed) == (0, 20)
    assert math.isnan(strength_of(verdict)), "all rows say nothing where there was no choice"
    assert verdict.denominator > 1000


def strength_of(verdict: Verdict) -> float:
    table = verdict_table([verdict]).assign(significance=REJECTED)
    return with_strength(table)["strength"].item()


def test_chance_on_contested_rows_is_the_control_of_both_figures() -> None:
    batch = make_batch(sentences=31)
    ranks = draw_ranks(batch, 300, 900)
    weights = random_attention(batch)
    verdicts = decide_rare(count_rare(largest(weights), rare_tokens(batch.scope, ranks)))
    for head, verdict in enumerate(verdicts):
        sums = [0.0] * 6
        for sentence in range(1, 31, 2):
            real = batch.visible[sentence].nonzero().flatten()
            found = rare_by_loops(
                weights[sentence, head][real][:, real].tolist(),
                batch.special[sentence][real].tolist(),
                ranks[sentence][real].tolist(),
                500,
                False,
            )
            sums = [a + b for a, b in zip(sums, found, strict=True)]
        rows, _, hits, contested, contested_hits, expected = sums
        chance, value = expected / contested, hits / rows
        assert verdict.control == verdict.second_control == pytest.approx(chance)
        progress = max(0, value - chance) / (0.5 - chance)
        above = contested_hits / contested > chance
        assert strength_of(verdict) == pytest.approx(progress if above else 0)


@pytest.mark.parametrize(
    ("value", "contested", "chance", "strength"),
    [
        (0.4, 0.4, 0.3, 0.5),
        (0.4, 0.3, 0.3, 0),
        (0.3, 0.4, 0.3, 0),
        (0.25, 0.4, 0.3, 0),
        (0.55, 0.7, 0.6, 0),
        (0.7, 0.7, 0.6, 1),
        (0.4, math.nan, math.nan, math.nan),
    ],
)
def test_strength_starts_from_chance(
    value: float, contested: float, chance: float, strength: float
) -> None:
    batch = make_batch(sentences=2)
    counts = count_rare(
        largest(random_attention(batch, heads=1)), rare_tokens(batch.scope, draw_ranks(batch))
    )
    verdict = replace(
        decide_rare(counts)[0],
        value=value, second_value=contested, control=chance, second_control=chance,
        second_threshold=chance, status=REJECTED,
    )  # fmt: skip
    assert strength_of(verdict) == pytest.approx(strength, nan_ok=True)


def test_special_tokens_are_never_the_rarest_but_may_win() -> None:
    batch = make_batch()
    ranks = draw_ranks(batch).masked_fill(batch.special, 10**6)
    sep = batch.visible.sum(1, keepdim=True) - 1
    weights = attend(sep.expand_as(ranks), batch.scope.seen)[:, None]
    counts = count_rare(largest(weights), rare_tokens(batch.scope, ranks))
    assert counts.two_rarest.denominator.sum() > 1000
    assert counts.two_rarest.numerator.sum() == 0


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("left", [False, True])
def test_equals_loops(causal: bool, left: bool) -> None:
    batch = make_batch(sentences=31, left=left, causal=causal)
    ranks = draw_ranks(batch, 490, 510)  # many equal types
    weights = random_attention(batch)
    counts = count_rare(largest(weights), rare_tokens(batch.scope, ranks)).by_half()
    for head in range(3):
        for half in (0, 1):
            sums = [0.0] * 6
            for sentence in range(half, 31, 2):
                real = batch.visible[sentence].nonzero().flatten()
                found = rare_by_loops(
                    weights[sentence, head][real][:, real].tolist(),
                    batch.special[sentence][real].tolist(),
                    ranks[sentence][real].tolist(),
                    500,
                    causal,
                )
                sums = [a + b for a, b in zip(sums, found, strict=True)]
            mine = (
                counts.two_rarest.denominator[half, head],
                counts.rarest[half, head],
                counts.two_rarest.numerator[half, head],
                counts.contested_two_rarest.denominator[half, head],
                counts.contested_two_rarest.numerator[half, head],
                counts.contested_expected[half],
            )
            assert [float(value) for value in mine] == pytest.approx(sums)


def test_ranks_are_a_permutation() -> None:
    counts = torch.tensor([5, 0, 7, 7, 1])
    assert frequency_ranks(counts).tolist() == [2, 4, 0, 1, 3]
