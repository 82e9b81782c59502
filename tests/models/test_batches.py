import datasets
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attnlab.models.configuration import IGNORED_LABEL
from attnlab.models.training_batches import Collator, LengthGroupedBatches, TokenPairs, collator
from attnlab.models.training_settings import settings_from

lengths = st.lists(st.tuples(st.integers(1, 30), st.integers(1, 30)), min_size=1, max_size=60)


def batches_of(pairs: list[tuple[int, int]], budget: int, **options: int) -> LengthGroupedBatches:
    source, target = np.array(pairs, dtype=np.int64).T
    return LengthGroupedBatches(source, target, batch_tokens=budget, **options)


@given(lengths, st.integers(1, 90), st.integers(0, 3))
def test_every_pair_once_within_the_budget(
    pairs: list[tuple[int, int]], budget: int, epoch: int
) -> None:
    sampler = batches_of(pairs, budget)
    sampler.set_epoch(epoch)
    batches = list(sampler)
    assert sorted(index for batch in batches for index in batch) == list(range(len(pairs)))
    assert len(batches) == len(sampler)
    for batch in batches:
        for side in (0, 1):
            longest = max(pairs[index][side] for index in batch)
            assert len(batch) * longest <= budget or len(batch) == 1


@given(lengths, st.integers(10, 90))
def test_an_epoch_repeats_and_the_next_one_differs_in_order_only(
    pairs: list[tuple[int, int]], budget: int
) -> None:
    first, again, later = (batches_of(pairs, budget, seed=3) for _ in range(3))
    later.set_epoch(1)
    assert list(first) == list(again)
    assert len(list(later)) == len(list(first))


def test_shuffling_changes_the_members_among_equals() -> None:
    pairs = [(5, 5)] * 40
    sampler = batches_of(pairs, 128)
    first = list(sampler)
    sampler.set_epoch(1)
    assert {frozenset(batch) for batch in first} != {frozenset(batch) for batch in sampler}


def test_without_shuffling_batches_grow_longer() -> None:
    pairs = [(length, length) for length in (9, 2, 7, 3, 3)]
    assert list(batches_of(pairs, 12, shuffle=False)) == [[1, 3, 4], [2], [0]]


def test_few_sizes_occur() -> None:
    generator = np.random.default_rng(1)
    source = generator.integers(5, 30, size=3000)
    target = np.maximum(1, source + generator.integers(-3, 4, size=3000))
    sampler = LengthGroupedBatches(source, target, batch_tokens=512, shuffle=False)
    sizes = {
        (len(batch), -source[batch].max() // -4, -target[batch].max() // -4) for batch in sampler
    }
    assert len(sampler) > 80
    assert len(sizes) <= 30


@pytest.fixture
def pairs() -> TokenPairs:
    rows = {
        "input_ids": [[2, 5, 3], [2, 6, 7, 8, 3], [2, 3]],
        "labels": [[9, 3], [3], [4, 5, 6, 3]],
    }
    return TokenPairs(datasets.Dataset.from_dict(rows))


def test_token_pairs_give_back_the_rows(pairs: TokenPairs) -> None:
    assert [[side.tolist() for side in pairs[index]] for index in range(len(pairs))] == [
        [[2, 5, 3], [9, 3]],
        [[2, 6, 7, 8, 3], [3]],
        [[2, 3], [4, 5, 6, 3]],
    ]
    assert pairs.source_lengths.tolist() == [3, 5, 2]
    assert pairs.target_lengths.tolist() == [2, 1, 4]


def test_collator_pads_to_the_longest_of_the_batch(pairs: TokenPairs) -> None:
    batch = Collator()([pairs[0], pairs[2]])
    assert batch["input_ids"].tolist() == [[2, 5, 3, 0], [2, 3, 0, 0]]
    assert batch["attention_mask"].tolist() == [[1, 1, 1, 0], [1, 1, 0, 0]]
    assert batch["labels"].tolist() == [[9, 3, IGNORED_LABEL, IGNORED_LABEL], [4, 5, 6, 3]]


def test_nothing_is_padded_beyond_learned_positions(pairs: TokenPairs) -> None:
    for positions, widths in (("learned", (6, 8, 7)), ("sinusoidal", (8, 8, 8))):
        for model in ({}, {"task": "language-model"}):
            collate = collator(
                settings_from(
                    {"corpus": {"max_tokens": 6}, "model": model | {"positions": positions}}
                )
            )
            for length, width in zip((5, 8, 7), widths, strict=True):
                ids = torch.arange(2, 2 + length)
                assert collate([(ids, ids[1:])])["input_ids"].shape[1] == width
    assert collate([pairs[0]])["input_ids"].shape[1] == 4


def test_an_unknown_token_inside_a_sentence_is_seen() -> None:
    """The mask follows lengths, not ids: id 0 inside a sentence would otherwise vanish."""
    batch = Collator()([(torch.tensor([2, 0, 3]), torch.tensor([3]))])
    assert batch["attention_mask"].tolist() == [[1, 1, 1, 0]]
