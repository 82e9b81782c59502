"""Positional heads: found where planted, with the denominators that the definition asks for."""

import dataclasses

import pytest
import torch
from labels.planting import Batch, at_offset, attend, make_batch, random_attention
from oracles.functions import positional_by_loops
from torch import Tensor

from attnlab.labels.counts import CHOOSING, REPORTED, Scope, largest
from attnlab.labels.positional import (
    PositionalCounts,
    count_positional,
    decide_positional,
)
from attnlab.labels.verdict import BORDERLINE, CONFIRMED, REJECTED, UNDECIDED


def planted(batch: Batch, offset: int, share: float, of_rows: float = 1.0, seed: int = 1) -> Tensor:
    """A head at `offset` in a share of the rows; elsewhere at another offset."""
    generator = torch.Generator().manual_seed(seed)
    elsewhere = torch.rand(batch.visible.shape, generator=generator) >= of_rows
    away = at_offset(batch, offset + 2 if offset < 2 else offset - 2)
    target = torch.where(elsewhere, away, at_offset(batch, offset))
    return attend(target, batch.scope.seen, share)


def counted(weights: Tensor, scope: Scope, **options: int) -> PositionalCounts:
    return count_positional(largest(weights), scope, **options)


@pytest.mark.parametrize("offset", [-3, -1, 0, 1, 2])
@pytest.mark.parametrize("left", [False, True])
def test_planted_offset_is_found(offset: int, left: bool) -> None:
    batch = make_batch(sentences=1201, left=left)
    weights = torch.stack([planted(batch, offset, 0.5), planted(batch, -offset - 1, 0.5)], 1)
    verdicts = decide_positional(counted(weights, batch.scope))
    assert [verdict.detail for verdict in verdicts] == [
        f"offset {o:+d}" for o in (offset, -offset - 1)
    ]
    assert all((verdict.status, verdict.value) == (CONFIRMED, 1) for verdict in verdicts)


def test_rows_without_a_token_at_the_offset_are_left_out() -> None:
    batch = make_batch()
    counts = counted(planted(batch, -1, 0.5)[:, None], batch.scope).by_half()
    # All ordinary tokens but the first one, which has [CLS] before it.
    expected = [(batch.ordinary.sum(1) - 1)[batch.numbers % 2 == half].sum() for half in (0, 1)]
    column = counts.at_offset.numerator.shape[-1] // 2 - 1
    assert counts.at_offset.denominator[:, 0, column].tolist() == expected
    assert counts.at_offset.numerator[:, 0, column].tolist() == expected


@pytest.mark.parametrize(
    ("of_rows", "status"), [(0.85, REJECTED), (0.9, BORDERLINE), (0.95, CONFIRMED)]
)
def test_ninety_percent(of_rows: float, status: str) -> None:
    batch = make_batch()
    counts = counted(planted(batch, 1, 0.5, of_rows)[:, None], batch.scope)
    verdict = decide_positional(counts)[0]
    assert verdict.status == status
    assert verdict.value_low < verdict.value < verdict.value_high
    assert verdict.value == pytest.approx(of_rows, abs=0.03)


def test_arg_max_rate_is_neither_mass_nor_confidence() -> None:
    # A head with 0.4 at one back in every row is positional; a sure one that jumps about is not.
    batch = make_batch()
    generator = torch.Generator().manual_seed(2)
    anywhere = torch.randint(1, 4, batch.visible.shape, generator=generator)
    weak = planted(batch, -1, 0.4)
    sure = attend(anywhere, batch.scope.seen, 0.95)
    counts = counted(torch.stack([weak, sure], 1), batch.scope)
    assert [verdict.status for verdict in decide_positional(counts)] == [CONFIRMED, REJECTED]
    hits, rows = counts.at_offset.numerator.sum(0)[0], counts.at_offset.denominator.sum(0)[0]
    back = len(rows) // 2 - 1
    assert hits[back] == rows[back] > 0


def test_special_token_that_wins_the_row_is_a_miss() -> None:
    # 0.6 on [CLS], 0.4 on the previous token: a sink, not a positional head.
    batch = make_batch()
    seen = batch.scope.seen
    weights = 0.6 * attend(torch.zeros_like(batch.numbers)[:, None].expand(-1, 13), seen, 1.0)
    weights = weights + 0.4 * attend(at_offset(batch, -1), seen, 1.0)
    counts = counted(weights[:, None], batch.scope)
    assert decide_positional(counts)[0].status == REJECTED
    assert counts.at_offset.numerator.sum() == 0


