"""Every label on heads above, below and across its threshold, and on too few sentences."""

import math
from collections.abc import Callable
from dataclasses import asdict

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from labels.planting import Batch, at_offset, attend, cross_scope_of, make_batch
from oracles.functions import positional_by_loops, rare_by_loops
from oracles.intervals import ratio_by_sentences, share_by_sentences
from torch import Tensor

from attnlab.labels.broad import count_broad, decide_broad
from attnlab.labels.counting import OWN_LABELS
from attnlab.labels.counts import DRAWS_OF_HALVES, GROUPS, largest, resampled, sum_of_halves
from attnlab.labels.label import (
    LinkKind,
    count_links,
    make_links,
    possible_links,
)
from attnlab.labels.monotone import count_monotone, decide_monotone
from attnlab.labels.positional import count_positional, decide_positional
from attnlab.labels.rare import count_rare, decide_rare, rare_tokens
from attnlab.labels.segments import (
    count_crossing,
    count_same_token,
    crossing_pairs,
    decide_crossing,
    decide_same_token,
)
from attnlab.labels.sink import count_sink, decide_sink
from attnlab.labels.syntactic import decide_links, relation_table
from attnlab.labels.verdict import (
    BORDERLINE,
    CONFIRMED,
    REJECTED,
    UNDECIDED,
    Verdict,
    least_status,
    status_of,
)
from attnlab.reading.weights import row_entropies

MANY, FEW = 801, 31

NAMES = [label.name for label in OWN_LABELS]


def some(batch: Batch, share: float) -> Tensor:
    """True in that share of the rows of every sentence, spread evenly over the corpus."""
    order = torch.rand(batch.visible.shape, generator=torch.Generator().manual_seed(4))
    return order < share


def positional(sentences: int, share: float) -> Verdict:
    batch = make_batch(sentences)
    target = torch.where(some(batch, share), at_offset(batch, 1), at_offset(batch, -2))
    weights = attend(target, batch.scope.seen, 0.9)[:, None]
    return decide_positional(count_positional(largest(weights), batch.scope))[0]


def ranks_of(batch: Batch) -> Tensor:
    return 600 + torch.randint(
        0, 2000, batch.visible.shape, generator=torch.Generator().manual_seed(0)
    )


def rare(sentences: int, share: float) -> Verdict:
    batch = make_batch(sentences)
    ranks = ranks_of(batch).masked_fill(~batch.ordinary, -1)
    order = ranks.argsort(1, descending=True)
    target = torch.where(some(batch, share), order[:, :1], 0)
    weights = attend(target, batch.scope.seen, 0.9)[:, None]
    return decide_rare(count_rare(largest(weights), rare_tokens(batch.scope, ranks)))[0]


def sink(sentences: int, share: float) -> Verdict:
    batch = make_batch(sentences)
    target = torch.where(some(batch, share), 0, 1)
    weights = attend(target, batch.scope.seen, 1.0)[:, None]
    marked = (torch.arange(batch.visible.shape[1]) == 0).expand(batch.visible.shape)[..., None]
    return decide_sink(count_sink(weights, batch.scope, ("opening",), marked))[0]


def broad(sentences: int, share: float) -> Verdict:
    batch = make_batch(sentences)
    seen = batch.scope.seen.double()
    even = seen / seen.sum(-1, keepdim=True).clamp_min(1)
    sharp = attend(torch.zeros_like(batch.visible, dtype=torch.long), batch.scope.seen, 1.0)
    weights = torch.where(some(batch, share)[..., None], even, sharp)[:, None]
    return decide_broad(count_broad(row_entropies(weights), batch.scope))[0]


def monotone(sentences: int, share: float) -> Verdict:
    """Sentences of a rising head, and in a share of them of a falling one."""
    batch = make_batch(sentences)
    lengths = batch.ordinary.sum(1)
    target = torch.arange(11) < lengths[:, None]
    scope = cross_scope_of(target, batch.visible, batch.special, batch.numbers)
    rows = torch.arange(11).expand(sentences, -1)
    falls = torch.rand(sentences, 1, generator=torch.Generator().manual_seed(1)) >= share
    positions = torch.where(falls, lengths[:, None] - rows, rows + 1)
    weights = attend(positions, scope.seen, 1.0)[:, None]
    return decide_monotone(count_monotone(weights, scope))[0]


