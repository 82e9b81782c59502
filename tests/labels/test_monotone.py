"""Monotone cross-attention heads."""

import pytest
import torch
from labels.planting import attend, cross_scope_of, make_batch
from scipy.stats import linregress, spearmanr
from torch import Tensor

from attnlab.labels.counts import Scope
from attnlab.labels.monotone import count_monotone, decide_monotone
from attnlab.labels.verdict import CONFIRMED, REJECTED, UNDECIDED

TARGETS = 11


def cross(sentences: int = 301, left: bool = False) -> tuple[Scope, Tensor, Tensor]:
    """A scope, the number of target rows, and each row's position on the source diagonal."""
    batch = make_batch(sentences, left=left)
    lengths = 4 + batch.numbers % (TARGETS - 3)
    target = torch.arange(TARGETS) < lengths[:, None]
    scope = cross_scope_of(target, batch.visible, batch.special, batch.numbers)
    first = batch.ordinary.long().argmax(1, keepdim=True)
    source = batch.ordinary.sum(1, keepdim=True)
    share = torch.arange(TARGETS) / (lengths[:, None] - 1)
    diagonal = first + (share.clamp_max(1) * (source - 1)).round().long()
    return scope, lengths, diagonal


@pytest.mark.parametrize("left", [False, True])
def test_diagonal_and_its_mirror(left: bool) -> None:
    scope, _, diagonal = cross(left=left)
    forward = attend(diagonal, scope.seen, 0.9)
    first = scope.keys.long().argmax(1, keepdim=True)
    mirrored = first + scope.keys.sum(1, keepdim=True) - 1 - (diagonal - first)
    back = attend(mirrored, scope.seen, 0.9)
    ahead, behind = decide_monotone(count_monotone(torch.stack([forward, back], 1), scope))
    assert ahead.status == CONFIRMED
    assert ahead.value > 0.95
    assert behind.status == REJECTED
    assert behind.value < -0.95


def test_uniform_head_is_not_monotone() -> None:
    scope, _, _ = cross()
    uniform = scope.seen.double() / scope.seen.sum(-1, keepdim=True).clamp_min(1)
    verdict = decide_monotone(count_monotone(uniform[:, None], scope))[0]
    assert (verdict.status, verdict.value) == (REJECTED, 0)


def test_head_that_drifts_by_a_hair_is_not_monotone() -> None:
    # Rank correlation alone would call this one monotone.
    scope, _, diagonal = cross()
    uniform = scope.seen.double() / scope.seen.sum(-1, keepdim=True).clamp_min(1)
    weights = 0.95 * uniform + 0.05 * attend(diagonal, scope.seen, 1.0)
    verdict = decide_monotone(count_monotone(weights[:, None], scope))[0]
    assert verdict.value > 0.9
    assert verdict.status == REJECTED
    assert verdict.second_value == pytest.approx(0.07, abs=0.01)


def test_few_sentences_give_no_label() -> None:
    scope, _, diagonal = cross(sentences=31)
    verdict = decide_monotone(count_monotone(attend(diagonal, scope.seen)[:, None], scope))[0]
    assert (verdict.status, verdict.unit, verdict.needed) == (UNDECIDED, "sentences", 20)
    assert verdict.counted < 20


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("sharp", [False, True])
def test_equals_scipy(left: bool, sharp: bool) -> None:
    scope, lengths, _ = cross(sentences=19, left=left)
    generator = torch.Generator().manual_seed(0)
    seen = scope.seen[:, None]
    scores = torch.randn(19, 2, *scope.seen.shape[1:], generator=generator, dtype=torch.float64)
    weights = (3 * scores).masked_fill(~seen, -1e9).softmax(-1) * seen
    if sharp:  # one key a row, an ordinary one: whole positions, many of them equal
        position = (weights * scope.keys[:, None, None]).argmax(-1)
        weights = torch.nn.functional.one_hot(position, weights.shape[-1]).double()
    counts = count_monotone(weights, scope).by_half()
    for head in range(2):
        for half in (0, 1):
            rank, slope, sentences = 0.0, 0.0, 0
            for sentence in range(half, 19, 2):
                keys = scope.keys[sentence].nonzero().flatten()
                rows = weights[sentence, head, : lengths[sentence]][:, keys]
                position = torch.arange(len(keys), dtype=torch.float64)
                expected = (rows @ position / rows.sum(-1)).numpy()
                query = torch.arange(len(rows), dtype=torch.float64).numpy()
                rank += spearmanr(query, expected.round(3)).statistic
                scaled = expected / (len(keys) - 1)
                slope += linregress(query / (len(rows) - 1), scaled).slope
                sentences += 1
            assert counts.correlation.ratio[half, head].item() == pytest.approx(rank / sentences)
            assert counts.slope.ratio[half, head].item() == pytest.approx(slope / sentences)
