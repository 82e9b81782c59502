"""Sink and broad heads: mean mass and mean entropy, with intervals between sentences."""

import math

import pytest
import torch
from labels.planting import Batch, attend, cross_scope_of, make_batch, random_attention
from torch import Tensor

from attnlab.labels.broad import count_broad, decide_broad
from attnlab.labels.counts import Scope, groups_of
from attnlab.labels.label_columns import CONTROLS
from attnlab.labels.label_tables import with_strength, without_controls
from attnlab.labels.sink import (
    count_sink,
    decide_sink,
)
from attnlab.labels.verdict import CONFIRMED, REJECTED, UNDECIDED, verdict_table
from attnlab.reading.weights import row_entropies

CLS, SEP, DOT = 1, 2, 3
KINDS = {"[CLS]": CLS, "[SEP]": SEP, "punctuation": DOT}


def tokens_of(batch: Batch) -> Tensor:
    """Words are 4, a full stop before [SEP], padding 0."""
    tokens = torch.where(batch.visible, 4, 0)
    last = batch.visible.sum(1) - 1
    rows = torch.arange(len(tokens))
    tokens[:, 0] = CLS
    tokens[rows, last] = SEP
    tokens[rows, last - 1] = DOT
    return tokens


def on_type(batch: Batch, number: int, share: float) -> Tensor:
    target = (tokens_of(batch) == number).long().argmax(1, keepdim=True)
    return attend(target.expand(batch.visible.shape), batch.scope.seen, share)


def counted(batch: Batch, *heads: Tensor):
    marked = torch.stack([tokens_of(batch) == number for number in KINDS.values()], -1)
    return count_sink(torch.stack(heads, 1), batch.scope, tuple(KINDS), marked)


def test_mass_on_a_token_makes_a_sink() -> None:
    batch = make_batch()
    verdicts = decide_sink(counted(batch, *(on_type(batch, n, 0.7) for n in (CLS, SEP, DOT))))
    assert [verdict.detail for verdict in verdicts] == ["[CLS]", "[SEP]", "punctuation"]
    assert all(verdict.status == CONFIRMED for verdict in verdicts)
    assert [verdict.value for verdict in verdicts] == pytest.approx([0.7] * 3)


@pytest.mark.parametrize(("share", "status"), [(0.29, REJECTED), (0.31, CONFIRMED)])
def test_threshold(share: float, status: str) -> None:
    batch = make_batch()
    assert decide_sink(counted(batch, on_type(batch, SEP, share)))[0].status == status


def test_winning_every_row_is_not_enough() -> None:
    batch = make_batch()
    weights = on_type(batch, SEP, 0.28)
    assert (weights.argmax(-1) == batch.visible.sum(1, keepdim=True) - 1)[batch.ordinary].all()
    assert decide_sink(counted(batch, weights))[0].status == REJECTED


def test_rows_of_special_tokens_do_not_count() -> None:
    batch = make_batch()
    weights = torch.where(
        batch.special[:, :, None], on_type(batch, CLS, 1.0), on_type(batch, SEP, 0.7)
    )
    counts = counted(batch, weights)
    assert decide_sink(counts)[0].value == pytest.approx(0.7)
    assert counts.mass.denominator[:, 0, 0].sum() == batch.ordinary.sum()


@pytest.mark.parametrize("content", [False, True])
@pytest.mark.parametrize("causal", [False, True])
def test_the_control_is_the_mass_of_equal_weights(causal: bool, content: bool) -> None:
    """Such as 1 / n on a token of the encoder; a head of equal rows has strength 0."""
    batch = make_batch(causal=causal)
    scope = batch.scope.of_content() if content else batch.scope
    even = scope.seen / scope.seen.sum(-1, keepdim=True).clamp_min(1)
    tokens = tokens_of(batch)
    marked = torch.stack([tokens == number for number in KINDS.values()], -1)
    marked = marked & batch.scope.keys[..., None] if content else marked
    mass = even.sum(-1)[:, None] if content else None
    weights = torch.stack([even, attend(torch.zeros_like(tokens), batch.scope.seen, 0.5)], 1)
    mass = mass.expand(-1, 2, -1) if content else None
    first, _ = decide_sink(count_sink(weights, scope, tuple(KINDS), marked, mass))
    kind = list(KINDS).index(first.detail)
    sums = rows = 0.0
    for number in range(1, len(tokens), 2):
        for row in scope.rows[number].nonzero().flatten().tolist():
            seen = scope.seen[number, row]
            sums += float((seen & marked[number, :, kind]).sum() / seen.sum())
            rows += 1
    assert first.control == pytest.approx(sums / rows)
    assert first.value == pytest.approx(first.control)
    assert first.threshold == pytest.approx(max(0.3, first.control + 0.1))
    assert (
        with_strength(without_controls(verdict_table([first]), CONTROLS))["strength"].item() < 1e-6
    )