def halves(batch: Batch) -> tuple[Tensor, Tensor]:
    """Second half of each sentence, and where each token's like of the other half stands."""
    position = torch.arange(batch.visible.shape[1])
    half = batch.visible.sum(1, keepdim=True) // 2
    second = position >= half
    return second, torch.where(second, position - half + 1, position + half - 1)


def same_token_across(sentences: int, share: float) -> Verdict:
    batch = make_batch(sentences)
    second, like = halves(batch)
    target = torch.where(some(batch, share), like, 0)
    ids = torch.where(second, torch.arange(13), like)
    crossing = crossing_pairs(batch.scope, second)
    best = largest(attend(target, batch.scope.seen, 0.9)[:, None])
    same = ids[:, :, None] == ids[:, None]
    return decide_same_token(count_same_token(best, batch.scope, crossing, same))[0]


def crossing(sentences: int, share: float) -> Verdict:
    batch = make_batch(sentences)
    second, _ = halves(batch)
    other = torch.where(second, 1, batch.visible.sum(1, keepdim=True) - 2)
    weights = attend(torch.where(some(batch, share), other, 0), batch.scope.seen, 1.0)[:, None]
    pairs = crossing_pairs(batch.scope, second)
    return decide_crossing(count_crossing(weights, batch.scope, pairs))[0]


def links(sentences: int, share: float, label: str) -> Verdict:
    """One arc a sentence to any of the other words; a share of them is followed."""
    generator = torch.Generator().manual_seed(2)
    words = torch.ones(sentences, 9, dtype=torch.bool)
    keys = 1 + torch.randint(0, 8, (sentences,), generator=generator)
    rows = [(number, 0, int(key), 0) for number, key in enumerate(keys)]
    kind = LinkKind("obj", "dependent>head")
    groups = torch.arange(sentences) % GROUPS
    own = label != "alignment"
    possible = possible_links(make_links((kind,), rows), words, groups, self_attention=own)
    wrong = torch.rand(sentences, generator=generator) >= share
    goal = torch.where(wrong, keys % 8 + 1, keys)[:, None].expand(-1, 9)
    seen = torch.ones(sentences, 9, 9, dtype=torch.bool)
    table = relation_table(count_links(attend(goal, seen, 0.9)[:, None], possible))
    return decide_links(table, label)[0]


PLANTED: dict[str, Callable[[int, float], Verdict]] = {
    "positional": positional,
    "syntactic": lambda sentences, share: links(sentences, share, "syntactic"),
    "rare tokens": rare,
    "sink": sink,
    "broad": broad,
    "monotone": monotone,
    "alignment": lambda sentences, share: links(sentences, share, "alignment"),
    "coreference": lambda sentences, share: links(sentences, share, "coreference"),
    "same token across": same_token_across,
    "crossing": crossing,
}
# A share of rows (of sentences, of links) that puts the figure on the threshold, and one to it.
AT = {
    "positional": 0.9,
    "syntactic": 0.25,
    "rare tokens": 0.5,
    "sink": 0.3,
    "broad": 0.9,
    "monotone": 0.9,
    "alignment": 0.25,
    "coreference": 0.25,
    "same token across": 0.5,
    "crossing": 0.5,
}


@pytest.mark.parametrize("label", NAMES)
def test_clearly_above_and_clearly_below(label: str) -> None:
    far = 0.07 if AT[label] == 0.9 else 0.15
    above, below = (PLANTED[label](MANY, AT[label] + side) for side in (far, -far))
    assert (above.label, above.status, below.status) == (label, CONFIRMED, REJECTED)
    assert above.value > above.threshold > below.value
    assert above.stability > 0.99
    assert below.stability < 0.01


@pytest.mark.parametrize("label", NAMES)
def test_across_the_threshold(label: str) -> None:
    """The share is set so that the figure of this very sample is as near as it gets."""
    shares = [AT[label] + step / 400 for step in range(-16, 17)]
    found = min(
        (PLANTED[label](MANY, share) for share in shares), key=lambda one: abs(_least_margin(one))
    )
    assert found.status == BORDERLINE
    assert 0.2 < found.stability < 0.8