def test_few_rows_give_no_label() -> None:
    batch = make_batch(sentences=31)
    verdict = decide_positional(counted(planted(batch, -1, 0.9)[:, None], batch.scope))[0]
    assert (verdict.status, verdict.unit, verdict.needed) == (UNDECIDED, "sentences", 20)
    assert 0 < verdict.counted < 20
    assert verdict.value == 1


def test_of_few_sentences_an_offset_that_hardly_any_has_is_no_candidate() -> None:
    batch = make_batch(sentences=38)
    far = 8  # of 11 ordinary tokens at most
    position = torch.arange(batch.visible.shape[1])
    ordinary = batch.ordinary.sum(1, keepdim=True)
    there = batch.ordinary & (position + far <= ordinary)
    of_half = [int(there.any(1)[half::2].sum()) for half in range(2)]
    assert 0 < min(of_half) < 19 / 2
    back = planted(batch, -1, 0.9, of_rows=0.8)
    rare = attend(at_offset(batch, far), batch.scope.seen, 0.9)
    weights = torch.where(there[..., None], rare, back)
    verdict = decide_positional(counted(weights[:, None], batch.scope))[0]
    assert verdict.detail == "offset -1"


def test_offset_is_picked_on_one_half_and_reported_on_the_other() -> None:
    batch = make_batch()
    ahead, back = (planted(batch, offset, 0.5) for offset in (1, -1))
    odd = (batch.numbers % 2 == 1)[:, None, None]
    verdict = decide_positional(counted(torch.where(odd, back, ahead)[:, None], batch.scope))[0]
    assert verdict.detail == "offset +1"
    assert verdict.value < 0.2
    assert verdict.status == REJECTED


def test_causal_rows_have_no_token_ahead() -> None:
    batch = make_batch(causal=True)
    counts = counted(random_attention(batch), batch.scope).by_half()
    middle = counts.at_offset.numerator.shape[-1] // 2
    assert counts.at_offset.denominator[:, 0, middle + 1 :].sum() == 0
    assert (counts.at_offset.denominator[:, 0, middle - 1] > 0).all()


def test_half_precision_keeps_the_arg_max_but_not_the_row_sums() -> None:
    batch = make_batch()
    weights = random_attention(batch)
    rounded = weights.half()
    full, half = (counted(w, batch.scope) for w in (weights, rounded))
    off = (rounded.double().sum(-1) - weights.sum(-1)).abs().max()
    assert off > 1e-4
    # Rounding can only tie two weights that were within 0.1 % of each other.
    assert (
        full.at_offset.numerator - half.at_offset.numerator
    ).abs().sum() <= 0.002 * full.at_offset.numerator.sum()


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("left", [False, True])
def test_equals_loops(causal: bool, left: bool) -> None:
    batch = make_batch(sentences=7, left=left, causal=causal)
    weights = random_attention(batch)
    counts = counted(weights, batch.scope, max_offset=3).by_half()
    for head in range(3):
        for column, offset in enumerate(range(-3, 4)):
            sums = [[0, 0], [0, 0]]
            for sentence in range(7):
                real = batch.visible[sentence].nonzero().flatten()
                block = weights[sentence, head][real][:, real].tolist()
                special = batch.special[sentence][real].tolist()
                found = positional_by_loops(block, special, offset, causal)
                sums[sentence % 2] = [a + b for a, b in zip(sums[sentence % 2], found, strict=True)]
            for half in (CHOOSING, REPORTED):
                hits, rows = sums[half]
                assert counts.at_offset.numerator[half, head, column] == hits
                assert counts.at_offset.denominator[half, head, column] == rows


def test_parts_add_up_to_the_whole() -> None:
    batch = make_batch()
    weights = random_attention(batch)
    whole = counted(weights, batch.scope)
    parts = []
    for part in (slice(0, 100), slice(100, 401)):
        scope = Scope(
            batch.scope.queries[part],
            batch.scope.keys[part],
            batch.scope.seen[part],
            batch.scope.groups[part],
        )
        parts.append(counted(weights[part], scope))
    for total in (parts[0] + parts[1], parts[1] + parts[0]):
        for field in dataclasses.fields(whole.at_offset):
            mine, theirs = (getattr(one.at_offset, field.name) for one in (total, whole))
            assert torch.equal(mine, theirs)