@pytest.mark.parametrize(("rows", "harmonic"), [(3, 11 / 6), (7, 363 / 140)])
def test_the_control_on_the_first_of_causal_rows_is_harmonic(rows: int, harmonic: float) -> None:
    seen = torch.ones(64, rows, rows).tril().bool()
    every = torch.ones(64, rows).bool()
    scope = Scope(every, every, seen, groups_of(torch.arange(64)))
    first = (torch.arange(rows) == 0).expand(64, rows)[..., None]
    even = (seen / seen.sum(-1, keepdim=True))[:, None].double()
    (found,) = decide_sink(count_sink(even, scope, ("first",), first))
    # The first row has no choice, and does not count.
    assert found.control == pytest.approx((harmonic - 1) / (rows - 1))
    assert found.status == REJECTED


def test_few_rows_give_no_label() -> None:
    batch = make_batch(sentences=31)
    verdict = decide_sink(counted(batch, on_type(batch, SEP, 0.9)))[0]
    assert (verdict.status, verdict.unit, verdict.needed) == (UNDECIDED, "sentences", 20)
    assert 0 < verdict.counted < 20


def test_end_of_sentence_sink_in_cross_attention() -> None:
    batch = make_batch()
    target = torch.arange(7) < (3 + batch.numbers % 5)[:, None]
    scope = cross_scope_of(target, batch.visible, batch.special, batch.numbers)
    last = (batch.visible.sum(1, keepdim=True) - 1).expand_as(target)
    kinds, marked = ("</s>",), (tokens_of(batch) == SEP)[..., None]
    weights = attend(last, scope.seen, 0.8)[:, None]
    verdict = decide_sink(count_sink(weights, scope, kinds, marked))[0]
    assert (verdict.status, verdict.detail) == (CONFIRMED, "</s>")


def test_interval_agrees_with_a_bootstrap_over_sentences() -> None:
    batch = make_batch(sentences=301)
    counts = counted(batch, *random_attention(batch, heads=2, scale=3).unbind(1))
    low, high = counts.by_half().mass.interval()
    tokens = tokens_of(batch)
    weights = random_attention(batch, heads=2, scale=3)[:, 1]
    mass = ((weights * (tokens == DOT)[:, None]).sum(-1) * batch.ordinary).sum(1)[1::2]
    rows = batch.ordinary.sum(1)[1::2]
    generator = torch.Generator().manual_seed(0)
    draws = torch.randint(len(rows), (4000, len(rows)), generator=generator)
    ratios = mass[draws].sum(1) / rows[draws].sum(1)
    expected = ratios.quantile(torch.tensor([0.025, 0.975], dtype=torch.float64))
    width = (expected[1] - expected[0]).item()
    assert low[1, 1, 2].item() == pytest.approx(expected[0].item(), abs=0.07 * width)
    assert high[1, 1, 2].item() == pytest.approx(expected[1].item(), abs=0.07 * width)


@pytest.mark.parametrize("causal", [False, True])
def test_uniform_head_is_broad(causal: bool) -> None:
    # In a causal head every row has another n, and the first one no choice at all.
    batch = make_batch(causal=causal)
    seen = batch.scope.seen.double()
    uniform = seen / seen.sum(-1, keepdim=True).clamp_min(1)
    sharp = attend(torch.zeros_like(batch.visible, dtype=torch.long), batch.scope.seen, 0.9)
    broad, narrow = decide_broad(
        count_broad(row_entropies(torch.stack([uniform, sharp], 1)), batch.scope)
    )
    assert broad.status == CONFIRMED
    assert broad.value == pytest.approx(1)
    assert narrow.status == REJECTED


def test_entropy_is_compared_with_ln_n() -> None:
    batch = make_batch(sentences=401, longest=5)
    weights = torch.tensor([0.5, 0.2, 0.1, 0.1, 0.1], dtype=torch.float64)
    weights = weights.expand(401, 2, 5, 5)
    entropy = -(weights[0, 0, 0] * weights[0, 0, 0].log()).sum().item()
    counts = count_broad(row_entropies(weights), batch.scope)
    assert decide_broad(counts)[0].value == pytest.approx(entropy / math.log(5))
    assert counts.rows.sum(0).tolist() == [401 * 3] * 2