def _least_margin(found: Verdict) -> float:
    margins = [found.value - found.threshold]
    if not math.isnan(found.second_value):
        margins.append(found.second_value - found.second_threshold)
    return min(margins)


@pytest.mark.parametrize("label", NAMES)
def test_too_few(label: str) -> None:
    found = PLANTED[label](FEW, 1.0)
    assert (found.status, math.isnan(found.stability)) == (UNDECIDED, True)
    assert 0 < found.counted < found.needed
    assert found.value > found.threshold, "what was counted would have been enough"


@settings(max_examples=25, deadline=None)
@given(
    label=st.sampled_from(NAMES),
    share=st.floats(0, 1),
    sentences=st.sampled_from([1, 2, 3, 64, 201]),
)
def test_every_figure_lies_in_its_own_interval(label: str, share: float, sentences: int) -> None:
    found = asdict(PLANTED[label](sentences, share))
    for which in ("", "second_"):
        value, low, high = (found[which + name] for name in ("value", "value_low", "value_high"))
        if math.isnan(value) or math.isnan(low):
            assert found["status"] == UNDECIDED or which
            assert math.isnan(value) or not low <= value or math.isnan(high)
        else:
            assert low <= value <= high


def test_intervals_are_of_the_figure_beside_them() -> None:
    """Recounted by loops: rows at the offset, rows on the rarest of all and of contested ones."""
    batch = make_batch(MANY)
    ranks = ranks_of(batch)
    generator = torch.Generator().manual_seed(6)
    ranks = torch.where(torch.rand(ranks.shape, generator=generator) < 0.6, ranks % 400, ranks)
    order = ranks.masked_fill(~batch.ordinary, -1).argsort(1, descending=True)
    target = torch.where(some(batch, 0.7), order[:, :1], at_offset(batch, 1))
    weights = attend(target, batch.scope.seen, 0.9)
    best = largest(weights[:, None])
    by_rank = decide_rare(count_rare(best, rare_tokens(batch.scope, ranks)))[0]
    by_offset = decide_positional(count_positional(best, batch.scope))[0]
    found_in, found_at = [], []
    for number in range(1, MANY, 2):
        real = batch.visible[number].nonzero().flatten()
        sentence = weights[number][real][:, real].tolist()
        special = batch.special[number][real].tolist()
        found = rare_by_loops(sentence, special, ranks[number][real].tolist(), 500, False)
        found_in.append(found)
        offset = int(by_offset.detail.split()[1])
        found_at.append(positional_by_loops(sentence, special, offset, False))
    columns = [list(column) for column in zip(*found_in, strict=True)]
    every, _, two, contested, contested_two, expected = map(sum, columns)
    hits, rows = ([one[side] for one in found_at] for side in (0, 1))
    assert by_rank.value == two / every
    assert (by_rank.value_low, by_rank.value_high) == pytest.approx(
        share_by_sentences(columns[2], columns[0])
    )
    assert by_rank.second_value == contested_two / contested
    assert (by_rank.second_value_low, by_rank.second_value_high) == pytest.approx(
        share_by_sentences(columns[4], columns[3])
    )
    assert by_rank.second_threshold == pytest.approx(expected / contested)
    assert by_rank.denominator == every
    assert by_rank.counted == sum(rows > 0 for rows in columns[3])
    assert by_offset.value == sum(hits) / sum(rows)
    assert (by_offset.value_low, by_offset.value_high) == pytest.approx(
        share_by_sentences(hits, rows)
    )


@pytest.mark.parametrize("label", ["sink", "broad"])
def test_intervals_of_means_are_between_sentences(label: str) -> None:
    batch = make_batch(MANY)
    generator = torch.Generator().manual_seed(3)
    scores = 3 * torch.randn(batch.scope.seen.shape, generator=generator, dtype=torch.float64)
    weights = scores.masked_fill(~batch.scope.seen, -1e9).softmax(-1) * batch.scope.seen
    marked = (torch.arange(13) == 0).expand(batch.visible.shape)[..., None]
    found = {
        "sink": lambda: decide_sink(
            count_sink(weights[:, None], batch.scope, ("opening",), marked)
        ),
        "broad": lambda: decide_broad(count_broad(row_entropies(weights[:, None]), batch.scope)),
    }[label]()[0]
    above, below = [], []
    for number in range(1, MANY, 2):
        tokens = batch.visible[number].nonzero().flatten().tolist()
        rows = [weights[number, i] for i in tokens if not batch.special[number, i]]
        if label == "sink":
            above.append(sum(float(row[0]) for row in rows))
            below.append(float(len(rows)))
        else:
            above.append(-sum(float(w) * math.log(w) for row in rows for w in row if w > 0))
            below.append(len(rows) * math.log(len(tokens)))
    assert (found.value, found.value_low, found.value_high) == pytest.approx(
        ratio_by_sentences(above, below)
    )


def test_draws_are_of_whole_groups_within_their_half() -> None:
    values = torch.zeros(GROUPS, 2)
    values[0::2, 0], values[1::2, 1] = 1, 1
    drawn = resampled(values, seed=3)
    assert drawn.shape == (DRAWS_OF_HALVES, 2, 2)
    # Every draw takes as many groups as there are, even ones for the first half.
    assert set(drawn[:, 0, 0].tolist()) == set(drawn[:, 1, 1].tolist()) == {GROUPS / 2}
    assert drawn[:, 0, 1].sum() == drawn[:, 1, 0].sum() == 0
    one = torch.zeros(GROUPS)
    one[7] = 1
    assert resampled(one, seed=3)[:, 1].mean().item() == pytest.approx(1, abs=0.2)
    assert torch.equal(resampled(values, seed=3), drawn)
    assert not torch.equal(resampled(one, seed=4), resampled(one, seed=3))
    assert sum_of_halves(values).tolist() == [[GROUPS / 2, 0], [0, GROUPS / 2]]


def test_stability_is_the_same_again_and_leaves_random_numbers_alone(
    untouched_randomness: None,
) -> None:
    first, again = (positional(MANY, 0.9).stability for _ in range(2))
    assert first == again


def test_stability_is_of_the_half_that_is_reported() -> None:
    """One ahead in every row of the choosing half, two back in the other one."""
    batch = make_batch(MANY)
    chosen = (batch.numbers % 2 == 0)[:, None]
    target = torch.where(chosen, at_offset(batch, 1), at_offset(batch, -2))
    weights = attend(target, batch.scope.seen, 0.9)[:, None]
    found = decide_positional(count_positional(largest(weights), batch.scope))[0]
    assert (found.detail, found.status, found.stability) == ("offset +1", REJECTED, 0)


def test_stability_is_that_of_drawing_sentences() -> None:
    """A bootstrap over the sentences themselves gives the same share, to the error of both."""
    batch = make_batch(MANY)
    target = torch.where(some(batch, 0.905), at_offset(batch, 1), at_offset(batch, -2))
    weights = attend(target, batch.scope.seen, 0.9)
    found = decide_positional(count_positional(largest(weights[:, None]), batch.scope))[0]
    hits, rows = [], []
    for number in range(1, MANY, 2):
        real = batch.visible[number].nonzero().flatten()
        sentence = weights[number][real][:, real].tolist()
        special = batch.special[number][real].tolist()
        one, of = positional_by_loops(sentence, special, 1, False)
        hits.append(one)
        rows.append(of)
    draws = torch.randint(len(rows), (4000, len(rows)), generator=torch.Generator().manual_seed(0))
    rates = torch.tensor(hits)[draws].sum(1) / torch.tensor(rows)[draws].sum(1)
    expected = (rates >= 0.9).double().mean().item()
    assert found.stability == pytest.approx(expected, abs=0.12)


@pytest.mark.parametrize(
    ("low", "high", "status"),
    [
        (0.5, 0.7, CONFIRMED),
        (0.49, 0.7, BORDERLINE),
        (0.3, 0.5, BORDERLINE),
        (0.3, 0.49, REJECTED),
        (math.nan, 0.4, UNDECIDED),
    ],
)
def test_status_is_how_the_interval_lies(low: float, high: float, status: str) -> None:
    assert status_of(low, high, 0.5) == status


def test_least_of_all_conditions() -> None:
    assert least_status(CONFIRMED, CONFIRMED) == CONFIRMED
    assert least_status(CONFIRMED, BORDERLINE, CONFIRMED) == BORDERLINE
    assert least_status(BORDERLINE, UNDECIDED) == UNDECIDED
    assert least_status(UNDECIDED, REJECTED, CONFIRMED) == REJECTED
